"""Independent fits on disjoint folds, so that errors of estimation cancel in moments instead of adding up."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from whence.descend import Run, mix
from whence.evidence import Evidence, Reference
from whence.scores.base import Points, ScoreEstimator, Scores, cross_products, products
from whence.scores.ratio import MulticlassRatio
from whence.views import as_tensor


@dataclass(frozen=True, kw_only=True)
class CrossFit(ScoreEstimator):
    r"""Any estimator, fitted on each of K disjoint folds of the rows.

    .. math:: \hat d_e = \frac{1}{K} \sum_a \hat d_e^{(a)}, \qquad
              \widehat{\mathbb{E}[d_e d_f^\top]} = \frac{1}{K (K - 1)} \sum_{a \ne b}
              \mathbb{E} \bigl[ \hat d_e^{(a)} \hat d_f^{(b) \top} \bigr]

    A moment of one fit holds the mean square of its errors, which looks like an edge where there is none. Errors of
    different folds are independent, so here they cancel on average; what all folds get wrong alike, the bias, stays.
    In return a moment need not be positive semi-definite, and each fit has 1/K of the rows. Row i belongs to fold i mod
    K, so rows must be in no order that matters.
    """

    estimator: ScoreEstimator = MulticlassRatio()  #: what is fitted on each fold
    folds: int = 2  #: K

    reference = Reference(
        key="chernozhukov2018double",
        authors="Chernozhukov, Victor and Chetverikov, Denis and Demirer, Mert and Duflo, Esther and Hansen, Christian "
        "and Newey, Whitney and Robins, James",
        title="Double/Debiased Machine Learning for Treatment and Structural Parameters",
        venue="The Econometrics Journal",
        year=2018,
        url="https://doi.org/10.1111/ectj.12097",
    )
    evidence = (Evidence("closed-form", "tests/scores/test_estimators.py"),)

    def __post_init__(self) -> None:
        if self.folds < 2:
            raise ValueError(f"Cross-fitting needs at least 2 folds, got {self.folds}.")
        if self.estimator.truth:
            raise ValueError("An oracle makes no errors for folds to cancel. Use it as it is.")

    def fit(self, samples: Sequence[Tensor | np.ndarray], *, run: Run | int = 0) -> Scores:
        run = Run(seed=run) if isinstance(run, int) else run
        rows = [as_tensor(x) for x in samples]
        parts = []
        for fold in range(self.folds):
            into = None if run.into is None else run.into / f"fold-{fold}"
            inner = replace(run, seed=mix(run.seed, "fold", fold), into=into)
            parts.append(self.estimator.fit([x[fold :: self.folds] for x in rows], run=inner))
        return CrossFitted(parts)


class CrossFitted(Scores):
    def __init__(self, parts: Sequence[Scores]) -> None:
        super().__init__(parts[0].environments, parts[0].dims)
        self.parts = parts
        self.width = max(part.width for part in parts) + len(parts) * self.environments * self.dims

    def scores_of(self, x: Tensor, environments: Sequence[int]) -> Tensor:
        return torch.stack([part.scores_of(x, environments) for part in self.parts]).mean(0)

    def differences_of(self, x: Tensor) -> Tensor:
        return torch.stack([part.differences_of(x) for part in self.parts]).mean(0)

    @torch.no_grad()
    def moments(self, x: Points) -> Tensor:
        return self.average(x, lambda part: self.apart(part, products))

    @torch.no_grad()
    def cross_moments(self, x: Points) -> Tensor:
        return self.average(x, lambda part: self.apart(part, cross_products))

    def apart(self, x: Tensor, quadratic: Callable[[Tensor], Tensor]) -> Tensor:
        """A quadratic form of the fits without the terms that pair a fit with itself."""
        each = [part.differences_of(x).double() for part in self.parts]
        k = len(each)
        whole = quadratic(torch.stack(each).sum(0))
        return (whole - sum(quadratic(d) for d in each)) / (k * (k - 1))
