"""Scores by score matching: one tanh network for each environment, all trained at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from whence.descend import ALL, Adam, Cosine, Recipe, Run, Terms, Turn
from whence.evidence import Evidence, Reference
from whence.scores.base import Estimated, Scores, train
from whence.scores.grouped import GroupedTanh
from whence.scores.sample import Batch, Sample


class ScoreNets(nn.Module):
    """A network for each environment, added to the score of its Gaussian if there is one."""

    def __init__(self, sample: Sample, hidden: Sequence[int], skip: bool, copies: int = 1) -> None:
        super().__init__()
        n, theta = sample.dims, sample.precision.float() * skip
        self.rest = GroupedTanh(copies * len(theta), [n, *hidden, n])
        self.register_buffer("slope", -theta.repeat(copies, 1, 1))
        self.register_buffer("shift", (theta @ sample.mean.float()[..., None]).mT.repeat(copies, 1, 1))

    def forward(self, u: Tensor) -> Tensor:
        return torch.baddbmm(self.shift, u, self.slope) + self.rest(u)  # type: ignore[arg-type]

    def along(self, u: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Scores (G, B, n) and their derivatives (G, m, B, n) in the directions v, (G, m, B or 1, n)."""
        rest, change = self.rest.along(u, v)
        return torch.baddbmm(self.shift, u, self.slope) + rest, change + v @ self.slope[:, None]  # type: ignore


@dataclass(frozen=True, kw_only=True)
class ScoreMatching(Estimated):
    """What the estimators below share."""

    hidden: tuple[int, ...] = (64, 64)  #: widths of the hidden layers
    skip: bool = True  #: learn what the Gaussian score leaves; false: the whole score
    recipe: Recipe = Recipe(  #: batch counts rows of each environment
        steps=400, batch=512, optimiser=Adam(lr=3e-3), schedule=Cosine(), ema=0.99
    )

    def loss(self, nets: Any, u: Tensor) -> Terms:
        """Each environment's loss on (G, B, n), summed over environments: they share no weights."""
        raise NotImplementedError

    def turns(self, nets: Any, batch: Batch, t: int) -> Iterator[Turn]:
        yield Turn(ALL, self.loss(nets, batch.u))

    def estimate(self, sample: Sample, run: Run) -> Scores:
        nets = train(self.turns, ScoreNets(sample, self.hidden, self.skip), sample, run, self.recipe)
        return NetScores(nets, sample, run.device)


class NetScores(Scores):
    """Networks of environments 0 ... E, once for each of the weights, by which they are combined."""

    def __init__(self, nets: nn.Module, sample: Sample, device: str, weights: Sequence[float] = (1.0,)) -> None:
        super().__init__(sample.environments, sample.dims)
        self.nets, self.device, self.weights = nets, device, weights
        self.width = 64 * len(weights) * (1 + sample.environments)

    def all_of(self, x: Tensor) -> Tensor:
        u = x.to(self.device, torch.float32)
        copies = self.nets(u.expand(len(self.weights) * (1 + self.environments), *u.shape)).chunk(len(self.weights))
        return sum(w * s for w, s in zip(self.weights, copies, strict=True)).to(x)

    def scores_of(self, x: Tensor, environments: Sequence[int]) -> Tensor:
        return self.all_of(x)[list(environments)]

    def differences_of(self, x: Tensor) -> Tensor:
        s = self.all_of(x)
        return s[:1] - s[1:]


@dataclass(frozen=True, kw_only=True)
class ExactScoreMatching(ScoreMatching):
    r"""Score matching with the exact trace, for the few dimensions of a support.

    .. math:: \mathbb{E}_{p_e} \bigl[ \tfrac{1}{2} \|s(x)\|^2 + \operatorname{tr} \nabla s(x) \bigr]

    The trace costs n directional derivatives, which ride along with the forward pass. Departure from the reference:
    networks instead of parametric families, added to the Gaussian score.
    """

    reference: ClassVar[Reference] = Reference(
        key="hyvarinen2005estimation",
        authors='Hyv{\\"a}rinen, Aapo',
        title="Estimation of Non-Normalized Statistical Models by Score Matching",
        venue="Journal of Machine Learning Research",
        year=2005,
        url="https://jmlr.org/papers/v6/hyvarinen05a.html",
    )
    evidence: ClassVar[tuple[Evidence, ...]] = (Evidence("closed-form", "tests/scores/test_estimators.py"),)

    def loss(self, nets: Any, u: Tensor) -> Terms:
        g, _, n = u.shape
        s, change = nets.along(u, torch.eye(n).to(u).view(1, n, 1, n).expand(g, n, 1, n))
        return matching(s, change.diagonal(dim1=1, dim2=3).sum(-1))


