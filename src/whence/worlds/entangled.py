"""Entangled: factors as observations, spoiled in a known way. What a metric says of them shows what it sees."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar, Literal, get_args

import torch
from torch import Generator, Tensor

from whence.evidence import Reference
from whence.worlds.sprites import DSPRITES, Sprites
from whence.worlds.world import Do, Factor, World

How = Literal["rotated", "merged", "noisy", "duplicated", "missing", "squashed", "circular", "padded", "random"]


@dataclass(frozen=True)
class Entangled(World):
    """The standardised factors of another world as observations, spoiled in one known way, more or less.

    rotated: by up to 45 degrees times the amount in every plane of a random rotation. merged: each value plus the
    amount times the next. noisy: normal noise of that deviation. squashed: through tanh of twice the amount. circular:
    sine and cosine. duplicated: twice. missing: without the last factor. padded: with as many dead values. random:
    nothing but noise.
    """

    of: World = field(default_factory=Sprites)  #: the world whose factors are shown
    how: How = "rotated"  #: what is done to them
    amount: float = 1.0  #: how much, where there is a how much

    reference: ClassVar[Reference | None] = DSPRITES

    def __post_init__(self) -> None:
        if self.how not in get_args(How):
            raise ValueError(f"how is one of {', '.join(get_args(How))}, got {self.how!r}.")

    @property
    def factors(self) -> tuple[Factor, ...]:
        return self.of.factors

    @property
    def shape(self) -> tuple[int, ...]:
        k = len(self.factors)
        return ({"duplicated": 2 * k, "padded": 2 * k, "circular": 2 * k, "missing": k - 1}.get(self.how, k),)

    def draw(self, n: int, *, rng: Generator, do: Do | None = None) -> Tensor:
        return self.of.draw(n, rng=rng, do=do)

    @cached_property
    def moments(self) -> tuple[Tensor, Tensor]:
        """Mean and deviation of each factor."""
        grids = [torch.tensor(factor.values, dtype=torch.float64) for factor in self.factors]
        means = [grid.mean() for grid in grids]
        spreads = [
            grid.std(correction=0) if factor.size else (grid[1] - grid[0]) / math.sqrt(12)
            for grid, factor in zip(grids, self.factors, strict=True)
        ]
        return torch.stack(means).float(), torch.stack(spreads).float()

    @cached_property
    def rotation(self) -> Tensor:
        """exp(A) of a random skew-symmetric A whose largest angle is 45 degrees times the amount."""
        k = len(self.factors)
        a = torch.randn(k, k, generator=Generator().manual_seed(0), dtype=torch.float64)
        a = a - a.T
        return torch.matrix_exp(a / torch.linalg.matrix_norm(a, 2) * self.amount * math.pi / 4).float()

    def observe(self, v: Tensor, rng: Generator | None = None) -> Tensor:
        mean, spread = self.moments
        s = (v.float() - mean) / spread
        if self.how in ("noisy", "padded", "random"):
            if rng is None:
                raise ValueError(f"A world that is {self.how} has noise of its own: pass rng=torch.Generator().")
            noise = torch.randn(s.shape, generator=rng)
        spoil: dict[str, Callable[[], Tensor]] = {
            "rotated": lambda: s @ self.rotation,
            "merged": lambda: s + self.amount * s.roll(-1, 1),
            "noisy": lambda: s + self.amount * noise,
            "duplicated": lambda: torch.cat([s, s], 1),
            "missing": lambda: s[:, :-1],
            "squashed": lambda: torch.tanh(2 * self.amount * s),
            "circular": lambda: torch.cat([torch.sin(s * math.pi / 2), torch.cos(s * math.pi / 2)], 1),
            "padded": lambda: torch.cat([s, 0.01 * noise], 1),
            "random": lambda: noise,
        }
        return spoil[self.how]()
