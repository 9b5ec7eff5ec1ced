r"""Score differences between the two environments of a pair, in latent coordinates: do they lie along one axis each?

Shapes: d is (..., P, B, n), the difference of pair i at B points; D is (..., P, n),
with :math:`D_{ik} = \mathbb{E}|d_{ik}|`. Pair i intervenes on latent i, so
D is diagonal at the truth; latents beyond P are intervened on by no pair.
"""

from __future__ import annotations

import torch
from torch import Tensor


def mean_changes(d: Tensor) -> Tensor:
    """(..., P, B, n) -> (..., P, n)."""
    return d.abs().mean(-2)


def axis_distance(D: Tensor) -> Tensor:
    r""":math:`\sum_i \lVert D_i - e_i \rVert_1`, as published; (..., P, n) -> (...)."""
    return (D - torch.eye(*D.shape[-2:]).to(D)).abs().sum((-2, -1))


def leak(D: Tensor, spread: Tensor) -> Tensor:
    r"""What differences have off their axis, relative to what they have on it, whatever the units of the latents.

    .. math:: \frac{1}{P (n - 1)} \sum_i \sum_{k \ne i} \frac{D_{ik} \sigma_k}{D_{ii} \sigma_i}

    for the spread :math:`\sigma` (..., n) of the latents; (..., P, n) -> (...).
    """
    p, n = D.shape[-2:]
    free = D * spread[..., None, :]
    on = free.diagonal(dim1=-2, dim2=-1)
    return ((free.sum(-1) - on) / on).sum(-1) / max(p * (n - 1), 1)
