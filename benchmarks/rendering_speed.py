"""Pictures a second of pendulum and flow, 96 pixels a side: matplotlib drawing the published geometry, and ours.

    python benchmarks/rendering_speed.py --pictures 60

Both draw the same factors, one picture after another with matplotlib, in batches of 64 here; one thread, CPU seconds of
this process (a machine with other work slows the clock on the wall, not these). matplotlib twice: drawn, and saved as a
PNG (in memory), which is how the published pictures are made. The largest difference of two pictures' mean colour is
printed, so that it is seen that they show the same. Rounds alternate; medians with the range over rounds.
"""

from __future__ import annotations

import argparse
import io
import math
import platform
import statistics
import time
from pathlib import Path

import matplotlib as mpl
import torch

mpl.use("agg")
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.patches import Circle, Rectangle

from whence.worlds import Flow, Pendulum

UNIT = math.pi / 200
OURS = 640  #: pictures of ours in a round


def figure(xlim: tuple[float, float], ylim: tuple[float, float]):
    fig = plt.figure(figsize=(1, 1), dpi=96)
    axes = fig.add_subplot(111)
    axes.set_xlim(*xlim)
    axes.set_ylim(*ylim)
    axes.axis("off")
    return fig, axes


def pixels(fig, save: bool) -> np.ndarray:
    if save:
        fig.savefig(io.BytesIO(), format="png", dpi=96)
    else:
        fig.canvas.draw()
    x = np.asarray(fig.canvas.buffer_rgba())[..., :3].copy()
    plt.close(fig)
    return x


def pendulum(v: list[float], save: bool) -> np.ndarray:
    theta, light, size, middle = v
    theta, tan = UNIT * theta, math.tan(UNIT * light)
    fig, axes = figure((0, 20), (-1, 21))
    ball = 10 + 8 * math.sin(theta), 10.5 - 8 * math.cos(theta)
    axes.plot((10, ball[0]), (10.5, ball[1]), color="black", lw=3)
    axes.add_patch(Circle(ball, 1.5, color="firebrick"))
    axes.add_patch(Circle((10 + (20.5 - 10.5) / tan, 20.5), 3, color="orange"))
    axes.plot((middle - size / 2, middle + size / 2), (-0.5, -0.5), color="black", lw=3)
    return pixels(fig, save)


def flow(v: list[float], save: bool) -> np.ndarray:
    ball, water, far, hole = v
    fig, axes = figure((0, 20), (0, 20))
    radius, deep = ball / 30, hole / 3
    axes.add_patch(Rectangle((3, 0), 5, 5 + water, color="lightskyblue", lw=1))
    axes.add_patch(Circle((5.5, radius + 0.5), radius, color="firebrick"))
    for at, low, high in ((3, 0, 19), (8, 0, deep), (8, deep + 0.4, 19)):
        axes.plot((at, at), (low, high), color="black", lw=2)
    y = np.linspace(deep, 0.5, 100)
    axes.plot(8 + far / 10 * np.sqrt((deep - y) / (deep - 0.5)), y, color="lightskyblue", lw=2)
    axes.plot((0, 20), (0.2, 0.2), color="black", lw=2)
    return pixels(fig, save)


def spent(draw) -> tuple[float, object]:
    began = time.process_time()
    made = draw()
    return time.process_time() - began, made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pictures", type=int, default=60, help="of matplotlib, in a round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--into", type=Path, default=Path(__file__).parent / "rendering_speed.md")
    args = parser.parse_args()
    torch.set_num_threads(1)
    lines = [
        "# Rendering: pictures a second at 96 pixels, matplotlib and ours",
        "",
        "| world | matplotlib, drawn | and saved | ours | ours by drawn | ours by saved | difference of mean colour |",
        "|---" * 7 + "|",
    ]
    for world, draw in ((Pendulum(), pendulum), (Flow(), flow)):
        v = world.draw(OURS, rng=torch.Generator().manual_seed(0))
        few = v[: args.pictures].tolist()
        world.observe(v[:64])
        draw(few[0], True)
        rates: list[tuple[float, ...]] = []
        for _ in range(args.rounds):
            drawn, theirs = spent(lambda few=few, draw=draw: [draw(row, False) for row in few])
            saved, _ = spent(lambda few=few, draw=draw: [draw(row, True) for row in few])
            fast, mine = spent(lambda v=v, world=world: world.observe(v))
            slow, slower, ours = len(few) / drawn, len(few) / saved, OURS / fast
            rates.append((slow, slower, ours, ours / slow, ours / slower))
        x = torch.from_numpy(np.stack(theirs)).permute(0, 3, 1, 2) / 255
        off = (x.mean((2, 3)) - mine[: len(few)].mean((2, 3))).abs().max().item()
        cells = [f"{statistics.median(n):,.0f} ({min(n):,.0f} to {max(n):,.0f})" for n in zip(*rates, strict=True)]
        lines.append(f"| {type(world).__name__} | " + " | ".join(cells) + f" | {off:.3f} |")
    lines += [
        "",
        f"- command: `python benchmarks/rendering_speed.py --pictures {args.pictures} --rounds {args.rounds}`",
        f"- {OURS} pictures of ours a round, one thread, CPU seconds; medians and ranges of {args.rounds} rounds",
        f"- versions: python {platform.python_version()}, torch {torch.__version__}, matplotlib {mpl.__version__}",
    ]
    args.into.write_text("\n".join(lines) + "\n")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
