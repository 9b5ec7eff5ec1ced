"""Causal graphs of codes beside those of factors. A[i, j]: i causes j; the diagonal is not looked at."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import Any, ClassVar, NamedTuple

import numpy as np

from whence.metrics.arrays import Array, Unmeasurable, as_array
from whence.metrics.metric import Metric
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
    redraws: ClassVar[bool] = True
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
