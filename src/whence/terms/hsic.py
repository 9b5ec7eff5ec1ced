"""The Hilbert-Schmidt independence criterion: how dependent two variables are, through the eyes of two kernels."""

from __future__ import annotations

import torch
from torch import Tensor

from whence.terms.mmd import RBF, Kernel, squared_distances


def hsic(x: Tensor, y: Tensor, of_x: Kernel | None = None, of_y: Kernel | None = None) -> Tensor:
    r"""Of n paired rows x (n, d) and y (n, e), with their kernel matrices K and L and the centring :math:`H = I - 1/n`.

    .. math:: (n - 1)^{-2} \, \mathrm{tr}(K H L H)

    The biased estimate (Gretton et al. 2005): never below 0, and of order 1/n for independent variables. Without a
    kernel it is Gaussian, its bandwidth the median distance of two rows, which no gradient moves.
    """
    if len(x) != len(y) or len(x) < 2 or x.ndim != 2 or y.ndim != 2:
        raise ValueError(
            f"Independence is measured on at least two paired rows, (n, d) and (n, e), got shapes {tuple(x.shape)} and "
            f"{tuple(y.shape)}. Raise the batch."
        )
    k, l = (kernel or median(t) for kernel, t in ((of_x, x), (of_y, y)))
    return (centred(k(x, x)) * l(y, y)).sum() / (len(x) - 1) ** 2


def centred(k: Tensor) -> Tensor:
    """:math:`H K H`."""
    return k - k.mean(0) - k.mean(1, keepdim=True) + k.mean()


def median(x: Tensor) -> Kernel:
    """The Gaussian kernel whose bandwidth is the median distance of different rows; 1 if most rows are equal."""
    n = len(x)
    above = torch.ones(n, n, dtype=torch.bool, device=x.device).triu(1)
    distance = float(squared_distances(x.detach(), x.detach())[above].median().sqrt())
    return RBF(bandwidth=distance or 1.0)
