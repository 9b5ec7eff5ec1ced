"""Groups of codes that share one factor, drawn from a pool."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from whence.metrics.arrays import Array, codes_and_factors
from whence.metrics.information import classes


class Sharing(Protocol):
    """Draws groups of codes: within each group, factor `k` has one value and the others are free."""

    def __call__(self, k: int, groups: int, size: int) -> Array: ...  # (groups, size, D)


def pool_sharing(codes: Any, factors: Any, rng: np.random.Generator, bins: int = 20) -> Sharing:
    """Groups out of a pool of codes: a value of factor k as it occurs, then members that have it, with replacement.

    With independent factors this is the distribution a fresh draw has; nothing is encoded twice. A factor whose values
    hardly recur is cut into `bins` classes of equal frequency, and a group then shares the class.
    """
    z, v = codes_and_factors(codes, factors)
    v = classes(v, bins)
    sorted_by: dict[int, tuple[Array, Array, Array]] = {}

    def draw(k: int, groups: int, size: int) -> Array:
        if k not in sorted_by:
            _, value, count = np.unique(v[:, k], return_inverse=True, return_counts=True)
            sorted_by[k] = np.argsort(value, kind="stable"), np.cumsum(count) - count, count
        order, first, count = sorted_by[k]
        value = rng.integers(len(count), size=groups)
        member = first[value, None] + rng.integers(count[value, None], size=(groups, size))
        return z[order[member]]

    return draw


def portions(items: Array, each: int, budget: int = 10_000_000) -> list[Array]:
    """Items in parts whose work, `each` numbers an item, stays within the budget of memory."""
    return np.array_split(items, max(1, -(-len(items) * each // budget)))
