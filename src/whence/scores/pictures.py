"""Score differences on pictures: small convolutional classifiers that tell environments apart."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Generator, Tensor, nn
from torch.nn.functional import cross_entropy, softplus

from whence.descend import ALL, Adam, Cosine, Recipe, Run, Terms, Turn, descend, mix
from whence.evidence import Evidence, Reference
from whence.scores.base import ScoreEstimator, Scores
from whence.scores.ratio import NCE
from whence.scores.sample import Batch
from whence.views import View, as_tensor


class Classifiers(nn.Module):
    """`groups` convolutional networks side by side, which share no weights: each sees its own channels of the input.
    Activations are smooth, for a network of ReLUs has a gradient that jumps."""

    def __init__(self, groups: int, shape: tuple[int, ...], outputs: int, width: int) -> None:
        super().__init__()
        c, side, _ = shape
        self.groups, g, w = groups, groups, width
        self.layers = nn.Sequential(
            nn.Conv2d(g * c, g * w, 4, 2, 1, groups=g),
            nn.SiLU(),
            nn.Conv2d(g * w, 2 * g * w, 4, 2, 1, groups=g),
            nn.SiLU(),
            nn.Conv2d(2 * g * w, 4 * g * w, side // 4, groups=g),
            nn.SiLU(),
            nn.Conv2d(4 * g * w, g * outputs, 1, groups=g),
            nn.Flatten(),
        )
        self.register_buffer("middle", torch.zeros(shape))

    middle: Tensor  #: the mean picture

    def forward(self, x: Tensor) -> Tensor:
        """(groups, B, C, H, W) -> (groups, B, outputs)."""
        out: Tensor = self.layers((x - self.middle).transpose(0, 1).flatten(1, 2))
        return out.unflatten(1, (self.groups, -1)).transpose(0, 1)


@dataclass(frozen=True, kw_only=True)
class Drawn(View[Batch]):
    """Pictures that are resident as they were given: a row of a ticket is one picture of each environment."""

    pictures: tuple[Tensor, ...]

    def gather(self, ticket: Tensor, rng: Generator) -> Batch:
        return Batch(torch.stack([floats(x[i]) for x, i in zip(self.pictures, ticket.T, strict=True)]))


def floats(x: Tensor) -> Tensor:
    """Bytes to [0, 1]."""
    return x.to(torch.float32).div_(255) if x.dtype == torch.uint8 else x.to(torch.float32)


@dataclass(frozen=True, kw_only=True)
class PictureRatio(ScoreEstimator):
    r"""Classifiers of pictures; differences of their logits are log-ratios of densities.

    .. math:: d_e(x) = \nabla_x \log \frac{p_0(x)}{p_e(x)}

    Environments' samples are pictures (N, C, H, W), in bytes or in [0, 1]; so are the points and the differences at
    them. `shared`: one classifier of all environments, one trunk with a head for each. Otherwise, as published, a
    classifier for each interventional environment, which tells it from the observational one, all trained side by
    side; the published ones also tell the two environments of a pair apart, which here is the difference of two.

    Off the manifold of pictures such a gradient is arbitrary: it means something after it was carried to a code.
    """

    shared: bool = True  #: one trunk, or a classifier for each environment
    width: int = 16  #: channels of the first convolution; later ones have twice and four times as many
    recipe: Recipe = Recipe(  #: batch counts pictures of each environment
        steps=1_000, batch=48, optimiser=Adam(lr=2e-3, weight_decay=0.1), schedule=Cosine(), ema=0.99
    )

    reference: ClassVar[Reference] = NCE
    evidence: ClassVar[tuple[Evidence, ...]] = (Evidence("closed-form", "tests/scores/test_pictures.py"),)

    def fit(self, samples: Sequence[Tensor | np.ndarray], *, run: Run | int = 0) -> PictureScores:
        run = Run(seed=run) if isinstance(run, int) else run
        pictures = tuple(as_tensor(x) for x in samples)
        shape = tuple(pictures[0].shape[1:])
        if len(shape) != 3 or shape[1] != shape[2] or shape[1] % 4 or len(pictures) < 2:
            raise ValueError(
                "PictureRatio needs square pictures (N, C, H, W) whose side divides by 4, of the observational "
                f"environment and at least one other, got {len(pictures)} of shape {shape}. Resize them, or use "
                "MulticlassRatio for vectors."
            )
        many = len(pictures) - 1
        sizes = torch.tensor([len(x) for x in pictures])
        with torch.random.fork_rng():
            torch.manual_seed(mix(run.seed, "scores", type(self).__name__))
            nets = Classifiers(*((1, shape, 1 + many) if self.shared else (many, shape, 1)), self.width)
        nets.middle = torch.stack([floats(x[:1_000]).mean(0) for x in pictures]).mean(0)
        view = Drawn(
            shape=shape,
            draw_=lambda n, rng: (torch.rand(n, len(sizes), generator=rng, dtype=torch.float64) * sizes).long(),
            observe=lambda ticket, rng: pictures[0][ticket],
            pictures=pictures,
        )
        stage = f"scores-{sum(name.startswith('scores') for name in run.curves)}"
        inner = replace(run, recipe=self.recipe)
        try:
            trained = descend(self.turns, nets.to(run.device), view, inner, stage=stage).requires_grad_(False)
        finally:
            run.stopped_at = inner.stopped_at
        return PictureScores(trained, many, shape, run.device, self.shared)

    def turns(self, nets: Any, batch: Batch, t: int) -> Iterator[Turn]:
        x = batch.u  # (1 + E, B, C, H, W)
        e, b = x.shape[:2]
        if self.shared:
            label = torch.arange(e, device=x.device).repeat_interleave(b)
            yield Turn(ALL, Terms(classify=cross_entropy(nets(x.flatten(0, 1)[None])[0], label)))
            return
        observational, interventional = nets(torch.cat([x[:1].expand_as(x[1:]), x[1:]], 1))[..., 0].chunk(2, 1)
        terms = softplus(-observational).mean(1).sum(), softplus(interventional).mean(1).sum()
        yield Turn(ALL, Terms(observational=terms[0], interventional=terms[1]))


class PictureScores(Scores):
    """Differences (E, N, C, H, W) at pictures (N, C, H, W)."""

    def __init__(self, nets: nn.Module, many: int, shape: tuple[int, ...], device: str, shared: bool) -> None:
        super().__init__(many, shape[0] * shape[1] * shape[2])
        self.nets, self.shape, self.device, self.shared = nets, shape, device, shared
        self.width = 16 * many * self.dims

    def differences_of(self, x: Tensor) -> Tensor:
        with torch.enable_grad():
            if not self.shared:  # each network's gradient is that of its own copy
                u = x.to(self.device, torch.float32).repeat(self.environments, 1, 1, 1, 1).requires_grad_()
                return torch.autograd.grad(self.nets(u).sum(), u)[0].to(x)
            u = x.to(self.device, torch.float32).requires_grad_()
            logit = self.nets(u[None])[0]
            ratios = (logit[:, :1] - logit[:, 1:]).sum(0)
            d = [torch.autograd.grad(ratio, u, retain_graph=True)[0] for ratio in ratios]
        return torch.stack(d).to(x)

    def checked(self, x: Tensor | np.ndarray) -> Tensor:
        points = as_tensor(x)
        if tuple(points.shape[1:]) != self.shape or not points.is_floating_point():
            raise ValueError(
                f"Scores of pictures of shape {self.shape} need points (N, *{self.shape}) in floats, got "
                f"{tuple(points.shape)} of {points.dtype}. Resize them as those they were fitted on."
            )
        return points
