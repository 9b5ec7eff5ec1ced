"""What each stage of GSCALE on pictures costs and yields, and which one bounds the whole.

    python benchmarks/gscale_stages.py --out benchmarks/gscale_stages.md [--balls 2 3] [--seeds 0]

For each world a code is learned by either front; then score differences are learned on it in all ways there are, and
true ones put in their place, and true positions in place of the code. Differences are carried between positions and
codes by smooth regressions of one on the other: the true map wiggles within pixels. Reported are processor seconds of
one thread, the error of learned differences in the true latents (leak: off the axis over on it, 0 at best; correlation
with the truth, on the axis), and the MCC after the last stage. Worlds are not those of the study `gscale_images`.
"""

from __future__ import annotations

import argparse
import platform
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch
from torch import Generator, Tensor

from whence.descend import Run
from whence.methods import GSCALE
from whence.methods.score_based._graph import Features, ridge
from whence.methods.score_based._pairs import between, pulled_in_chunks, told_pairs
from whence.methods.score_based.fronts import Blurred, Convolutional, Front
from whence.methods.score_based.gscale import DisentangledCode, encoded
from whence.metrics import mcc, r2
from whence.scores import MulticlassRatio, PairwiseRatio, PictureRatio
from whence.terms.changes import leak, mean_changes
from whence.worlds import Balls

TWO = {"kind": "hard", "per_node": 2, "scale": (0.25, 4.0)}
SEED = 50  #: of the first world: the study's begin at 100, and methods were tried on the first few

#: name: where differences are learned, and by what
RATIOS: dict[str, tuple] = {
    "the code, one classifier": ("reduced", MulticlassRatio()),
    "the code, a classifier each": ("reduced", PairwiseRatio()),
    "pictures, one classifier": ("pictures", PictureRatio()),
    "pictures, a classifier each": ("pictures", PictureRatio(shared=False)),
}


FRONTS: dict[str, Front] = {"blurred": Blurred(), "convolutional": Convolutional()}


def smooth(a: Tensor, b: Tensor) -> Callable[[Tensor], Tensor]:
    """A regression of b on a, (N, n) both, that can be differentiated."""
    features, mean, scale = Features.draw(a.shape[1]), a.mean(0), a.std(0)
    every = torch.ones(a.shape[1], dtype=torch.bool)
    beta = torch.stack([ridge(features((a - mean) / scale, every), column) for column in b.T], 1)
    return lambda x: features((x - mean) / scale, every) @ beta


def seconds(call: Callable, *args):
    begin = time.process_time()
    out = call(*args)
    return out, time.process_time() - begin


