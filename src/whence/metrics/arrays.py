"""The arrays of metrics: codes and factors, row by row, checked."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

Array = np.ndarray
ROWS = 2  #: with fewer nothing varies


class Unmeasurable(ValueError):
    """A metric has no value on these arrays; the message says why, and what would help."""


class Codes(NamedTuple):
    """Codes and the labels of the factors they should stand for, row by row."""

    z: Array  #: (N, D)
    v: Array  #: (N, K)

    def split(self) -> tuple[Codes, Codes]:
        """The rows to learn from, two thirds as in the large-scale study, and the rows to test on."""
        n = learned(len(self.z))
        return Codes(self.z[:n], self.v[:n]), Codes(self.z[n:], self.v[n:])


def learned(n: int) -> int:
    """How many of n rows a metric learns from; the others are tested on."""
    return n * 2 // 3


def as_array(a: Any) -> Array:
    """NumPy or torch, on any device, to a two-dimensional NumPy array."""
    if isinstance(a, Tensor):
        a = (a.float() if a.dtype in (torch.bfloat16, torch.float16) else a).detach().cpu().numpy()
    array = np.asarray(a)
    return array[:, None] if array.ndim == 1 else array


def codes_and_factors(codes: Any, factors: Any) -> Codes:
    """The two arrays of every array-in metric, checked."""
    z, v = as_array(codes), as_array(factors)
    if z.ndim != 2 or v.ndim != 2 or len(z) != len(v):
        raise ValueError(
            f"A metric needs codes (N, D) and factors (N, K) with the same N, got {z.shape} and {v.shape}. "
            "Row i of both belongs to observation i."
        )
    if min(*z.shape, *v.shape) < 1 or len(z) < ROWS:
        raise ValueError(
            f"A metric needs {ROWS} rows or more, a code and a factor, got codes {z.shape} and factors {v.shape}. Give "
            "more rows: most numbers mean something from a thousand on."
        )
    if z.dtype.kind not in "biuf" or v.dtype.kind not in "biuf":
        raise TypeError(
            f"Codes and factors are real numbers, got {z.dtype} and {v.dtype}. Number names first, for example with "
            "np.unique(names, return_inverse=True)[1]."
        )
    if not (np.isfinite(z).all() and np.isfinite(v).all()):
        bad = int((~np.isfinite(z)).any(1).sum() + (~np.isfinite(v)).any(1).sum())
        raise ValueError(f"Codes and factors must be finite, got NaN or infinity in {bad} rows. Drop these rows first.")
    # unsigned integers would wrap in a difference, and half precision has too few digits for a sum
    return Codes(z if z.dtype in (np.float32, np.float64) else z.astype(np.float64), v)
