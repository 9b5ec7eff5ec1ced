"""Structural intervention distance: which effects of interventions come out wrong from an estimated graph?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from whence.evidence import Evidence, Reference
from whence.metrics.arrays import Array, Unmeasurable
from whence.metrics.graphs import OfGraphs, closure, graphs, reach
from whence.metrics.metric import Part


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
