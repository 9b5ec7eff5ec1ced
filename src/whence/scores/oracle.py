"""The truth, on purpose."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from whence.descend import Run
from whence.evidence import Evidence
from whence.scores.base import ScoreEstimator, Scores
from whence.scores.gaussian import SingleGaussian
from whence.scores.support import Support
from whence.views import as_tensor


@dataclass(frozen=True)
class Oracle(ScoreEstimator):
    """True score differences, told: the one estimator that carries the truth, and it is spelled where it is called.

    It learns nothing; `truth` says so, for reports to stamp. A run is recorded only if what it was told is a frozen
    dataclass with a `__call__`, as a plain function cannot be written down.
    """

    told: Callable[[Tensor], Tensor] = field(repr=False)  #: points (B, d) -> true differences (E, B, d)
    score: Callable[[Tensor, int], Tensor] | None = field(
        default=None, repr=False, kw_only=True
    )  #: (B, d), e -> (B, d)

    truth: ClassVar[bool] = True
    reference = SingleGaussian.reference
    evidence: ClassVar[tuple[Evidence, ...]] = (Evidence("closed-form", "tests/scores/test_closed_form.py"),)

    def fit(self, samples: Sequence[Tensor | np.ndarray], *, run: Run | int = 0) -> Scores:
        return OracleScores(self, len(samples) - 1, as_tensor(samples[0]).shape[1])

    def within(self, support: Support) -> Oracle:
        """Told in d observed dimensions, asked in the n of their support: the gradient along its basis."""
        told, score = self.told, self.score
        return replace(
            self,
            told=lambda u: support.gradient(told(support.lift(u))),
            score=None if score is None else lambda u, e: support.gradient(score(support.lift(u), e)),
        )


class OracleScores(Scores):
    truth = True

    def __init__(self, oracle: Oracle, environments: int, dims: int) -> None:
        super().__init__(environments, dims)
        self.oracle = oracle

    def differences_of(self, x: Tensor) -> Tensor:
        with torch.enable_grad():  # what is told may be a gradient
            d = self.oracle.told(x).detach()
        if tuple(d.shape) != (self.environments, *x.shape):
            raise ValueError(
                f"An oracle gives differences of shape (environments, points, dims) = "
                f"{(self.environments, *x.shape)}, got {tuple(d.shape)}. One for each interventional environment, in "
                "their order; for points in a support use Oracle(...).within(support)."
            )
        return d

    def scores_of(self, x: Tensor, environments: Sequence[int]) -> Tensor:
        if self.oracle.score is None:
            raise TypeError(
                "This oracle was told differences only. Pass Oracle(differences, score=...) for single scores."
            )
        with torch.enable_grad():
            return torch.stack([self.oracle.score(x, e).detach() for e in environments])
