"""One Gaussian for several observations that share a cause."""

from __future__ import annotations

from torch import Tensor
from torch.distributions import Normal


def product(mean: Tensor, variance: Tensor) -> tuple[Tensor, Tensor]:
    r"""(B, G, D) -> (B, D): mean and variance of :math:`\prod_i \mathcal{N}(\mu_i, \sigma_i^2)`, normalised.

    .. math:: \sigma^{-2} = \sum_i \sigma_i^{-2}, \quad \mu = \sigma^2 \sum_i \sigma_i^{-2} \mu_i

    Evidence accumulates: G equal Gaussians have a product of 1/G of their variance.
    """
    precision = 1 / variance
    whole = 1 / precision.sum(1)
    return whole * (precision * mean).sum(1), whole


def average(mean: Tensor, variance: Tensor) -> tuple[Tensor, Tensor]:
    r"""(B, G, D) -> (B, D): the mean of the means and the mean of the variances (Hosoya 2019)."""
    return mean.mean(1), variance.mean(1)


def normal(mean: Tensor, variance: Tensor) -> Normal:
    r""":math:`\mathcal{N}(\mu, \sigma^2)`."""
    return Normal(mean, variance.sqrt(), validate_args=False)
