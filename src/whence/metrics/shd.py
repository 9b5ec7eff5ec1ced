"""Structural Hamming distance: of graphs, of their skeletons, and of their transitive closures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from whence.evidence import Evidence, Reference
from whence.metrics.arrays import Array
from whence.metrics.graphs import OfGraphs, closure, graphs
from whence.metrics.metric import Part


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
