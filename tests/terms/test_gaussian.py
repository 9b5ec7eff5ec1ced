"""Divergences against torch.distributions, closed forms and sampling, in float64."""

from __future__ import annotations

import pytest
import torch
from torch.distributions import Normal
from torch.distributions.kl import kl_divergence

from whence.terms import gaussian, kl, kl_each, kl_pairwise, standard


@pytest.fixture
def q(rng) -> Normal:
    return gaussian(torch.randn(7, 10, generator=rng, dtype=torch.float64))


def test_an_encoders_outputs_are_means_and_log_variances():
    q = gaussian(torch.tensor([[1.0, -2.0, 0.0, 2.0]]))
    assert q.loc.tolist() == [[1, -2]]
    torch.testing.assert_close(q.variance, torch.tensor([[0.0, 2.0]]).exp())


@pytest.mark.parametrize(
    ("given", "used"),
    [(torch.bfloat16, torch.float32), (torch.float32, torch.float32), (torch.float64, torch.float64)],
)
def test_divergences_have_at_least_the_digits_of_float32(given, used):
    assert gaussian(torch.zeros(2, 4, dtype=given)).loc.dtype == used


def test_the_divergence_has_its_closed_form(q):
    m, s2 = q.loc, q.variance
    closed = 0.5 * (m**2 + s2 - s2.log() - 1)
    torch.testing.assert_close(kl_pairwise(q, standard(q)), closed)
    torch.testing.assert_close(kl_each(q), closed.mean(0))
    torch.testing.assert_close(kl(q), closed.sum(1).mean())


def test_the_divergence_between_two_is_that_of_torch(q):
    p = Normal(q.loc.flip(0), q.scale.flip(0))
    torch.testing.assert_close(kl_pairwise(q, p), kl_divergence(q, p))


def test_the_divergence_is_the_mean_log_ratio_of_samples(q):
    torch.manual_seed(0)
    z = q.sample((200_000,))
    ratio = (q.log_prob(z) - standard(q).log_prob(z)).sum(-1)
    error = ratio.std(0) / 200_000**0.5
    assert ((ratio.mean(0) - kl_pairwise(q, standard(q)).sum(1)).abs() < 5 * error).all()


def test_the_divergence_of_the_prior_from_itself_is_nothing():
    q = gaussian(torch.zeros(3, 4))
    assert kl(q) == 0
    assert kl_pairwise(q, q).abs().max() == 0
