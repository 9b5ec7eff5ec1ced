"""Score differences from density ratios, learned by telling environments apart."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, silu, softplus

from whence.descend import ALL, Adam, Cosine, Recipe, Run, Terms, Turn
from whence.evidence import Evidence, Reference
from whence.scores.base import Estimated, Scores, train
from whence.scores.grouped import Grouped
from whence.scores.sample import Batch, Sample

HELD = 512  #: numbers a network holds for each row, when its gradient is taken

NCE = Reference(
    key="gutmann2012noise",
    authors='Gutmann, Michael U. and Hyv{\\"a}rinen, Aapo',
    title="Noise-Contrastive Estimation of Unnormalized Statistical Models, with Applications to Natural Image "
    "Statistics",
    venue="Journal of Machine Learning Research",
    year=2012,
    url="https://jmlr.org/papers/v13/gutmann12a.html",
)


class Quadratic(NamedTuple):
    """Coefficients of quadratic functions, (groups, outputs, ...)."""

    first: Tensor  #: (groups, outputs, n)
    second: Tensor  #: (groups, outputs, n, n)
    zeroth: Tensor  #: (groups, outputs)


class Logits(nn.Module):
    """Log-densities up to a constant, by groups: Gaussian at first, and MLPs that begin near zero learn the rest."""

    def __init__(self, at_first: Quadratic, hidden: Sequence[int]) -> None:
        super().__init__()
        g, k, n = at_first.first.shape
        self.quadratic = nn.Parameter(
            torch.cat([at_first.first, at_first.second.flatten(2)], 2).mT.float().contiguous()
        )
        self.constant = nn.Parameter(at_first.zeroth[:, None].float())
        self.rest = Grouped(g, [n, *hidden, k], silu, first=2.0)

    def forward(self, u: Tensor) -> Tensor:
        """(groups, B, n) -> (groups, B, outputs)."""
        features = torch.cat([u, (u[..., :, None] * u[..., None, :]).flatten(2)], 2)
        return torch.baddbmm(self.constant, features, self.quadratic) + self.rest(u)


def gaussian_logits(sample: Sample) -> Quadratic:
    """Each environment's Gaussian log-density, as one group."""
    theta = sample.precision
    first = torch.einsum("gij,gj->gi", theta, sample.mean)
    zeroth = 0.5 * torch.logdet(theta) - 0.5 * (first * sample.mean).sum(1)
    return Quadratic(first[None], -0.5 * theta[None], zeroth[None])


@dataclass(frozen=True, kw_only=True)
class MulticlassRatio(Estimated):
    r"""One classifier of all environments; differences of its logits are log-ratios of densities.

    .. math:: d_e(x) = \nabla_x \log \frac{p_0(x)}{p_e(x)} = \nabla_x (\ell_0(x) - \ell_e(x))

    Classes are drawn equally often whatever their sample sizes, so the ratios need no correction for priors, and all
    of them are consistent with each other, as combinations of environments need. Activations are smooth, for a network
    of ReLUs has a gradient that jumps. The logits begin at those of Gaussians, so a linear Gaussian world is solved
    before training, and the network learns what is left.
    """

    hidden: tuple[int, ...] = (64, 64)  #: widths of the hidden layers
    members: int = 1  #: networks whose logits are averaged
    recipe: Recipe = Recipe(  #: batch counts rows of each environment
        steps=500, batch=256, optimiser=Adam(lr=5e-3), schedule=Cosine(), ema=0.99
    )

    reference: ClassVar[Reference] = NCE
    evidence: ClassVar[tuple[Evidence, ...]] = (Evidence("closed-form", "tests/scores/test_estimators.py"),)

    def estimate(self, sample: Sample, run: Run) -> Scores:
        at_first = Quadratic(*(a.repeat_interleave(self.members, 0) for a in gaussian_logits(sample)))
        nets = Logits(at_first, self.hidden)
        train(self.turns, nets, sample, run, self.recipe)
        return MulticlassScores(nets, sample, run.device, self.members)

    def turns(self, nets: Any, batch: Batch, t: int) -> Iterator[Turn]:
        g, b, n = batch.u.shape
        logit = nets(batch.u.view(1, g * b, n).expand(self.members, g * b, n))
        label = torch.arange(g, device=logit.device).repeat_interleave(b).repeat(self.members)
        yield Turn(ALL, Terms(classify=cross_entropy(logit.flatten(0, 1), label) * self.members))


class MulticlassScores(Scores):
    """Gradients of differences of logits, which are averaged over members."""

    def __init__(self, nets: nn.Module, sample: Sample, device: str, members: int) -> None:
        super().__init__(sample.environments, sample.dims)
        self.nets, self.device, self.members = nets, device, members
        self.width = HELD * members

    def differences_of(self, x: Tensor) -> Tensor:
        with torch.enable_grad():
            u = x.to(self.device, torch.float32).requires_grad_()
            logit = self.nets(u.expand(self.members, *u.shape)).mean(0)
            ratios = (logit[:, :1] - logit[:, 1:]).sum(0)
            d = [torch.autograd.grad(ratio, u, retain_graph=True)[0] for ratio in ratios]
        return torch.stack(d).to(x)


@dataclass(frozen=True, kw_only=True)
class PairwiseRatio(Estimated):
    r"""A classifier for each interventional environment, which tells it from the observational one.

    .. math:: d_e(x) = \nabla_x \log \frac{p_0(x)}{p_e(x)} = \nabla_x \ell_e(x)

    The same start, activations and balance as `MulticlassRatio`; the networks share no weights and are trained side by
    side. A combination of environments need not be consistent.
    """

    hidden: tuple[int, ...] = (64, 64)  #: widths of the hidden layers
    recipe: Recipe = MulticlassRatio().recipe  #: batch counts rows of each environment

    reference: ClassVar[Reference] = NCE
    evidence: ClassVar[tuple[Evidence, ...]] = (Evidence("closed-form", "tests/scores/test_estimators.py"),)

    def estimate(self, sample: Sample, run: Run) -> Scores:
        ratios = Quadratic(*((a[:, :1] - a[:, 1:]).transpose(0, 1) for a in gaussian_logits(sample)))
        nets = Logits(ratios, self.hidden)
        train(self.turns, nets, sample, run, self.recipe)
        return PairwiseScores(nets, sample, run.device)

    def turns(self, nets: Any, batch: Batch, t: int) -> Iterator[Turn]:
        u = batch.u
        observational, interventional = nets(torch.cat([u[:1].expand_as(u[1:]), u[1:]], 1))[..., 0].chunk(2, 1)
        terms = softplus(-observational).mean(1).sum(), softplus(interventional).mean(1).sum()
        yield Turn(ALL, Terms(observational=terms[0], interventional=terms[1]))


class PairwiseScores(Scores):
    """Gradients of logits."""

    def __init__(self, nets: nn.Module, sample: Sample, device: str) -> None:
        super().__init__(sample.environments, sample.dims)
        self.nets, self.device = nets, device
        self.width = HELD * self.environments

    def differences_of(self, x: Tensor) -> Tensor:
        with torch.enable_grad():
            u = x.to(self.device, torch.float32).repeat(self.environments, 1, 1).requires_grad_()
            (d,) = torch.autograd.grad(self.nets(u).sum(), u)
        return d.to(x)
