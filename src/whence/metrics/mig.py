"""The mutual information gap."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from whence.evidence import Evidence, Reference
from whence.metrics.arrays import Array, as_array, codes_and_factors
from whence.metrics.information import Information, classes, entropy, mutual_information
from whence.metrics.metric import Metric
from whence.metrics.probe import Probe
from whence.representation import HasPosterior


def mig(codes: Any, factors: Any, *, bins: int = 20, study: bool = False, unbiased: bool = False) -> float:
    r"""Mean over factors of the gap between the two most informative codes, as a share of the factor's entropy.

    .. math:: \frac{1}{K} \sum_k \frac{1}{H(v_k)} \Bigl( I(z_{j^{(k)}}; v_k) - \max_{j \ne j^{(k)}} I(z_j; v_k) \Bigr)

    Information is that of `mutual_information`, which has the same options. A single code has gap I(z; v).
    """
    return gap(mutual_information(codes, factors, bins=bins, study=study, unbiased=unbiased))


def gap(information: Information) -> float:
    """The metric from a matrix of information."""
    return float(gaps(information.shared()).mean())


def gaps(table: Array) -> Array:
    """The greatest less the second greatest of each column, which is 0 where there is but one row."""
    ranked = np.sort(np.vstack([table, np.zeros_like(table[:1])]), axis=0)
    return ranked[-1] - ranked[-2]


@dataclass(frozen=True, kw_only=True)
class MIG(Metric):
    """Mutual information gap: is each factor held by one code, and by no other?

    Misses: why it is low. Noise, mixing, and a factor that is held by two codes look alike.
    """

    bins: int = 20  #: of each code's histogram
    study: bool = False  #: bins of equal width, as in disentanglement_lib: one outlier can empty all but one
    unbiased: bool = False  #: correct each entropy for the number of classes (Miller and Madow)

    saturates: ClassVar[bool] = True
    reference: ClassVar[Reference] = Reference(
        key="chen2018isolating",
        authors="Chen, Ricky T. Q. and Li, Xuechen and Grosse, Roger and Duvenaud, David",
        title="Isolating Sources of Disentanglement in Variational Autoencoders",
        venue="Advances in Neural Information Processing Systems",
        year=2018,
        url="https://arxiv.org/abs/1802.04942",
    )
    evidence: ClassVar[tuple[Evidence, ...]] = (
        Evidence("reference-checked", "tests/metrics/test_information.py"),
        Evidence("closed-form", "tests/metrics/test_metrics.py"),
    )

    def measure(self, probe: Probe) -> float:
        return gap(probe.information(bins=self.bins, study=self.study, unbiased=self.unbiased))


def mig_posterior(mean: Any, scale: Any, factors: Any, *, bins: int = 20, samples: int = 1_000, seed: int = 0) -> float:
    r"""The same gap with the information of :math:`q(z \mid x)` in place of histograms, as in the paper.

    `mean` and `scale` (N, D) are of each observation's Gaussian; see `posterior_information`.
    """
    return gap(posterior_information(mean, scale, factors, bins=bins, samples=samples, seed=seed))


def posterior_information(
    mean: Any, scale: Any, factors: Any, *, bins: int = 20, samples: int = 1_000, seed: int = 0
) -> Information:
    r"""Mutual information and entropies, of codes differential ones, of the aggregated posterior, in nats.

    .. math:: I(z_j; v_k) = \mathbb{E} \bigl[ \log q(z_j \mid v_k) - \log q(z_j) \bigr], \quad
              q(z_j) = \frac{1}{N} \sum_n q(z_j \mid x_n), \quad
              q(z_j \mid v_k) = \frac{1}{|\{n : v_{nk} = v_k\}|} \sum_{n : v_{nk} = v_k} q(z_j \mid x_n)

    with the mean over `samples` codes drawn from :math:`q(z \mid x_n)`. The N observations are taken as all there are:
    posteriors much narrower than the distance between neighbours identify the observation, and with it every factor.
    Chen et al. draw 10,000 codes for each entropy; both here are of the same codes, and differ with less noise. A
    factor whose values hardly recur is cut into `bins` classes.
    """
    m, v = codes_and_factors(mean, factors)
    s = as_array(scale)
    if s.shape != m.shape or not (np.isfinite(s).all() and (s > 0).all()):
        raise ValueError(
            f"A posterior has a mean and a positive standard deviation for each code, got means {m.shape} and scales "
            f"{s.shape}{'' if s.shape != m.shape else ', not all of them positive'}. Codes without noise have `mig`."
        )
    m, s, rng = m.astype(np.float64, copy=False), s.astype(np.float64, copy=False), np.random.default_rng(seed)
    n, d = m.shape
    rows = rng.permutation(n)[:samples] if samples <= n else rng.integers(n, size=samples)
    z = m[rows] + s[rows] * rng.standard_normal((len(rows), d))
    labels = classes(v, bins)
    whole = log_mixture(z, m, s)
    mutual = np.empty((d, v.shape[1]))
    for k, label in enumerate(labels.T):
        within = np.empty_like(whole)
        for value in np.unique(label[rows]):
            ours, support = label[rows] == value, label == value
            within[ours] = log_mixture(z[ours], m[support], s[support])
        mutual[:, k] = (within - whole).mean(0)
    return Information(mutual.clip(0), -whole.mean(0), np.array([entropy(np.bincount(label)) for label in labels.T]))


def log_mixture(z: Array, mean: Array, scale: Array) -> Array:
    """(S, D): the logarithm of each code's mean density at z, code by code."""
    out, n = np.empty_like(z), len(mean)
    each = max(1, 300_000 // n)
    for j, (m, s) in enumerate(zip(mean.T, scale.T, strict=True)):
        root = 1 / (np.sqrt(2) * s)
        shift, height = m * root, -np.log(s)
        for first in range(0, len(z), each):
            t = z[first : first + each, j, None] * root
            t -= shift
            np.subtract(height, np.square(t, out=t), out=t)
            top = t.max(1, keepdims=True)
            t -= top
            out[first : first + each, j] = np.log(np.exp(t, out=t).sum(1)) + top[:, 0]
    return out - np.log(n) - np.log(2 * np.pi) / 2


@dataclass(frozen=True, kw_only=True)
class MIGPosterior(Metric):
    """Mutual information gap of q(z|x): is each factor held by one code, its noise included, and by no other?

    Misses: what narrow posteriors hide. With N observations and posteriors narrower than the distance between them,
    every code seems to know every factor; the chance level shows by how much.
    """

    bins: int = 20  #: classes of a factor whose values hardly recur
    samples: int = 1_000  #: codes drawn from the posteriors

    asks: ClassVar[tuple[type, ...]] = (HasPosterior,)
    reference: ClassVar[Reference] = MIG.reference
    evidence: ClassVar[tuple[Evidence, ...]] = (Evidence("closed-form", "tests/metrics/test_information.py"),)

    def measure(self, probe: Probe) -> float:
        seed = int(probe.rng("mig_posterior").integers(2**31))
        mean, scale = probe.posterior
        return mig_posterior(mean, scale, probe.pool.v, bins=self.bins, samples=self.samples, seed=seed)
