"""Factors as what a probe learns to tell from codes: classes or numbers; and how well it told them."""

from __future__ import annotations

import typing
from collections.abc import Sequence

import numpy as np

from whence.metrics.arrays import Array, Unmeasurable
from whence.metrics.information import classes
from whence.worlds.world import Kind

ORDERED = (
    10  #: a factor of more values than this, of which nothing else is known, is a quantity and not a set of classes
)


def kinds_of(factors: Array, kinds: Sequence[str] | None = None) -> tuple[str, ...]:
    """The kind of every factor, if it is not told: ordinal if it takes more than `ORDERED` values, else categorical."""
    if kinds is None:
        return tuple("ordinal" if len(np.unique(column)) > ORDERED else "categorical" for column in factors.T)
    known = typing.get_args(Kind)
    if len(kinds) != factors.shape[1] or not set(kinds) <= set(known):
        raise ValueError(
            f"kinds names one of {', '.join(known)} for each of the {factors.shape[1]} factors, got {list(kinds)}."
        )
    return tuple(kinds)


def target(column: Array, kind: str) -> Array:
    """(N,) classes of a categorical factor, (N, 2) cosine and sine of a circular one, (N, 1) numbers of any other."""
    if kind == "categorical":
        return np.unique(column, return_inverse=True)[1]
    v = column.astype(np.float64)
    if kind == "circular":
        seen = np.unique(v)
        turn = (seen[-1] - seen[0]) * len(seen) / max(len(seen) - 1, 1)  # one step from the last value to the first
        angle = 2 * np.pi * (v - seen[0]) / (turn or 1)
        v = np.stack([np.cos(angle), np.sin(angle)], 1)
    else:
        v = v[:, None]
    spread = v.std()
    return (v - v.mean(0)) / (spread if spread > 0 else 1)


def labels(factors: Array, bins: int = 20) -> Array:
    """(N, K) classes of factors of any kind, numbered from 0; those whose values hardly recur are cut into `bins`."""
    return np.stack([np.unique(c, return_inverse=True)[1] for c in classes(factors, bins).T], 1)


def both_vary(learn: Array, test: Array, k: int) -> None:
    """Something is to be learned about factor k, and to be tested."""
    for rows, what in ((learn, "learn from"), (test, "test on")):
        if (rows == rows[:1]).all():
            raise Unmeasurable(
                f"Every factor must vary, and factor {k} has one value in the {len(rows)} rows to {what}. Leave it "
                "out, or give more rows, in random order."
            )


def r_squared(told: Array, truth: Array) -> float:
    r""":math:`1 - \sum (v - \hat v)^2 / \sum (v - \bar v)^2`, over the columns together."""
    return float(1 - np.square(truth - told).sum() / np.square(truth - truth.mean(0)).sum())
