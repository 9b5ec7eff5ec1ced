"""Many groups of codes that share a factor, taken one member of all groups at a time."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np

from whence.metrics.arrays import Array
from whence.metrics.information import classes
from whence.metrics.probe import Probe
from whence.metrics.sharing import Sharing

ROWS = 65_536  #: in double precision at once


class Groups(NamedTuple):
    """Codes, and for each group the rows of its members."""

    z: Array  #: (N, D)
    rows: Array  #: (size, groups)


class Source(Protocol):
    """Draws groups: within each, factor `k` has one value and the others are free."""

    def __call__(self, k: int, groups: int, size: int) -> Groups: ...


class Units(NamedTuple):
    """Mean and standard deviation of every code, over all data."""

    mean: Array
    spread: Array

    @classmethod
    def of(cls, z: Array) -> Units:
        mean = z.mean(0, dtype=np.float64)
        square, varies = np.zeros_like(mean), np.zeros(mean.shape, bool)
        for i in range(0, len(z), ROWS):
            square += np.square(z[i : i + ROWS] - mean).sum(0)
            varies |= (z[i : i + ROWS] != z[0]).any(0)
        return cls(mean, np.where(varies, np.sqrt(square / len(z)), 0))

    def __call__(self, z: Array, precision: type = np.float32) -> Array:
        """In units of the standard deviation; a code that does not vary is 0."""
        out: Array = np.empty(z.shape, precision)
        scale = np.where(self.spread > 0, self.spread, np.inf)
        for i in range(0, len(z), ROWS):
            out[i : i + ROWS] = (z[i : i + ROWS] - self.mean) / scale
        return out


def from_pool(z: Array, factors: Array, rng: np.random.Generator, bins: int = 20) -> Source:
    """Groups out of a pool: a value of factor k, each as likely, then members that have it, with replacement.

    With independent, uniform factors this is the distribution a fresh draw has; nothing is encoded twice. A factor
    whose values hardly recur is cut into `bins` classes of equal frequency, and a group then shares the class.
    """
    labels = classes(factors, bins)
    sorted_by: dict[int, tuple[Array, Array, Array]] = {}

    def draw(k: int, groups: int, size: int) -> Groups:
        if k not in sorted_by:
            _, value, count = np.unique(labels[:, k], return_inverse=True, return_counts=True)
            sorted_by[k] = np.argsort(value, kind="stable"), np.cumsum(count) - count, count
        order, first, count = sorted_by[k]
        value = rng.integers(len(count), size=groups)
        member = first[value] + (rng.random((size, groups)) * count[value]).astype(np.intp)
        return Groups(z, order[member])

    return draw


def pooled(probe: Probe) -> tuple[Array, Units]:
    """A probe's codes in units of their deviations, and these, once for all metrics: one copy in single precision, half
    of what double-precision codes take."""

    def make() -> tuple[Array, Units]:
        units = Units.of(probe.pool.z)
        return units(probe.pool.z), units

    return probe.once("pooled", make)


def from_sharing(sharing: Sharing, units: Units) -> Source:
    """Groups that were drawn and encoded for the purpose."""

    def draw(k: int, groups: int, size: int) -> Groups:
        drawn = sharing(k, groups, size)
        return Groups(units(drawn.reshape(groups * size, -1)), np.arange(groups * size).reshape(groups, size).T)

    return draw


def variances(groups: Groups) -> Array:
    """(groups, D): the variance within each group, exactly 0 if its members are equal."""
    z, rows = groups
    first = z[rows[0]]
    total, square = np.zeros_like(first), np.zeros_like(first)
    off = np.empty_like(first)
    for row in rows[1:]:
        np.take(z, row, axis=0, out=off, mode="clip")
        off -= first
        total += off
        off *= off
        square += off
    n = len(rows)
    return np.maximum(square - total * total / n, 0) / (n - 1)


def mean_differences(groups: Groups, pairs: int) -> Array:
    """(points, D): the mean over so many groups of two of the distance between both members."""
    z, rows = groups
    a, b = rows.reshape(2, pairs, -1)
    out = np.zeros((a.shape[1], z.shape[1]), z.dtype)
    one, other = np.empty_like(out), np.empty_like(out)
    for row, row_ in zip(a, b, strict=True):
        np.take(z, row, axis=0, out=one, mode="clip")
        np.take(z, row_, axis=0, out=other, mode="clip")
        one -= other
        np.abs(one, out=one)
        out += one
    return out / pairs
