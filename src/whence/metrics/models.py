"""Many representations at once, without the truth: which of them do the others agree with?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Generator

from whence.descend import mix
from whence.metrics.arrays import Array, as_array
from whence.metrics.factor_vae import factor_vae_metric
from whence.metrics.graphs import correlations
from whence.representation import Decodes, Representation

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


class UDR(NamedTuple):
    models: Array  #: (M,) the median over the other models
    pairs: Array  #: (M, M) of models i and j; 0 on the diagonal, which is not looked at


def udr(
    codes: Sequence[Any],
    *,
    kl: Sequence[Any] | None = None,
    similarity: Similarity = lasso_similarity,
    informative: float = 0.01,
    study: bool = False,
) -> UDR:
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
    return UDR(np.array([np.median(np.delete(pairs[:, i], i)) for i in range(m)]), pairs)


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


# --- models as each other's worlds -----------------------------------------------------------------------------------


def cross_evaluation(
    representations: Sequence[Representation],
    *,
    samples: int = 5_000,
    levels: int = 20,
    size: int = 100,
    train: int = 2_000,
    test: int = 1_000,
    seed: int = 0,
) -> Array:
    r"""(M, M) of the FactorVAE metric of encoder i on observations that decoder j makes from codes it knows.

    Model j is a world whose factors are its D codes, drawn from a standard normal: `samples` codes, each one of
    `levels` quantiles, are decoded once and encoded by every model; groups of `size` that share a code's level are
    then dealt as `factor_vae_metric` does. Chance is 1 / D. The diagonal says how well a model knows itself. It costs
    M decodings and M² encodings of `samples` observations.

    Departures from the authors' code (fjxmlzn/InfoGAN-CR@e0537bc, FactorVAE_dSprites/): groups out of one pool instead
    of 1,000 newly made ones; votes are tested on other groups than they were counted on; encoded dimensions that
    hardly vary take no part. As there, a code that its decoder ignores counts against everyone.

    Lin et al., InfoGAN-CR and ModelCentrality, ICML 2020.
    """
    models = list(representations)
    for model in models:
        if not isinstance(model, Decodes):
            raise TypeError(
                f"Models evaluate each other on what they decode, and {type(model).__name__} cannot decode."
            )
    if len(models) < 2 or len({tuple(model.spec.shape) for model in models}) != 1:
        shapes = ", ".join(str(tuple(model.spec.shape)) for model in models)
        raise ValueError(f"Models evaluate each other on observations of one shape, two or more of them, got {shapes}.")
    if levels < 2:
        raise ValueError(f"A code needs two levels or more to differ between groups, got levels={levels}.")
    quantile = torch.special.ndtri((torch.arange(levels, dtype=torch.float64) + 0.5) / levels).float()
    matrix = np.empty((len(models), len(models)))
    for j, maker in enumerate(models):
        rng = Generator().manual_seed(mix(seed, "cross evaluation", str(j)))
        level = torch.randint(levels, (samples, maker.dims), generator=rng)
        codes: list[list[Array]] = [[] for _ in models]
        for part in level.split(1024):
            x = maker.decode(quantile[part])  # type: ignore[operator]
            for known, model in zip(codes, models, strict=True):
                known.append(model.encode(x).numpy())
        for i, known in enumerate(codes):
            matrix[i, j] = factor_vae_metric(
                np.concatenate(known), level.numpy(), size=size, train=train, test=test, seed=seed
            )
    return matrix


def model_centrality(matrix: Any) -> Array:
    r"""(M,) how well each model and the others know each other, from their cross-evaluation B; the largest is the
    medoid, and the model to choose.

    .. math:: s_i = \frac{1}{M - 1} \sum_{j \ne i} \frac{B_{ij} + B_{ji}}{2}

    Lin et al., InfoGAN-CR and ModelCentrality, ICML 2020.
    """
    b = as_array(matrix).astype(np.float64)
    if b.ndim != 2 or b.shape[0] != b.shape[1] or len(b) < 2 or not np.isfinite(b).all():
        raise ValueError(
            f"Centrality needs a finite square matrix of two models or more, got shape {b.shape}. It is what "
            "cross_evaluation returns."
        )
    both = (b + b.T) / 2
    return (both.sum(1) - both.diagonal()) / (len(b) - 1)
