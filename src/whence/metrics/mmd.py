"""Maximum mean discrepancy of two samples."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from whence.metrics.arrays import Unmeasurable, as_array
from whence.terms.mmd import RBF, Kernel, squared_distances
from whence.terms.mmd import mmd as discrepancy


def mmd(x: Any, y: Any, *, kernel: Kernel | None = None, unbiased: bool = True) -> float:
    r"""Squared maximum mean discrepancy of two samples.

    .. math:: \mathbb{E} k(x, x') + \mathbb{E} k(y, y') - 2 \mathbb{E} k(x, y)

    Unbiased: over pairs of different rows, 0 on average if the distributions are one, and then as often below 0 as
    above. Biased: over all pairs, the squared distance of the two mean embeddings, never below 0. Without a kernel it
    is `RBF` with the median distance of the pooled rows. Kernels are summed in blocks: no matrix of all pairs is held.
    """
    a, b = two_samples(x, y)
    return float(discrepancy(a, b, kernel or RBF(bandwidth=median_distance(a, b)), unbiased=unbiased))


def median_distance(x: Any, y: Any, *, rows: int = 1_000) -> float:
    """The median distance between different rows of the pooled samples (Gretton et al. 2012), of `rows` of them that
    are spread evenly over each sample."""
    a, b = two_samples(x, y)
    pooled = torch.cat([s[torch.linspace(0, len(s) - 1, min(len(s), rows // 2)).long()] for s in (a, b)])
    n = len(pooled)
    middle = float(squared_distances(pooled, pooled)[tuple(torch.triu_indices(n, n, 1))].median().sqrt())
    if not middle > 0:
        raise Unmeasurable("More than half of the pooled rows are equal, so their median distance is no bandwidth.")
    return middle


def two_samples(x: Any, y: Any) -> tuple[Tensor, Tensor]:
    """Both as (n, d) and (m, d) in double precision, observations flattened."""
    a, b = (as_array(s).astype(np.float64) for s in (x, y))
    if a.shape[1:] != b.shape[1:] or min(len(a), len(b)) < 2:
        raise ValueError(
            f"Two samples have at least two rows each, and rows of one shape, got {a.shape} and {b.shape}."
        )
    p, q = (torch.from_numpy(s).flatten(1) for s in (a, b))
    if bad := int((~torch.isfinite(p)).any(1).sum() + (~torch.isfinite(q)).any(1).sum()):
        raise ValueError(f"Samples must be finite, got NaN or infinity in {bad} rows. Drop these rows first.")
    return p, q
