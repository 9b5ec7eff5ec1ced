"""Interventional robustness: does a code stay where it is when other factors are set from outside?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from whence.evidence import Evidence, Reference
from whence.metrics.arrays import Array, codes_and_factors
from whence.metrics.information import classes, equal_widths
from whence.metrics.metric import Metric
from whence.metrics.probe import Probe


class Robustness(NamedTuple):
    irs: float
    matrix: Array  #: (D, K): robustness of each code, if it is to stand for that factor
    weights: Array  #: (D,): of each code in the mean


def irs(
    codes: Any, factors: Any, *, quantile: float = 0.99, bins: int = 20, inactive: float = 0.05, study: bool = False
) -> float:
    r"""Mean over codes of how much of a code's range one factor holds still, whatever the others are set to.

    .. math:: 1 - \min_k \frac{1}{|v_k|} \sum_v \frac{R\bigl( z_j : v_k = v \bigr)}{R(z_j)}

    with R the range that holds the share `quantile` of the rows, those where factor k has the value v, or all. A
    factor whose values hardly recur is cut into `bins` classes. Codes of a range of at most `inactive` times the
    largest one take no part, all others count the same, in whatever units.

    `study=True` is disentanglement_lib: R is the quantile of the distances from the mean, below the line, and the
    greatest distance, so that of an outlier, under it; factors are cut into `bins` of equal width, which merges values;
    codes are weighted by their greatest distance.
    """
    return robustness(codes, factors, quantile=quantile, bins=bins, inactive=inactive, study=study).irs


def robustness(
    codes: Any, factors: Any, *, quantile: float = 0.99, bins: int = 20, inactive: float = 0.05, study: bool = False
) -> Robustness:
    """The metric, and what it is made of. The options are those of `irs`."""
    z, v = codes_and_factors(codes, factors)
    every = Within.of(np.zeros(len(z), np.int64))
    by_factor = [Within.of(label) for label in (equal_widths(v, bins) if study else classes(v, bins)).T]
    varies = (z != z[:1]).any(0)
    scale = np.zeros(z.shape[1])
    matrix = np.zeros((z.shape[1], v.shape[1]))
    for j in np.flatnonzero(varies):
        column = z[:, j].astype(np.float64)
        order = np.argsort(column)
        scale[j] = spans(column, order, every, 1.0 if study else quantile, study)[0]
        for k, within in enumerate(by_factor):
            matrix[j, k] = 1 - spans(column, order, within, quantile, study).mean() / (scale[j] or np.inf)
    weights = scale if study else (scale > inactive * scale.max()).astype(np.float64)
    if not study:
        matrix = matrix.clip(0)  # a class may span more than the whole
    if not weights.any():
        return Robustness(0.0, matrix, weights)
    return Robustness(float(np.average(matrix.max(1), weights=weights)), matrix, weights)


class Within(NamedTuple):
    """Rows dealt into the classes that occur."""

    label: Array  #: (N,): numbered from 0, in the narrowest type: NumPy sorts 16 bits by counting, in linear time
    first: Array  #: of each class, when rows lie by class
    size: Array  #: of each class

    @classmethod
    def of(cls, label: Array) -> Within:
        _, label, size = np.unique(label, return_inverse=True, return_counts=True)
        return cls(label.astype(np.min_scalar_type(len(size))), np.cumsum(size) - size, size)

    def quantiles(self, column: Array, order: Array, *at: float) -> Array:
        """(quantiles, classes): linear between two rows; `order` sorts the column."""
        rows = order[np.argsort(self.label[order], kind="stable")]  # by class, and by value within
        place = np.outer(at, self.size - 1)
        low = place.astype(np.intp)
        a, b = (column[rows[self.first + np.minimum(low + i, self.size - 1)]] for i in (0, 1))
        return a + (place - low) * (b - a)


def spans(column: Array, order: Array, within: Within, quantile: float, study: bool) -> Array:
    """R within each class."""
    if not study:
        low, high = within.quantiles(column, order, (1 - quantile) / 2, (1 + quantile) / 2)
        return high - low
    mean = np.bincount(within.label, weights=column) / within.size
    off = np.abs(column - mean[within.label])
    return within.quantiles(off, np.argsort(off), quantile)[0]


@dataclass(frozen=True, kw_only=True)
class IRS(Metric):
    """Interventional robustness score: does each code hold still while one factor does, whatever the others do?

    Misses: factors that no code stands for, and codes that repeat one another. Noise in a code lowers it.
    """

    quantile: float = 0.99  #: share of the rows whose range counts
    bins: int = 20  #: classes of a factor whose values hardly recur
    inactive: float = 0.05  #: codes of a range of at most this share of the largest take no part
    study: bool = False  #: distances from the mean, bins of equal width and weights, as in disentanglement_lib

    saturates: ClassVar[bool] = True
    reference: ClassVar[Reference] = Reference(
        key="suter2019robustly",
        authors="Suter, Raphael and Miladinović, Đorđe and Schölkopf, Bernhard and Bauer, Stefan",
        title="Robustly Disentangled Causal Mechanisms: Validating Deep Representations for Interventional Robustness",
        venue="International Conference on Machine Learning",
        year=2019,
        url="https://arxiv.org/abs/1811.00007",
    )
    evidence: ClassVar[tuple[Evidence, ...]] = (Evidence("reference-checked", "tests/metrics/test_irs.py"),)

    def measure(self, probe: Probe) -> float:
        return irs(*probe.pool, quantile=self.quantile, bins=self.bins, inactive=self.inactive, study=self.study)
