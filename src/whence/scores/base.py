"""ScoreEstimator and Scores: what is fitted on the environments' samples, and what fitting returns."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from whence.descend import Recipe, Run, Turns, descend, mix
from whence.evidence import Evidence, Reference
from whence.scores.sample import Sample, Whitening
from whence.scores.support import Support
from whence.views import as_tensor

BUDGET = 2**22  #: numbers that one chunk of an evaluation may hold

#: Points to evaluate at: one tensor (N, n), or chunks of it for as many as never fit into memory.
Points = Tensor | np.ndarray | Iterable[Tensor]


class Scores(ABC):
    r"""Estimated scores :math:`s_e = \nabla \log p_e` of the observational environment 0 and of the interventional
    1 ... E, or only their differences :math:`d_e = s_0 - s_e`, as functions of n coordinates.

    What is returned has the points' dtype; moments are float64.
    """

    truth: bool = False  #: whether it was told the truth, on purpose: reports stamp it
    width: int  #: numbers a point costs while it is evaluated

    def __init__(self, environments: int, dims: int) -> None:
        self.environments, self.dims = environments, dims
        self.width = environments * dims

    @abstractmethod
    def differences_of(self, x: Tensor) -> Tensor:
        """(B, n) -> (E, B, n), for one chunk of checked points."""

    def scores_of(self, x: Tensor, environments: Sequence[int]) -> Tensor:
        """(B, n) -> (len(environments), B, n), for one chunk of checked points; 0 is the observational one."""
        raise TypeError(
            f"{type(self).__name__} has score differences and no single scores: a ratio of densities does not tell "
            "them apart. Use differences(x), or an estimator of scores such as SingleGaussian()."
        )

    @torch.no_grad()
    def score(self, x: Tensor | np.ndarray, e: int) -> Tensor:
        """(N, n): the score of environment e at the points; 0 is the observational one."""
        if not 0 <= e <= self.environments:
            raise IndexError(f"There are environments 0 (observational) to {self.environments}, got {e}.")
        return torch.cat([self.scores_of(part, [e])[0].to(part) for part in self.chunks(x)])

    @torch.no_grad()
    def differences(self, x: Tensor | np.ndarray) -> Tensor:
        """(E, N, n): the observational score less each interventional one, at the same points."""
        whole = self.checked(x)
        out = whole.new_empty(self.environments, *whole.shape)
        for at, part in zip(out.split(self.rows, 1), self.chunks(whole), strict=True):
            at.copy_(self.differences_of(part))
        return out

    @torch.no_grad()
    def moments(self, x: Points) -> Tensor:
        r"""(E, n, n): :math:`\mathbb{E}[d_e d_e^\top]` over the points, in one pass over chunks."""
        return self.average(x, lambda part: products(self.differences_of(part).double()))

    @torch.no_grad()
    def cross_moments(self, x: Points) -> Tensor:
        r"""(E, E, n, n): :math:`\mathbb{E}[d_e d_f^\top]` over the points; its diagonal are the moments."""
        return self.average(x, lambda part: cross_products(self.differences_of(part).double()))

    @torch.no_grad()
    def means(self, x: Points) -> Tensor:
        r"""(E, n): :math:`\mathbb{E}[d_e]` over the points."""
        return self.average(x, lambda part: self.differences_of(part).double().sum(1))

    def average(self, x: Points, total: Callable[[Tensor], Tensor]) -> Tensor:
        """The mean over points of what `total` sums over a chunk of them."""
        sums, count = None, 0
        for part in self.chunks(x):
            here = total(part)
            sums, count = here if sums is None else sums.add_(here), count + len(part)
        if sums is None or not count:
            raise ValueError("A mean needs at least one point, got none.")
        return sums / count

    @property
    def rows(self) -> int:
        """Points in a chunk."""
        return max(1, BUDGET // max(self.width, 1))

    def chunks(self, x: Points) -> Iterator[Tensor]:
        for piece in [x] if isinstance(x, Tensor | np.ndarray) else x:
            yield from self.checked(piece).split(self.rows)

    def checked(self, x: Tensor | np.ndarray) -> Tensor:
        points = as_tensor(x)
        if points.ndim != 2 or points.shape[1] != self.dims or not points.is_floating_point():
            raise ValueError(
                f"Scores of {self.dims} coordinates need points of shape (N, {self.dims}) in floats, got "
                f"{tuple(points.shape)} of {points.dtype}. Project observations onto the support they were fitted in."
            )
        if not torch.isfinite(points.sum()) and (bad := int((~torch.isfinite(points)).any(1).sum())):
            raise ValueError(f"Points must be finite, got NaN or infinity in {bad} of {len(points)} rows. Drop them.")
        return points


def products(d: Tensor) -> Tensor:
    """(E, B, n) -> (E, n, n), summed over points."""
    return d.mT @ d


def cross_products(d: Tensor) -> Tensor:
    """(E, B, n) -> (E, E, n, n), summed over points."""
    e, _, n = d.shape
    flat = d.transpose(0, 1).flatten(1)
    return (flat.T @ flat).view(e, n, e, n).transpose(1, 2)


class Whitened(Scores):
    """Scores that were fitted in whitened coordinates u, in the caller's: :math:`s(x) = W s(u)`."""

    def __init__(self, inner: Scores, whiten: Whitening) -> None:
        super().__init__(inner.environments, inner.dims)
        self.inner, self.whiten, self.truth, self.width = inner, whiten, inner.truth, inner.width

    def differences_of(self, x: Tensor) -> Tensor:
        return self.whiten.gradient(self.inner.differences_of(self.whiten(x)))

    def scores_of(self, x: Tensor, environments: Sequence[int]) -> Tensor:
        return self.whiten.gradient(self.inner.scores_of(self.whiten(x), environments))


