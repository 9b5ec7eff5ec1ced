"""GSCALE on pictures of balls: the fourteenth table of the paper."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from whence.descend import Adam
from whence.methods import AE, GSCALE, ICA, PCA, ContrastiveCRL, InterventionalAE
from whence.methods.score_based.fronts import Convolutional
from whence.metrics import MCC, R2, SHD
from whence.nets import Coarse
from whence.scm import RandomBoxed, RandomBoxedQuadratic
from whence.studies.study import Published, Row, Scale, Study
from whence.views import View
from whence.worlds import Balls, World

ONE: dict[str, Any] = {"kind": "hard"}
TWO: dict[str, Any] = {"kind": "hard", "per_node": 2, "scale": (0.25, 4.0)}
PICTURES = {"smoke": 100, "cpu": 10_000, "paper": 10_000}  # of an environment
EXAMPLES = {"smoke": 100, "cpu": 5_000, "paper": 10_000}  # the same, of the rivals
STEPS = {"smoke": 5, "cpu": 1_000, "paper": 8_000}
CONTRAST = {"smoke": 2, "cpu": 1_500, "paper": 30_000}
POINTS = ((0.05,), (-0.05, 0.0, 0.05), (-0.05, -0.025, 0.0, 0.025, 0.05))  # half of the box; 0 has no direction
SHIFTED: dict[str, Any] = {"kind": "hard", "shift": 0.1}  # as theirs, interventions move means
SEED = 100  # of the first world: worlds that methods were tried on while they were made are others


def rows(scale: Scale, seed: int) -> Iterator[Row]:
    method = GSCALE(examples=PICTURES[scale], restarts=1 if scale != "paper" else 4)
    recipe = replace(GSCALE.recipe, steps=STEPS[scale])
    linear, bent = RandomBoxed(), RandomBoxedQuadratic()
    for label, balls, mechanism, design in (
        ("GSCALE, linear, 2 balls, 2 hard a latent", 2, linear, TWO),
        ("GSCALE, nonlinear, 2 balls, 2 hard a latent", 2, bent, TWO),
        ("GSCALE, linear, 2 balls, 1 hard a latent", 2, linear, ONE),
        ("GSCALE, nonlinear, 2 balls, 1 hard a latent", 2, bent, ONE),
        ("GSCALE, linear, 3 balls, 2 hard a latent", 3, linear, TWO),
    ):
        world = Balls(balls=balls, mechanism=mechanism, model_seed=SEED + seed)
        yield Row(label, method, world, recipe, view=seen(design))
    world, hard = Balls(model_seed=SEED + seed), Balls(model_seed=SEED + seed, stepped=True)
    for balls in (2, 5):
        many = Balls(balls=balls, model_seed=SEED + seed, stepped=True)
        contrast = replace(
            ContrastiveCRL.recipe,
            steps=CONTRAST[scale],
            batch=8 if scale == "smoke" else 64,
            optimiser=Adam(lr=3e-3),
        )
        label = f"Buchholz et al., linear, {balls} balls, 1 hard a latent"
        yield Row(label, ContrastiveCRL(net=Coarse()), many, contrast, seen(SHIFTED))
    for points in POINTS:
        told = InterventionalAE(
            front=Convolutional(), examples=EXAMPLES[scale], head="linear" if len(points) == 1 else "mlp"
        )
        label = f"Ahuja et al., linear, 2 balls, {len(points)} do a latent"
        yield Row(label, told, hard, recipe, seen({"kind": "do", "points": points}))
    few = min(2_000, EXAMPLES[scale])
    yield Row("autoencoder, linear, 2 balls", AE(latents=4), world, replace(AE.recipe, steps=STEPS[scale]))
    yield Row("ICA, linear, 2 balls", ICA(latents=4, examples=few), world)
    yield Row("PCA, linear, 2 balls", PCA(latents=4, examples=few), world)


def seen(design: dict[str, Any]) -> Callable[[World], View]:
    return lambda world: world.environments(**design)


STUDY = Study(
    name="gscale_images",
    title="GSCALE: pictures of balls",
    rows=rows,
    columns=(MCC(), R2(), SHD()),
    published={
        ("GSCALE, linear, 2 balls, 2 hard a latent", "mcc.strong"): Published(0.80, 0.03),
        ("GSCALE, nonlinear, 2 balls, 2 hard a latent", "mcc.strong"): Published(0.93, 0.02),
        ("GSCALE, linear, 2 balls, 1 hard a latent", "mcc.strong"): Published(0.79, 0.03),
        ("GSCALE, nonlinear, 2 balls, 1 hard a latent", "mcc.strong"): Published(0.92, 0.02),
        ("GSCALE, linear, 3 balls, 2 hard a latent", "mcc.strong"): Published(0.76, 0.08),
        ("Buchholz et al., linear, 2 balls, 1 hard a latent", "mcc.strong"): Published(0.87, 0.03),
        ("Buchholz et al., linear, 5 balls, 1 hard a latent", "mcc.strong"): Published(0.94, 0.01),
        ("Ahuja et al., linear, 2 balls, 1 do a latent", "mcc.strong"): Published(0.13, 0.03),
        ("Ahuja et al., linear, 2 balls, 3 do a latent", "mcc.strong"): Published(0.73, 0.03),
        ("Ahuja et al., linear, 2 balls, 5 do a latent", "mcc.strong"): Published(0.83, 0.03),
    },
    reference=GSCALE.reference,
    seeds=5,
    samples={"smoke": 300, "cpu": 3_000, "paper": 10_000},
    notes=(
        "Every seed is another causal model and another run, and none is left out. 10,000 pictures of 64x64 an "
        "environment, as published, and 5,000 for Ahuja et al.; box-truncated positions; variances times .25 and 4 "
        "(one environment: .25). GSCALE's code is not the published autoencoder's, which loses balls where there are "
        "three: as many principal components of widely blurred pictures as there are latents, and a decoder. It is "
        "nearly a linear map of positions, mixed, so what is left to undo is nearly linear; an autoencoder's code is "
        "not (gscale_stages.md). The correlation is on fresh observational pictures (published: on the training "
        "ones). The nonlinear model of the paper is not public: ours has quadratic mechanisms in the same box. With "
        "2 balls every true graph is complete, so the distance of graphs tests order and power only. No graph of "
        "pictures was published. The rivals see pictures of hard edges in whole pixels, as in their papers. Those of "
        "Buchholz et al. move means, so theirs do here, by half the box; their encoder is that of their code, and "
        "pictures are drawn anew for each step. Ahuja et al. are told targets and values; they see through a "
        "convolutional autoencoder and the reduction of GSCALE."
    ),
)
