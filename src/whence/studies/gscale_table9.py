"""GSCALE on vectors: the ninth table of the paper, and the same with a mixing that is not known."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from whence.methods import GSCALE
from whence.methods.score_based.fronts import Principal, TanhLinear
from whence.metrics import MCC, SHD
from whence.scm import RandomQuadratic
from whence.scores import Oracle
from whence.studies.study import Published, Row, Scale, Study
from whence.views import View
from whence.worlds import Mixed, World
from whence.worlds.mixing import TanhMixing

DESIGN: dict[str, Any] = {"kind": "hard", "per_node": 2, "scale": (0.25, 4.0)}
NODES = {"smoke": (5, 8), "cpu": (5, 8), "paper": (5, 8)}
EXAMPLES = {"smoke": 1_000, "cpu": 10_000, "paper": 30_000}
TOLD = {5: 200, 8: 500}  #: observations where scores are told, as in the paper


def rows(scale: Scale, seed: int) -> Iterator[Row]:
    for n in NODES[scale]:
        world = Mixed(nodes=n, dims=100, mechanism=RandomQuadratic(), mixing=TanhMixing(), model_seed=10_000 * n + seed)
        oracle = Oracle(world.score_differences(**DESIGN))
        recipe = replace(GSCALE.recipe, steps=100 if scale == "smoke" else 1_000)
        known = GSCALE(front=TanhLinear(), examples=TOLD[n], scores=oracle, restarts=4)
        yield Row(f"n = {n}, oracle scores", known, world, recipe, view=seen)
        yield Row(
            f"n = {n}, learned scores",
            GSCALE(front=TanhLinear(), examples=EXAMPLES[scale], restarts=4),
            world,
            recipe,
            view=seen,
        )
        if scale == "smoke":
            continue
        free = GSCALE(front=Principal(dims=40), examples=EXAMPLES[scale])
        ceiling = replace(free, scores=oracle)
        yield Row(f"n = {n}, oracle scores, tanh not known", ceiling, world, view=seen)
        free = replace(free, rounds=2)
        yield Row(f"n = {n}, learned scores, tanh not known", free, world, view=seen)


def seen(world: World) -> View:
    return world.environments(**DESIGN)


PUBLISHED = {
    ("n = 5, oracle scores", "mcc.strong"): Published(1.00),
    ("n = 5, oracle scores", "shd"): Published(0.00),
    ("n = 8, oracle scores", "mcc.strong"): Published(0.95, 0.01),
    ("n = 8, oracle scores", "shd"): Published(1.50, 0.27),
    ("n = 5, learned scores", "mcc.strong"): Published(0.85, 0.02),
    ("n = 5, learned scores", "shd"): Published(4.50, 0.38),
    ("n = 8, learned scores", "mcc.strong"): Published(0.75, 0.02),
    ("n = 8, learned scores", "shd"): Published(12.9, 0.44),
}

STUDY = Study(
    name="gscale_table9",
    title="GSCALE: quadratic causal models, seen through tanh",
    rows=rows,
    columns=(MCC(), SHD()),
    published=PUBLISHED,
    reference=GSCALE.reference,
    seeds=10,
    notes=(
        "Every seed is another model, and none is left out: edges with probability one half, quadratic mechanisms, "
        "two coupled hard interventions a latent (variances times .25 and 4), 100 observed dimensions. Oracle "
        "scores at 200 (n = 5) and 500 (n = 8) observations, as published; learned ones from 10,000 observations "
        "an environment (published: 30,000). Published numbers are means over 20 models of the paper's own draw. "
        "The first rows know that the mixing is a tanh of a linear map, as the paper's do; the last ones do not, "
        "and no number was published for them. There latents are identified up to monotone maps only, which lower "
        "a plain correlation; scores are learned twice, the second time on the latents found first."
    ),
)