@dataclass(frozen=True, kw_only=True)
class SlicedScoreMatching(ScoreMatching):
    r"""Sliced score matching with the norm taken exactly (SSM-VR).

    .. math:: \mathbb{E}_{p_e} \bigl[ \tfrac{1}{2} \|s(x)\|^2 + \mathbb{E}_v \, v^\top \nabla s(x) \, v \bigr],
              \qquad v \sim \mathcal{N}(0, I)

    Departures from the reference: the network is added to the Gaussian score (`skip=False`: not), a cosine schedule,
    averaged weights; and no penalty of the weights, which the Gaussian score makes unnecessary.
    """

    projections: int = 2  #: random directions for each row

    reference: ClassVar[Reference] = Reference(
        key="song2019sliced",
        authors="Song, Yang and Garg, Sahaj and Shi, Jiaxin and Ermon, Stefano",
        title="Sliced Score Matching: A Scalable Approach to Density and Score Estimation",
        venue="Conference on Uncertainty in Artificial Intelligence",
        year=2019,
        url="https://arxiv.org/abs/1905.07088",
    )
    evidence: ClassVar[tuple[Evidence, ...]] = (Evidence("closed-form", "tests/scores/test_estimators.py"),)

    def loss(self, nets: Any, u: Tensor) -> Terms:
        g, b, n = u.shape
        v = torch.randn(g, self.projections, b, n, device=u.device, dtype=u.dtype)
        s, change = nets.along(u, v)
        return matching(s, (v * change).sum(-1).mean(1))


def matching(s: Tensor, divergence: Tensor) -> Terms:
    """(G, B, n) scores and (G, B) divergences."""
    return Terms(norm=0.5 * s.square().sum(-1).mean(1).sum(), divergence=divergence.mean(1).sum())


@dataclass(frozen=True, kw_only=True)
class Denoising(ScoreMatching):
    r"""Denoising score matching: the score of the density blurred by a little noise :math:`\delta`.

    .. math:: \mathbb{E}_{p_e} \mathbb{E}_\delta \bigl[ \tfrac{1}{2} \|s(x + \delta)\|^2
              + s(x + \delta)^\top (\sigma^2 C_e)^{-1} \delta \bigr], \qquad \delta \sim \mathcal{N}(0, \sigma^2 C_e)

    Noise has the shape of each environment's covariance :math:`C_e` and comes in pairs :math:`\pm \delta`, so the
    second term stays bounded as :math:`\sigma` falls. Blurring is a bias of order :math:`\sigma^2`; `extrapolate`
    learns the score at :math:`\sqrt{2} \sigma` too and removes that order, :math:`2 s_\sigma - s_{\sqrt{2} \sigma}`,
    at the price of more variance.
    """

    sigma: float = 0.1  #: scale of the noise, relative to that of each environment
    extrapolate: bool = False  #: to no noise, from two scales

    reference: ClassVar[Reference] = Reference(
        key="vincent2011connection",
        authors="Vincent, Pascal",
        title="A Connection Between Score Matching and Denoising Autoencoders",
        venue="Neural Computation",
        year=2011,
        url="https://doi.org/10.1162/NECO_a_00142",
    )
    evidence: ClassVar[tuple[Evidence, ...]] = (Evidence("closed-form", "tests/scores/test_estimators.py"),)

    def __post_init__(self) -> None:
        if not self.sigma > 0:
            raise ValueError(f"Denoising needs noise, got sigma = {self.sigma}. Without noise use ExactScoreMatching.")

    def estimate(self, sample: Sample, run: Run) -> Scores:
        scales = torch.tensor([1.0, 2**0.5] if self.extrapolate else [1.0]) * self.sigma
        L = torch.linalg.cholesky(sample.cov).float().repeat(len(scales), 1, 1)
        L = L * scales.repeat_interleave(1 + sample.environments)[:, None, None]
        noise = Noise(L.to(run.device), torch.linalg.inv(L).to(run.device))

        def turns(nets: Any, batch: Batch, t: int) -> Iterator[Turn]:
            yield Turn(ALL, denoising(nets, batch.u.repeat(len(scales), 1, 1), noise))

        nets = ScoreNets(sample, self.hidden, self.skip, copies=len(scales))
        train(turns, nets, sample, run, self.recipe)
        return NetScores(nets, sample, run.device, (2.0, -1.0) if self.extrapolate else (1.0,))


class Noise(NamedTuple):
    L: Tensor  #: (G, n, n): noise has covariance L L'
    inverse: Tensor


def denoising(nets: Any, u: Tensor, noise: Noise) -> Terms:
    """(G, B, n), with the same noise added and subtracted."""
    epsilon = torch.randn_like(u)
    delta, pull = epsilon @ noise.L.mT, epsilon @ noise.inverse
    plus, minus = nets(torch.cat([u + delta, u - delta], 1)).chunk(2, 1)
    return Terms(
        norm=0.25 * (plus.square() + minus.square()).sum(-1).mean(1).sum(),
        pull=0.5 * ((plus - minus) * pull).sum(-1).mean(1).sum(),
    )
