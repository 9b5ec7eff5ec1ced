"""ModelCentrality: models as each other's worlds. Which of them do the others know best?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Generator

from whence.descend import mix
from whence.evidence import Evidence, Reference
from whence.metrics.arrays import Array, as_array
from whence.metrics.factor_vae import factor_vae_metric
from whence.metrics.probe import Probe
from whence.metrics.ranking import Ranking
from whence.representation import Decodes, Representation


def cross_evaluation(
    representations: Sequence[Representation],
    *,
    samples: int = 5_000,
    levels: int = 20,
    size: int = 100,
    train: int = 2_000,
    test: int = 1_000,
    seed: int = 0,
    dealt: bool = False,
) -> Array:
    r"""(M, M) of the FactorVAE metric of encoder i on observations that decoder j makes from codes it knows.

    Model j is a world whose factors are its D codes, drawn from a standard normal: `samples` codes, each one of
    `levels` quantiles, are decoded once and encoded by every model; groups of `size` that share a code's level are
    then dealt as `factor_vae_metric` does. The diagonal says how well a model knows itself. Chance is about 1 / D, and
    is measured with `dealt=True`: then codes belong to other observations. It costs M decodings and M² encodings of
    `samples` observations.

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
        deal = torch.randperm(samples, generator=rng).numpy() if dealt else slice(None)
        for i, known in enumerate(codes):
            matrix[i, j] = factor_vae_metric(
                np.concatenate(known)[deal], level.numpy(), size=size, train=train, test=test, seed=seed
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


@dataclass(frozen=True, kw_only=True)
class ModelCentrality(Ranking):
    """ModelCentrality: how well do a model and the others know each other's codes, by the FactorVAE metric?

    Every model decodes codes that it knows, and every model encodes what was decoded. The largest is the medoid, the
    model to choose.

    Misses: that models may agree on what is wrong. And a code that its own decoder ignores counts against everyone.
    """

    samples: int = 5_000  #: observations that each model makes
    levels: int = 20  #: values of each code
    train: int = 2_000  #: groups that vote
    test: int = 1_000  #: groups that are named

    asks: ClassVar[tuple[type, ...]] = (Decodes,)
    resamples: ClassVar[bool] = False
    reference: ClassVar[Reference] = Reference(
        key="lin2020infogan",
        authors="Lin, Zinan and Thekumparampil, Kiran and Fanti, Giulia and Oh, Sewoong",
        title="InfoGAN-CR and ModelCentrality: Self-supervised Model Training and Selection for Disentangling GANs",
        venue="International Conference on Machine Learning",
        year=2020,
        url="https://arxiv.org/abs/1906.06034",
    )
    evidence: ClassVar[tuple[Evidence, ...]] = (Evidence("closed-form", "tests/metrics/test_model_centrality.py"),)

    def measure(self, probes: Sequence[Probe]) -> list[float]:
        matrix = cross_evaluation(
            [probe.representation for probe in probes],
            samples=self.samples,
            levels=self.levels,
            train=self.train,
            test=self.test,
            seed=probes[0].seed,
            dealt=probes[0].shuffled,
        )
        return model_centrality(matrix).tolist()
