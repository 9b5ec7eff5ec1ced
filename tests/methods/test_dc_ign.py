"""DC-IGN: what is decoded where a factor is shared, which way gradients go, and a factor found."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from whence import fit
from whence.descend import Adam, Recipe
from whence.methods import DCIGN
from whence.nets import MLP
from whence.terms import Gaussian
from whence.views import Group, Groups, Spec
from whence.worlds import Sprites

SMALL = MLP(hidden=(16,))


def networks(method: DCIGN):
    torch.manual_seed(0)
    nets = method.init(Spec((3,))).double()
    x = torch.randn(5, 4, 3, dtype=torch.float64)
    shared = torch.tensor([[0, 1], [1, 0], [1, 1], [0, 0], [0, 1]]) > 0
    return nets, Group(x, shared)


def test_the_loss_by_hand():
    method = DCIGN(latents=3, rho=0.5, net=SMALL)
    nets, batch = networks(method)
    torch.manual_seed(1)
    terms = method.loss(nets, batch, 0)
    torch.manual_seed(1)
    mean, log_var = nets.encoder(batch.x.flatten(0, 1)).chunk(2, 1)
    z = (mean + (0.5 * log_var).exp() * torch.randn_like(mean)).unflatten(0, (5, 4))
    decoded, pull = torch.empty_like(z), 0.0
    for group in range(5):
        for member in range(4):
            for k in range(3):
                centre = z[group, :, k].mean()
                held = k == 2 or bool(batch.shared[group, k])
                decoded[group, member, k] = centre if held else z[group, member, k]
                pull += float((z[group, member, k] - centre) ** 2) if held and k < 2 else 0.0
    off = nets.decoder(decoded.flatten(0, 1)) - batch.x.flatten(0, 1)
    nll = 0.5 * (off.square() + np.log(2 * np.pi)).sum(1).mean()
    assert terms["nll"].item() == pytest.approx(nll.item(), rel=1e-9)
    assert terms["pull"].item() == pytest.approx(0.5 / 2 * pull / 20, rel=1e-9)
    kl = 0.5 * (mean.square() + log_var.exp() - 1 - log_var).sum(1).mean()
    assert terms["kl"].item() == pytest.approx(kl.item(), rel=1e-9)


def test_a_clamped_latent_has_no_gradient_of_the_picture():
    method = DCIGN(latents=3, net=SMALL)
    nets, batch = networks(method)
    terms = method.loss(nets, batch._replace(shared=torch.tensor([[True, False]]).expand(5, 2)), 0)
    (slope,) = torch.autograd.grad(terms["nll"], nets.encoder[-1][-1].bias)
    assert slope[0].item() == 0
    assert slope[[1, 2]].abs().min() > 1e-6, "the varying and the intrinsic one have it"


def test_finds_the_factor_behind_each_latent():
    """Two numbers, mixed linearly: each latent is a function of its own factor, up to sign, and of nothing else."""
    turn = torch.tensor([[0.8, 0.6], [-0.6, 0.8]])

    def draw(n, rng):
        v = 2 * torch.rand(n, 8, 2, generator=rng) - 1
        shared = torch.randint(2, (n, 1), generator=rng) == torch.arange(2)
        v = torch.where(shared[:, None], v[:, :1], v)
        return torch.cat([v.flatten(1), shared.float()], 1)

    view = Groups(shape=(2,), draw_=draw, observe=lambda v, rng: 3 * v @ turn, size=8, told=("a", "b"))
    method = DCIGN(latents=2, net=SMALL, likelihood=Gaussian(scale=0.2))
    recipe = Recipe(steps=600, batch=16, optimiser=Adam(lr=5e-3), every=100)
    r = fit(method, view, recipe=recipe).representation
    v = 2 * torch.rand(500, 2, generator=torch.Generator().manual_seed(0)) - 1
    found = np.abs(np.corrcoef(r.encode(3 * v @ turn).T, v.T)[:2, 2:])
    assert found.diagonal().min() > 0.9
    assert max(found[0, 1], found[1, 0]) < 0.4


def test_what_it_is_not_told_is_refused():
    world = Sprites()
    with pytest.raises(ValueError, match="DCIGN needs to be told which factors a group shares"):
        fit(DCIGN(), world.groups(shared=2), recipe=Recipe(steps=1))
    with pytest.raises(ValueError, match=r"1 of its latents for each of 5 factors, got latents=3. Use latents=5"):
        fit(DCIGN(latents=3), world.groups(shared=-1, told=True), recipe=Recipe(steps=1))
    with pytest.raises(ValueError, match="each is at least 1, got 0"):
        DCIGN(each=0)
