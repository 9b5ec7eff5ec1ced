"""The conditional VAE: its loss by hand, and that a do moves a label and nothing else."""

from __future__ import annotations

import pytest
import torch
from torch.distributions import Normal, kl_divergence

from whence import fit
from whence.descend import Recipe
from whence.methods import ConditionalVAE
from whence.nets import MLP
from whence.views import Label, Spec
from whence.worlds import Pendulum

WORLD = Pendulum(size=16, noise=0.5)
METHOD = ConditionalVAE(latents=3, net=MLP(hidden=(16,)))


def test_the_loss_by_hand():
    torch.manual_seed(0)
    nets = METHOD.init(Spec((1, 4, 4), labels=tuple(Label(n, 0.0, 1.0) for n in "ab"))).double()
    x, a = torch.rand(6, 1, 4, 4, dtype=torch.float64), torch.rand(6, 2, dtype=torch.float64)
    a[0, 1] = torch.nan
    torch.manual_seed(1)
    terms = METHOD.terms(nets, x, a)
    filled = a.clone()
    filled[0, 1] = nets.told(x)[0, 1].detach()
    mean, log_var = nets.encoder(x, filled).chunk(2, 1)
    q = Normal(mean, (0.5 * log_var).exp())
    assert terms["kl"].item() == pytest.approx(kl_divergence(q, Normal(0.0, 1.0)).sum(1).mean().item())
    torch.manual_seed(1)
    p = torch.sigmoid(nets.decoder(torch.cat([filled, mean + q.scale * torch.randn_like(mean)], 1)))
    nll = -(x * p.log() + (1 - x) * (1 - p).log()).sum((1, 2, 3)).mean()
    assert terms["nll"].item() == pytest.approx(nll.item())
    off = (nets.told(x) - a).square()
    assert terms["told"].item() == pytest.approx((off[:, 0].mean() + off[1:, 1].mean()).item())


def test_a_do_moves_one_label_and_nothing_else():
    r = fit(METHOD, WORLD, recipe=Recipe(steps=4, batch=8, every=2)).representation
    x = WORLD.observe(WORLD.draw(5, rng=torch.Generator().manual_seed(0)))
    e = r.abduct(x)
    moved = r.predict(e, {1: torch.full((5,), 0.25)})
    assert torch.equal(moved[:, 1], torch.full((5,), 0.25))
    assert torch.equal(moved[:, [0, 2, 3, 4, 5, 6]], e[:, [0, 2, 3, 4, 5, 6]])
    assert r.graph.sum() == 0
    assert r.do(x, {"light": 90.0}).shape == x.shape
    assert r.sample(3, torch.Generator().manual_seed(0), {"light": 90.0}).shape == (3, *WORLD.shape)


def test_options():
    with pytest.raises(ValueError, match="latents is at least 1, got 0"):
        ConditionalVAE(latents=0)
    with pytest.raises(ValueError, match="ConditionalVAE learns concepts from labels, and there are none"):
        METHOD.init(Spec((1, 4, 4)))
