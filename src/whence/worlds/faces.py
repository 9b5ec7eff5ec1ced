"""Faces: cartoon faces with the four attributes, and the causal graph, of the CausalVAE paper's CelebA experiment."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import torch
from torch import Generator, Tensor
from torch.distributions import Uniform

from whence.evidence import Reference
from whence.scm import SCM, Additive, Link
from whence.worlds import shapes
from whence.worlds.gridded import uniform
from whence.worlds.pendulum import CAUSALVAE
from whence.worlds.world import Factor, World

NAMES = ("gender", "smile", "eyes_open", "mouth_open")
HAIR, SKIN, LIPS, DARK = (0.35, 0.2, 0.1), (0.95, 0.78, 0.65), (0.75, 0.2, 0.2), (0.2, 0.05, 0.05)
BLACK, WHITE = (0.1, 0.1, 0.1), (1.0, 1.0, 1.0)


def eyes(pa: Tensor) -> Tensor:
    """Open with the hair's length, less so with a smile."""
    gender, smile = pa.unbind(-1)
    return 0.25 * gender + 0.25 * (1 - smile)


def mouth(pa: Tensor) -> Tensor:
    return 0.5 * pa[..., 0]


@dataclass(frozen=True)
class Faces(World):
    """Cartoon faces: a smile opens the mouth and narrows the eyes, which depend on gender too. Four factors, 0 to 1.

    The causal graph is the one that the CausalVAE paper gives for CelebA (gender to eyes open, smile to eyes open,
    smile to mouth open), with a known truth: half of an effect is its causes', half its own. Gender is the length of
    the hair and the weight of the brows, by degrees. With `nuisances`, skin, hair and place vary as well.
    """

    size: int = 64  #: pixels a side
    nuisances: bool = False  #: tones of skin and hair, and the face's place, vary at random

    reference: ClassVar[Reference | None] = CAUSALVAE

    def __post_init__(self) -> None:
        if self.size < 16:
            raise ValueError(f"Faces needs at least 16 pixels a side to show anything, got {self.size}.")

    @cached_property
    def scm(self) -> SCM:
        graph = torch.zeros(4, 4, dtype=torch.bool)
        graph[0, 2] = graph[1, 2] = graph[1, 3] = True
        own = Uniform(*torch.tensor([0.0, 0.5], dtype=torch.float64))

        def half(link: Link) -> Additive:
            return Additive(link=link, noise=own)

        return SCM.of(graph, [uniform(0, 1), uniform(0, 1), half(eyes), half(mouth)], NAMES)

    @property
    def factors(self) -> tuple[Factor, ...]:
        return tuple(Factor(name, "continuous", (0.0, 1.0)) for name in NAMES)

    @property
    def shape(self) -> tuple[int, ...]:
        return (3, self.size, self.size)

    def observe(self, v: Tensor, rng: Generator | None = None) -> Tensor:
        if v.ndim != 2 or v.shape[1] != 4 or not torch.isfinite(v).all():
            raise ValueError(f"Faces needs rows of 4 finite values ({', '.join(NAMES)}), got shape {tuple(v.shape)}.")
        v = v.detach().to("cpu", torch.float32)
        varied = torch.zeros(len(v), 4)
        if self.nuisances:
            if rng is None:
                raise ValueError("This variant of Faces has random nuisances: pass rng=torch.Generator() to observe.")
            varied = 2 * torch.rand(len(v), 4, generator=rng) - 1
        return shapes.in_chunks(self.picture, torch.cat([v, varied], 1), self.shape)

    def picture(self, v: Tensor) -> Tensor:
        gender, smile, open_eyes, open_mouth, skin, hair, dx, dy = v.T
        b, s = len(v), self.size
        every = slice(0, s)
        out = torch.ones(b, *self.shape)
        one = torch.ones(b)
        right, down = 0.04 * dx, 0.03 * dy

        def place(mask: Tensor, colour: tuple[float, float, float], tone: Tensor | None = None) -> None:
            for k, c in enumerate(colour):
                paint = torch.full((b,), c) if tone is None else (c * (1 + 0.3 * tone)).clamp(0, 1)
                out[:, k] += mask * (paint[:, None, None] - out[:, k])

        def ellipse(x: float, y: float, a: Tensor | float, c: Tensor | float) -> Tensor:
            return shapes.ellipse(s * (x + right), s * (y + down), s * a * one, s * c * one, every, every)

        def box(left: float, far: float, top: Tensor | float, bottom: Tensor) -> Tensor:
            low, high = s * (left + right), s * (far + right)
            return shapes.rectangle(low, high, s * (top + down), s * (bottom + down), every, every)

        place(ellipse(0.5, 0.44, 0.34, 0.36), HAIR, hair)
        place(box(0.16, 0.84, 0.44, 0.46 + 0.46 * gender), HAIR, hair)
        place(ellipse(0.5, 0.54, 0.27, 0.34), SKIN, skin)
        for x in (0.38, 0.62):
            white = ellipse(x, 0.47, 0.075, 0.008 + 0.055 * open_eyes.clamp(min=0))
            place(white, WHITE)
            place(white * ellipse(x, 0.47, 0.035, 0.045), BLACK)
            weight = 0.014 * (1.5 - gender)
            place(box(x - 0.08, x + 0.08, 0.36 - weight, 0.36 + weight), HAIR, hair)
        at = ((torch.arange(s) + 0.5) / s - 0.5 - right[:, None]) / 0.15  # -1 to 1 from corner to corner
        bow = (1 - at.square()).clamp(min=0)
        upper = 0.72 + down[:, None] + (0.09 * (smile[:, None] - 0.3)) * (bow - 0.5)
        lower = upper + 0.13 * open_mouth.clamp(min=0)[:, None] * bow
        inside = (at.abs() <= 1).float()
        rows = torch.arange(s)[None, :, None]
        for colour, lip in ((LIPS, 0.022), (DARK, 0.0)):
            top, bottom = (s * (edge + sign * lip * bow.sqrt()) for edge, sign in ((upper, -1), (lower, 1)))
            cover = torch.minimum(bottom[:, None, :], rows + 1) - torch.maximum(top[:, None, :], rows + 0.0)
            place(cover.clamp(min=0) * inside[:, None, :], colour)
        return out
