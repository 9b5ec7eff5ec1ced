"""Covariances of codes, and how far they are from the prior's."""

from __future__ import annotations

import torch
from torch import Tensor


def covariance(m: Tensor) -> Tensor:
    r"""(D, D): :math:`\frac{1}{B} \sum_i (m_i - \bar m)(m_i - \bar m)^\top`."""
    centred = m - m.mean(0)
    return centred.mT @ centred / len(m)


def from_identity(c: Tensor) -> tuple[Tensor, Tensor]:
    r""":math:`\sum_{j \ne k} C_{jk}^2` and :math:`\sum_j (C_{jj} - 1)^2`."""
    own = torch.eye(len(c), dtype=c.dtype, device=c.device)
    return (c * (1 - own)).square().sum(), (c.diagonal() - 1).square().sum()
