"""The maximal and the total information coefficient."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from whence.evidence import Evidence, Reference
from whence.metrics.arrays import Array, Unmeasurable, codes_and_factors
from whence.metrics.metric import Metric, Part
from whence.metrics.probe import Probe
from whence.representation import HasConcepts
from whence.worlds.pendulum import CAUSALVAE


class Coefficients(NamedTuple):
    """Of each code and factor, (D, K)."""

    mic: Array
    tic: Array  #: normalised


def mic(x: Any, y: Any, *, alpha: float = 0.6, c: float = 15) -> float:
    r"""The maximal information coefficient: the greatest entry of `characteristic_matrix`.

    As N grows it nears 1 for functions without noise, and 0 for independent variables, slowly: about 0.13 at N = 1,000.
    """
    return max(characteristic_matrix(x, y, alpha=alpha, c=c).values())


def tic(x: Any, y: Any, *, alpha: float = 0.6, c: float = 15, normalised: bool = False) -> float:
    """The total information coefficient: the sum of `characteristic_matrix`, or its mean if `normalised`."""
    entries = characteristic_matrix(x, y, alpha=alpha, c=c).values()
    return sum(entries) / (len(entries) if normalised else 1)


def characteristic_matrix(x: Any, y: Any, *, alpha: float = 0.6, c: float = 15) -> dict[tuple[int, int], float]:
    r"""For grids of a columns and b rows, the most information that a grid finds, as a share of what it can hold.

    .. math:: M_{ab} = \max_G \frac{I_G(x; y)}{\log \min(a, b)}, \qquad a b \le \max(N^\alpha, 4)

    by Reshef et al.'s ApproxMaxMI: rows (then columns) of equal counts, and the best cuts of the other axis among at
    most c times as many as there are parts, found by dynamic programming; the greater of the two. Equal values are
    never cut apart. Where ties leave fewer than b rows of equal counts, their number takes the place of b. A variable
    of one value has no information. Time grows with :math:`c^2 N^{3 \alpha}`.
    """
    # minepy@68164be (docs/source/details.rst) lists these choices where the paper leaves one
    pair = codes_and_factors(x, y)
    if pair.z.shape != pair.v.shape or pair.z.shape[1] != 1:
        raise ValueError(
            f"Two variables have one number a row each, got shapes {pair.z.shape} and {pair.v.shape}. "
            "For all codes and factors: coefficients."
        )
    if not 0 < alpha <= 1 or c <= 0:
        raise ValueError(f"The exponent alpha lies in (0, 1] and c is positive, got alpha={alpha} and c={c}.")
    a, b = map(Sorted, pair)
    largest = max(len(a.order) ** alpha, 4)
    one, other = half(a, b, largest, c), half(b, a, largest, c)
    return {(k, l): max(share, other[l, k]) for (k, l), share in one.items()}


class Sorted:
    """A variable's order, and where each of its values begins and ends in it."""

    def __init__(self, column: Array) -> None:
        self.order = column[:, 0].argsort(kind="stable")
        ranked = column[self.order, 0]
        self.edges = np.concatenate([[0], np.flatnonzero(ranked[1:] != ranked[:-1]) + 1, [len(ranked)]])
        self.middles = middles(self.edges)

    def rows(self, parts: int) -> tuple[Array, int]:
        """(N,): each point's part of nearly equal count, and how many there are."""
        edges = equal_parts(self.edges, self.middles, parts)
        label = np.empty(len(self.order), np.intp)
        label[self.order] = np.repeat(np.arange(len(edges) - 1), np.diff(edges))
        return label, len(edges) - 1


def middles(edges: Array) -> list[float]:
    return ((edges[1:] + edges[:-1]) / 2).tolist()


def equal_parts(edges: Array, middles: list[float], parts: int) -> Array:
    """Those of the edges between which counts are nearly equal: each part ends where it comes nearest to its share of
    what is left, an equal distance being enough."""
    chosen, begin, end = [0], 0, int(edges[-1])
    for part in range(parts - 1):
        here = max(bisect_left(middles, begin + (end - begin) / (parts - part)), chosen[-1] + 1)
        if here >= len(middles):
            break
        chosen.append(here)
        begin = int(edges[here])
    return edges[[*chosen, len(middles)]]


