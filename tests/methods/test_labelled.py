"""iVAE: Bayes' rule, the exact likelihood of a linear model, and sources that only their variances tell apart."""

from __future__ import annotations

import math

import pytest
import torch
from torch.distributions import MultivariateNormal, Normal

from whence import Adam, Labelled, Recipe, fit
from whence.descend import Cosine
from whence.methods import IVAE
from whence.nets import MLP
from whence.terms import Gaussian
from whence.views import Label, Labels, Spec

SPEC = Spec((3,), labels=(Label("segment", 0.0, 3.0, (0.0, 1.0, 2.0, 3.0)), Label("dose", 0.0, 10.0)))


@pytest.fixture
def batch(rng) -> Labels:
    u = torch.stack([torch.tensor([0.0, 3.0, 1.0, torch.nan]), torch.tensor([0.0, 10.0, 5.0, 2.0])], 1).double()
    return Labels(torch.randn(4, 3, generator=rng, dtype=torch.float64), u)


def test_the_posterior_is_that_of_bayes_on_a_grid(batch):
    method = IVAE(latents=2, net=MLP(hidden=(8,)), prior=(8,))
    nets = method.init(SPEC).double()
    q, p = method.posterior(nets, batch)
    r = nets.encoder(batch.x)
    grid = torch.linspace(-30, 30, 300_001, dtype=torch.float64)
    for i in range(4):
        for j in range(2):
            log = Normal(r[i, j], (r[i, 2 + j] / 2).exp()).log_prob(grid)
            log = log + Normal(0.0, p.scale[i, j]).log_prob(grid)
            weight = (log - log.max()).exp()
            weight = weight / weight.sum()
            mean = (weight * grid).sum()
            torch.testing.assert_close(q.loc[i, j], mean)
            torch.testing.assert_close(q.variance[i, j], (weight * (grid - mean) ** 2).sum())


def test_the_prior_has_mean_zero_and_the_variance_that_labels_give_it(batch):
    method = IVAE(latents=2, net=MLP(hidden=(8,)), prior=(8,))
    nets = method.init(SPEC).double()
    _, p = method.posterior(nets, batch)
    inputs = torch.tensor([[1, 0, 0, 0, -1], [0, 0, 0, 1, 1], [0, 1, 0, 0, 0], [0, 0, 0, 0, -0.6]]).double()
    torch.testing.assert_close(p.variance, nets.prior[1](inputs).exp(), rtol=1e-6, atol=1e-6)
    assert p.loc.abs().max() == 0


def test_a_linear_model_with_its_exact_posterior_has_the_exact_likelihood():
    """x = W z + noise with orthogonal columns: Bayes' posterior is a product of Gaussians, and the bound is tight."""
    torch.manual_seed(0)
    sigma, scale = 0.1, torch.tensor([2.0, 0.5], dtype=torch.float64)
    q = torch.linalg.qr(torch.randn(3, 2, dtype=torch.float64)).Q
    w = q * scale
    method = IVAE(latents=2, net=MLP(hidden=()), prior=())
    spec = Spec((3,), labels=(Label("segment", 0.0, 1.0, (0.0, 1.0)),))
    nets = method.init(spec).double()
    encoder, decoder, prior = nets.encoder[1][0], nets.decoder[0][0], nets.prior[1][0]
    with torch.no_grad():
        decoder.weight.copy_(w)
        decoder.bias.zero_()
        encoder.weight.zero_()
        encoder.weight[:2] = (q / scale).T
        encoder.bias.copy_(torch.cat([torch.zeros(2).double(), (sigma / scale).square().log()]))
        prior.weight.copy_(torch.tensor([[1.0, -1.0], [0.5, 2.0]]))
        prior.bias.zero_()
    u = torch.tensor([[0.0], [1.0]], dtype=torch.float64)
    x = torch.randn(2, 3, dtype=torch.float64)
    exact = torch.stack(
        [
            MultivariateNormal(
                torch.zeros(3).double(),
                w @ torch.diag(prior.weight[:, i].exp()) @ w.T + sigma**2 * torch.eye(3).double(),
            ).log_prob(x[i])
            for i in range(2)
        ]
    )
    many = 40_000
    torch.manual_seed(1)
    found = method.loss(nets, Labels(x.repeat(many, 1), u.repeat(many, 1)), 0).total
    assert float(found.detach()) == pytest.approx(-float(exact.mean().detach()), abs=0.03)


def test_sources_that_only_their_variances_tell_apart_are_told_apart():
    """A rotation of Gaussian sources: without u nothing can undo it; with segments of different variances iVAE does."""
    torch.manual_seed(0)
    segments, each = 10, 400
    u = torch.arange(segments).repeat_interleave(each)
    s = torch.randn(segments * each, 2) * (0.2 + 2.5 * torch.rand(segments, 2))[u]
    angle = math.pi / 5
    turn = torch.tensor([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]])
    x = s @ turn.T
    method = IVAE(latents=2, net=MLP(hidden=()), prior=(32,), likelihood=Gaussian(scale=0.1))
    recipe = Recipe(steps=1200, batch=128, optimiser=Adam(lr=1e-2), schedule=Cosine())
    z = fit(method, Labelled.of(x, u), recipe=recipe).representation.encode(x)
    r = torch.corrcoef(torch.cat([z, s], 1).T)[:2, 2:].abs()
    assert sorted(r.argmax(0).tolist()) == [0, 1]
    assert r.max(0).values.min() > 0.98


def test_the_decoders_noise_is_the_references_for_vectors_and_images_have_pixels():
    assert IVAE().observes(Spec((3,))) == Gaussian(scale=0.1)
    assert IVAE().observes(Spec((1, 4, 4))) == IVAE().observes(Spec((3, 64, 64)))
    assert IVAE(likelihood=Gaussian(scale=2.0)).observes(Spec((3,))) == Gaussian(scale=2.0)
