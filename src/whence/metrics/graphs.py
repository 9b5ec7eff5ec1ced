"""Comparisons of causal graphs: an estimate with the truth. A[i, j]: i causes j; the diagonal is not looked at."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from whence.evidence import Evidence, Reference
from whence.metrics.arrays import Array, Unmeasurable, as_array
from whence.metrics.metric import Metric, Part
from whence.metrics.probe import Probe
from whence.representation import HasConcepts, HasGraph
from whence.worlds import World


def confidences(a: Any) -> Array:
    """(n, n) confidences that i causes j, checked, with an empty diagonal."""
    m = as_array(a).astype(np.float64)
    if m.ndim != 2 or m.shape[0] != m.shape[1]:
        raise ValueError(f"A graph is a square matrix A with A[i, j] true if i causes j, got shape {m.shape}.")
    if not np.isfinite(m).all() or (m < 0).any():
        bad = int((~np.isfinite(m) | (m < 0)).sum())
        raise Unmeasurable(
            f"The entries of a graph are edges or confidences, finite and not negative, got {bad} that are not. "
            "Of signed weights take the absolute values first."
        )
    return m * ~np.eye(len(m), dtype=bool)


class Graphs(NamedTuple):
    estimate: Array  #: (n, n) bool
    truth: Array  #: (n, n) bool


def graphs(estimate: Any, truth: Any, threshold: float) -> Graphs:
    """Both as edges: confidences above the threshold, and what is not zero in the truth."""
    e, t = confidences(estimate), confidences(truth)
    if e.shape != t.shape:
        raise ValueError(
            f"Two graphs are compared on the same nodes, got {len(e)} and {len(t)}. Align the estimate with the truth."
        )
    return Graphs(e > threshold, t > 0)


def closure(a: Array) -> Array:
    """C[i, j]: a directed path leads from i to j."""
    c = a.astype(bool)
    for _ in range(len(a).bit_length()):  # paths of length 1, 2, 4, ...
        c = c | reach(c, c)
    return c


def reach(a: Array, b: Array) -> Array:
    """A step of one relation, then of another."""
    return (a.astype(np.float32) @ b.astype(np.float32)) > 0


# --- Hamming distances -----------------------------------------------------------------------------------------------


def shd(estimate: Any, truth: Any, *, reversal: int = 1, threshold: float = 0.5) -> float:
    r"""Structural Hamming distance: edges to add, remove or turn round, a turn costing `reversal` (1 or 2).

    .. math:: \sum_{i \ne j} [A_{ij} \ne \hat A_{ij}]
        - (2 - \mathrm{reversal}) \sum_{i \ne j} [A_{ij} > A_{ji},\; \hat A_{ij} < \hat A_{ji}]

    An edge of the estimate is a confidence above `threshold`; the result depends on it.
    """
    # acarturk-e/score-based-crl@abb5a09: utils/dag.py costs a reversal 1, GSCALE-I-images/utils_image.py 2
    return hamming(*graphs(estimate, truth, threshold), reversal)


def skeleton_shd(estimate: Any, truth: Any, *, threshold: float = 0.5) -> float:
    """The pairs of nodes that are joined in one graph and not in the other, whatever the direction."""
    e, t = graphs(estimate, truth, threshold)
    return float(((e | e.T) != (t | t.T)).sum() / 2)


def closure_shd(estimate: Any, truth: Any, *, reversal: int = 1, threshold: float = 0.5) -> float:
    """`shd` between the transitive closures: who is an ancestor of whom, all that soft interventions identify."""
    e, t = graphs(estimate, truth, threshold)
    return hamming(closure(e), closure(t), reversal)


def hamming(e: Array, t: Array, reversal: int) -> float:
    if reversal not in (1, 2):
        raise ValueError(f"A reversed edge costs 1 (one change) or 2 (removed and added), got reversal={reversal}.")
    off = ~np.eye(len(t), dtype=bool)
    turned = e & ~e.T & t.T & ~t
    return float(((e != t) & off).sum() - (2 - reversal) * turned.sum())


# --- edges, one by one -----------------------------------------------------------------------------------------------


class Recovery(NamedTuple):
    precision: float
    recall: float
    f1: float


def edge_recovery(estimate: Any, truth: Any, *, threshold: float = 0.5) -> Recovery:
    r"""Precision, recall and F1 of directed edges.

    .. math:: \frac{TP}{TP + FP}, \quad \frac{TP}{TP + FN}, \quad \frac{2 TP}{2 TP + FP + FN}

    Without estimated edges nothing is claimed wrongly and precision is 1; without true edges nothing is missed and
    recall is 1; without both F1 is 1. (acarturk-e/score-based-crl@abb5a09, utils/dag.py, gives 0 to all three.)
    """
    e, t = graphs(estimate, truth, threshold)
    hit, claimed, there = int((e & t).sum()), int(e.sum()), int(t.sum())
    return Recovery(
        hit / claimed if claimed else 1.0,
        hit / there if there else 1.0,
        2 * hit / (claimed + there) if claimed + there else 1.0,
    )


def orientation_accuracy(estimate: Any, truth: Any, *, threshold: float = 0.5) -> float:
    """Of the pairs of nodes that both graphs join, the share joined in the same direction."""
    e, t = graphs(estimate, truth, threshold)
    joined = np.triu((e | e.T) & (t | t.T))
    if not joined.any():
        raise Unmeasurable("No pair of nodes is joined in both graphs, so there is no direction to compare.")
    return float(((e == t) & (e.T == t.T))[joined].mean())


def average_precision(estimate: Any, truth: Any) -> float:
    r"""Area under precision over recall of the edges ranked by confidence, ties at once; needs no threshold.

    .. math:: \sum_n (R_n - R_{n-1}) P_n

    A constant confidence gives the density of the true graph.
    """
    e, t = confidences(estimate), graphs(estimate, truth, 0.0).truth
    if not t.any():
        raise Unmeasurable("The true graph has no edges, so there is none to be ranked first.")
    off = ~np.eye(len(t), dtype=bool)
    _, level = np.unique(-e[off], return_inverse=True)
    hit = np.cumsum(np.bincount(level, weights=t[off]))
    claimed = np.cumsum(np.bincount(level))
    return float(np.diff(hit, prepend=0) @ (hit / claimed) / hit[-1])


# --- interventions ---------------------------------------------------------------------------------------------------


def sid(estimate: Any, truth: Any, *, threshold: float = 0.5) -> float:
    r"""Structural intervention distance: ordered pairs (i, j) for which :math:`p(x_j \mid do(x_i))` comes out wrong
    if it is computed by adjusting for the parents that i has in the estimate.

    .. math:: \#\{(i, j) : j \in \widehat{pa}_i \text{ descends from } i, \text{ or }
        j \notin \widehat{pa}_i \text{ and } \widehat{pa}_i \text{ is no valid adjustment set for } (i, j)\}

    0 for a supergraph of the truth with the same order, so it is not symmetric and is read together with the Hamming
    distance. Exact for DAGs, by reachability for all i at once.
    """
    e, t = graphs(estimate, truth, threshold)
    for name, graph in (("estimate", e), ("truth", t)):
        if closure(graph).diagonal().any():
            raise Unmeasurable(f"The structural intervention distance needs graphs without cycles, the {name} has one.")
    return float(false_effects(e, t).sum())


def false_effects(e: Array, t: Array) -> Array:
    """(n, n) bool of two DAGs: the effect of i on j, adjusted for the parents of i in e, is wrong if t is true."""
    c, own = closure(t), np.eye(len(t), dtype=bool)
    z = e.T  # z[i]: what is adjusted for
    opened = z | reach(z, c.T)  # nodes that are in z or have a descendant there: colliders let through
    through = reach(c & opened, c | own)  # z holds, or descends from, a node on a directed path from i to j
    # Nodes that open paths from i arrive at: on a directed path, else by an arrow into them, else against one.
    directed, into, against = t & ~own, np.zeros_like(t), t.T & ~own
    while True:
        up = (directed | into) & opened | against & ~z
        after = (
            directed | reach(directed & ~z, t) & ~own,
            into | reach((into | against) & ~z, t) & ~own,
            against | reach(up, t.T) & ~own,
        )
        if all((a == b).all() for a, b in zip(after, (directed, into, against), strict=True)):
            break
        directed, into, against = after
    return np.where(z, c, through | into | against) & ~own


# --- which code stands for which factor ------------------------------------------------------------------------------


def matched(codes: Array, factors: Array) -> Array:
    """(K,) the code matched with each factor by correlation, one to one; -1 for a factor that is left without."""
    from scipy.optimize import linear_sum_assignment

    j, k = linear_sum_assignment(-np.abs(correlations(codes, factors).r))
    found = np.full(factors.shape[1], -1)
    found[k] = j
    return found


class Correlations(NamedTuple):
    r: Array  #: (columns of a, columns of b), 0 where nothing varies
    spread_a: Array  #: standard deviations
    spread_b: Array


def correlations(a: Array, b: Array, rows: int = 4_096) -> Correlations:
    """Pearson's, so many rows at a time."""
    mean_a, mean_b = a.mean(0, dtype=np.float64), b.mean(0, dtype=np.float64)
    product, square_a, square_b = np.zeros((a.shape[1], b.shape[1])), np.zeros(a.shape[1]), np.zeros(b.shape[1])
    for i in range(0, len(a), rows):
        x, y = a[i : i + rows] - mean_a, b[i : i + rows] - mean_b
        product += x.T @ y
        square_a += np.einsum("nj,nj->j", x, x)
        square_b += np.einsum("nj,nj->j", y, y)
    scale = np.sqrt(np.outer(square_a, square_b))
    n = len(a)
    return Correlations(product / np.where(scale > 0, scale, 1), np.sqrt(square_a / n), np.sqrt(square_b / n))


