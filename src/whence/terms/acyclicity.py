"""Is a matrix of weights a graph without cycles? As a number that can be descended. A[i, j]: i causes j."""

from __future__ import annotations

import torch
from torch import Tensor

WORST = 1e4  #: condition number from which on I - A' is taken as singular


def acyclicity(a: Tensor, c: float = 1.0) -> Tensor:
    r"""0 for the weights of a directed acyclic graph, positive for all others (Yu et al. 2019).

    .. math:: \mathrm{tr}\left[\left(I + \frac{c}{n} A \circ A\right)^n\right] - n

    Its gradient is 0 at every acyclic A: a constraint that is met does not pull.
    """
    n = len(a)
    eye = torch.eye(n, dtype=a.dtype, device=a.device)
    return torch.linalg.matrix_power(eye + c / n * a * a, n).trace() - n


def effects(a: Tensor) -> Tensor:
    r"""Total effects of a linear system :math:`z = A^\top z + \epsilon`: the matrix :math:`(I - A^\top)^{-1}`.

    Where cycles bring :math:`I - A^\top` near to a singular matrix, the paths of fewer than n edges are summed instead,
    :math:`\sum_{k < n} (A^\top)^k`, which is the same for an acyclic A and finite for every one.
    """
    n = len(a)
    eye = torch.eye(n, dtype=a.dtype, device=a.device)
    return torch.linalg.inv(eye - a.T) if invertible(a) else paths(a)


def invertible(a: Tensor) -> bool:
    """Whether the effects of a are well determined."""
    eye = torch.eye(len(a), dtype=a.dtype, device=a.device)
    return bool(torch.linalg.cond(eye - a.detach().T) < WORST)


def paths(a: Tensor) -> Tensor:
    r""":math:`\sum_{k < n} (A^\top)^k`, by Horner's rule."""
    eye = torch.eye(len(a), dtype=a.dtype, device=a.device)
    total = eye
    for _ in range(len(a) - 1):
        total = eye + a.T @ total
    return total
