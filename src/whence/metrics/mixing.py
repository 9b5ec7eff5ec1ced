"""What is left of the mixing: codes as a linear map of the factors, and its entries where theory allows none."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from whence.evidence import Evidence, Reference
from whence.metrics.arrays import Array, Unmeasurable, as_array, codes_and_factors
from whence.metrics.graphs import closure, correlations, graphs, reach
from whence.metrics.metric import Metric, Part
from whence.metrics.probe import Probe
from whence.worlds import World


def effective_mixing(codes: Any, factors: Any, *, standardise: bool = False) -> Array:
    r"""(D, K) of the least-squares :math:`z \approx M v + c`: how much of each factor is in each code.

    For a linear encoder H of a linear mixing x = G v it is H G. `standardise=True` takes the factors in units of their
    standard deviations, without which the entries of a row depend on the factors' units.
    """
    z, v = codes_and_factors(codes, factors)
    if (constant := v.max(0) == v.min(0)).any():
        raise Unmeasurable(f"Every factor must vary, and factor {int(constant.argmax())} has one value. Leave it out.")
    n, k = v.shape
    among, spread, _ = correlations(v, v)
    if n <= k or np.linalg.matrix_rank(among, hermitian=True) < k:
        raise Unmeasurable(
            f"A mixing of {k} factors needs as many rows that determine it: no factor may be a linear combination of "
            f"others, and there must be more rows than factors, got {n}. Leave a factor out, or take more rows."
        )
    with_codes, _, of_codes = correlations(v, z)
    m = np.linalg.solve(among, with_codes * of_codes).T
    return m if standardise else m / spread


def scale_mixing(codes: Any, factors: Any, *, standardise: bool = False, small: float = 0.05) -> MixingError:
    """`mixing_error` of the `effective_mixing` of codes that are matched with factors: spectral norm and share."""
    return mixing_error(effective_mixing(codes, factors, standardise=standardise), matched=True, small=small)


# --- what theory allows ----------------------------------------------------------------------------------------------


def with_parents(graph: Any) -> Array:
    """(n, n) bool, true where code i may hold factor j: its own factor and the causes of it."""
    a = graphs(graph, graph, 0.0).truth
    return a.T | np.eye(len(a), dtype=bool)


def with_ancestors(graph: Any) -> Array:
    """Its own factor and all that lead to it: what soft interventions identify without further assumptions."""
    return with_parents(closure(graphs(graph, graph, 0.0).truth))


def with_surrounding(graph: Any) -> Array:
    """Its own factor and those causes of it that cause all of its effects as well."""
    a = graphs(graph, graph, 0.0).truth
    not_all = reach(a, ~a.T)  # [i, j]: some effect of i is none of j
    return (a.T & ~not_all) | np.eye(len(a), dtype=bool)


# --- errors ----------------------------------------------------------------------------------------------------------


class MixingError(NamedTuple):
    norm: float  #: the largest singular value of what is not allowed
    share: float  #: of the entries that are not allowed, those that are not small


def mixing_error(mixing: Any, allowed: Any = None, *, matched: bool = False, small: float = 0.05) -> MixingError:
    r"""What a mixing holds where nothing is allowed, its rows scaled to unit length.

    .. math:: \ell = \Bigl\| \frac{M_{ij}}{\|M_{i\cdot}\|_2} \, [(i, j) \text{ not allowed}] \Bigr\|_2

    the spectral norm, and the share of those entries of at least `small`. `allowed` (none: the diagonal, the error
    l_scale; `with_parents(graph)`: l_pa) is true where row i may hold factor j. Rows are taken as they come, or
    `matched` with factors one to one so that the diagonal is largest; rows too many are then left out. Entries have
    signs, so allowing more of them can also raise the norm.
    """
    # acarturk-e/score-based-crl@abb5a09 (LSCALE-I/l_scale_i_test.py); the sign it gives to rows changes neither number
    m = normalised(mixing, matched=matched)
    n = len(m)
    mask = np.eye(n, dtype=bool) if allowed is None else as_array(allowed).astype(bool)
    if mask.shape != m.shape:
        raise ValueError(f"The mask of what is allowed has the mixing's shape {m.shape}, got {mask.shape}.")
    rest = np.where(mask, 0.0, m)
    many = int((~mask).sum())
    return MixingError(
        float(np.linalg.norm(rest, 2)),
        float((np.abs(rest) >= small).sum() / many) if many else 0.0,
    )


def normalised(mixing: Any, *, matched: bool = False) -> Array:
    """(K, K) with rows of unit length and a diagonal that is not negative."""
    m = as_array(mixing).astype(np.float64)
    if m.ndim != 2 or not np.isfinite(m).all():
        raise ValueError(f"A mixing is a finite matrix (codes, factors), got shape {m.shape}.")
    d, k = m.shape
    if d < k or (d > k and not matched):
        raise Unmeasurable(
            f"A mixing error needs a code for each factor, got {d} codes and {k} factors. "
            + ("Keep as many codes as factors, or use matched=True." if d > k else "Learn with more latents.")
        )
    length = np.linalg.norm(m, axis=1, keepdims=True)
    dead = length[:, 0] <= d * np.finfo(np.float64).eps * length.max()
    unit = np.divide(m, length, out=np.zeros_like(m), where=~dead[:, None])
    if matched:
        from scipy.optimize import linear_sum_assignment

        row, factor = linear_sum_assignment(-np.abs(unit))
        row = row[np.argsort(factor)]
        unit, dead = unit[row], dead[row]
    if dead.any():
        i = int(dead.argmax())
        raise Unmeasurable(f"The row of a mixing that stands for factor {i} is 0: its code does not depend on any.")
    return unit * np.where(unit.diagonal() < 0, -1, 1)[:, None]


class OfMixing(Metric):
    """A metric of the least-squares map from factors to codes, each factor matched with a code."""

    small: float
    standardise: bool
    matched: bool
    parts: ClassVar[tuple[Part, ...]] = (
        Part("", 0.0, higher_is_better=False),
        Part("share", 0.0, higher_is_better=False),
    )

    @abstractmethod
    def allowed(self, world: World) -> Array | None:
        """Where a mixing may hold something."""

    def suits(self, world: World) -> bool:
        return world.graph is not None

    def measure(self, probe: Probe) -> MixingError:
        m = probe.once(
            ("mixing", self.standardise), lambda: effective_mixing(*probe.pool, standardise=self.standardise)
        )
        return mixing_error(m, self.allowed(probe.world), matched=self.matched, small=self.small)


@dataclass(frozen=True, kw_only=True)
class ScaleMixing(OfMixing):
    """Mixing error up to scale: how much is there in each code besides its own factor, if both are linear maps?

    Two numbers: the spectral norm of the rest of the row-normalised mixing, and the share of entries that are not
    small. Measured by default on worlds with a graph.

    Misses: all that is not linear, so noise in a code goes unseen. The entries are in units of the factors.
    """

    small: float = 0.05  #: entries below it are not counted in the share
    standardise: bool = False  #: factors in units of their standard deviations
    matched: bool = True  #: codes are matched with factors; if not, code i stands for factor i, as told targets say

    reference: ClassVar[Reference] = Reference(
        key="varici2025score",
        authors="Varıcı, Burak and Acartürk, Emre and Shanmugam, Karthikeyan and Kumar, Abhishek and Tajer, Ali",
        title="Score-based Causal Representation Learning: Linear and General Transformations",
        venue="Journal of Machine Learning Research",
        year=2025,
        url="https://arxiv.org/abs/2402.00849",
    )
    evidence: ClassVar[tuple[Evidence, ...]] = (Evidence("closed-form", "tests/metrics/test_mixing.py"),)

    def allowed(self, world: World) -> None:
        return None


@dataclass(frozen=True, kw_only=True)
class ParentMixing(OfMixing):
    """Mixing error up to parents: how much is there in each code besides its own factor and the causes of it?

    What soft interventions leave undetermined is forgiven: a code may hold its factor's parents. On arrays it is
    `mixing_error(effective_mixing(codes, factors), with_parents(graph), matched=True)`.

    Misses: what `ScaleMixing` misses, and any amount of a parent in a code.
    """

    small: float = 0.05  #: entries below it are not counted in the share
    standardise: bool = False  #: factors in units of their standard deviations
    matched: bool = True  #: codes are matched with factors; if not, code i stands for factor i, as told targets say

    reference: ClassVar[Reference] = ScaleMixing.reference
    evidence: ClassVar[tuple[Evidence, ...]] = (Evidence("closed-form", "tests/metrics/test_mixing.py"),)

    def allowed(self, world: World) -> Array:
        return with_parents(world.graph)

    def lacks(self, probe: Probe) -> str:
        missing = f"needs a world with a graph, which {type(probe.world).__name__} has not"
        return super().lacks(probe) or ("" if self.suits(probe.world) else missing)
