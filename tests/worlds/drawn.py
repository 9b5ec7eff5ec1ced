"""The published scenes drawn with matplotlib, from the geometry in words: what our renderers are compared with."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Circle, Polygon, Rectangle


def line(a: tuple[float, float], b: tuple[float, float], width: float) -> Polygon:
    return Polygon([a, b], color="black", linewidth=width)


def picture(artists: list[Any], ylim: tuple[float, float], size: int = 96) -> torch.Tensor:
    figure = Figure(figsize=(1, 1), dpi=size)
    canvas = FigureCanvasAgg(figure)
    ax = figure.add_subplot()
    for artist in artists:
        if isinstance(artist, Line2D):
            ax.add_line(artist)
        else:
            ax.add_artist(artist)
    ax.set(xlim=(0, 20), ylim=ylim)
    ax.axis("off")
    canvas.draw()
    pixels = np.asarray(canvas.buffer_rgba())[..., :3].copy()
    return torch.from_numpy(pixels).permute(2, 0, 1).float() / 255


def pendulum(v: torch.Tensor, size: int = 96) -> torch.Tensor:
    i, j, length, middle = v.tolist()
    theta, phi = i * math.pi / 200, j * math.pi / 200
    ball = 10 + 8 * math.sin(theta), 10.5 - 8 * math.cos(theta)
    sun = 10 + (20.5 - 10.5) / math.tan(phi)
    return picture(
        [
            line((10, 10.5), ball, 3),
            Circle(ball, 1.5, color="firebrick"),
            Circle((sun, 20.5), 3, color="orange"),
            line((middle - length / 2, -0.5), (middle + length / 2, -0.5), 3),
        ],
        (-1, 21),
        size,
    )


def flow(v: torch.Tensor, size: int = 96) -> torch.Tensor:
    r, water, far, hole = v.tolist()
    radius, deep = r / 30, hole / 3
    y = np.linspace(deep, 0.5)
    jet = 8 + far / 10 * np.sqrt((deep - y) / (deep - 0.5))
    return picture(
        [
            Rectangle((3, 0), 5, 5 + water, color="lightskyblue"),
            line((3, 0), (3, 19), 2),
            line((8, 0), (8, deep), 2),
            line((8, deep + 0.4), (8, 19), 2),
            Circle((5.5, radius + 0.5), radius, color="firebrick"),
            Line2D(jet, y, color="lightskyblue", linewidth=2),
            Line2D([0, 20], [0.2, 0.2], color="black", linewidth=2),
        ],
        (0, 20),
        size,
    )


def balls(discs, size: int = 64) -> torch.Tensor:
    """Discs ((x, y), colour), in pixels from the upper left corner."""
    unit = 20 / size
    artists = [Circle((unit * x, 20 - unit * y), 5 * unit, color=colour) for (x, y), colour in discs]
    return picture(artists, (0, 20), size)
