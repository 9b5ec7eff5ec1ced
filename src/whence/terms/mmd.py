"""Maximum mean discrepancy: how far apart two samples are, through the eyes of a kernel."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor

BLOCK = 1024  #: rows compared with as many others at a time


@dataclass(frozen=True, kw_only=True)
class Kernel(ABC):
    """A similarity of observations or codes, as a value."""

    @abstractmethod
    def __call__(self, x: Tensor, y: Tensor) -> Tensor:
        """Similarities of all rows of x (n, d) with all rows of y (m, d): (n, m)."""


@dataclass(frozen=True, kw_only=True)
class RBF(Kernel):
    r"""Gaussian: :math:`k(x, y) = \exp(-\|x - y\|^2 / 2 h^2)`."""

    bandwidth: float = 1.0  #: h

    def __call__(self, x: Tensor, y: Tensor) -> Tensor:
        return (squared_distances(x, y) * (-0.5 / self.bandwidth**2)).exp()


@dataclass(frozen=True, kw_only=True)
class InverseMultiquadratic(Kernel):
    r""":math:`k(x, y) = \sum_s s C / (s C + \|x - y\|^2)`. For d codes with a standard normal prior C is 2 d, the mean
    squared distance of two of its draws (Tolstikhin et al. 2018)."""

    scale: float = 1.0  #: C
    factors: tuple[float, ...] = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)  #: s

    def __call__(self, x: Tensor, y: Tensor) -> Tensor:
        d = squared_distances(x, y)
        k = torch.zeros_like(d)
        for c in (s * self.scale for s in self.factors):
            k = k + c / (c + d)
        return k


@dataclass(frozen=True, kw_only=True)
class Polynomial(Kernel):
    r""":math:`k(x, y) = (\langle x, y \rangle + c)^p`: compares moments up to the order p, and no others."""

    degree: int = 3  #: p
    offset: float = 1.0  #: c

    def __call__(self, x: Tensor, y: Tensor) -> Tensor:
        return (x @ y.mT + self.offset) ** self.degree


KERNELS = (RBF, InverseMultiquadratic, Polynomial)


def squared_distances(x: Tensor, y: Tensor) -> Tensor:
    """(n, m), never below 0; around a common point, so that fewer digits cancel."""
    centre = y.detach().mean(0)
    x, y = x - centre, y - centre
    return torch.addmm((x * x).sum(1)[:, None] + (y * y).sum(1), x, y.mT, alpha=-2).clamp(min=0)


def mmd(x: Tensor, y: Tensor, kernel: Kernel, *, unbiased: bool = True) -> Tensor:
    r"""Squared maximum mean discrepancy of samples x (n, d) and y (m, d).

    .. math:: \mathbb{E} k(x, x') + \mathbb{E} k(y, y') - 2 \mathbb{E} k(x, y)

    Unbiased, the U-statistic: over pairs of different rows, 0 on average if the distributions are one, and then as
    often below 0 as above. Biased, the V-statistic: over all pairs, the squared distance of the two mean embeddings,
    never below 0. Kernels are summed in blocks of rows.
    """
    if min(len(x), len(y)) < 2 or x.shape[1:] != y.shape[1:]:
        raise ValueError(
            "A discrepancy of two samples needs at least two rows in each, of the same length, got shapes "
            f"{tuple(x.shape)} and {tuple(y.shape)}. Raise the batch."
        )
    return within(x, kernel, unbiased) + within(y, kernel, unbiased) - 2 * across(x, y, kernel)


def within(x: Tensor, kernel: Kernel, unbiased: bool) -> Tensor:
    """Mean kernel of a sample's pairs of rows; of different rows if unbiased."""
    n, blocks = len(x), x.split(BLOCK)
    total, own = x.new_zeros(()), x.new_zeros(())
    for i, block in enumerate(blocks):
        k = kernel(block, block)
        own = own + k.diagonal().sum()
        total = total + k.sum()
        for other in blocks[i + 1 :]:
            total = total + 2 * kernel(block, other).sum()
    return (total - own) / (n * (n - 1)) if unbiased else total / n**2


def across(x: Tensor, y: Tensor, kernel: Kernel) -> Tensor:
    """Mean kernel of rows of one sample with rows of another."""
    sums = [kernel(a, b).sum() for a in x.split(BLOCK) for b in y.split(BLOCK)]
    return torch.stack(sums).sum() / (len(x) * len(y))
