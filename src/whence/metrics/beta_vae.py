"""The beta-VAE metric (Z-diff)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from whence.evidence import Evidence, Reference
from whence.metrics.arrays import Array, codes_and_factors
from whence.metrics.groups import Source, Units, from_pool, from_sharing, mean_differences, pooled
from whence.metrics.logistic import logistic
from whence.metrics.metric import Metric
from whence.metrics.probe import Probe
from whence.metrics.sharing import portions


def beta_vae_metric(
    codes: Any,
    factors: Any,
    *,
    pairs: int = 64,
    train: int = 10_000,
    test: int = 5_000,
    study: bool = False,
    seed: int = 0,
) -> float:
    r"""Accuracy of a linear classifier that names the factor which pairs of observations share.

    .. math:: z_{\mathrm{diff}} = \frac{1}{L} \sum_{l=1}^{L} | z_{1,l} - z_{2,l} |

    For each of `train` + `test` points a factor is drawn, then L = `pairs` pairs of codes that share its value. The
    classifier sees standardised differences, so that the scale of a code does not matter; `study=True` leaves them
    as they are, as disentanglement_lib does (codes of small scale then score chance).
    """
    z, v = codes_and_factors(codes, factors)
    rng, units = np.random.default_rng(seed), Units.of(z)
    source = from_pool(units(z), v, rng)
    points, which = differences(source, v.shape[1], train + test, pairs, rng)
    return named(points * units.spread if study else points, which, train=train, study=study)


def differences(source: Source, k: int, points: int, pairs: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """(points, D) mean differences within pairs that share a factor, and (points,) which of the k factors."""
    which = rng.integers(k, size=points)
    parts = [
        (part, mean_differences(source(factor, len(part) * pairs, 2), pairs))
        for factor in range(k)
        for part in portions(np.flatnonzero(which == factor), 2 * pairs)
        if len(part)
    ]
    out = np.empty((points, parts[0][1].shape[1]))
    for part, found in parts:
        out[part] = found
    return out, which


def named(points: Any, which: Any, *, train: int, study: bool = False) -> float:
    """How often a linear classifier, fitted on the first points (M, D), names the factor (M,) of the others."""
    x, y = np.asarray(points, np.float64), np.asarray(which)
    if study:  # disentanglement_lib@86a644d (beta_vae.py): the codes' own units, at most 100 steps of the solver
        import warnings

        from sklearn.exceptions import ConvergenceWarning
        from sklearn.linear_model import LogisticRegression

        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            return float(LogisticRegression().fit(x[:train], y[:train]).score(x[train:], y[train:]))
    seen, label = np.unique(y[:train], return_inverse=True)
    unit = Units.of(x[:train])(x)
    model = logistic(unit[:train], label)
    return float((seen[model.log_p(unit[train:]).argmax(1)] == y[train:]).mean())


@dataclass(frozen=True, kw_only=True)
class BetaVAEMetric(Metric):
    """The beta-VAE metric: can a linear classifier name the factor that pairs of observations share?

    Misses: it is 1 although one of the K factors is not represented at all (the absence is itself recognised), and
    codes may be rotated within what one factor moves.
    """

    pairs: int = 64  #: pairs averaged into one point
    train: int = 10_000  #: points the classifier learns from
    test: int = 5_000  #: points it is scored on
    study: bool = False  #: differences in the codes' own units, as in disentanglement_lib
    fresh: bool = False  #: draw and encode new observations for every pair, instead of pairing those of the pool

    reference: ClassVar[Reference] = Reference(
        key="higgins2017beta",
        authors="Higgins, Irina and Matthey, Loic and Pal, Arka and Burgess, Christopher and Glorot, Xavier and "
        "Botvinick, Matthew and Mohamed, Shakir and Lerchner, Alexander",
        title="beta-VAE: Learning Basic Visual Concepts with a Constrained Variational Framework",
        venue="International Conference on Learning Representations",
        year=2017,
        url="https://openreview.net/forum?id=Sy2fzU9gl",
    )
    evidence: ClassVar[tuple[Evidence, ...]] = (
        Evidence("reference-checked", "tests/metrics/test_groups.py"),
        Evidence("closed-form", "tests/metrics/test_metrics.py"),
        Evidence("benchmarked", "benchmarks/beta_vae_metric.md"),
    )

    @property
    def resamples(self) -> bool:  # type: ignore[override]
        return not self.fresh

    def measure(self, probe: Probe) -> float:
        rng, (z, units) = probe.rng("beta_vae"), pooled(probe)
        source = from_sharing(probe.fresh("beta_vae"), units) if self.fresh else from_pool(z, probe.pool.v, rng)
        k = len(probe.world.factors)
        points, which = differences(source, k, self.train + self.test, self.pairs, rng)
        return named(points * units.spread if self.study else points, which, train=self.train, study=self.study)
