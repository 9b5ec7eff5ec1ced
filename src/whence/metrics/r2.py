"""R²: how much of the factors can be told from the codes, by a linear map and by any?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from whence.evidence import Evidence, Reference
from whence.metrics.arrays import Array, Codes, codes_and_factors
from whence.metrics.maps import Linear, Map, Network
from whence.metrics.metric import Metric, Part
from whence.metrics.probe import Probe
from whence.metrics.targets import both_vary, kinds_of, r_squared, target


class LinearAndNonlinear(NamedTuple):
    linear: float
    nonlinear: float


def r2(
    codes: Any, factors: Any, *, through: Map | None = None, kinds: Sequence[str] | None = None, seed: int = 0
) -> float:
    r"""Mean over factors of :math:`1 - \sum_n (v_k - \hat v_k(z))^2 / \sum_n (v_k - \bar v_k)^2` on the last third of
    the rows, where the map `through` was learned on the others: `Linear()` (the default), `Network()`, or a function of
    your own.

    Factors are taken as numbers. With `kinds` (as in `Factor.kind`) a categorical one is taken as the indicators of its
    values, and a circular one as cosine and sine. A value below 0 is worse than the mean as a guess.
    """
    return float(r2_each(codes, factors, through=through, kinds=kinds, seed=seed).mean())


def r2_each(
    codes: Any, factors: Any, *, through: Map | None = None, kinds: Sequence[str] | None = None, seed: int = 0
) -> Array:
    """(K,): the R² of each factor. The options are those of `r2`."""
    pool = codes_and_factors(codes, factors)
    wanted = columns(pool.v, kinds)
    return shares(wanted, predicted(pool, wanted, Linear() if through is None else through, seed))


def columns(factors: Array, kinds: Sequence[str] | None) -> list[Array]:
    """Each factor as the numbers (N, M) that a map has to tell."""
    found = []
    for column, kind in zip(factors.T, kinds_of(factors, kinds or ["ordinal"] * factors.shape[1]), strict=True):
        y = target(column, kind)
        found.append(np.eye(y.max() + 1)[y] if y.ndim == 1 else y)
    return found


def predicted(pool: Codes, wanted: list[Array], through: Map, seed: int) -> list[Array]:
    """What a map learned on the first rows says of the others, factor by factor."""
    learn, test = pool.split()
    n = len(learn.z)
    for k, y in enumerate(wanted):
        both_vary(y[:n], y[n:], k)
    told = np.asarray(through(learn.z, np.hstack(wanted)[:n], test.z, seed=seed), np.float64)
    return np.split(told, np.cumsum([y.shape[1] for y in wanted])[:-1], axis=1)


def shares(wanted: list[Array], told: list[Array]) -> Array:
    """(K,) R² on the test rows, which come last."""
    return np.array([r_squared(t, y[-len(t) :]) for t, y in zip(told, wanted, strict=True)])


def told_of(probe: Probe, through: Map) -> list[Array]:
    """What a map tells of a probe's factors, as numbers. Learned once for all metrics."""
    wanted = columns(probe.pool.v, None)
    return probe.once(("told", through), lambda: predicted(probe.pool, wanted, through, probe.seed))


@dataclass(frozen=True, kw_only=True)
class R2(Metric):
    """R²: how much of each factor can be told from all codes together, by a linear map, and by a small network?

    Misses: everything about where a factor is. A rotated code has the R² of a perfect one, and so have the pixels, if
    the network can read them. Categories are told by their number, whose order means nothing to a linear map.
    """

    parts: ClassVar[tuple[Part, ...]] = (Part("linear"), Part("nonlinear"))
    saturates: ClassVar[bool] = True
    reference: ClassVar[Reference] = Reference(
        key="wright1921correlation",
        authors="Wright, Sewall",
        title="Correlation and Causation",
        venue="Journal of Agricultural Research",
        year=1921,
    )
    evidence: ClassVar[tuple[Evidence, ...]] = (Evidence("closed-form", "tests/metrics/test_mcc.py"),)

    def measure(self, probe: Probe) -> LinearAndNonlinear:
        wanted = columns(probe.pool.v, None)
        linear, nonlinear = (shares(wanted, told_of(probe, through)).mean() for through in (Linear(), Network()))
        return LinearAndNonlinear(float(linear), float(nonlinear))
