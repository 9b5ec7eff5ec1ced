"""CausalVAE against CausalWAE under interventions: the comparison that source 003 set out to make."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from whence import storage
from whence.descend import Adam, Recipe
from whence.methods import DEAR, ICMVAE, SCMVAE, AnchoredVAE, AnchoredWAE, CausalVAE, CausalWAE, ConditionalVAE
from whence.methods.causal.anchored import Anchored
from whence.metrics import ConceptMIC, Counterfactuals, InterventionalDiscrepancy, ReaderFrechet, Reconstruction
from whence.nets import MLP
from whence.studies.study import Outcome, Row, Scale, Study, mean_and_error
from whence.worlds import Faces, Flow, Pendulum, World

PENDULUM = tuple(f"{cause}->shadow_{effect}" for cause in ("pendulum", "light") for effect in ("length", "position"))
FLOW = ("ball->water", "water->flow", "hole->flow")
FACES = ("gender->eyes_open", "smile->eyes_open", "smile->mouth_open")

SIZES = {"smoke": 16, "cpu": 64, "paper": 96}
STEPS = {"smoke": (10, 10), "cpu": (300, 800), "paper": (8_700, 8_700)}  #: of methods as printed, and of anchored ones
NET = MLP(hidden=(128, 128))
#: Parts that share no cause may be drawn apart; a jet begins at its hole, and a smile and an open mouth are one mouth.
WORLDS: dict[str, tuple[type[World], dict[str, float], tuple[str, ...], dict[str, object]]] = {
    "pendulum": (Pendulum, {"noise": 1.0}, PENDULUM, {}),
    "flow": (Flow, {"noise": 2.0}, FLOW, {"parts": ("ball", "water", "hole+flow")}),
    "faces": (Faces, {}, FACES, {"parts": ("gender", "eyes_open", "smile+mouth_open")}),
}


def recipes(scale: Scale) -> tuple[Recipe, Recipe]:
    """Of methods as printed, with their authors' optimiser, and of anchored ones."""
    printed, changed = STEPS[scale]
    one = Recipe(steps=printed, batch=64, optimiser=Adam(lr=1e-3), every=min(50, printed))
    return one, replace(Anchored.recipe, steps=changed, every=min(50, changed))


def rows(scale: Scale, seed: int) -> Iterator[Row]:
    printed, anchored = recipes(scale)
    for name, (kind, noise, graph, drawn) in WORLDS.items():
        world = kind(size=SIZES[scale], **noise)  # type: ignore[call-arg]
        changed: dict[str, Any] = {"graph": graph, **drawn}
        yield Row(f"{name}: CausalVAE", CausalVAE(graph=graph, net=NET), world, printed)
        yield Row(f"{name}: CausalWAE", CausalWAE(graph=graph, net=NET), world, printed)
        yield Row(f"{name}: AnchoredVAE", AnchoredVAE(**changed), world, anchored)
        yield Row(f"{name}: AnchoredWAE", AnchoredWAE(**changed), world, anchored)
        if name == "pendulum":
            yield Row(f"{name}: ConditionalVAE", ConditionalVAE(net=NET), world, printed)
            yield Row(f"{name}: SCMVAE", SCMVAE(graph=graph, net=NET), world, printed)
            yield Row(f"{name}: ICMVAE", ICMVAE(graph=graph, net=NET), world, printed)
            fast = replace(printed, optimiser=Adam(lr=5e-4, betas=(0.0, 0.999)))
            yield Row(f"{name}: DEAR", DEAR(graph=graph, net=NET), world, fast)


def changes(scale: Scale, seed: int) -> Iterator[Row]:
    """Other variants as printed, and what each change of the anchored form brings, one taken back at a time."""
    printed, anchored = recipes(scale)
    world = Pendulum(size=SIZES[scale], noise=1.0)
    one = ("pendulum+light+shadow_length+shadow_position",)
    yield Row("AnchoredVAE", AnchoredVAE(graph=PENDULUM), world, anchored)
    yield Row("anchors of deviation 1", AnchoredVAE(graph=PENDULUM, anchor=1.0), world, anchored)
    yield Row("parts draw what is read", AnchoredVAE(graph=PENDULUM, taught=False), world, anchored)
    yield Row("one part", AnchoredVAE(graph=PENDULUM, parts=one), world, anchored)
    yield Row("ink is free", AnchoredVAE(graph=PENDULUM, ink=0.0), world, anchored)
    yield Row("a world without noise", AnchoredVAE(graph=PENDULUM), Pendulum(size=SIZES[scale]), anchored)
    yield Row("CausalVAE, released", CausalVAE.released(PENDULUM, net=NET), world, printed)
    yield Row("CausalVAE, one decoder", CausalVAE(graph=PENDULUM, net=NET, separate=False), world, printed)
    eq8 = CausalWAE(graph=PENDULUM, form="eq8", sees_labels=False, net=NET)
    yield Row("CausalWAE, equation 8, encoder of x", eq8, world, printed)


