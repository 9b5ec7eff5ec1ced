"""The mean correlation coefficient, and which code stands for which factor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from whence.evidence import Evidence, Reference
from whence.metrics.arrays import Array, Codes, codes_and_factors
from whence.metrics.graphs import correlations
from whence.metrics.maps import Linear, Map, Network
from whence.metrics.metric import Metric, Part
from whence.metrics.probe import Probe
from whence.metrics.r2 import columns, predicted, told_of
from whence.metrics.targets import both_vary


class Match(NamedTuple):
    """Codes in the order of the factors: z[:, code] * sign runs along with v."""

    code: Array  #: (K,): the code of each factor, no code twice; -1 if there are fewer codes than factors
    sign: Array  #: (K,): -1 if it runs against its factor, else 1
    correlation: Array  #: (K,): its magnitude; 0 without a code


class Strengths(NamedTuple):
    strong: float
    linear: float
    nonlinear: float


def match(codes: Any, factors: Any, *, spearman: bool = False) -> Match:
    """One code for each factor, so that the sum of the correlations' magnitudes is greatest (the Hungarian algorithm).

    Correlations are Pearson's, or with `spearman=True` those of ranks, which no monotone map changes. A code that does
    not vary correlates with nothing.
    """
    z, v = codes_and_factors(codes, factors)
    for k, column in enumerate(v.T):
        both_vary(column, column, k)
    return best(correlations(ranks(z), ranks(v)).r if spearman else correlations(z, v).r)


def best(r: Array) -> Match:
    """The matching of (D, K) correlations."""
    from scipy.optimize import linear_sum_assignment

    rows, factors = linear_sum_assignment(-np.abs(r))
    code, sign, correlation = np.full(r.shape[1], -1), np.ones(r.shape[1]), np.zeros(r.shape[1])
    code[factors] = rows
    sign[factors] = np.where(r[rows, factors] < 0, -1, 1)
    correlation[factors] = np.abs(r[rows, factors]).clip(max=1)
    return Match(code, sign, correlation)


def ranks(a: Array) -> Array:
    """Of every column; equal values share their mean rank."""
    from scipy.stats import rankdata

    return np.stack([rankdata(column) for column in a.T], 1)


def mcc(codes: Any, factors: Any, *, through: Map | None = None, spearman: bool = False, seed: int = 0) -> float:
    r"""Mean over factors of the correlation with the code that is matched with it.

    .. math:: \max_\pi \frac{1}{K} \sum_k \bigl| \mathrm{corr}(z_{\pi(k)}, v_k) \bigr|

    over injections π; see `match`. A factor that is left without a code counts 0. This is the strong MCC, of codes
    identified up to order and scale (with `spearman=True`, up to order and monotone maps), on all rows. For codes
    identified up to a linear or a nonlinear map pass `through=Linear()` or `Network()`: the map is learned on the first
    two thirds of the rows, and its values are correlated on the others.
    """
    z, v = pool = codes_and_factors(codes, factors)
    if through is not None:
        z, v = mapped(pool, predicted(pool, columns(v, None), through, seed))
    return float(match(z, v, spearman=spearman).correlation.mean())


def mapped(pool: Codes, told: list[Array]) -> Codes:
    """Mapped codes beside their factors, on the test rows."""
    return Codes(np.hstack(told), pool.v[-len(told[0]) :])


@dataclass(frozen=True, kw_only=True)
class MCC(Metric):
    """Mean correlation coefficient: is there one code for each factor, that equals it up to scale?

    Strong: of the codes as they are. Linear, nonlinear: after a map, learned on other rows, that undoes any mixing.

    Misses: codes beyond those that are matched, and weak mixing. Categories, whose numbers have no order, correlate by
    accident.
    """

    spearman: bool = False  #: of ranks: equal up to monotone maps

    parts: ClassVar[tuple[Part, ...]] = (Part("strong"), Part("linear"), Part("nonlinear"))
    saturates: ClassVar[bool] = True
    reference: ClassVar[Reference] = Reference(
        key="hyvarinen2016unsupervised",
        authors="Hyvärinen, Aapo and Morioka, Hiroshi",
        title="Unsupervised Feature Extraction by Time-Contrastive Learning and Nonlinear ICA",
        venue="Advances in Neural Information Processing Systems",
        year=2016,
        url="https://arxiv.org/abs/1605.06336",
    )
    evidence: ClassVar[tuple[Evidence, ...]] = (Evidence("closed-form", "tests/metrics/test_mcc.py"),)

    def measure(self, probe: Probe) -> Strengths:
        weak = [mapped(probe.pool, told_of(probe, through)) for through in (Linear(), Network())]
        return Strengths(*(mcc(*pool, spearman=self.spearman) for pool in (probe.pool, *weak)))
