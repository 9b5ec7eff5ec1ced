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
    labels = equal_widths(v, bins) if study else classes(v, bins)
    whole = np.zeros(len(z), np.int64)
    varies = (z != z[:1]).any(0)
    scale = np.zeros(z.shape[1])
    matrix = np.zeros((z.shape[1], v.shape[1]))
    for j in np.flatnonzero(varies):
        column = z[:, j].astype(np.float64)
        order = np.argsort(column, kind="stable")
        scale[j] = spans(column, order, whole, 1.0 if study else quantile, study)[0]
        for k, label in enumerate(labels.T):
            matrix[j, k] = 1 - spans(column, order, label, quantile, study).mean() / (scale[j] or np.inf)
    weights = scale if study else (scale > inactive * scale.max()).astype(np.float64)
    if not study:
        matrix = matrix.clip(0)  # a class may span more than the whole
    if not weights.any():
        return Robustness(0.0, matrix, weights)
    return Robustness(float(np.average(matrix.max(1), weights=weights)), matrix, weights)


def spans(column: Array, order: Array, label: Array, quantile: float, study: bool) -> Array:
    """R within each class that occurs."""
    rows = order[np.argsort(label[order], kind="stable")]  # by class, and by value within
    _, first, count = np.unique(label[rows], return_index=True, return_counts=True)
    ordered = column[rows]
    if not study:
        low, high = (between(ordered, first, count, (1 + side * quantile) / 2) for side in (-1, 1))
        return high - low
    off = np.abs(ordered - np.repeat(np.add.reduceat(ordered, first) / count, count))
    off = off[np.lexsort((off, np.repeat(np.arange(len(count)), count)))]
    return between(off, first, count, quantile)


def between(ordered: Array, first: Array, count: Array, quantile: float) -> Array:
    """The quantile of each class's rows, which are in order; linear between two of them."""
    at = quantile * (count - 1)
    low = at.astype(np.intp)
    a, b = ordered[first + low], ordered[first + np.minimum(low + 1, count - 1)]
    return a + (at - low) * (b - a)


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