PARTS = ("ratio", "hit", "descendants", "others", "ssim", "reader")


def draw(outcomes: Sequence[Outcome], folder: Path) -> None:
    """concepts.csv and concepts.md: every concept by itself, means and standard errors over seeds."""
    lines = ["| | concept | " + " | ".join(PARTS) + " |", "|---" * (2 + len(PARTS)) + "|"]
    out = io.StringIO()
    table = csv.writer(out, lineterminator="\n")
    table.writerow(["row", "concept", "runs", *(f"{part} {what}" for part in PARTS for what in ("mean", "error"))])
    for label in dict.fromkeys(o.label for o in outcomes):
        mine = [o for o in outcomes if o.label == label and not o.error]
        names = [name.partition(":")[2] for o in mine for name in o.values if ":" in name]
        for concept in dict.fromkeys(names):
            cells, numbers = [], []
            for part in PARTS:
                found = [v for o in mine if (v := o.values.get(f"counterfactuals.{part}:{concept}")) is not None]
                mean, error = mean_and_error(found) if found else (None, None)
                shown = "–" if mean is None else f"{mean:.2f}" if part in ("ratio", "ssim") else f"{100 * mean:.1f} %"
                cells.append(shown)
                numbers += ["" if number is None else repr(number) for number in (mean, error)]
            lines.append(f"| {label} | {concept} | " + " | ".join(cells) + " |")
            table.writerow([label, concept, len(mine), *numbers])
    storage.write(folder / "concepts.csv", out.getvalue())
    storage.write(folder / "concepts.md", "\n".join(lines) + "\n")


COLUMNS = (
    ConceptMIC(samples=500),
    Reconstruction(observations=500),
    Counterfactuals(observations=300),
    ReaderFrechet(observations=500),
    InterventionalDiscrepancy(observations=150),
)
SAMPLES = {"smoke": 200, "cpu": 1_000, "paper": 2_000}
READING = (
    "`ratio` is the squared pixel error of counterfactual pictures by that of reconstructions; `hit`, `descendants` "
    "and `others` are what a regressor, trained on true pictures, reads of them, in parts of ranges; each is the worst "
    "concept's, and concepts.md has all. `reader` is what the regressor itself misses of the concept in true pictures. "
    "A model that reconstructs badly has a small ratio for that reason alone: read it with `reconstruction`. "
    "`reader_frechet` is the Fréchet distance of samples in that regressor's features, which is like the FID and not "
    "it. At cpu scale pictures have 64 pixels a side and methods as printed get 300 steps of 64, anchored ones 800; "
    "`paper` has the published 96 pixels and the authors' 101 passes. Settings of the anchored forms were chosen at "
    "seed 1,000, on pendulum and flow: no row here was looked at before. "
)

STUDY = Study(
    name="causal_interventions",
    title="Interventions: CausalVAE, CausalWAE, and their anchored forms",
    rows=rows,
    columns=COLUMNS,
    reference=CausalWAE.reference,
    seeds=3,
    samples=SAMPLES,
    notes=(
        "Source 003 proposes CausalWAE, and a comparison with CausalVAE on pendulum, flow and faces, and gives no "
        "number. Worlds here have a little noise on effects (±1 of the 20 units of a pendulum's picture; ±2 of the 49 "
        "of a jet's reach), so that the data tell what a picture looks like whose effect is set. " + READING
    ),
    draw=draw,
)

CHANGES = Study(
    name="causal_changes",
    title="What makes interventions work: changes taken back one at a time",
    rows=changes,
    columns=COLUMNS,
    reference=CausalVAE.reference,
    seeds=3,
    samples=SAMPLES,
    notes="The pendulum with noise of ±1 on the shadow, and in one row without. " + READING,
    draw=draw,
)
