"""JEMMIG: joint entropy minus mutual information gap."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from whence.evidence import Evidence, Reference
from whence.metrics.information import Information, mutual_information, varying
from whence.metrics.metric import Metric
from whence.metrics.mig import gaps
from whence.metrics.probe import Probe


def jemmig(codes: Any, factors: Any, *, bins: int = 20, study: bool = False, unbiased: bool = False) -> float:
    r"""Mean over factors of 1 less the joint entropy with the best code, without the gap, as a share of its bound.

    .. math:: 1 - \frac{H(z_{j^*}, v_k) - I(z_{j^*}; v_k) + \max_{j \ne j^*} I(z_j; v_k)}{H(z_{j^*}) + H(v_k)},
              \qquad j^* = \arg\max_j I(z_j; v_k)

    The numerator is the paper's JEMMIG, in nats, 0 at best. This is its normalised form, 1 at best and 0 for a code
    that tells nothing. The paper divides by :math:`H(v_k) + \log(\text{bins})`, which is the same for codes that fill
    their bins; a code of few values, even a constant one, would gain by telling little. `study=True` divides by that,
    with bins of equal width. Information is that of `mutual_information`, which has the same options.
    """
    information = mutual_information(codes, factors, bins=bins, study=study, unbiased=unbiased)
    return normalised(information, np.log(bins) if study else None)


def normalised(information: Information, largest: float | None = None) -> float:
    """The metric from a matrix of information; `largest`: the entropy a code can have, by default the one it has."""
    mutual, of_factors = information.mutual, varying(information.of_factors)
    of_best = information.of_codes[mutual.argmax(0)]
    joint = of_best + of_factors - mutual.max(0)
    return float((1 - (joint - gaps(mutual)) / (of_factors + (of_best if largest is None else largest))).mean())


@dataclass(frozen=True, kw_only=True)
class JEMMIG(Metric):
    """JEMMIG: is each factor held by one code, which holds nothing else, and by no other code?

    Misses: it asks for codes that tell nothing but their factor, so noise within a code, or finer bins than a factor
    has values, cost it.
    """

    bins: int = 20  #: of each code's histogram
    study: bool = False  #: as published: normalised by the logarithm of `bins`, which are of equal width
    unbiased: bool = False  #: correct each entropy for the number of classes (Miller and Madow)

    saturates: ClassVar[bool] = True
    reference: ClassVar[Reference] = Reference(
        key="do2020theory",
        authors="Do, Kien and Tran, Truyen",
        title="Theory and Evaluation Metrics for Learning Disentangled Representations",
        venue="International Conference on Learning Representations",
        year=2020,
        url="https://arxiv.org/abs/1908.09961",
    )
    evidence: ClassVar[tuple[Evidence, ...]] = (Evidence("closed-form", "tests/metrics/test_information.py"),)

    def measure(self, probe: Probe) -> float:
        information = probe.information(bins=self.bins, study=self.study, unbiased=self.unbiased)
        return normalised(information, np.log(self.bins) if self.study else None)
