"""Flow: a ball in a cup of water with a hole, and the jet that comes out, as in the CausalVAE paper."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import torch
from torch import Generator, Tensor
from torch.distributions import Uniform

from whence.evidence import Reference
from whence.scm import SCM, Additive
from whence.worlds import shapes
from whence.worlds.gridded import Gridded, Split, uniform, varied
from whence.worlds.pendulum import BLACK, CAUSALVAE, FIREBRICK
from whence.worlds.shapes import Plot
from whence.worlds.world import Factor

NAMES = ("ball", "water", "flow", "hole")
BALL, POURED, HOLE = (5.0, 34.0), (1.0, 3.9), (6.0, 14.0)
REACH = ((1.0, 5.4), (17.1, 66.2))  # of the water and of the flow, over all causes
LIGHTSKYBLUE = (135 / 255, 206 / 255, 250 / 255)
GRAVITY = 0.98


def raised(pa: Tensor) -> Tensor:
    """How far the ball lifts the water."""
    return (pa[..., 0] / 30) ** 3


def reach(pa: Tensor) -> Tensor:
    """Ten times how far the jet of (..., 2) water and hole gets to: Torricelli's law."""
    water, deep = pa[..., 0].clamp(min=0), pa[..., 1] / 3
    return 10 * (2 * GRAVITY * water * (deep - 0.5).clamp(min=0)).sqrt()