def between(graph: Array, code: Array) -> Array:
    """The graph of factors from that of codes; a factor without a code has no edges."""
    there = code >= 0
    return graph[np.ix_(code, code)] * np.outer(there, there)


class OfGraphs(Metric):
    """A metric of the graph between a representation's latents, each standing for the factor it correlates with most.

    Chance is the mean over the same graph with its nodes relabelled at random.
    """

    matched: bool
    asks: ClassVar[tuple[type, ...]] = (HasGraph,)
    resamples = False
    relabelled: ClassVar[int] = 100

    @abstractmethod
    def compare(self, estimate: Array, truth: Array) -> tuple[float, ...]:
        """The values of all parts on two aligned matrices."""

    def suits(self, world: World) -> bool:
        return world.graph is not None

    def lacks(self, probe: Probe) -> str:
        missing = f"needs a world with a graph, which {type(probe.world).__name__} has not"
        return super().lacks(probe) or ("" if self.suits(probe.world) else missing)

    def measure(self, probe: Probe) -> tuple[float, ...]:
        found = [self.compare(graph, probe.world.graph) for graph in self.estimates(probe)]  # type: ignore[arg-type]
        return tuple(np.mean(found, 0).tolist())

    def estimates(self, probe: Probe) -> Iterator[Array]:
        """The graph between the factors; relabelled ones if the probe is one of chance."""
        graph = confidences(probe.representation.graph)
        z, v = probe.pool
        if isinstance(probe.representation, HasConcepts):
            z = np.asarray(probe.representation.concepts(z.astype(np.float32)))  # a concept may be several numbers
        if len(graph) != z.shape[1]:
            raise Unmeasurable(
                f"A graph of {len(graph)} nodes cannot be aligned with codes of {z.shape[1]} numbers: each code stands "
                "for one node."
            )
        code = probe.once("matched", lambda: matched(z, v)) if self.matched else np.arange(v.shape[1])
        if len(code) > len(graph) and not self.matched:
            raise Unmeasurable(f"A graph of {len(graph)} nodes has none for each of {len(code)} factors. Match them.")
        rng = probe.rng("relabel")
        nodes = np.append(np.arange(len(graph)), np.full(max(0, len(code) - len(graph)), -1))
        for _ in range(self.relabelled if probe.shuffled else 1):
            yield between(graph, rng.permutation(nodes)[: len(code)] if probe.shuffled else code)


