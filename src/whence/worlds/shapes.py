"""Anti-aliased shapes for procedural worlds: how much of each pixel a shape covers, (B, height, width)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

CHUNK = 64  #: pictures drawn at once: their intermediate fields stay in the cache

DPI = 96  # of the published pictures, which are an inch wide


class Plot(NamedTuple):
    """A plot of the published pictures: a square figure, and axes at matplotlib's place in it.

    >>> plot = Plot(96, (0.0, 20.0), (-1.0, 21.0))
    >>> round(plot.x(torch.tensor(10.0)).item(), 3), plot.lines(3)
    (49.2, 4.0)
    """

    size: int  #: pixels a side
    xlim: tuple[float, float]
    ylim: tuple[float, float]

    @property
    def across(self) -> float:
        """Pixels a unit."""
        return self.size * 0.775 / (self.xlim[1] - self.xlim[0])

    @property
    def down(self) -> float:
        return self.size * 0.77 / (self.ylim[1] - self.ylim[0])

    def x(self, x: Tensor) -> Tensor:
        """Pixels from the left."""
        return self.size * 0.125 + (x - self.xlim[0]) * self.across

    def y(self, y: Tensor) -> Tensor:
        """Pixels from the top."""
        return self.size * 0.89 - (y - self.ylim[0]) * self.down

    def lines(self, points: float) -> float:
        """The width in pixels of a line so many points wide."""
        return points / 72 * DPI * self.size / 96

    def snapped(self, pixels: float, width: float) -> float:
        """Where matplotlib moves the middle of an upright or level line of this width, so that its edges are sharp.
        We move only what stands still: a moving line that jumped from pixel to pixel would not show where it is."""
        return math.floor(pixels + 0.5) + math.ceil(width) % 2 / 2

    @property
    def window(self) -> tuple[slice, slice]:
        """Rows and columns within the axes: what lies outside is cut off."""
        left, right, top, bottom = (math.floor(self.size * edge + 0.5) for edge in (0.125, 0.9, 0.12, 0.89))
        return slice(top, bottom), slice(left, right)


def centres(span: slice) -> Tensor:
    return torch.arange(span.start, span.stop) + 0.5


def column(t: Tensor) -> Tensor:
    return t[:, None, None]


def ellipse(x: Tensor, y: Tensor, a: Tensor, b: Tensor, rows: slice, columns: slice) -> Tensor:
    """Centre and half-axes in pixels, each (B,); to first order at the edge."""
    p = ((centres(columns) - x[:, None]) / a[:, None])[:, None, :]
    q = ((centres(rows) - y[:, None]) / b[:, None])[:, :, None]
    p2, q2 = p.square(), q.square()
    slope = (p2 / column(a).square() + q2 / column(b).square()).sqrt_().clamp_(min=1e-6)
    return (p2 + q2).sub_(1).div_(slope).mul_(-0.5).add_(0.5).clamp_(0, 1)


def interval(low: Tensor, high: Tensor, span: slice) -> Tensor:
    """(B, pixels): the share of each pixel between two coordinates; exact."""
    at = centres(span)
    return (torch.minimum(high[:, None], at + 0.5) - torch.maximum(low[:, None], at - 0.5)).clamp(min=0)


def rectangle(left: Tensor, right: Tensor, top: Tensor, bottom: Tensor, rows: slice, columns: slice) -> Tensor:
    """Upright; exact."""
    return interval(top, bottom, rows)[:, :, None] * interval(left, right, columns)[:, None, :]


def bar(x: Tensor, y: Tensor, x_: Tensor, y_: Tensor, width: float, rows: slice, columns: slice) -> Tensor:
    """A straight line with ends cut square."""
    dx, dy = x_ - x, y_ - y
    length = torch.hypot(dx, dy).clamp(min=1e-6)
    ux, uy = dx / length, dy / length
    mx, my = (x + x_) / 2, (y + y_) / 2
    p, q = (centres(columns) - mx[:, None])[:, None, :], (centres(rows) - my[:, None])[:, :, None]
    along = (p * column(ux) + q * column(uy)).abs_()
    aside = (q * column(ux) - p * column(uy)).abs_()
    wide = aside.neg_().add_(width / 2 + 0.5).clamp_(0, min(width, 1.0))
    return wide.mul_((column(length) / 2 + 0.5 - along).clamp_(0, 1))


def paint(canvas: Tensor, mask: Tensor, colour: tuple[float, float, float], rows: slice, columns: slice) -> None:
    """Lay a colour over a canvas (B, 3, height, width) where the mask is."""
    part = canvas[:, :, rows, columns]
    keep = 1 - mask
    for k, tone in enumerate(colour):
        part[:, k].mul_(keep)
        if tone:
            part[:, k].add_(mask, alpha=tone)


def in_chunks(draw: Callable[[Tensor], Tensor], v: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Pictures of rows of factors, so many at a time."""
    out = torch.empty(len(v), *shape)
    for part, rows in zip(out.split(CHUNK), v.split(CHUNK), strict=True):
        part.copy_(draw(rows))
    return out
