"""Shrunk: the pictures of another world, smaller."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from torch import Generator, Tensor
from torch.nn.functional import avg_pool2d

from whence.evidence import Reference
from whence.scm import SCM
from whence.worlds.sprites import DSPRITES, Sprites
from whence.worlds.world import Do, Factor, World


@dataclass(frozen=True)
class Shrunk(World):
    """Another world's pictures, each square of pixels averaged to one: the same causes at a fraction of the cost."""

    of: World = field(default_factory=Sprites)  #: the world whose pictures are shown
    factor: int = 4  #: pixels of a side that become one

    reference: ClassVar[Reference | None] = DSPRITES

    def __post_init__(self) -> None:
        shape = self.of.shape
        if self.factor < 1 or len(shape) != 3 or shape[1] % self.factor or shape[2] % self.factor:
            raise ValueError(
                f"Pictures are shrunk by a whole number that divides their sides, got factor={self.factor} for "
                f"observations of shape {tuple(shape)}."
            )

    @property
    def factors(self) -> tuple[Factor, ...]:
        return self.of.factors

    @property
    def scm(self) -> SCM | None:
        return self.of.scm

    @property
    def shape(self) -> tuple[int, ...]:
        c, h, w = self.of.shape
        return (c, h // self.factor, w // self.factor)

    def draw(self, n: int, *, rng: Generator, do: Do | None = None) -> Tensor:
        return self.of.draw(n, rng=rng, do=do)

    def observe(self, v: Tensor, rng: Generator | None = None) -> Tensor:
        return avg_pool2d(self.of.observe(v, rng), self.factor)
