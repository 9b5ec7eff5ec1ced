"""Energy distance of two samples: the discrepancy whose kernel is minus the distance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor

from whence.metrics.mmd import two_samples
from whence.terms.mmd import Kernel, squared_distances
from whence.terms.mmd import mmd as discrepancy


def energy_distance(x: Any, y: Any, *, unbiased: bool = True) -> float:
    r"""Energy distance of two samples; 0 if and only if they come from one distribution.

    .. math:: 2 \mathbb{E} \|x - y\| - \mathbb{E} \|x - x'\| - \mathbb{E} \|y - y'\|

    Unbiased and biased are as in `mmd`, whose kernel is here minus the distance.
    """
    return float(discrepancy(*two_samples(x, y), Distance(), unbiased=unbiased))


@dataclass(frozen=True, kw_only=True)
class Distance(Kernel):
    r""":math:`k(x, y) = -\|x - y\|`, whose discrepancy is the energy distance."""

    def __call__(self, x: Tensor, y: Tensor) -> Tensor:
        return squared_distances(x, y).sqrt_().neg_()
