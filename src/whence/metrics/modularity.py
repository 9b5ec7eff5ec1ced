"""Modularity."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from whence.evidence import Evidence, Reference
from whence.metrics.arrays import Unmeasurable
from whence.metrics.information import Information, mutual_information, varying
from whence.metrics.metric import Metric
from whence.metrics.noise import evident, evident_of
from whence.metrics.probe import Probe


def modularity(codes: Any, factors: Any, *, bins: int = 20, study: bool = False) -> float:
    r"""Mean over codes of how far each informs of one factor only, as in `modularity_from`.

    Codes that tell nothing of any factor (`informative`) take no part, and information is corrected for its bias: in
    small samples noise tells more of a factor with more values, and scores about 2/3 otherwise. If no code tells
    anything, the result is 0. `study=True` counts every code, and cuts codes and estimates information as
    disentanglement_lib does.
    """
    if study:
        return modularity_from(mutual_information(codes, factors, bins=bins, study=True).mutual)
    return of_active(evident(codes, factors, bins=bins))


def modularity_from(mutual: Any) -> float:
    r"""The metric from a matrix (D, K) of information, over all codes; one that knows nothing counts 0.

    .. math:: \frac{1}{D} \sum_j \Bigl( 1 - \frac{\sum_{k \ne k_j} m_{jk}^2}{(K - 1)\, m_{j k_j}^2} \Bigr),
              \qquad k_j = \arg\max_k m_{jk}
    """
    squared = np.square(np.asarray(mutual, np.float64))
    d, k = squared.shape
    if k < 2:
        raise Unmeasurable("Modularity needs two factors: a code cannot mix what is alone. Give more factors.")
    most = squared.max(1)
    others = np.divide(squared.sum(1) - most, most * (k - 1), out=np.ones(d), where=most > 0)
    return float((1 - others).mean())


def of_active(information: Information) -> float:
    """The metric over codes that know something."""
    varying(information.of_factors)
    active = information.mutual.any(1)
    return modularity_from(information.mutual[active] if active.any() else information.mutual)


@dataclass(frozen=True, kw_only=True)
class Modularity(Metric):
    """Modularity: does each code inform of one factor only?

    Misses: whether a factor is held by one code or by many, or by none: a single code of a single factor is perfectly
    modular.
    """

    bins: int = 20  #: of each code's histogram
    study: bool = False  #: every code takes part, also noise, with bins of equal width, as in disentanglement_lib

    reference: ClassVar[Reference] = Reference(
        key="ridgeway2018learning",
        authors="Ridgeway, Karl and Mozer, Michael C.",
        title="Learning Deep Disentangled Embeddings with the F-Statistic Loss",
        venue="Advances in Neural Information Processing Systems",
        year=2018,
        url="https://arxiv.org/abs/1802.05312",
    )
    evidence: ClassVar[tuple[Evidence, ...]] = (Evidence("reference-checked", "tests/metrics/test_information.py"),)

    def measure(self, probe: Probe) -> float:
        if self.study:
            return modularity_from(probe.information(bins=self.bins, study=True).mutual)
        return of_active(evident_of(probe, self.bins))
