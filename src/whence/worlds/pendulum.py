r"""Pendulum: a swinging ball, a light and the shadow that both make, as in the pictures of the CausalVAE paper."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import torch
from torch import Generator, Tensor

from whence.evidence import Reference
from whence.scm import SCM
from whence.worlds import shapes
from whence.worlds.gridded import Gridded, Split, uniform, varied
from whence.worlds.shapes import Plot
from whence.worlds.world import Factor

CAUSALVAE = Reference(
    key="yang2021causalvae",
    authors="Yang, Mengyue and Liu, Furui and Chen, Zhitang and Shen, Xinwei and Hao, Jianye and Wang, Jun",
    title="CausalVAE: Disentangled Representation Learning via Neural Structural Causal Models",
    venue="IEEE/CVF Conference on Computer Vision and Pattern Recognition",
    year=2021,
    url="https://arxiv.org/abs/2004.08697",
)

NAMES = ("pendulum", "light", "shadow_length", "shadow_position")
REACH = ((3.0, 12.6), (2.0, 19.7))  # of the shadow's length and position, over all angles
UNIT = math.pi / 200  # of both angles
PIVOT = (10.0, 10.5)
FIREBRICK, ORANGE, BLACK = (178 / 255, 34 / 255, 34 / 255), (1.0, 165 / 255, 0.0), (0.0, 0.0, 0.0)


def shadow(x: Tensor, y: Tensor, light: Tensor, base: float = -0.5) -> Tensor:
    """Where the light's ray through (x, y) meets the height `base`."""
    return x + (base - y) / torch.tan(UNIT * light)


def ends(pa: Tensor) -> tuple[Tensor, Tensor]:
    """The shadows of the pivot and of the ball's lower end, from (..., 2) of pendulum and light."""
    theta, light = UNIT * pa[..., 0], pa[..., 1]
    x, y = (torch.full_like(light, c) for c in PIVOT)
    return shadow(x, y, light), shadow(x + 9.5 * theta.sin(), y - 9.5 * theta.cos(), light)


def length(pa: Tensor) -> Tensor:
    pivot, tip = ends(pa)
    return (pivot - tip).abs().clamp(min=3)


def position(pa: Tensor) -> Tensor:
    pivot, tip = ends(pa)
    return (pivot + tip) / 2


@dataclass(frozen=True)
class Pendulum(Gridded):
    """A pendulum, a light, and the shadow that both make: four factors, of which two cause the other two.

    The geometry is that of the published pictures; angles are counted in 200ths of pi, as there. Labels are continuous:
    the published ones are truncated to whole numbers. Without noise a shadow is determined by its causes, so nothing in
    the data tells what a picture looks like whose shadow is set otherwise; `noise` lets it vary a little by itself.
    """

    size: int = 96  #: pixels a side
    noise: float = 0.0  #: the shadow's length and position vary by up to this, uniformly, beside their causes
    split: Split | None = None  #: the published grid of 84 x 87 angles, or its training or test part; none: any angles
    truncated: bool = False  #: labels are cut to whole numbers, as in the published file names

    reference: ClassVar[Reference | None] = CAUSALVAE
    ranges: ClassVar[tuple[tuple[float, float], ...]] = ((-40.0, 43.0), (60.0, 147.0))

    @cached_property
    def scm(self) -> SCM:
        graph = torch.zeros(4, 4, dtype=torch.bool)
        graph[:2, 2:] = True
        roots = [uniform(low, high) for low, high in self.ranges]
        return SCM.of(graph, [*roots, *(varied(link, self.noise) for link in (length, position))], NAMES)

    @property
    def factors(self) -> tuple[Factor, ...]:
        bounds = [*self.ranges, *((low - self.noise, high + self.noise) for low, high in REACH)]
        return tuple(Factor(name, "continuous", bound) for name, bound in zip(NAMES, bounds, strict=True))

    @property
    def shape(self) -> tuple[int, ...]:
        return (3, self.size, self.size)

    @cached_property
    def table(self) -> Tensor:
        i, j = torch.arange(-40, 44), torch.tensor([j for j in range(60, 148) if j != 100])
        return torch.cartesian_prod(i, j).float()

    def placed(self, row: Tensor) -> dict[str | int, Tensor]:
        return {0: row[:, 0], 1: row[:, 1]}

    def is_test(self, number: Tensor) -> Tensor:
        # The published counter starts at 0, is set to 0 after a test picture and then raised: every fourth, from the
        # fifth on (huawei-noah/trustworthyAI@398dab4, research/CausalVAE/causal_data/pendulum.py).
        return (number % 4 == 0) & (number > 0)

    def observe(self, v: Tensor, rng: Generator | None = None) -> Tensor:
        return shapes.in_chunks(self.picture, self.checked(v), self.shape)

    def picture(self, v: Tensor) -> Tensor:
        plot = Plot(self.size, (0.0, 20.0), (-1.0, 21.0))
        rows, columns = plot.window
        theta, light, size, middle = v.T
        theta = UNIT * theta
        sin, cos = theta.sin(), theta.cos()
        x, y = plot.x(PIVOT[0] + 8 * sin), plot.y(PIVOT[1] - 8 * cos)
        rod, edge = plot.lines(3), plot.lines(1) / 2
        px, py = (
            torch.full_like(light, float(p)) for p in (plot.x(torch.tensor(PIVOT[0])), plot.y(torch.tensor(PIVOT[1])))
        )
        out = torch.ones(len(v), *self.shape)

        def round(x: Tensor, y: Tensor, radius: float, colour: tuple[float, float, float], rows: slice) -> None:
            a, b = (torch.full_like(x, radius * unit + edge) for unit in (plot.across, plot.down))
            shapes.paint(out, shapes.ellipse(x, y, a, b, rows, columns), colour, rows, columns)

        middle_row = math.floor(plot.y(torch.tensor(PIVOT[1])).item() - rod)
        hanging = slice(middle_row, rows.stop)
        shapes.paint(out, shapes.bar(px, py, x, y, rod, hanging, columns), BLACK, hanging, columns)
        round(x, y, 1.5, FIREBRICK, hanging)
        above, high = (torch.full_like(light, c) for c in PIVOT)
        sun = shadow(above, high, light, base=20.5)
        round(plot.x(sun), plot.y(torch.tensor(20.5)).expand(len(v)), 3, ORANGE, slice(rows.start, middle_row))
        level = plot.snapped(plot.y(torch.tensor(-0.5)).item(), rod)
        floor, ground = torch.full_like(middle, level), slice(math.floor(level - rod), rows.stop)
        left, right = plot.x(middle - size / 2), plot.x(middle + size / 2)
        mask = shapes.rectangle(left, right, floor - rod / 2, floor + rod / 2, ground, columns)
        shapes.paint(out, mask, BLACK, ground, columns)
        return out
