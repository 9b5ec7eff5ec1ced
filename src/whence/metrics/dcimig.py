"""DCIMIG."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from whence.evidence import Evidence, Reference
from whence.metrics.information import Information, mutual_information, varying
from whence.metrics.metric import Metric
from whence.metrics.mig import gaps
from whence.metrics.probe import Probe


def dcimig(codes: Any, factors: Any, *, bins: int = 20, study: bool = False, unbiased: bool = False) -> float:
    r"""The share of all factors' entropy that some code holds, less what that code holds of its second factor.

    .. math:: \frac{\sum_k \max_{j : k_j = k} g_j}{\sum_k H(v_k)}, \qquad
              g_j = I(z_j; v_{k_j}) - \max_{k \ne k_j} I(z_j; v_k), \quad k_j = \arg\max_k I(z_j; v_k)

    A factor that is no code's first counts 0. Information is that of `mutual_information`, which has the same options.
    """
    return owned(mutual_information(codes, factors, bins=bins, study=study, unbiased=unbiased))


def owned(information: Information) -> float:
    """The metric from a matrix of information."""
    mutual, entropies = information.mutual, varying(information.of_factors)
    held = np.zeros_like(entropies)
    np.maximum.at(held, mutual.argmax(1), gaps(mutual.T))
    return float(held.sum() / entropies.sum())


@dataclass(frozen=True, kw_only=True)
class DCIMIG(Metric):
    """DCIMIG: how much of all factors is held by codes that each hold one factor alone?

    Misses: a factor that is held by two codes, as long as one of them holds nothing else.
    """

    bins: int = 20  #: of each code's histogram
    study: bool = False  #: bins of equal width
    unbiased: bool = False  #: correct each entropy for the number of classes (Miller and Madow)

    saturates: ClassVar[bool] = True
    reference: ClassVar[Reference] = Reference(
        key="sepliarskaia2019how",
        authors="Sepliarskaia, Anna and Kiseleva, Julia and de Rijke, Maarten",
        title="How to Not Measure Disentanglement",
        venue="arXiv:1910.05587",
        year=2019,
        url="https://arxiv.org/abs/1910.05587",
    )
    evidence: ClassVar[tuple[Evidence, ...]] = (Evidence("closed-form", "tests/metrics/test_information.py"),)

    def measure(self, probe: Probe) -> float:
        return owned(probe.information(bins=self.bins, study=self.study, unbiased=self.unbiased))
