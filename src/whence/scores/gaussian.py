"""Gaussian scores in closed form."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from whence.descend import Run
from whence.evidence import Evidence, Reference
from whence.scores.base import Estimated, Scores
from whence.scores.sample import Sample


@dataclass(frozen=True, kw_only=True)
class SingleGaussian(Estimated):
    r"""The scores of Gaussians with the samples' means and covariances.

    .. math:: s_e(x) = -\Theta_e (x - \mu_e), \qquad
              d_e(x) = (\Theta_e - \Theta_0) x - (\Theta_e \mu_e - \Theta_0 \mu_0)

    :math:`d_e` is also the gradient of the closed-form log-ratio :math:`\log p_0 / p_e` of the two Gaussians, so there
    is no separate estimator of that ratio. Exact for linear Gaussian causal models under a linear mixing; of anything
    else it is the best affine approximation of each score.
    """

    reference: ClassVar[Reference] = Reference(
        key="varici2025score",
        authors='Var{\\i}c{\\i}, Burak and Acart{\\"u}rk, Emre and Shanmugam, Karthikeyan and Kumar, Abhishek '
        "and Tajer, Ali",
        title="Score-based Causal Representation Learning: Linear and General Transformations",
        venue="Journal of Machine Learning Research",
        year=2025,
        url="https://arxiv.org/abs/2402.00849",
    )
    evidence: ClassVar[tuple[Evidence, ...]] = (Evidence("closed-form", "tests/scores/test_closed_form.py"),)

    def estimate(self, sample: Sample, run: Run) -> GaussianScores:
        return GaussianScores(sample.mean, sample.precision)


class GaussianScores(Scores):
    """(G, n) means and (G, n, n) precisions of environments 0 ... E."""

    def __init__(self, mean: Tensor, precision: Tensor) -> None:
        super().__init__(len(mean) - 1, mean.shape[1])
        self.mean, self.precision = mean, precision
        self.slope = precision[1:] - precision[0]
        shift = torch.einsum("gij,gj->gi", precision, mean)
        self.shift = shift[1:] - shift[0]

    def differences_of(self, x: Tensor) -> Tensor:
        return x.to(self.slope) @ self.slope - self.shift[:, None]

    def scores_of(self, x: Tensor, environments: Sequence[int]) -> Tensor:
        mean, precision = self.mean[environments], self.precision[environments]
        return (mean[:, None] - x.to(mean)) @ precision
