"""How the errors of LSCALE fall with the number of observations: the fitted rate beside the one of theory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from whence import storage
from whence.evidence import Reference
from whence.methods import LSCALE
from whence.metrics import MCC, SHD, ScaleMixing
from whence.scm import RandomLinear, RandomMLP
from whence.studies.lscale_table6 import seen
from whence.studies.study import Outcome, Row, Scale, Study
from whence.worlds import Mixed

EXAMPLES = {
    "smoke": (316, 1_000),
    "cpu": (316, 1_000, 3_162, 10_000, 31_623, 100_000),
    "paper": (316, 1_000, 3_162, 10_000, 31_623, 100_000),
}
SIZES = {"smoke": ((3, 15),), "cpu": ((5, 15),), "paper": ((3, 15), (5, 15), (10, 15))}


def rows(scale: Scale, seed: int) -> Iterator[Row]:
    for n, d in SIZES[scale]:
        for many in EXAMPLES[scale]:
            world = Mixed(nodes=n, dims=d, mechanism=RandomLinear(), model_seed=2_000_000 + 1_000 * n + seed)
            yield Row(
                f"linear, n = {n}, {many:,}", LSCALE(latents=n, examples=many), world, view=seen({"kind": "hard"})
            )
    for many in EXAMPLES[scale]:
        world = Mixed(nodes=5, dims=15, mechanism=RandomMLP(), model_seed=2_000_000 + seed)
        yield Row(f"networks, n = 5, {many:,}", LSCALE(latents=5, examples=many), world, view=seen({"kind": "hard"}))


def draw(outcomes: Sequence[Outcome], folder: Path) -> None:
    """rate.csv: the exponent a of error ~ N^a for each kind of model, by least squares on the logarithms of the means
    over models, and its standard error."""
    lines = ["model,observations from,to,exponent of scale_mixing,standard error"]
    for model in dict.fromkeys(o.label.rpartition(", ")[0] for o in outcomes):
        found: dict[int, list[float]] = {}
        for o in outcomes:
            value = o.values.get("scale_mixing")
            head, _, many = o.label.rpartition(", ")
            if head == model and value is not None:
                found.setdefault(int(many.replace(",", "")), []).append(value)
        if len(found) < 2:
            continue
        x = np.log([float(many) for many in found])
        y = np.log([np.mean(values) for values in found.values()])
        slope, offset = np.polyfit(x, y, 1)
        rest = y - slope * x - offset
        error = np.sqrt(rest @ rest / max(len(x) - 2, 1) / ((x - x.mean()) ** 2).sum())
        lines.append(f'"{model}",{min(found)},{max(found)},{slope:.3f},{error:.3f}')
    storage.write(folder / "rate.csv", "\n".join(lines) + "\n")


STUDY = Study(
    name="finite_sample",
    title="LSCALE: errors and the number of observations",
    rows=rows,
    columns=(MCC(), ScaleMixing(matched=False), SHD(matched=False)),
    reference=Reference(
        key="acarturk2024sample",
        authors='Acart{\\"u}rk, Emre and Var{\\i}c{\\i}, Burak and Shanmugam, Karthikeyan and Tajer, Ali',
        title="Sample Complexity of Interventional Causal Representation Learning",
        venue="Advances in Neural Information Processing Systems",
        year=2024,
        url="https://openreview.net/forum?id=XL9aaXI0u6",
    ),
    seeds=20,
    draw=draw,
    notes=(
        "One hard intervention on each node, variances times .25, 10^2.5 to 10^5 observations of 15 dimensions in each "
        "environment; every seed is another model, the same for all numbers of observations. `rate.csv` has the fitted "
        "exponent: an error that falls with the root of N has -.5. The paper's figures could not be read as numbers "
        "and are not beside these."
    ),
)
