"""The FactorVAE metric (Z-min variance)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from torch import Tensor

from whence.evidence import Evidence, Reference
from whence.metrics.arrays import Array, codes_and_factors
from whence.metrics.groups import Groups, Source, Units, from_pool, from_sharing, pooled, variances
from whence.metrics.metric import Metric
from whence.metrics.probe import Probe
from whence.metrics.sharing import portions


def factor_vae_metric(
    codes: Any,
    factors: Any,
    *,
    size: int = 64,
    train: int = 10_000,
    test: int = 5_000,
    inactive: float = 0.05,
    study: bool = False,
    seed: int = 0,
) -> float:
    r"""Accuracy of a majority vote that names the shared factor from the code that varies least.

    .. math:: d^* = \arg\min_d \widehat{\mathrm{Var}}_l \bigl( z_d^{(l)} / s_d \bigr)

    over groups of `size` codes that share a factor, :math:`s_d` the standard deviation over all data. Dimensions
    whose standard deviation is at most `inactive` times the largest one take no part; with `study=True` the
    threshold is absolute, as in disentanglement_lib's study, and codes that do not vary pass a threshold of 0 and win.
    """
    z, v = codes_and_factors(codes, factors)
    rng, units = np.random.default_rng(seed), Units.of(z)
    ratios, which = relative_variances(from_pool(units(z), v, rng), v.shape[1], train + test, size, rng)
    return vote(ratios, which, units.spread, train=train, inactive=inactive, study=study).accuracy


class Vote(NamedTuple):
    accuracy: float  #: on the groups that did not vote
    voting: float  #: on those that did
    votes: Array  #: (K, active codes)


def majority_vote(
    batches: Any, which: Any, spread: Any, *, train: int, inactive: float = 0.05, study: bool = False
) -> Vote:
    """The metric on given batches (M, size, D) of codes that share factor which (M,); the first `train` of them vote.

    `spread` (D,) is each code's standard deviation over all data. The options are those of `factor_vae_metric`; in the
    study's terms variances have the rounding of disentanglement_lib too, which decides between codes that hold still
    both.
    """
    x, shared, s = *map(whole, (batches, which)), np.asarray(spread, np.float64)
    if x.ndim != 3 or shared.shape != x.shape[:1] or s.shape != x.shape[2:] or not 0 < train < len(x):
        raise ValueError(
            "A majority vote needs batches (M, size, D), the shared factor of each (M,) and the codes' standard "
            f"deviations (D,), and between 1 and M - 1 batches that vote, got {x.shape}, {shared.shape}, {s.shape} and "
            f"train={train}."
        )
    m, size, d = x.shape
    local = (
        x.var(1, ddof=1)
        if study
        else variances(Groups(x.reshape(m * size, d).astype(np.float64), np.arange(m * size).reshape(m, size).T))
    )
    ratios = local / np.where(s > 0, s, 1) ** 2
    return vote(ratios, shared, s, train=train, inactive=inactive, study=study)


def whole(a: Any) -> Array:
    """NumPy or torch, of any number of dimensions."""
    return a.detach().cpu().numpy() if isinstance(a, Tensor) else np.asarray(a)


def relative_variances(source: Source, k: int, groups: int, size: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """(groups, D) variances within groups that share a factor, and (groups,) which of the k factors."""
    which = rng.integers(k, size=groups)
    parts = [
        (part, variances(source(factor, len(part), size)))
        for factor in range(k)
        for part in portions(np.flatnonzero(which == factor), size)
        if len(part)
    ]
    out = np.empty((groups, parts[0][1].shape[1]))
    for part, found in parts:
        out[part] = found
    return out, which


def vote(ratios: Array, which: Array, spread: Array, *, train: int, inactive: float, study: bool) -> Vote:
    """Each group votes for the code that varies least; a code then stands for the factor most of its groups share."""
    k = int(which.max()) + 1
    active = np.flatnonzero(spread >= inactive if study else spread > inactive * spread.max())
    if not len(active):
        return Vote(0.0, 0.0, np.zeros((k, 0), np.int64))  # disentanglement_lib@86a644d (factor_vae.py)
    # There a code that never varies is 0 / 0, and NaN wins the argmin. By default it is not among the active ones.
    least = np.where(spread > 0, ratios, -1)[:, active].argmin(1)
    votes = np.zeros((k, len(active)), np.int64)
    np.add.at(votes, (which[:train], least[:train]), 1)
    right = votes.argmax(0)[least] == which
    return Vote(float(right[train:].mean()), float(right[:train].mean()), votes)


@dataclass(frozen=True, kw_only=True)
class FactorVAEMetric(Metric):
    """The FactorVAE metric: does holding a factor still hold one code still, and always the same one?

    Unlike the beta-VAE metric it notices when a factor is missing.

    Misses: how much of a factor its code tells, as long as it varies least; and codes that repeat one another.
    """

    size: int = 64  #: observations in a group
    train: int = 10_000  #: groups that vote
    test: int = 5_000  #: groups the vote is scored on
    inactive: float = 0.05  #: codes whose standard deviation is a smaller share of the largest take no part
    study: bool = False  #: `inactive` is absolute, as in disentanglement_lib
    fresh: bool = False  #: draw and encode new observations for every group, instead of grouping those of the pool

    reference: ClassVar[Reference] = Reference(
        key="kim2018disentangling",
        authors="Kim, Hyunjik and Mnih, Andriy",
        title="Disentangling by Factorising",
        venue="International Conference on Machine Learning",
        year=2018,
        url="https://arxiv.org/abs/1802.05983",
    )
    evidence: ClassVar[tuple[Evidence, ...]] = (
        Evidence("reference-checked", "tests/metrics/test_groups.py"),
        Evidence("closed-form", "tests/metrics/test_metrics.py"),
    )

    @property
    def resamples(self) -> bool:  # type: ignore[override]
        return not self.fresh

    def measure(self, probe: Probe) -> float:
        rng, (z, units) = probe.rng("factor_vae"), pooled(probe)
        source = from_sharing(probe.fresh("factor_vae"), units) if self.fresh else from_pool(z, probe.pool.v, rng)
        k = len(probe.world.factors)
        ratios, which = relative_variances(source, k, self.train + self.test, self.size, rng)
        return vote(ratios, which, units.spread, train=self.train, inactive=self.inactive, study=self.study).accuracy
