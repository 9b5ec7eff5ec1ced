"""How far codes are from independent of one another. Without the truth: independent codes may know nothing."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from whence.evidence import Evidence, Reference
from whence.metrics.arrays import Array, Unmeasurable, codes_and_factors
from whence.metrics.information import entropy, equal_frequencies, equal_widths
from whence.metrics.metric import Metric, Part
from whence.metrics.probe import Probe
from whence.metrics.sharing import portions


def gaussian_total_correlation(codes: Any, *, study: bool = False) -> float:
    r"""Total correlation, in nats, of a Gaussian with the codes' correlations R.

    .. math:: \mathrm{KL}\Bigl( \mathcal{N}(0, \Sigma) \,\Big\|\, \textstyle\prod_j \mathcal{N}(0, \Sigma_{jj}) \Bigr)
              = -\tfrac{1}{2} \log \det R

    Codes that do not vary are left out. It is infinite if one code is a linear function of others: `Unmeasurable`
    then says so, where disentanglement_lib gives infinity, NaN or a rounding error. `study=True` gives the first and
    the last of these, from all codes.
    """
    if study:
        return from_determinant(codes)
    z = varying(codes)
    c = covariance(z)
    scale = np.sqrt(np.diag(c))
    eigenvalues = np.linalg.eigvalsh(c / np.outer(scale, scale))
    rounding = max(np.finfo(np.float64).eps, np.finfo(z.dtype).eps ** 2)
    if eigenvalues[0] <= len(c) * rounding * eigenvalues[-1]:
        raise Unmeasurable(
            f"The total correlation of these {len(c)} codes is infinite: a linear combination of them does not vary "
            f"over {len(z)} rows. Leave out codes that repeat others, or give more rows."
        )
    return float(-0.5 * np.log(eigenvalues).sum())


def from_determinant(codes: Any) -> float:
    """Gaussian total correlation as disentanglement_lib has it."""
    # disentanglement_lib@86a644d (unsupervised_metrics.py)
    c = np.atleast_2d(np.cov(codes_and_factors(codes, codes).z.T))
    if not np.diag(c).all():
        raise Unmeasurable("In the study's terms it is NaN if a code does not vary. Leave these codes out.")
    return float(0.5 * (np.log(np.diag(c)).sum() - np.linalg.slogdet(c)[1]))


def gaussian_wasserstein_correlation(codes: Any, *, normalised: bool = False, study: bool = False) -> float:
    r"""Squared Wasserstein distance between Gaussians with the codes' covariance C and with its diagonal D alone.

    .. math:: W_2^2 = 2 \operatorname{tr} C - 2 \operatorname{tr} \bigl( D^{1/2} C D^{1/2} \bigr)^{1/2}

    Finite for any codes, in their squared units. `normalised` divides by :math:`\operatorname{tr} C`. `study=True`
    takes the root of the matrix D C, as disentanglement_lib does: the same number but for rounding, of which there is
    more if codes are linear functions of others.
    """
    if study:
        from scipy.linalg import LinAlgWarning, sqrtm

        c = np.atleast_2d(np.cov(varying(codes).T))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", LinAlgWarning)  # of a singular matrix, whose root is less exact
            found = 2 * np.trace(c) - 2 * float(np.trace(sqrtm(c * np.diag(c)[:, None])).real)
        return float(found / np.trace(c) if normalised else found)
    c = covariance(varying(codes))
    scale = np.sqrt(np.diag(c))
    root = np.sqrt(np.linalg.eigvalsh(scale[:, None] * c * scale).clip(0)).sum()
    distance = max(2 * (np.trace(c) - root), 0.0)
    return float(distance / np.trace(c) if normalised else distance)


def code_information(codes: Any, *, bins: int = 20, study: bool = False) -> float:
    r"""Mean over ordered pairs of different codes of their mutual information :math:`I(z_i; z_j)`, in nats.

    By histograms as in `mutual_information`, corrected for their bias, without which independent codes seem to share
    (bins - 1)^2 / 2N, and over the codes that vary. `study=True`: bins of equal width, no correction, all codes, as in
    disentanglement_lib.
    """
    z = codes_and_factors(codes, codes).z if study else varying(codes)
    d = z.shape[1]
    if d < 2:
        raise Unmeasurable(f"Information between codes needs two codes that vary, got {d}.")
    cut, small = equal_widths if study else equal_frequencies, np.min_scalar_type(bins * bins)
    cells = [cut(z[:, j : j + 1], bins)[:, 0].astype(small) for j in range(d)]
    single = [entropy(np.bincount(a), not study) for a in cells]
    total = 0.0
    for i in range(d):
        row = cells[i] * small.type(bins)
        total += sum(single[i] + single[j] - entropy(np.bincount(row + cells[j]), not study) for j in range(i))
    return max(2 * total / (d * (d - 1)), 0.0)


def varying(codes: Any) -> Array:
    """The codes that vary."""
    z = codes_and_factors(codes, codes).z
    moves = z.max(0) > z.min(0)
    if not moves.any():
        raise Unmeasurable("No code varies: there is nothing that could depend on anything.")
    return z if moves.all() else z[:, moves]


def covariance(z: Array) -> Array:
    """(D, D), in double precision, by blocks of rows."""
    mean = z.mean(0, dtype=np.float64)
    parts = (part - mean for part in portions(z, z.shape[1]))
    return sum(part.T @ part for part in parts) / (len(z) - 1)


STUDY = Reference(
    key="locatello2019challenging",
    authors="Locatello, Francesco and Bauer, Stefan and Lucic, Mario and Raetsch, Gunnar and Gelly, Sylvain and "
    "Schoelkopf, Bernhard and Bachem, Olivier",
    title="Challenging Common Assumptions in the Unsupervised Learning of Disentangled Representations",
    venue="International Conference on Machine Learning",
    year=2019,
    url="https://arxiv.org/abs/1811.12359",
)
CHECKED = (Evidence("reference-checked", "tests/metrics/test_unsupervised.py"),)


@dataclass(frozen=True, kw_only=True)
class GaussianTotalCorrelation(Metric):
    """Gaussian total correlation: are the codes uncorrelated?

    Misses: all but second moments, and whether the codes stand for anything: noise is at its best.
    """

    parts: ClassVar[tuple[Part, ...]] = (Part("", 0.0, higher_is_better=False),)
    compares: ClassVar[bool] = False
    reference: ClassVar[Reference] = STUDY
    evidence: ClassVar[tuple[Evidence, ...]] = CHECKED

    def measure(self, probe: Probe) -> float:
        return gaussian_total_correlation(probe.pool.z)


@dataclass(frozen=True, kw_only=True)
class GaussianWassersteinCorrelation(Metric):
    """Gaussian Wasserstein correlation: how far must the codes be moved to be uncorrelated?

    Misses: all but second moments, and whether the codes stand for anything: noise is at its best.
    """

    parts: ClassVar[tuple[Part, ...]] = (
        Part("", 0.0, higher_is_better=False),
        Part("normalised", 0.0, higher_is_better=False),
    )
    compares: ClassVar[bool] = False
    reference: ClassVar[Reference] = STUDY
    evidence: ClassVar[tuple[Evidence, ...]] = CHECKED

    def measure(self, probe: Probe) -> tuple[float, float]:
        z = probe.pool.z
        return gaussian_wasserstein_correlation(z), gaussian_wasserstein_correlation(z, normalised=True)


@dataclass(frozen=True, kw_only=True)
class CodeInformation(Metric):
    """Information between codes: do codes tell of one another, in pairs?

    Misses: whether the codes stand for anything: noise is at its best.
    """

    bins: int = 20  #: of each code's histogram
    study: bool = False  #: bins of equal width, no correction for bias, all codes, as in disentanglement_lib

    parts: ClassVar[tuple[Part, ...]] = (Part("", 0.0, higher_is_better=False),)
    compares: ClassVar[bool] = False
    reference: ClassVar[Reference] = STUDY
    evidence: ClassVar[tuple[Evidence, ...]] = CHECKED

    def measure(self, probe: Probe) -> float:
        return code_information(probe.pool.z, bins=self.bins, study=self.study)