@dataclass(frozen=True)
class Flow(Gridded):
    """A ball that raises the water in a cup, and the jet through a hole in it: four factors, two of them effects.

    The geometry and the units are those of the published pictures: the ball's radius in 30ths, the water above 5, ten
    times the jet's reach, the hole's height in thirds. How much water was poured is the water's own noise. Labels are
    continuous: the published ones are truncated to whole numbers. The published pictures draw jets half a percent and
    more longer than their labels, at random: so does `jitter`; without it the picture shows the label.
    """

    size: int = 96  #: pixels a side
    noise: float = 0.0  #: the jet's reach varies by up to this, uniformly, beside its causes
    split: Split | None = None  #: the published grid of 30 x 30 x 9 draws, or its training or test part; none: any
    truncated: bool = False  #: labels are cut to whole numbers, as in the published file names
    jitter: bool = False  #: jets are drawn longer than they are, as published

    reference: ClassVar[Reference | None] = CAUSALVAE

    @cached_property
    def scm(self) -> SCM:
        graph = torch.zeros(4, 4, dtype=torch.bool)
        graph[0, 1] = graph[1, 2] = graph[3, 2] = True
        poured = Uniform(*torch.tensor(POURED, dtype=torch.float64))
        water = Additive(link=raised, noise=poured)
        return SCM.of(graph, [uniform(*BALL), water, varied(reach, self.noise), uniform(*HOLE)], NAMES)

    @property
    def factors(self) -> tuple[Factor, ...]:
        water, (low, high) = REACH
        bounds = (BALL, water, (low - self.noise, high + self.noise), HOLE)
        return tuple(Factor(name, "continuous", bound) for name, bound in zip(NAMES, bounds, strict=True))

    @property
    def shape(self) -> tuple[int, ...]:
        return (3, self.size, self.size)

    @cached_property
    def table(self) -> Tensor:
        return torch.cartesian_prod(torch.arange(5, 35), torch.arange(10, 40), torch.arange(6, 15)).float()

    def placed(self, row: Tensor) -> dict[str | int, Tensor]:
        ball, poured, hole = row.double().T
        return {0: ball, 1: (ball / 30) ** 3 + poured / 10, 3: hole}

    def is_test(self, number: Tensor) -> Tensor:
        return number % 5 == 4

    def observe(self, v: Tensor, rng: Generator | None = None) -> Tensor:
        v = self.checked(v)
        if self.jitter:
            if rng is None:
                raise ValueError("This variant of Flow draws jets of random length: pass rng=torch.Generator().")
            pull = 0.01 * torch.randn(len(v), generator=rng).abs().clamp(min=1)
            v = v.clone()
            v[:, 2] *= (1 + pull / GRAVITY).sqrt()
        return shapes.in_chunks(self.picture, v, self.shape)

    def picture(self, v: Tensor) -> Tensor:
        plot = Plot(self.size, (0.0, 20.0), (0.0, 20.0))
        rows, columns = plot.window
        ball, water, flow, hole = v.T
        b, deep, edge, line = len(v), hole / 3, plot.lines(1) / 2, plot.lines(2)
        out = torch.ones(b, *self.shape)

        def x(at: float, width: float = 0.0) -> Tensor:
            pixels = plot.x(torch.tensor(at)).item()
            return torch.full((b,), plot.snapped(pixels, width) if width else pixels)

        def y(at: float | Tensor) -> Tensor:
            return plot.y(torch.as_tensor(at)).expand(b)

        cup = slice(columns.start, math.ceil(plot.x(torch.tensor(8.0)).item() + line))
        left, right = x(3, 2 * edge) - edge, x(8, 2 * edge) + edge
        shapes.paint(out, shapes.rectangle(left, right, y(5 + water) - edge, y(0), rows, cup), LIGHTSKYBLUE, rows, cup)
        for at, low, high in ((3, 0.0, 19.0), (8, 0.0, deep), (8, deep + 0.4, 19.0)):
            middle = x(at, line)
            mask = shapes.rectangle(middle - line / 2, middle + line / 2, y(high), y(low), rows, cup)
            shapes.paint(out, mask, BLACK, rows, cup)
        radius = ball / 30
        a, c = (radius * unit + edge for unit in (plot.across, plot.down))
        shapes.paint(out, shapes.ellipse(x(5.5), y(radius + 0.5), a, c, rows, cup), FIREBRICK, rows, cup)
        aside, low = slice(cup.stop - math.ceil(2 * line), columns.stop), slice(rows.start + self.size // 3, rows.stop)
        shapes.paint(out, self.jet(plot, deep, flow, line, low, aside), LIGHTSKYBLUE, low, aside)
        level = plot.snapped(plot.y(torch.tensor(0.2)).item(), line)
        ground, floor = slice(math.floor(level - line), rows.stop), torch.full((b,), level)
        mask = shapes.rectangle(x(0), x(20), floor - line / 2, floor + line / 2, ground, columns)
        shapes.paint(out, mask, BLACK, ground, columns)
        return out

    @staticmethod
    def jet(plot: Plot, deep: Tensor, flow: Tensor, width: float, rows: slice, columns: slice) -> Tensor:
        """A line along the parabola from (8, deep) to (8 + flow / 10, 1/2), by its distance to first order."""
        reach, fall = flow / 10, deep - 0.5
        reach = torch.where(reach.abs() < 1e-3, torch.full_like(reach, 1e-3), reach)
        p = shapes.centres(columns) - plot.x(torch.tensor(8.0))
        q = shapes.centres(rows) - plot.y(deep)[:, None]  # down from where it leaves
        steep = fall * plot.down / (reach * plot.across).square()  # q = steep p^2
        slope = 2 * steep[:, None] * p
        off = (q[:, :, None] - (steep[:, None] * p.square())[:, None, :]) / (1 + slope.square()).sqrt()[:, None, :]
        wide = off.abs_().neg_().add_(width / 2 + 0.5).clamp_(0, min(width, 1.0))
        begin = (p + width / 2 + 0.5).clamp(0, 1)
        tx, ty = reach * plot.across, 2 * fall * plot.down
        norm = torch.hypot(tx, ty)
        tx, ty = tx / norm, ty / norm
        beyond = ((p - (reach * plot.across)[:, None]) * tx[:, None])[:, None, :] + (
            (q - (fall * plot.down)[:, None]) * ty[:, None]
        )[:, :, None]
        return wide.mul_(begin).mul_(beyond.neg_().add_(width / 2 + 0.5).clamp_(0, 1))