def half(x: Sorted, y: Sorted, largest: float, c: float) -> dict[tuple[int, int], float]:
    """Shares of information of grids with rows of equal counts and the best columns, by their numbers."""
    n = len(x.order)
    count = np.arange(n + 1)
    disorder = np.concatenate([count * np.log(count.clip(1)), np.full(n, np.inf)])  # -i, a cut after the next: infinite
    found: dict[tuple[int, int], float] = {}
    for b in range(2, int(largest // 2) + 1):
        most = int(largest // b)
        label, rows = y.rows(b)
        told = np.zeros(most + 1)
        if rows > 1:
            told = best_columns(label[x.order], rows, x.edges, most, max(int(c * most), 1), disorder) / n
        found |= {(a, b): told[a] / np.log(min(a, max(rows, 2))) for a in range(2, most + 1)}
    return found


def best_columns(label: Array, rows: int, values: Array, most: int, clumps: int, disorder: Array) -> Array:
    """(most + 1,): N times the information of the best 0, 1, ... columns about the rows of ranked points.

    N I = N H(rows) - sum over columns of n H(rows | column), so the columns up to each cut are found one by one.
    """
    begin, n = values[:-1], values[-1]
    low, high = np.minimum.reduceat(label, begin), np.maximum.reduceat(label, begin)
    same = np.where(low == high, low, -1 - np.arange(len(begin)))  # a value of several rows is a clump of its own
    edges = np.concatenate([begin[:1], begin[1:][same[1:] != same[:-1]], values[-1:]])
    if len(edges) > clumps + 1:
        edges = equal_parts(edges, middles(edges), clumps)
    k = len(edges) - 1
    clump = np.repeat(np.arange(k), np.diff(edges))
    up_to = np.zeros((rows, k + 1), np.intp)
    np.cumsum(np.bincount(label * k + clump, minlength=rows * k).reshape(rows, k), axis=1, out=up_to[:, 1:])
    cost = disorder[edges[:, None] - edges]  # [t, s]: of a column from cut s to cut t
    for row in up_to:
        cost -= disorder.take(row[:, None] - row, mode="clip")
    best, trial, told = cost[:, 0].copy(), np.empty_like(cost), np.zeros(most + 1)
    whole = disorder[n] - disorder[up_to[:, -1]].sum()
    for a in range(2, most + 1):
        if a <= k:
            best = np.add(cost, best, out=trial).min(1)
        told[a] = max(whole - best[-1], 0.0)
    return told


def coefficients(
    codes: Any, factors: Any, *, alpha: float = 0.6, c: float = 15, samples: int = 1_000, seed: int = 0
) -> Coefficients:
    """`mic` and normalised `tic` of every code and factor, (D, K) each, on at most `samples` rows drawn at random."""
    z, v = codes_and_factors(codes, factors)
    if len(z) > samples:
        rows = np.random.default_rng(seed).permutation(len(z))[:samples]
        z, v = z[rows], v[rows]
    if (still := v.max(0) == v.min(0)).any():
        raise Unmeasurable(
            f"Every factor must vary, and factor {int(still.argmax())} has one value in {len(v)} rows. Leave it out, "
            "or give more samples."
        )
    tables = [[characteristic_matrix(a, b, alpha=alpha, c=c).values() for b in v.T] for a in z.T]
    of_mic = np.array([[max(entries) for entries in row] for row in tables])
    return Coefficients(of_mic, np.array([[sum(entries) / len(entries) for entries in row] for row in tables]))


def matched(table: Array, *, aligned: bool = False) -> float:
    """Mean over factors of the entry of each one's own code: in the one-to-one matching with the greatest mean, or of
    code k for factor k if `aligned`. A factor without a code counts 0."""
    from scipy.optimize import linear_sum_assignment

    d, k = table.shape
    if aligned and d != k:
        raise Unmeasurable(
            f"Aligned codes are as many as factors, code k for factor k; got {d} codes and {k} factors. Reduce each "
            "concept to one number, or match them (aligned=False)."
        )
    chosen = np.diag_indices(k) if aligned else linear_sum_assignment(table, maximize=True)
    return float(table[chosen].sum() / k)


@dataclass(frozen=True, kw_only=True)
class MIC(Metric):
    """Maximal and total information coefficient: does each factor have a code that depends on it, in whatever shape?

    The mean over factors of the coefficient with the factor's own code, in the best one-to-one matching.

    Misses: what else the code depends on, and the causal graph: codes fitted to labels score high with any graph. The
    coefficient of independent variables is well above 0 in small samples; see the chance level.
    """

    alpha: float = 0.6  #: grids have at most N to this power cells
    c: float = 15  #: an axis is cut at most at c times as many places as it has parts
    samples: int = 1_000  #: rows it is computed on; time grows almost with their square
    aligned: bool = False  #: code k is meant to be factor k, as after learning from labels: match nothing

    parts: ClassVar[tuple[Part, ...]] = (Part(""), Part("total"))
    saturates: ClassVar[bool] = True
    reference: ClassVar[Reference] = Reference(
        key="reshef2011detecting",
        authors="Reshef, David N. and Reshef, Yakir A. and Finucane, Hilary K. and Grossman, Sharon R. and "
        "McVean, Gilean and Turnbaugh, Peter J. and Lander, Eric S. and Mitzenmacher, Michael and Sabeti, Pardis C.",
        title="Detecting Novel Associations in Large Data Sets",
        venue="Science 334(6062)",
        year=2011,
        url="https://doi.org/10.1126/science.1205438",
    )
    evidence: ClassVar[tuple[Evidence, ...]] = (Evidence("reference-checked", "tests/metrics/test_mic.py"),)

    def measure(self, probe: Probe) -> tuple[float, float]:
        seed = int(probe.rng("mic").integers(2**31))
        both = probe.once(
            ("mic", self.alpha, self.c, self.samples),
            lambda: coefficients(*probe.pool, alpha=self.alpha, c=self.c, samples=self.samples, seed=seed),
        )
        return matched(both.mic, aligned=self.aligned), matched(both.tic, aligned=self.aligned)


@dataclass(frozen=True, kw_only=True)
class ConceptMIC(Metric):
    """MIC and TIC of concepts that were learned by name, each with its own factor: the CausalVAE paper's table.

    A concept of several numbers is one by their mean. The paper does not say what is compared with what; this is the
    concept as it is decoded, with the factor of its name, and the mean over concepts.

    Misses: everything causal. Codes that were regressed on labels score near 1 with any graph, or none, and whether or
    not an intervention does anything.
    """

    alpha: float = 0.6  #: grids have at most N to this power cells
    c: float = 15  #: an axis is cut at most at c times as many places as it has parts
    samples: int = 1_000  #: rows it is computed on; time grows almost with their square

    parts: ClassVar[tuple[Part, ...]] = (Part(""), Part("total"))
    asks: ClassVar[tuple[type, ...]] = (HasConcepts,)
    reference: ClassVar[Reference] = CAUSALVAE
    evidence: ClassVar[tuple[Evidence, ...]] = (Evidence("reference-checked", "tests/metrics/test_mic.py"),)

    def measure(self, probe: Probe) -> tuple[float, float]:
        z, v = probe.pool
        names = [factor.name for factor in probe.world.factors]
        representation: Any = probe.representation
        labels = representation.spec.labels
        both = [(i, names.index(label.name)) for i, label in enumerate(labels) if label.name in names]
        if not both:
            raise Unmeasurable(
                f"No concept was learned by the name of a factor ({', '.join(names)}). Label some of them."
            )
        told = representation.concepts(z.astype(np.float32))
        seed = int(probe.rng("mic").integers(2**31))
        found = [
            coefficients(told[:, i], v[:, k], alpha=self.alpha, c=self.c, samples=self.samples, seed=seed)
            for i, k in both
        ]
        return float(np.mean([f.mic for f in found])), float(np.mean([f.tic for f in found]))
