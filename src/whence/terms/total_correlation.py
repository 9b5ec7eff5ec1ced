"""Parts of total correlation, :math:`\\mathrm{KL}(q(z) \\,\\|\\, \\prod_j q(z_j))`."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.distributions import Normal


def permute_dims(z: Tensor) -> Tensor:
    r"""Samples of :math:`\prod_j q(z_j)` from samples of :math:`q(z)`: each column is shuffled over the batch."""
    order = torch.rand_like(z).argsort(0)
    return z.gather(0, order)


def weighted(b: int, n: int) -> Tensor:
    """(b, b) weights of minibatch-weighted sampling: 1 / nb for all of a batch of b from n observations.

    The estimate of q(z) is a lower bound on average; its sum of weights is 1 / n, not 1.
    """
    return torch.full((b, b), 1 / (n * b))


def stratified(b: int, n: int) -> Tensor:
    r"""(b, b) weights of minibatch-stratified sampling from n observations, with M = b - 1: in row i, 1 / n for i
    itself, (n - M) / nM for the next one, 1 / M for the others.

    Over batches drawn without replacement the estimate of q(z) has the right mean (Chen et al. 2018, appendix C.2).
    """
    if not 2 <= b <= n:
        raise ValueError(f"A stratified batch has from 2 observations to all {n}, got {b}. Change the batch.")
    m = b - 1
    own = torch.eye(b)
    after = own.roll(1, 1)
    return own / n + after * (n - m) / (n * m) + (1 - own - after) / m


def log_densities(z: Tensor, q: Normal, weights: Tensor) -> tuple[Tensor, Tensor]:
    r"""(B,) and (B, D): :math:`\log q(z_i)` and each :math:`\log q(z_{ij})` of draws z of q, whose mixture over the
    batch stands for the whole data, with the weights (B, B) of its members."""
    each = Normal(q.loc[None], q.scale[None], validate_args=False).log_prob(z[:, None])  # draw, member, dimension
    log_w = weights.to(each).log()
    return (each.sum(2) + log_w).logsumexp(1), (each + log_w[:, :, None]).logsumexp(1)


def total_correlation(z: Tensor, q: Normal, weights: Tensor) -> Tensor:
    r"""Mean over the batch of :math:`\log q(z) - \sum_j \log q(z_j)`, estimated from the batch itself."""
    joint, each = log_densities(z, q, weights)
    return (joint - each.sum(1)).mean()