@dataclass(frozen=True, kw_only=True)
class SHD(OfGraphs):
    """Structural Hamming distance: how many edges must be added, removed or turned round to reach the true graph?

    Three numbers: of the graphs, of their skeletons (without direction), and of their transitive closures (ancestors,
    which is what soft interventions identify).

    Misses: what the errors do to predictions. An edge too many is often harmless and a turned one is not, and both
    count the same. It depends on the threshold: look at the average precision too.
    """

    reversal: int = 1  #: the cost of a turned edge; some tables use 2
    threshold: float = 0.5  #: confidences above it are edges
    matched: bool = True  #: codes are matched with factors; if not, code i stands for factor i, as told targets say

    parts: ClassVar[tuple[Part, ...]] = (
        Part("", 0.0, higher_is_better=False),
        Part("skeleton", 0.0, higher_is_better=False),
        Part("closure", 0.0, higher_is_better=False),
    )
    reference: ClassVar[Reference] = Reference(
        key="tsamardinos2006max",
        authors="Tsamardinos, Ioannis and Brown, Laura E. and Aliferis, Constantin F.",
        title="The max-min hill-climbing Bayesian network structure learning algorithm",
        venue="Machine Learning",
        year=2006,
        url="https://doi.org/10.1007/s10994-006-6889-7",
    )
    evidence: ClassVar[tuple[Evidence, ...]] = (Evidence("closed-form", "tests/metrics/test_graphs.py"),)

    def compare(self, estimate: Array, truth: Array) -> tuple[float, ...]:
        return (
            shd(estimate, truth, reversal=self.reversal, threshold=self.threshold),
            skeleton_shd(estimate, truth, threshold=self.threshold),
            closure_shd(estimate, truth, reversal=self.reversal, threshold=self.threshold),
        )


