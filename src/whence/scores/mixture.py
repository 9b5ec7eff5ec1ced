"""Scores of mixtures of Gaussians."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from whence.descend import Run, mix
from whence.evidence import Evidence, Reference
from whence.scores.base import Estimated, Scores
from whence.scores.sample import Sample


@dataclass(frozen=True, kw_only=True)
class GaussianMixture(Estimated):
    r"""A mixture of Gaussians for each environment, by EM (scikit-learn's), and its score.

    .. math:: s_e(x) = -\sum_k p_e(k \mid x) \, \Theta_{ek} (x - \mu_{ek})

    The number of components is that of the least BIC, environment by environment, on at most `rows` rows.
    """

    components: tuple[int, ...] = (1, 2, 4, 6)  #: candidates for the number of components
    rows: int = 20_000  #: most rows looked at in an environment
    tolerance: float = 1e-3  #: EM ends when the log-likelihood of a row grows by less

    reference: ClassVar[Reference] = Reference(
        key="schwarz1978estimating",
        authors="Schwarz, Gideon",
        title="Estimating the Dimension of a Model",
        venue="The Annals of Statistics",
        year=1978,
        url="https://doi.org/10.1214/aos/1176344136",
    )
    evidence: ClassVar[tuple[Evidence, ...]] = (Evidence("closed-form", "tests/scores/test_estimators.py"),)

    def estimate(self, sample: Sample, run: Run) -> Scores:
        return MixtureScores([self.mixture(sample, e, run) for e in range(1 + sample.environments)])

    def mixture(self, sample: Sample, e: int, run: Run) -> Mixture:
        import warnings

        from sklearn.exceptions import ConvergenceWarning
        from sklearn.mixture import GaussianMixture as EM

        x = sample.given[e]
        u = sample.rows(e, torch.randperm(len(x))[: self.rows] if len(x) > self.rows else slice(None)).numpy()
        fits = []
        for k in self.components:
            if len(u) > k * (sample.dims + 1):
                em = EM(k, tol=self.tolerance, random_state=mix(run.seed, "mixture", e, k) % 2**32)
                with warnings.catch_warnings():
                    warnings.simplefilter(
                        "ignore", ConvergenceWarning
                    )  # a mixture short of its optimum is judged by BIC too
                    fits.append((em.fit(u).bic(u), em))
        _, best = min(fits, key=lambda fit: fit[0])
        weight, mean, precision = (torch.from_numpy(a) for a in (best.weights_, best.means_, best.precisions_))
        return Mixture(weight, mean, precision)


class Mixture(NamedTuple):
    weight: Tensor  #: (K,)
    mean: Tensor  #: (K, n)
    precision: Tensor  #: (K, n, n)

    def score(self, u: Tensor) -> Tensor:
        pulls = (self.mean[:, None] - u) @ self.precision  # (K, B, n)
        distance = (pulls * (self.mean[:, None] - u)).sum(-1)
        density = self.weight.log() + 0.5 * torch.logdet(self.precision) - 0.5 * distance.T
        return torch.einsum("bk,kbn->bn", density.softmax(1), pulls)


class MixtureScores(Scores):
    def __init__(self, mixtures: Sequence[Mixture]) -> None:
        super().__init__(len(mixtures) - 1, mixtures[0].mean.shape[1])
        self.mixtures = mixtures
        self.width = self.dims * max(2 * len(m.weight) for m in mixtures)

    def scores_of(self, x: Tensor, environments: Sequence[int]) -> Tensor:
        return torch.stack([self.mixtures[e].score(x) for e in environments])

    def differences_of(self, x: Tensor) -> Tensor:
        s = self.scores_of(x, range(1 + self.environments))
        return s[:1] - s[1:]