class ScoreEstimator(ABC):
    """A frozen, keyword-only dataclass of an estimator's settings."""

    truth: ClassVar[bool] = False  #: whether it is told the truth, on purpose: reports stamp it
    reference: ClassVar[Reference]
    evidence: ClassVar[tuple[Evidence, ...]]

    @abstractmethod
    def fit(self, samples: Sequence[Tensor | np.ndarray], *, run: Run | int = 0) -> Scores:
        """Scores of the environments whose samples these are: the first is observational (N0, n), the others
        interventional (Ne, n), all in the n coordinates of their support (`Support.find`).

        `run` is the run of the method that asks (its seed, device, folder and watchers are used, its recipe is not),
        or just a seed. The caller's random state is left as it was.
        """

    def within(self, support: Support) -> ScoreEstimator:
        """The same, to be fitted on samples that were projected onto a support. Only an oracle must be told."""
        return self


class Estimated(ScoreEstimator):
    """An estimator that learns, in whitened coordinates."""

    @abstractmethod
    def estimate(self, sample: Sample, run: Run) -> Scores:
        """Scores in white coordinates, under a sealed random state."""

    def fit(self, samples: Sequence[Tensor | np.ndarray], *, run: Run | int = 0) -> Scores:
        run = Run(seed=run) if isinstance(run, int) else run
        sample = Sample.of(samples)
        with torch.random.fork_rng():
            torch.manual_seed(mix(run.seed, "scores", type(self).__name__))
            return Whitened(self.estimate(sample, run), sample.whiten)


def train(turns: Turns, nets: nn.Module, sample: Sample, run: Run, recipe: Recipe) -> nn.Module:
    """Descend on batches of every environment at once, by the estimator's own recipe; the networks come back frozen.

    Each training under a run is a stage of its own, so that none picks up the checkpoint of another.
    """
    stage = f"scores-{sum(name.startswith('scores') for name in run.curves)}"
    inner = replace(run, recipe=recipe)
    try:
        return descend(turns, nets, sample.view(), inner, stage=stage).requires_grad_(False)
    finally:
        run.stopped_at = inner.stopped_at
