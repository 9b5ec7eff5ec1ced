"""MIG-sup: the mutual information gap of codes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from whence.evidence import Evidence, Reference
from whence.metrics.information import Information, mutual_information
from whence.metrics.metric import Metric
from whence.metrics.mig import gaps
from whence.metrics.noise import evident, evident_of
from whence.metrics.probe import Probe


def mig_sup(codes: Any, factors: Any, *, bins: int = 20, study: bool = False) -> float:
    r"""Mean over codes of the gap between the two factors a code knows best, as shares of their entropies.

    .. math:: \frac{1}{D} \sum_j \Bigl( \frac{I(z_j; v_{k^{(j)}})}{H(v_{k^{(j)}})}
              - \max_{k \ne k^{(j)}} \frac{I(z_j; v_k)}{H(v_k)} \Bigr)

    The mean is over the codes that tell something (`informative`), 0 if none does, and information is corrected for
    its bias. The authors leave out codes whose means have a variance below 0.01, which depends on their units.
    `study=True` counts every code, with bins of equal width and no correction.
    """
    if study:
        return float(of_codes(mutual_information(codes, factors, bins=bins, study=True)).mean())
    return of_active(evident(codes, factors, bins=bins))


def of_codes(information: Information) -> np.ndarray:
    """(D,): each code's gap."""
    return gaps(information.shared().T)


def of_active(information: Information) -> float:
    active = information.mutual.any(1)
    return float(of_codes(information)[active].mean()) if active.any() else 0.0


@dataclass(frozen=True, kw_only=True)
class MIGSup(Metric):
    """MIG-sup: does each code hold one factor, and no other?

    Misses: whether another code holds the same factor, and factors that no code holds. It is meant beside MIG.
    """

    bins: int = 20  #: of each code's histogram
    study: bool = False  #: every code counts, also noise, with bins of equal width

    saturates: ClassVar[bool] = True
    reference: ClassVar[Reference] = Reference(
        key="li2020progressive",
        authors="Li, Zhiyuan and Murkute, Jaideep Vitthal and Gyawali, Prashnna Kumar and Wang, Linwei",
        title="Progressive Learning and Disentanglement of Hierarchical Representations",
        venue="International Conference on Learning Representations",
        year=2020,
        url="https://arxiv.org/abs/2002.10549",
    )
    evidence: ClassVar[tuple[Evidence, ...]] = (Evidence("closed-form", "tests/metrics/test_information.py"),)

    def measure(self, probe: Probe) -> float:
        if self.study:
            return float(of_codes(probe.information(bins=self.bins, study=True)).mean())
        return of_active(evident_of(probe, self.bins))
