"""Scores in a reproducing kernel Hilbert space, in closed form."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from whence.descend import Run
from whence.evidence import Evidence, Reference
from whence.scores.base import BUDGET, Estimated, Scores
from whence.scores.gaussian import GaussianScores
from whence.scores.sample import Sample


class Cosines(NamedTuple):
    r"""Random Fourier features :math:`\varphi_k(u) = \cos(w_k^\top u + c_k)` of a Gaussian kernel."""

    w: Tensor  #: (M, n)
    c: Tensor  #: (M,)

    def sines(self, u: Tensor) -> Tensor:
        r""":math:`-\sin(w_k^\top u + c_k)`: the gradient of a feature is this times :math:`w_k`."""
        return -(u @ self.w.T + self.c).sin()


@dataclass(frozen=True, kw_only=True)
class KernelStein(Estimated):
    r"""A kernel exponential family fitted by score matching: a linear system for each environment, and no training.

    .. math:: s_e(x) = -\Theta_e (x - \mu_e) + \nabla f_e(x), \qquad
              f_e = \arg\min_f \mathbb{E}_{p_e} \bigl[ \tfrac{1}{2} \|s\|^2 + \operatorname{tr} \nabla s \bigr]
              + \tfrac{\lambda}{2} \|f\|_{\mathcal{H}}^2

    Integration by parts (Stein's identity) turns the objective into a quadratic. With a curl-free kernel this is the
    Tikhonov-regularised estimator among those that Zhou et al. unify; Li and Turner's is another. Departures: the
    kernel is Gaussian through `features` random Fourier features, shared by the environments; the base measure is the
    environment's Gaussian; bandwidth and :math:`\lambda` are those of the least held-out score-matching loss over all
    environments, which needs no second look at the data, as fold-wise moments suffice.
    """

    features: int = 300  #: random Fourier features
    bandwidths: tuple[float, ...] = (1.0, 2.0)  #: candidates, in medians of the distance between two rows
    ridges: tuple[float, ...] = (1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0)  #: candidates for λ
    folds: int = 5  #: of the held-out loss

    reference: ClassVar[Reference] = Reference(
        key="zhou2020nonparametric",
        authors="Zhou, Yuhao and Shi, Jiaxin and Zhu, Jun",
        title="Nonparametric Score Estimators",
        venue="International Conference on Machine Learning",
        year=2020,
        url="https://arxiv.org/abs/2005.10099",
    )
    evidence: ClassVar[tuple[Evidence, ...]] = (Evidence("closed-form", "tests/scores/test_estimators.py"),)

    def __post_init__(self) -> None:
        if self.folds < 2:
            raise ValueError(f"A held-out loss needs at least 2 folds, got {self.folds}.")

    def estimate(self, sample: Sample, run: Run) -> Scores:
        n, gaussian = sample.dims, GaussianScores(sample.mean, sample.precision)
        w = torch.randn(self.features, n, dtype=torch.float64)
        c = torch.rand(self.features, dtype=torch.float64) * 2 * math.pi
        fits = []
        for bandwidth in self.bandwidths:
            cosines = Cosines(w / (bandwidth * median_distance(sample)), c)
            systems = [self.system(sample, gaussian, cosines, e) for e in range(1 + sample.environments)]
            heldout = torch.stack([losses(*system, self.ridges) for system in systems]).sum(0)
            fits.append((float(heldout.min()), int(heldout.argmin()), cosines, systems))
        _, best, cosines, systems = min(fits, key=lambda fit: fit[0])
        eye = torch.eye(self.features, dtype=torch.float64)
        weights = [torch.linalg.solve(a.mean(0) + self.ridges[best] * eye, -b.mean(0)) for a, b in systems]
        return KernelScores(gaussian, cosines, torch.stack(weights))

    def system(self, sample: Sample, gaussian: GaussianScores, cosines: Cosines, e: int) -> tuple[Tensor, Tensor]:
        """Each fold's quadratic and linear term of the loss in the features' weights: (folds, M, M), (folds, M)."""
        m, w = self.features, cosines.w
        a, b = torch.zeros(self.folds, m, m, dtype=torch.float64), torch.zeros(self.folds, m, dtype=torch.float64)
        for fold in range(self.folds):
            given = sample.given[e][fold :: self.folds]
            for part in given.split(max(1, BUDGET // m)):
                u = sample.whiten(part)
                angle = u @ w.T + cosines.c
                sines = -angle.sin()
                a[fold] += sines.T @ sines
                b[fold] += (sines * (gaussian.scores_of(u, [e])[0] @ w.T)).sum(0) - w.square().sum(1) * angle.cos().sum(
                    0
                )
            a[fold] *= w @ w.T / len(given)
            b[fold] /= len(given)
        return a, b


class KernelScores(Scores):
    def __init__(self, gaussian: GaussianScores, cosines: Cosines, weights: Tensor) -> None:
        super().__init__(gaussian.environments, gaussian.dims)
        self.gaussian, self.cosines = gaussian, cosines
        self.slopes = weights[..., None] * cosines.w  # (G, M, n)
        self.width = len(cosines.w)

    def scores_of(self, x: Tensor, environments: Sequence[int]) -> Tensor:
        return self.gaussian.scores_of(x, environments) + self.cosines.sines(x) @ self.slopes[list(environments)]

    def differences_of(self, x: Tensor) -> Tensor:
        return self.gaussian.differences_of(x) + self.cosines.sines(x) @ (self.slopes[0] - self.slopes[1:])


def losses(a: Tensor, b: Tensor, ridges: Sequence[float]) -> Tensor:
    """The held-out loss for each ridge, averaged over folds."""
    k = len(a)
    total = torch.zeros(len(ridges), dtype=torch.float64)
    for i in range(k):
        value, vector = torch.linalg.eigh((a.sum(0) - a[i]) / (k - 1))
        pull = vector.T @ (b.sum(0) - b[i]) / (k - 1)
        ridge = torch.tensor(ridges, dtype=torch.float64)[:, None]
        weights = -(pull / (value.clamp_min(0) + ridge)) @ vector.T
        total += 0.5 * ((weights @ a[i]) * weights).sum(1) + weights @ b[i]
    return total / k


def median_distance(sample: Sample, rows: int = 1000) -> float:
    """Between two rows of the observational sample."""
    x = sample.given[0]
    u = sample.rows(0, slice(None, None, max(1, len(x) // rows)))
    return float(torch.pdist(u).median())
