"""What an estimator is fitted on: the environments' samples, checked, with their moments, seen in white coordinates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Generator, Tensor

from whence.scores.support import accumulate
from whence.views import View, as_tensor

RESIDENT = 2**24  #: up to this many numbers are whitened once and kept; more are whitened batch by batch


class Batch(NamedTuple):
    u: Tensor  #: (environments, B, n): the same number of rows of each


@dataclass(frozen=True, kw_only=True)
class Whitening:
    r""":math:`u = W (x - m)` with :math:`W = C^{-1/2}`, for the mean and covariance pooled over environments."""

    m: Tensor
    W: Tensor

    def __call__(self, x: Tensor) -> Tensor:
        return (x.to(self.W) - self.m) @ self.W

    def gradient(self, s: Tensor) -> Tensor:
        """A gradient with respect to u as one with respect to x."""
        return s.to(self.W) @ self.W


@dataclass(frozen=True, kw_only=True)
class Sample:
    """Samples as they were given: large ones are whitened only as they are asked for, so nothing large is copied."""

    given: tuple[Tensor, ...]
    whiten: Whitening
    mean: Tensor  #: (1 + E, n) of each environment, in white coordinates
    cov: Tensor  #: (1 + E, n, n)

    @classmethod
    def of(cls, samples: Sequence[Tensor | np.ndarray]) -> Sample:
        given = tuple(as_tensor(x) for x in samples)
        check(given)
        n = given[0].shape[1]
        each = [accumulate([x], f"of environment {e}") for e, x in enumerate(given)]
        pooled = accumulate(given)
        eps = max(torch.finfo(x.dtype).eps for x in given)
        if (rank := rank_of(pooled.cov, eps)) < n:
            raise ValueError(
                f"Scores need samples that fill their {n} coordinates, got {rank} independent ones (a column is "
                "constant or a sum of others). Work in the support: Support.find(samples)."
            )
        value, vector = torch.linalg.eigh(pooled.cov)
        W = vector * value.rsqrt() @ vector.T
        mean = torch.stack([(moments.mean - pooled.mean) @ W for moments in each])
        cov = torch.stack([W @ moments.cov @ W for moments in each])
        for e, c in enumerate(cov):
            if (rank := rank_of(c, eps)) < n:
                raise ValueError(
                    f"Every environment needs a density in the {n} coordinates, and environment {e} varies in {rank} "
                    "only: an intervention that fixes a value (do) has no score. Leave it out, or use interventions "
                    "that keep some noise."
                )
        return cls(given=given, whiten=Whitening(m=pooled.mean, W=W), mean=mean, cov=cov)

    @property
    def environments(self) -> int:
        """E: the interventional ones."""
        return len(self.given) - 1

    @property
    def dims(self) -> int:
        return self.given[0].shape[1]

    @property
    def precision(self) -> Tensor:
        """(1 + E, n, n)."""
        return torch.linalg.inv(self.cov)

    def rows(self, e: int, which: Tensor | slice = slice(None)) -> Tensor:
        """White rows of one environment, in float64."""
        return self.whiten(self.given[e][which])

    def view(self) -> Rows:
        """Endless batches for the training loop, drawn with replacement, each environment equally often."""
        sizes = torch.tensor([len(x) for x in self.given])
        small = int(sizes.sum()) * self.dims <= RESIDENT
        white = [self.rows(e).float() for e in range(len(self.given))] if small else None

        def draw(n: int, rng: Generator) -> Tensor:
            return (torch.rand(n, len(sizes), generator=rng, dtype=torch.float64) * sizes).long()

        def observe(ticket: Tensor, rng: Generator) -> Tensor:
            if white is not None:
                return torch.stack([x.index_select(0, i) for x, i in zip(white, ticket.T.contiguous(), strict=True)])
            return self.whiten(torch.stack([x[i] for x, i in zip(self.given, ticket.T, strict=True)])).float()

        return Rows(shape=(self.dims,), draw_=draw, observe=observe)


@dataclass(frozen=True, kw_only=True)
class Rows(View[Batch]):
    """A row of a ticket is one row number for each environment."""

    def gather(self, ticket: Tensor, rng: Generator) -> Batch:
        return Batch(self.observe(ticket, rng))


def rank_of(cov: Tensor, eps: float) -> int:
    """The number of directions that vary, whatever the units of the columns."""
    scale = cov.diagonal().sqrt()
    varies = scale > 0
    if not varies.any():
        return 0
    correlation = (cov / scale / scale[:, None])[varies][:, varies]
    value = torch.linalg.eigvalsh(correlation)
    return int((value > eps * len(value) * value[-1]).sum())


def check(given: Sequence[Tensor]) -> None:
    if len(given) < 2:
        raise ValueError(
            f"Score differences need the observational sample and at least one interventional one, got {len(given)}. "
            "Pass [observational, interventional, ...]."
        )
    n = given[0].shape[-1]
    for e, x in enumerate(given):
        if x.ndim != 2 or x.shape[1] != n or not n or not x.is_floating_point():
            raise ValueError(
                f"Every environment's sample has shape (N, {n}) in floats, got {tuple(x.shape)} of {x.dtype} for "
                f"environment {e}. All are in the coordinates of one support."
            )
        if len(x) <= n:
            raise ValueError(
                f"A score in {n} coordinates needs more than {n} rows, got {len(x)} in environment {e}. "
                "Give more data, or fewer dimensions."
            )
