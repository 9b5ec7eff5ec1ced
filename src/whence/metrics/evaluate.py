"""evaluate: every metric on one set of codes. rank: several models, each beside the others."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from whence import runs, storage, values
from whence.metrics.arrays import Unmeasurable
from whence.metrics.known import RANKINGS, suited
from whence.metrics.metric import Metric, Result, Results
from whence.metrics.probe import Probe
from whence.metrics.ranking import Ranking
from whence.representation import Representation
from whence.runs import Fitted
from whence.worlds import World

FEWEST = 10  #: observations; results worth having need thousands


def evaluate(
    fitted: Fitted | Representation,
    world: World | None = None,
    *,
    metrics: Iterable[Metric] | None = None,
    seed: int = 0,
    samples: int = 10_000,
    chance: bool = True,
    bootstrap: int = 0,
    watch: Callable[[str], None] | None = None,
) -> Results:
    """Measure a representation on a world (by default the one it was fitted on), with every metric's chance level, and
    with 95 % intervals from `bootstrap` draws of the rows.

    By default every metric is measured that has something to ask of the world: those of graphs only where there is one.
    Observations are drawn and encoded once. The results of a run with a folder are written to its `results.json`.
    """
    representation, world = asked(fitted, world)
    if samples < FEWEST or bootstrap < 0:
        raise ValueError(
            f"Metrics need {FEWEST} observations or more, and draws of their rows that are not negative, got "
            f"samples={samples} and bootstrap={bootstrap}. Samples are 10,000 if nothing else is asked."
        )
    probe = Probe(representation, world, seed=seed, samples=samples)
    results: list[Result] = []
    for metric in metrics if metrics is not None else suited(world):
        if watch is not None:
            watch(values.name_of(type(metric)))
        results += metric(probe, chance=chance, bootstrap=bootstrap)
    kl = probe.kl()
    found = Results(
        results=tuple(results),
        world=values.describe(world),
        seed=seed,
        samples=samples,
        factors=tuple(factor.name for factor in world.factors),
        mutual_information=shares(probe) if representation.dims <= 256 else None,
        kl=None if kl is None else kl.tolist(),
    )
    if isinstance(fitted, Fitted) and fitted.folder is not None:
        storage.write_json(fitted.folder / "results.json", sealed(found))
    return found


def asked(fitted: Fitted | Representation, world: World | None) -> tuple[Representation, World]:
    """What is measured, and on which world: by default the one it was fitted on."""
    representation = fitted.representation if isinstance(fitted, Fitted) else fitted
    if world is None:
        if not isinstance(fitted, Fitted):
            raise TypeError("A bare representation does not know its world. Call evaluate(representation, world).")
        world = runs.world_of(fitted.data)
    if tuple(world.shape) != tuple(representation.spec.shape):
        raise ValueError(
            f"The representation encodes observations of shape {tuple(representation.spec.shape)}, and this world's "
            f"have shape {tuple(world.shape)}. Evaluate on the world it was fitted on, or one of the same shape."
        )
    return representation, world


def rank(
    models: Sequence[Fitted | Representation],
    world: World | None = None,
    *,
    rankings: Iterable[Ranking] | None = None,
    seed: int = 0,
    samples: int = 10_000,
    chance: bool = True,
    bootstrap: int = 0,
    watch: Callable[[str], None] | None = None,
) -> tuple[Results, ...]:
    """How far several models agree with each other on observations of a world (by default the one they were fitted
    on): the results of each model, in their order. By default with every ranking.

    Nothing of the truth is used, so it serves to choose among runs; what is chosen is the most typical, which is the
    best only if what is right is what models have in common.
    """
    if len(models) < 2:
        raise ValueError(f"Models are ranked by how they agree, so there must be two or more, got {len(models)}.")
    pairs = [asked(model, world) for model in models]
    worlds = list({values.digest(w): w for _, w in pairs}.values())
    if len(worlds) > 1:
        raise ValueError(
            f"Models are ranked on the same observations, and these were fitted on {len(worlds)} worlds, such as "
            f"{worlds[0]} and {worlds[1]}. Name one for all of them: rank(models, world)."
        )
    probes = [Probe(representation, of, seed=seed, samples=samples) for representation, of in pairs]
    found = []
    for ranking in rankings if rankings is not None else [kind() for kind in RANKINGS]:
        if watch is not None:
            watch(values.name_of(type(ranking)))
        found.append(ranking(probes, chance=chance, bootstrap=bootstrap))
    return tuple(
        Results(results=mine, world=values.describe(worlds[0]), seed=seed, samples=samples)
        for mine in zip(*found, strict=True)
    )


def shares(probe: Probe) -> list[list[float]] | None:
    """How much of each factor each code holds, (D, K); nothing if a factor does not vary."""
    try:
        return probe.information().shared().tolist()
    except Unmeasurable:
        return None


def sealed(found: Results) -> dict[str, Any]:
    """Results as JSON with a hash of their own, so that an edited file is noticed."""
    content = values.describe(found)
    return {**content, "sha256": values.digest(content)}


def read_results(folder: str | Path) -> Results:
    """`results.json` of a run, refused if it was edited or truncated."""
    path = Path(folder) / "results.json"
    if not path.is_file():
        raise storage.StorageError(f"{str(folder)!r} has no results.json. Evaluate it first: whence evaluate {folder}")
    content = storage.read_json(path)
    seal = content.pop("sha256", None)
    if seal != values.digest(content):
        raise storage.StorageError(
            f"{str(path)!r} was edited: it does not match its hash. Run whence evaluate {folder}"
        )
    results = tuple(read_result(r) for r in content.pop("results"))
    content.pop("type")
    return Results(results=results, **{**content, "factors": tuple(content["factors"])})


def read_result(content: dict[str, Any]) -> Result:
    interval = content["interval"]
    fields = {key: value for key, value in content.items() if key not in ("type", "interval")}
    return Result(**fields, interval=None if interval is None else tuple(interval))
