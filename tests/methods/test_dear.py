"""DEAR: its causal prior, its three losses by hand, and who moves whom."""

from __future__ import annotations

import pytest
import torch

from whence import fit
from whence.descend import Adam, Recipe
from whence.methods import DEAR
from whence.nets import MLP
from whence.views import Label, Labelled, Spec

GRAPH = ("a->c", "b->c")
LABELS = tuple(Label(name, -1.0, 1.0) for name in "abc")
SMALL = MLP(hidden=(16,))


def networks(method, shape=(1, 3, 4)):
    torch.manual_seed(0)
    nets = method.init(Spec(shape, labels=LABELS)).double()
    prior = nets.generator.prior
    with torch.no_grad():
        prior.weights.normal_(std=0.05)
        prior.log_scale.normal_(std=0.3)
        prior.shift.normal_()
    return nets, torch.rand(6, *shape, dtype=torch.float64), 2 * torch.rand(6, 3, dtype=torch.float64) - 1


def test_the_prior_is_a_linear_causal_model_behind_elementwise_maps():
    nets, _, _ = networks(DEAR(graph=GRAPH, latents=5, net=SMALL, critic=(8,)))
    prior = nets.generator.prior
    e = torch.randn(9, 5, dtype=torch.float64)
    a = prior.matrix().detach()
    assert (a != 0).tolist() == [[False, False, True], [False, False, True], [False] * 3]
    y = e[:, :3].clone()
    y[:, 2] += y[:, 0] * a[0, 2] + y[:, 1] * a[1, 2]
    expected = torch.cat([prior.log_scale.exp() * y + prior.shift, e[:, 3:]], 1)
    assert torch.allclose(prior(e), expected)
    assert torch.allclose(prior.inverse(prior(e)), e)


def test_a_do_sets_the_concept_and_its_effects_follow():
    method = DEAR(graph=GRAPH, latents=5, net=SMALL, critic=(8,))
    nets, x, _ = networks(method)
    r = method.represent(nets, Spec((1, 3, 4), labels=LABELS)).double()
    prior = nets.generator.prior
    with torch.no_grad():
        e = r.abduct(x)
        z = r.predict(e, {})
        assert torch.allclose(z, r.codes(x))
        after = r.predict(e, {0: torch.full((6,), 0.25).double()})
    assert torch.allclose(after[:, 0], torch.tensor(0.25).double())
    assert torch.equal(after[:, [1, 3, 4]], z[:, [1, 3, 4]])
    slope = prior.matrix()[0, 2] * (prior.log_scale[2] - prior.log_scale[0]).exp()
    assert torch.allclose(after[:, 2] - z[:, 2], slope * (0.25 - z[:, 0]))


def test_the_three_losses_by_hand():
    method = DEAR(graph=GRAPH, latents=4, supervision=2.0, net=SMALL, critic=(8,))
    nets, x, a = networks(method)
    a[0, 1] = torch.nan
    torch.manual_seed(5)
    turns = list(method.moves(nets, x, a))
    assert [turn.player for turn in turns] == ["critic", "encoder", "generator"]
    torch.manual_seed(5)
    mean, log_var = nets.encoder(x).chunk(2, 1)
    scores = []
    for _ in range(3):
        z = nets.generator.prior(torch.randn(6, 4, dtype=torch.float64))
        e = mean + (0.5 * log_var).exp() * torch.randn(6, 4, dtype=torch.float64)
        scores.append((nets.critic(x, e), nets.critic(torch.sigmoid(nets.generator.decoder(z)), z)))
    critic = torch.log1p((-scores[0][0]).exp()).mean() + torch.log1p(scores[0][1].exp()).mean()
    assert turns[0].terms.total.item() == pytest.approx(critic.item(), rel=1e-5)
    off = (mean[:, :3] - a).square()
    labels = 2 * sum(off[~a[:, j].isnan(), j].mean() for j in range(3))
    assert turns[1].terms["labels"].item() == pytest.approx(labels.item(), rel=1e-9)
    assert turns[1].terms["score"].item() == pytest.approx(scores[1][0].mean().item(), rel=1e-9)
    last = scores[2][1]
    expected = -(last.exp().clamp(0.5, 2) * last).mean()
    assert turns[2].terms["score"].item() == pytest.approx(expected.item(), rel=1e-9)


def test_the_prior_learns_the_weight_of_an_edge():
    """Two numbers of a linear Gaussian model, seen as they are: the adversarial game moves A towards the truth."""
    rng = torch.Generator().manual_seed(0)
    u = torch.randn(4000, 2, generator=rng)
    u[:, 1] = 0.8 * u[:, 0] + 0.6 * u[:, 1]
    x = torch.sigmoid(u)[:, :, None, None]
    view = Labelled.of(x, u, names=("a", "b"))
    method = DEAR(graph=("a->b",), latents=2, net=MLP(hidden=(32,)), critic=(32,))
    recipe = Recipe(
        steps=300,
        batch=128,
        optimiser=Adam(lr=2e-3, betas=(0.0, 0.999)),
        players={"critic": Adam(lr=4e-3, betas=(0.0, 0.999))},
        every=100,
    )
    r = fit(method, view, recipe=recipe).representation
    prior = r.nets.generator.prior
    with torch.no_grad():
        z = prior(torch.randn(5000, 2))
        told = r.codes(x)
    r_ = torch.corrcoef(told.T)[0, 1].item()
    assert r_ == pytest.approx(0.8, abs=0.1), "labels are learned"
    assert torch.corrcoef(z.T)[0, 1].item() > 0.15, "from 0 towards it"


def test_too_few_latents_are_refused():
    with pytest.raises(ValueError, match=r"DEAR has a latent for each of 3 labels, got latents=2. Use 3 or more"):
        DEAR(latents=2, net=SMALL).init(Spec((1, 3, 4), labels=LABELS))