@dataclass(frozen=True, kw_only=True)
class EdgeRecovery(OfGraphs):
    """Edge recovery: which share of the claimed edges is true, and which share of the true ones is claimed?

    Misses: an edge in the wrong direction counts as one that is not there at all.
    """

    threshold: float = 0.5  #: confidences above it are edges
    matched: bool = True  #: codes are matched with factors; if not, code i stands for factor i, as told targets say

    parts: ClassVar[tuple[Part, ...]] = tuple(Part(name) for name in Recovery._fields)
    reference: ClassVar[Reference] = Reference(
        key="varici2025score",
        authors="Varıcı, Burak and Acartürk, Emre and Shanmugam, Karthikeyan and Kumar, Abhishek and Tajer, Ali",
        title="Score-based Causal Representation Learning: Linear and General Transformations",
        venue="Journal of Machine Learning Research",
        year=2025,
        url="https://arxiv.org/abs/2402.00849",
    )
    evidence: ClassVar[tuple[Evidence, ...]] = (Evidence("closed-form", "tests/metrics/test_graphs.py"),)

    def compare(self, estimate: Array, truth: Array) -> tuple[float, ...]:
        return edge_recovery(estimate, truth, threshold=self.threshold)


@dataclass(frozen=True, kw_only=True)
class AveragePrecision(OfGraphs):
    """Average precision of edges: do true edges have more confidence than others, whatever the threshold?

    Misses: whether any threshold can be found without the truth.
    """

    matched: bool = True  #: codes are matched with factors; if not, code i stands for factor i, as told targets say

    reference: ClassVar[Reference] = EdgeRecovery.reference
    evidence: ClassVar[tuple[Evidence, ...]] = (Evidence("closed-form", "tests/metrics/test_graphs.py"),)

    def compare(self, estimate: Array, truth: Array) -> tuple[float, ...]:
        return (average_precision(estimate, truth),)


@dataclass(frozen=True, kw_only=True)
class SID(OfGraphs):
    """Structural intervention distance: how many effects of interventions would the graph have one compute wrongly?

    Misses: edges too many, as long as the order of causes is right. Graphs with cycles have no value.
    """

    threshold: float = 0.5  #: confidences above it are edges
    matched: bool = True  #: codes are matched with factors; if not, code i stands for factor i, as told targets say

    parts: ClassVar[tuple[Part, ...]] = (Part("", 0.0, higher_is_better=False),)
    reference: ClassVar[Reference] = Reference(
        key="peters2015structural",
        authors="Peters, Jonas and Bühlmann, Peter",
        title="Structural Intervention Distance for Evaluating Causal Graphs",
        venue="Neural Computation",
        year=2015,
        url="https://arxiv.org/abs/1306.1043",
    )
    evidence: ClassVar[tuple[Evidence, ...]] = (Evidence("closed-form", "tests/metrics/test_graphs.py"),)

    def compare(self, estimate: Array, truth: Array) -> tuple[float, ...]:
        return (sid(estimate, truth, threshold=self.threshold),)
