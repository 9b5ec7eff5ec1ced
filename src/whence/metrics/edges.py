"""Edges of a causal graph, one by one: precision, recall, direction, and the order of their confidences."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from whence.evidence import Evidence, Reference
from whence.metrics.arrays import Array, Unmeasurable
from whence.metrics.graphs import OfGraphs, confidences, graphs
from whence.metrics.metric import Part


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
