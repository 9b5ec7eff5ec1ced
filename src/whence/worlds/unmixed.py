"""Unmixed: the factors themselves as observations."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from torch import Generator, Tensor

from whence.evidence import Reference
from whence.scm import SCM
from whence.worlds.sprites import DSPRITES, Sprites
from whence.worlds.world import Do, Factor, World


@dataclass(frozen=True)
class Unmixed(World):
    """A world seen without its pictures: the observation is the vector of factor values. The ceiling of any metric."""

    of: World = field(default_factory=Sprites)  #: the world whose factors are shown

    reference: ClassVar[Reference | None] = DSPRITES

    @property
    def factors(self) -> tuple[Factor, ...]:
        return self.of.factors

    @property
    def scm(self) -> SCM | None:
        return self.of.scm

    @property
    def shape(self) -> tuple[int, ...]:
        return (len(self.factors),)

    def draw(self, n: int, *, rng: Generator, do: Do | None = None) -> Tensor:
        return self.of.draw(n, rng=rng, do=do)

    def observe(self, v: Tensor, rng: Generator | None = None) -> Tensor:
        return v
