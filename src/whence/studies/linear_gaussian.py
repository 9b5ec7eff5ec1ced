"""One hard intervention a latent, unknown which, in linear Gaussian models: precision matrices, and baselines."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from whence.methods import ICA, PCA, UMNI, LinearGaussianCRL
from whence.metrics import MCC, SHD, ScaleMixing
from whence.studies.study import Row, Scale, Study
from whence.views import View
from whence.worlds import Mixed, World

ROWS = {"smoke": (1_000,), "cpu": (1_000, 2_500, 25_000), "paper": (2_500, 25_000, 250_000)}
NODES = 5


def rows(scale: Scale, seed: int) -> Iterator[Row]:
    world = Mixed(nodes=NODES, dims=10, density=0.75, model_seed=seed)
    for many in ROWS[scale]:
        for method in (LinearGaussianCRL(examples=many), UMNI(examples=many)):
            yield Row(f"{type(method).__name__}, {many:,} rows", method, world, view=seen(seed))
    most = ROWS[scale][-1]
    yield Row(f"PCA, {most:,} rows", PCA(latents=NODES, examples=most), world, view=seen(seed))
    yield Row(f"ICA, {most:,} rows", ICA(latents=NODES, examples=most), world, view=seen(seed))


def seen(seed: int) -> Callable[[World], View]:
    return lambda world: world.environments(kind="hard", targets="unknown", shuffle=True, seed=seed)


STUDY = Study(
    name="linear_gaussian",
    title="Linear Gaussian models, one hard intervention a latent",
    rows=rows,
    columns=(MCC(), ScaleMixing(), SHD()),
    reference=LinearGaussianCRL.reference,
    seeds=20,
    notes=(
        "Every seed is another model, none is left out: 5 latents, 10 dimensions and edges of probability .75, as in "
        "the paper; environments in random order, variances of the targets times .25. Rows are those of each "
        "environment; for PCA and ICA, of all environments thrown together. They have no graph. Differences from the "
        "paper: it draws precision matrices of latents from a Wishart distribution instead of observations, maps with "
        "entries between -2 and 2, and other variances. Its figures could not be read and are not beside these numbers."
    ),
)