def one(
    balls: int, seed: int, front: Front, examples: int, points: int, steps: int, ways: int
) -> tuple[list[str], list[str]]:
    """Rows of the table of ratios, and of that of ceilings."""
    world = Balls(balls=balls, model_seed=SEED + seed)
    view, truth = world.environments(**TWO), world.score_differences(**TWO)
    method = GSCALE(front=front, examples=examples, restarts=1)
    run = Run(seed=seed, recipe=replace(method.recipe, steps=steps))
    pairs, n = told_pairs(view, 2), 2 * balls
    v = view.draw(examples, Generator().manual_seed(seed)).transpose(0, 1)  # (1 + E, N, n)
    x = [lambda rows=rows: (world.observe(part) for part in rows.split(500)) for rows in v]
    code = method.skeleton(view.spec._replace(latents=n))
    lost, first = seconds(method.code, code.front, x, run, view.spec)
    y, encoding = seconds(lambda: [encoded(code.front, source(), "cpu") for source in x])
    (u, _, (left, folds)), second = seconds(method.reduced, code, y, x[0], run)
    u, at = [rows.detach() for rows in u], v[0, :points]

    true = truth.latent(at.double()).float()
    told = pulled_in_chunks(smooth(u[0], v[0]), u[0][:points], true)
    there = smooth(v[0], u[0])

    def error(d: Tensor) -> str:
        """Of differences at u, as they are at v."""
        own, same = between(pulled_in_chunks(there, at, d), pairs), between(true, pairs)
        on = [float(torch.corrcoef(torch.stack([own[i, :, i], same[i, :, i]]))[0, 1]) for i in range(n)]
        return f"{float(leak(mean_changes(own), at.std(0))):.2f} | {sum(on) / n:.3f}"

    def last(code: DisentangledCode, u: Tensor, d: Tensor) -> float:
        """The MCC that the last stage comes to."""
        method.disentangled(code, u, between(d, pairs), run)
        with torch.no_grad():
            return mcc(code.maps.encoder(u[None])[0].numpy(), at.numpy())

    ratios, found = [], {}
    for name, (on, scores) in list(RATIOS.items())[: ways if isinstance(front, Blurred) else 1]:
        part = replace(method, on=on, scores=scores)
        d, cost = seconds(part.differences, code, x, y, u, run)
        found[name] = last(code, u[0][:points], d[:, :points])
        ratios.append(f"| {balls} | {seed} | {name} | {cost:.0f} | {error(d[:, :points])} | {found[name]:.3f} |")
    oracle = last(code, u[0][:points], told)
    ratios.append(f"| {balls} | {seed} | none: true differences | – | {error(told)} | {oracle:.3f} |")

    plain, positions = (
        method.skeleton(view.spec._replace(latents=n)),
        [(rows - v[0].mean(0)) / v[0].std(0) for rows in v],
    )
    d = MulticlassRatio().fit(positions, run=run).differences(positions[0][:points])
    own, best = last(plain, positions[0][:points], d), last(plain, positions[0][:points], true * v[0].std(0))
    ceilings = [
        f"| {balls} | {seed} | {type(front).__name__} | {lost:.1%} | {left:.2%} | {folds:.2f} | "
        f"{r2(u[0].numpy(), v[0].numpy()):.3f} | {next(iter(found.values())):.3f} | {oracle:.3f} | {own:.3f} | "
        f"{best:.3f} | {first + encoding:.0f} | {second:.0f} |"
    ]
    return ratios if isinstance(front, Blurred) else [], ceilings


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--balls", type=int, nargs="+", default=[2, 3])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--examples", type=int, default=5_000, help="pictures of each environment")
    parser.add_argument("--points", type=int, default=3_000, help="where differences are evaluated")
    parser.add_argument("--steps", type=int, default=1_000, help="of the recipe")
    parser.add_argument("--fronts", choices=list(FRONTS), nargs="+", default=list(FRONTS))
    parser.add_argument("--ways", type=int, default=len(RATIOS), help="to learn differences, the first so many")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    ratios, ceilings = [], []
    for balls in options.balls:
        for seed in options.seeds:
            for front in (FRONTS[name] for name in options.fronts):
                rows = one(balls, seed, front, options.examples, options.points, options.steps, options.ways)
                ratios += rows[0]
                ceilings += rows[1]
                print("\n".join([*rows[0], *rows[1]]), flush=True)
    text = "\n".join(
        [
            "# GSCALE on pictures, stage by stage",
            "",
            "## Where score differences are learned, and by what",
            "",
            "| balls | seed | learned on | seconds | leak | correlation | MCC after the last stage |",
            "|---|---|---|---|---|---|---|",
            *ratios,
            "",
            "## Ceilings: which stage bounds the whole",
            "",
            "Variance lost by the first stage and by the reduction, its folding (1 at best) and how well positions are "
            "a linear map of the reduced code (R²); then the MCC of the whole, with true score differences on the "
            "learned code, with learned differences on true positions, and with both true.",
            "",
            "| balls | seed | front | code lost | reduction lost | folding | R² | MCC | true differences | "
            "true positions | both | seconds of the code | of the reduction |",
            "|---|" + "---|" * 12,
            *ceilings,
            "",
            f"- command: `python benchmarks/gscale_stages.py {' '.join(sys.argv[1:])}`",
            f"- {options.examples:,} pictures an environment, {options.steps:,} steps; worlds from model seed {SEED}; "
            "MCC on the observations the last stage has seen",
            f"- machine: {platform.machine()}, one thread, processor seconds; other processes ran on it",
            f"- date: {time.strftime('%Y-%m-%d')}",
        ]
    )
    if options.out:
        options.out.write_text(text + "\n")


if __name__ == "__main__":
    main()
