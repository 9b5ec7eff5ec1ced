"""Diagonal Gaussians: the posteriors of variational autoencoders and their divergences."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.distributions import Normal
from torch.distributions.kl import kl_divergence


def gaussian(moments: Tensor) -> Normal:
    r"""(B, 2D) of means and log variances -> :math:`\mathcal{N}(\mu, \sigma^2)`, in float32 at least.

    Under autocast an encoder gives bfloat16, which has too few digits for a divergence.
    """
    mean, log_var = moments.to(torch.promote_types(moments.dtype, torch.float32)).chunk(2, dim=-1)
    return Normal(mean, (0.5 * log_var).exp(), validate_args=False)


def standard(q: Normal) -> Normal:
    r""":math:`\mathcal{N}(0, 1)` in the shape of q."""
    return Normal(torch.zeros_like(q.loc), torch.ones_like(q.scale), validate_args=False)


def kl_pairwise(q: Normal, p: Normal) -> Tensor:
    r"""(B, D): :math:`\mathrm{KL}(q_{bj} \,\|\, p_{bj})`, nothing reduced."""
    return kl_divergence(q, p)


def kl_each(q: Normal) -> Tensor:
    r"""(D,): the mean over the batch of :math:`\mathrm{KL}(q(z_j \mid x) \,\|\, \mathcal{N}(0, 1))`, by dimension."""
    return kl_pairwise(q, standard(q)).mean(0)


def kl(q: Normal) -> Tensor:
    r"""Mean over the batch of :math:`\sum_j \mathrm{KL}(q(z_j \mid x) \,\|\, \mathcal{N}(0, 1))`."""
    return kl_each(q).sum()
