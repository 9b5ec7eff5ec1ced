"""Unsupervised disentanglement ranking: does each code of a model stand for one of another model, and for one only?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from whence.evidence import Evidence, Reference
from whence.metrics.arrays import Array, as_array
from whence.metrics.graphs import correlations
from whence.metrics.probe import Probe
from whence.metrics.ranking import Ranking

#: Codes of several models -> (all their dimensions, all their dimensions) similarities, not negative. Block (i, j) says
#: how dimensions of model i (rows) stand for those of model j (columns).
Similarity = Callable[[Sequence[Array]], Array]


def spearman_similarity(codes: Sequence[Array]) -> Array:
    """Absolute rank correlations; a constant dimension has none with any."""
    from scipy.stats import rankdata

    ranks = np.hstack([rankdata(z, axis=0) for z in codes])
    return np.abs(correlations(ranks, ranks).r)


def lasso_similarity(codes: Sequence[Array], *, alpha: float = 0.1, sweeps: int = 10_000) -> Array:
    r"""Absolute weights w of the lasso from the standardised codes of a model to each standardised one of another.

    .. math:: \min_w \frac{1}{2N} \|z'_b - z w\|^2 + \alpha \|w\|_1

    Solved to its end by coordinate descent on correlations, for all targets at once; it needs no seed and, beyond one
    pass over the rows, no rows. (disentanglement_lib@86a644d, udr.py, stops at scikit-learn's tolerance of 1e-4.)
    """
    whole = np.hstack(codes)
    r = correlations(whole, whole).r
    ends = np.cumsum([z.shape[1] for z in codes])
    own = [slice(end - z.shape[1], end) for z, end in zip(codes, ends, strict=True)]
    return np.vstack([np.abs(lasso(r[s, s], r[s], alpha, sweeps)) for s in own])


def lasso(among: Array, targets: Array, alpha: float, sweeps: int) -> Array:
    """(D, T) weights from the features' correlations (D, D) and those with the targets (D, T)."""
    w, rest = np.zeros_like(targets), targets.copy()
    for _ in range(sweeps):
        moved = 0.0
        for j in np.flatnonzero(among.diagonal() > 0):
            pull = rest[j] + among[j, j] * w[j]
            step = np.sign(pull) * (np.abs(pull) - alpha).clip(0) / among[j, j] - w[j]
            w[j] += step
            rest -= np.outer(among[:, j], step)
            moved = max(moved, np.abs(step).max(initial=0))
        if moved < 1e-10:
            return w
    raise ArithmeticError(f"The lasso has not settled after {sweeps:,} sweeps (it still moves by {moved:.1g}).")


class Agreement(NamedTuple):
    models: Array  #: (M,) the median over the other models
    pairs: Array  #: (M, M) of models i and j; 0 on the diagonal, which is not looked at


def udr(
    codes: Sequence[Any],
    *,
    kl: Sequence[Any] | None = None,
    similarity: Similarity = lasso_similarity,
    informative: float = 0.01,
    study: bool = False,
) -> Agreement:
    r"""Unsupervised disentanglement ranking: does each dimension of a model stand for one of another model, and for
    one only? Between 0 and 1, higher is better.

    .. math:: \mathrm{UDR}_{ij} = \frac{1}{d_i + d_j} \Bigl(
        \sum_b \frac{\max_a R_{ab}^2}{\sum_a R_{ab}} + \sum_a \frac{\max_b R_{ab}^2}{\sum_b R_{ab}} \Bigr),
        \quad \mathrm{UDR}_i = \mathrm{median}_{j \ne i} \, \mathrm{UDR}_{ji}

    with R the similarity of the :math:`d_i` and :math:`d_j` informative dimensions of models i and j: those whose mean
    divergence from the prior is above `informative` nats, or all that vary if `kl` is not given. `codes` are (N, D)
    for each model, of the same N observations. A model without informative dimensions has 0.

    It ranks models by agreement, so it takes for granted that disentangled models agree and entangled ones do not: if
    most fail in one way, that way ranks first. `study=True` averages over the two sums' dimensions one by one, as
    disentanglement_lib does, which differs where two models have different numbers of informative dimensions.

    Duan et al., Unsupervised Model Selection for Variational Disentangled Representation Learning, ICLR 2020.
    """
    z = seen(codes, kl, informative)
    m = len(z)
    r, ends = similarity(z), np.cumsum([0, *(each.shape[1] for each in z)])
    pairs = np.zeros((m, m))
    for i in range(m):
        for j in range(m):
            if i != j:
                pairs[i, j] = relative_strength(r[ends[i] : ends[i + 1], ends[j] : ends[j + 1]], study)
    # disentanglement_lib@86a644d (udr.py): the median over models j whose codes predict those of i, pairs[j, i]
    return Agreement(np.array([np.median(np.delete(pairs[:, i], i)) for i in range(m)]), pairs)


def seen(codes: Sequence[Any], kl: Sequence[Any] | None, informative: float) -> list[Array]:
    """The informative dimensions of every model, checked."""
    z = [as_array(each) for each in codes]
    if len(z) < 2 or any(each.ndim != 2 or len(each) != len(z[0]) for each in z) or len(z[0]) < 2:
        raise ValueError(
            "Models are compared by their codes (N, D) of the same N observations, two models or more, got shapes "
            f"{', '.join(str(each.shape) for each in z) or 'of none'}."
        )
    for i, each in enumerate(z):
        if not np.isfinite(each).all():
            raise ValueError(f"Codes must be finite, got NaN or infinity from model {i}. Leave it out.")
    if kl is None:
        return [each[:, each.max(0) > each.min(0)] for each in z]
    if [len(k) for k in kl] != [each.shape[1] for each in z]:
        raise ValueError(
            f"kl has a divergence for each code of each model: {[each.shape[1] for each in z]}, got "
            f"{[len(k) for k in kl]}."
        )
    return [each[:, as_array(k)[:, 0] > informative] for each, k in zip(z, kl, strict=True)]


def relative_strength(r: Array, study: bool = False) -> float:
    """How far every row and column of similarities (D, E) is one large entry."""
    if not r.size:
        return 0.0
    found = [
        np.divide(r.max(axis) ** 2, s, out=np.zeros(len(s)), where=s > 0) for axis in (0, 1) for s in [r.sum(axis)]
    ]
    return float((found[0].mean() + found[1].mean()) / 2 if study else np.concatenate(found).mean())


@dataclass(frozen=True, kw_only=True)
class UDR(Ranking):
    """Unsupervised disentanglement ranking: does each code of a model stand for one of another model, and for one only?

    The median over the other models. Codes take part whose divergence from the prior is above `informative`, and of
    models without a posterior all that vary.

    Misses: that models may agree on what is wrong. If most fail in one way, that way ranks first.
    """

    spearman: bool = False  #: rank correlations, which forgive monotone maps, instead of the lasso's weights
    informative: float = 0.01  #: nats of divergence from the prior above which a code takes part
    study: bool = False  #: the average of disentanglement_lib

    reference: ClassVar[Reference] = Reference(
        key="duan2020unsupervised",
        authors="Duan, Sunny and Matthey, Loic and Saraiva, Andre and Watters, Nicholas and Burgess, Christopher and "
        "Lerchner, Alexander and Higgins, Irina",
        title="Unsupervised Model Selection for Variational Disentangled Representation Learning",
        venue="International Conference on Learning Representations",
        year=2020,
        url="https://arxiv.org/abs/1905.12614",
    )
    evidence: ClassVar[tuple[Evidence, ...]] = (Evidence("reference-checked", "tests/metrics/test_udr.py"),)

    def measure(self, probes: Sequence[Probe]) -> list[float]:
        z = [probe.pool.z for probe in probes]
        kl = [
            np.where(codes.max(0) > codes.min(0), np.inf, 0.0) if (found := probe.kl()) is None else found
            for codes, probe in zip(z, probes, strict=True)
        ]
        alike = spearman_similarity if self.spearman else lasso_similarity
        return udr(z, kl=kl, similarity=alike, informative=self.informative, study=self.study).models.tolist()
