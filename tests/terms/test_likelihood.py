"""Likelihoods against torch.distributions in float64: sum over the observation, mean over the batch."""

from __future__ import annotations

import pytest
import torch
from torch import distributions as d

from whence.terms import Bernoulli, Gaussian
from whence.terms.likelihood import LIKELIHOODS, Likelihood


@pytest.fixture
def out(rng):
    return torch.randn(5, 2, 3, 4, generator=rng, dtype=torch.float64)


def test_the_base_cannot_be_built():
    with pytest.raises(TypeError, match=r"abstract"):
        Likelihood()  # type: ignore[abstract]


def test_bernoulli_is_that_of_torch(out, rng):
    x = torch.randint(2, out.shape, generator=rng).double()
    expected = -d.Bernoulli(logits=out).log_prob(x).flatten(1).sum(1).mean()
    torch.testing.assert_close(Bernoulli().nll(out, x), expected)
    torch.testing.assert_close(Bernoulli().mean(out), d.Bernoulli(logits=out).mean)


def test_bernoulli_of_greys_is_the_cross_entropy_and_is_least_at_them(rng):
    x = torch.rand(4, 3, generator=rng, dtype=torch.float64) * 0.9 + 0.05
    entropy = -(x * x.log() + (1 - x) * (1 - x).log()).sum(1).mean()
    torch.testing.assert_close(Bernoulli().nll(torch.logit(x), x), entropy)
    assert Bernoulli().nll(torch.logit(x) + 0.1, x) > entropy


def test_a_value_that_stands_for_four_counts_as_four(out):
    x = torch.sigmoid(out.flip(0))
    big, large = (t.repeat_interleave(2, 2).repeat_interleave(2, 3) for t in (out, x))
    torch.testing.assert_close(Bernoulli(copies=4).nll(out, x), Bernoulli().nll(big, large))


@pytest.mark.parametrize("scale", [0.1, 1.0, 3.0])
def test_gaussian_is_that_of_torch(scale, out, rng):
    x = torch.randn(out.shape, generator=rng, dtype=torch.float64)
    expected = -d.Normal(out, scale).log_prob(x).flatten(1).sum(1).mean()
    torch.testing.assert_close(Gaussian(scale=scale).nll(out, x), expected)
    assert torch.equal(Gaussian(scale=scale).mean(out), out)


@pytest.mark.parametrize("likelihood", [kind() for kind in LIKELIHOODS])
def test_a_batch_twice_as_large_has_the_same_mean_and_an_image_twice_as_large_twice_the_sum(likelihood, out):
    x = torch.sigmoid(out.flip(0))
    once = likelihood.nll(out, x)
    torch.testing.assert_close(likelihood.nll(out.repeat(2, 1, 1, 1), x.repeat(2, 1, 1, 1)), once)
    torch.testing.assert_close(likelihood.nll(out.repeat(1, 2, 1, 1), x.repeat(1, 2, 1, 1)), 2 * once)


@pytest.mark.parametrize("likelihood", [kind() for kind in LIKELIHOODS])
def test_outputs_in_bfloat16_are_compared_in_float32(likelihood):
    assert likelihood.nll(torch.zeros(2, 3, dtype=torch.bfloat16), torch.rand(2, 3)).dtype == torch.float32


@pytest.mark.parametrize("scale", [0.0, -1.0])
def test_a_scale_is_positive(scale):
    with pytest.raises(ValueError, match=rf"The scale of a Gaussian is positive, got {scale}"):
        Gaussian(scale=scale)
