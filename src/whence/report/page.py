"""One run as one page: what it shows is gathered as data here, the template only lays it out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from dataclasses import fields as fields_of
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from markupsafe import Markup

from whence import cite, runs, storage, values
from whence.descend import Curve
from whence.evidence import Evidence, Guarantee
from whence.metrics import METRICS, Metric, Results, effective_mixing, read_results, suited
from whence.metrics.graphs import matched
from whence.metrics.probe import Probe
from whence.report import drawing, words
from whence.report.interventions import panels
from whence.report.latents import codes_of, latents, score_differences
from whence.report.traversals import FRAMES, Traversals, first, probe_of, traversals
from whence.representation import (
    Decodes,
    HasConcepts,
    HasGraph,
    HasInterventions,
    HasPosterior,
    HasQuality,
    Representation,
    SaysIdentified,
)
from whence.runs import Fitted
from whence.views import Environments
from whence.worlds import World

COLUMNS = 12  #: of reconstructions
HALF = 6  #: reconstructions in one picture: two fit side by side, and below one another on a phone
WIDEST = 24  #: codes in the matrix
ACTIVE = 0.1  #: nats above which a code is said to carry something
NODES = 24  #: latents up to which a graph is drawn and its numbers are shown
FAINT = 0.1  #: share of a factor's entropy below which histograms see chance

BADGES = {
    "reference-checked": "the numbers of the authors' own code, reproduced",
    "closed-form": "tested where the answer is known exactly",
    "benchmarked": "compared with published results",
    "unverified": "nobody has compared it with anything yet",
}

# --- what the page shows ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Measure:
    """One metric: its number, and where that lies between chance and the best."""

    name: str  #: of the metric
    metric: str  #: its title
    part: str  #: which of its numbers; empty if it has one
    asks: str
    value: str | None  #: None: `note` says why
    chance: str | None
    best: str
    direction: str
    place: float | None  #: 0 is chance, 1 the best
    note: str
    interval: str = ""  #: "0.1 to 0.3"
    ceiling: str | None = None  #: what the factors themselves reach

    @property
    def title(self) -> str:
        return f"{self.metric}: {self.part}" if self.part else self.metric

    @property
    def verdict(self) -> str:
        if self.place is None:
            return ""
        if self.place <= 0:
            return "No better than chance"
        return f"{100 * min(self.place, 1):.0f} % of the way from chance to the best"


@dataclass(frozen=True)
class Strip:
    """One code's row."""

    code: int
    kl: float | None
    factor: str | None  #: the one with the largest mutual information
    share: float | None  #: of that factor's entropy
    low: float
    high: float
    start: float | None  #: where in the range the starting observation lies, in per cent
    image: tuple[str, int, int] | None  #: data URI, width, height
    figure: Markup | None  #: for observations that are not pictures

    @property
    def faint(self) -> bool:
        return self.share is not None and self.share < FAINT


@dataclass(frozen=True)
class Traversed:
    strips: tuple[Strip, ...]
    dims: int
    frames: int
    gap: int
    prior: bool
    from_observation: bool
    sorted_by_kl: bool


@dataclass(frozen=True)
class Cell:
    value: float
    most: bool  #: no code has more of this factor


@dataclass(frozen=True)
class Matrix:
    """Mutual information: a row for each factor, a column for each code."""

    codes: tuple[int, ...]
    dims: int
    rows: tuple[tuple[str, tuple[Cell, ...]], ...]


@dataclass(frozen=True)
class Grid:
    """Numbers from 0 to 1 with a name for each row and column."""

    title: str
    meaning: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[float, ...]], ...]


@dataclass(frozen=True)
class Causes:
    """The graph between the latents, and what the environments say of it."""

    figure: Markup | None  #: None: too many latents to draw
    edges: int
    grids: tuple[Grid, ...]


@dataclass(frozen=True)
class Intervened:
    """One concept set over its range: what the model says, what the world says, and the difference."""

    name: str
    low: float
    high: float
    image: tuple[str, int, int]  #: a sheet
    frames: int
    error: float | None  #: mean squared; None: the world does not say


@dataclass(frozen=True)
class Interventions:
    seen: tuple[str, int, int]  #: the observation
    concepts: tuple[Intervened, ...]


@dataclass(frozen=True)
class LatentPanel:
    index: int
    factor: str | None
    correlation: float | None
    scatter: Markup | None
    low: float
    high: float
    moved: tuple[str, int, int]  #: a strip
    done: tuple[str, int, int] | None


@dataclass(frozen=True)
class LatentPanels:
    seen: tuple[str, int, int]  #: the observation
    panels: tuple[LatentPanel, ...]
    frames: int
    maps: tuple[tuple[str, tuple[str, int, int]], ...]


@dataclass(frozen=True)
class Sign:
    """What a run says of itself, without labels."""

    name: str
    value: float
    meaning: str


@dataclass(frozen=True)
class Signs:
    failed: str  #: why latents are not to be trusted; empty if nothing speaks against it
    each: tuple[Sign, ...]


@dataclass(frozen=True)
class Setting:
    name: str
    value: str
    meaning: str


@dataclass(frozen=True, kw_only=True)
class Report:
    """All that a page shows, in its order. A section without content is None and has a note that says why."""

    name: str  #: of the folder
    method: str
    about: str  #: the method in one sentence
    source: str  #: the world, or the array
    seed: int
    summary: str
    measures: tuple[Measure, ...] | None
    measured_on: str
    has_world: bool
    traversed: Traversed | None
    traversed_note: str
    matrix: Matrix | None
    matrix_note: str
    causes: Causes | None
    interventions: Interventions | None
    latents: LatentPanels | None
    signs: Signs | None
    identified: str  #: which latents the theory covers in this run; empty if the representation does not say
    timings: tuple[tuple[str, float, str], ...]  #: stage, share, duration
    pictures: tuple[tuple[str, int, int], ...]  #: sheets of observations over reconstructions
    profiles: tuple[Markup, ...]  #: the same for observations that are not pictures
    reconstruction_note: str
    curves: tuple[tuple[str, tuple[tuple[str, Markup], ...]], ...]  #: stage -> term -> drawing
    settings: tuple[tuple[str, tuple[Setting, ...]], ...]
    oracle: bool  #: the learner was told true scores, on purpose
    guarantee: Guarantee
    evidence: tuple[tuple[Evidence, str], ...]
    citations: tuple[words.Citation, ...]
    reproduce: str

    @property
    def evaluated(self) -> bool:
        return self.measures is not None

    @classmethod
    def of(cls, folder: str | Path, *, known: Iterable[type] = ()) -> Report:
        """What a finished run's folder says."""
        folder, known = Path(folder), tuple(known)
        fitted = runs.load(folder, known=known)
        record = runs.read_record(folder)
        results = read_results(folder) if (folder / "results.json").is_file() else None
        kinds = {values.name_of(kind): kind for kind in (*METRICS, *known) if issubclass(kind, Metric)}
        world, absent = world_of(fitted, results, known)
        probe = None if world is None else probe_of(fitted.representation, world)
        view = environments_of(fitted, known)
        moved = traversals(fitted.representation, probe, kl=results and results.kl)
        pictures, profiles, reconstruction_note = reconstructions(fitted, probe, absent)
        return cls(
            name=folder.resolve().name,
            method=type(fitted.method).__name__,
            about=words.capital(words.sentence_of(type(fitted.method))),
            source=source_of(fitted.data),
            seed=fitted.seed,
            summary=summary_of(fitted, moved, results),
            measures=None if results is None else measures(results, kinds),
            measured_on="" if results is None else measured_on(results, fitted, known),
            has_world="world" in fitted.data,
            traversed=None if moved is None else traversed(moved, fitted.spec.shape, results),
            traversed_note=why_not_traversed(fitted, absent),
            matrix=matrix(results, moved),
            matrix_note=why_no_matrix(fitted, results),
            causes=causes(fitted, probe, view),
            interventions=interventions(fitted, probe),
            latents=latent_panels(fitted, probe, view),
            signs=signs(fitted.representation),
            identified=identified(fitted.representation),
            timings=timings(fitted),
            pictures=pictures,
            profiles=profiles,
            reconstruction_note=reconstruction_note,
            curves=tuple((stage, curves(curve)) for stage, curve in fitted.curves.items() if len(curve)),
            settings=settings(fitted, record, world),
            oracle=was_told(fitted.method),
            guarantee=fitted.method.promise,
            evidence=tuple((e, BADGES[e.badge]) for e in fitted.method.evidence),
            citations=tuple(words.Citation.of(reference) for reference in cite.references(folder, known)),
            reproduce=snippet(fitted, folder.resolve().name, results, kinds, known),
        )

    def html(self) -> str:
        from jinja2 import Environment, StrictUndefined

        house = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
        house.filters["number"] = words.number
        return house.from_string(files("whence.report").joinpath("page.html.j2").read_text("utf-8")).render(page=self)


def report(folder: str | Path, *, known: Iterable[type] = ()) -> Path:
    """Write `report.html` into a run's folder, from what the folder holds, and return its path.

    The page is one file that loads nothing. Classes of your own must be listed in `known`, as for `load`.
    """
    path = Path(folder) / "report.html"
    page = Report.of(folder, known=known)
    storage.write(path, page.html())
    return path


# --- where it came from ----------------------------------------------------------------------------------------------


def world_of(fitted: Fitted, results: Results | None, known: Sequence[type]) -> tuple[World | None, str]:
    """The world of the run, or else the one it was evaluated on, if it is there to draw from; otherwise why not: a
    recorded world's file may have moved."""
    recorded = fitted.data.get("world") or (results and results.world)
    if not recorded:
        return None, "The run learned from an array, and a run's folder keeps no data."
    try:
        world = runs.world_of({"world": recorded}, known)
        first(Probe(fitted.representation, world))
    except (OSError, ValueError) as error:
        return None, f"The world could not be drawn from: {error}"
    return world, ""


def measured_on(results: Results, fitted: Fitted, known: Sequence[type]) -> str:
    """How many observations, and of which world if it is not the run's own."""
    text = count(results.samples, "observation")
    if not results.world or results.world == fitted.data.get("world"):
        return text
    try:
        return f"{text} of {words.code(runs.world_of({'world': results.world}, known))}"
    except ValueError:
        return f"{text} of {results.world.get('type', 'another world')}"


def was_told(method: Any) -> bool:
    """Whether one of its settings carries the truth, as an oracle of scores does."""
    return any(getattr(getattr(method, f.name), "truth", False) for f in fields_of(method))


def source_of(data: Mapping[str, Any]) -> str:
    if "world" in data:
        return str(data["world"].get("type", "a world"))
    if "read" in data or "pictures" in data:
        return Path(data["view"]).name
    if "environments" in data:
        rows = sum(about["shape"][0] for about in data["environments"].values())
        return f"{count(rows, 'observation')} of {count(len(data['environments']), 'environment')}"
    rows = data.get("shape") or [0]
    return count(rows[0], "observation")


def environments_of(fitted: Fitted, known: Sequence[type]) -> Environments | None:
    """What a run learned from, if it was environments that can be had again: of a recorded world, or of a table that
    is still where it was."""
    data = dict(fitted.data)
    try:
        if "world" in data:
            world, view = runs.world_of(data, known), data.pop("view")
            del data["world"]
            return world.environments(**data) if view == "environments" else None
        for key, reader in (("read", Environments.read), ("pictures", Environments.pictures)):
            if key in data and Path(data["view"]).exists():
                how: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in data[key].items()}
                read = reader(data["view"], **how, least=1)
                return read if values.describe(read.origin) == fitted.data else None
    except (OSError, TypeError, ValueError):
        pass  # it has moved, or changed
    return None


def kind_of(shape: Sequence[int]) -> str:
    """
    >>> kind_of((1, 64, 64)), kind_of((3, 64, 64)), kind_of((20,)), kind_of((4, 5, 6))
    ('64 × 64 grey images', '64 × 64 colour images', 'vectors of 20 values', '4 × 5 × 6 arrays')
    """
    if drawing.is_picture(shape):
        colour = "colour" if len(shape) == 3 and shape[0] == 3 else "grey"
        return f"{' × '.join(map(str, shape[-2:]))} {colour} images"
    if len(shape) == 1:
        return f"vectors of {shape[0]:,} values"
    return f"{' × '.join(map(str, shape))} arrays"


def summary_of(fitted: Fitted, moved: Traversals | None, results: Results | None) -> str:
    d = fitted.representation.dims
    parts = [f"{count(d, 'code')} for {kind_of(fitted.spec.shape)}"]
    if fitted.recipe is not None:
        parts.append(f"learned in {count(fitted.recipe.steps, 'step')} of {fitted.recipe.batch:,}")
    text = f"{', '.join(parts)} ({words.duration(fitted.seconds)})."
    kl = results.kl if results is not None and results.kl is not None else None if moved is None else moved.kl
    if kl is not None:
        active = int((np.asarray(kl) > ACTIVE).sum())
        text += f" {active} of {d:,} carry more than {ACTIVE:g} nats about an observation."
    return text


def count(n: int, noun: str) -> str:
    """
    >>> count(1, "code"), count(5000, "step")
    ('1 code', '5,000 steps')
    """
    return f"{n:,} {noun}" if n == 1 else f"{n:,} {noun}s"


# --- results ---------------------------------------------------------------------------------------------------------


def measures(results: Results, kinds: Mapping[str, type]) -> tuple[Measure, ...]:
    found = []
    for r in results:
        name, _, part = r.metric.partition(".")
        title, asks = title_of(name, kinds.get(name))
        place = None
        if r.value is not None and r.chance is not None and r.best != r.chance:
            place = (r.value - r.chance) / (r.best - r.chance)
        found.append(
            Measure(
                name=name,
                metric=title,
                part=part.replace("_", " "),
                asks=asks,
                value=None if r.value is None else digits(r.value, r.best),
                chance=None if r.chance is None else digits(r.chance, r.best),
                best=words.short(r.best),
                direction="higher is better" if r.higher_is_better else "lower is better",
                place=place,
                note=r.note,
                interval="" if r.interval is None else " to ".join(digits(end, r.best) for end in r.interval),
                ceiling=None if r.ceiling is None else digits(r.ceiling, r.best),
            )
        )
    return tuple(found)


def digits(value: float, best: float) -> str:
    """Three decimals of a score; of an error, whose best is 0, three digits.

    >>> digits(0.00017, 1), digits(0.00453, 0)
    ('0.000', '0.00453')
    """
    return words.number(round(value, 3) if best and abs(value) < 0.01 else value)


def title_of(name: str, kind: type | None) -> tuple[str, str]:
    """A metric's docstring is "Title: what it asks"."""
    title, colon, asks = ("", "", "") if kind is None else words.sentence_of(kind).partition(":")
    if not colon:
        return words.capital(name.replace("_", " ")), title.strip()
    return words.capital(title.strip().removeprefix("The ")), words.capital(asks.strip())


def information(results: Results | None) -> np.ndarray | None:
    """(D, K), if it was measured."""
    if results is None or not results.mutual_information or not results.factors:
        return None
    return np.asarray(results.mutual_information, dtype=float)


def matrix(results: Results | None, moved: Traversals | None) -> Matrix | None:
    """Codes in the order of the traversals, so that the eye finds them again; the best of each factor is never cut."""
    share = information(results)
    if results is None or share is None:
        return None
    d = len(share)
    if results.kl is not None:
        order = np.argsort(-np.asarray(results.kl), kind="stable").tolist()
    else:
        shown = list(moved.codes) if moved is not None else []
        order = shown + [j for j in np.argsort(-share.max(1), kind="stable").tolist() if j not in shown]
    best = share.argmax(0).tolist()
    keep = set(order[:WIDEST])
    codes = tuple(j for j in order if j in keep or j in best)
    rows = tuple(
        (name, tuple(Cell(float(share[j, k]), j == best[k] and share[j, k] > 0) for j in codes))
        for k, name in enumerate(results.factors)
    )
    return Matrix(codes, d, rows)


def why_no_matrix(fitted: Fitted, results: Results | None) -> str:
    if results is None:
        return "Which code holds which factor is measured by whence evaluate."
    return f"It is not computed for as many as {fitted.representation.dims:,} codes."


# --- pictures --------------------------------------------------------------------------------------------------------


def causes(fitted: Fitted, probe: Probe | None, view: Environments | None) -> Causes | None:
    """What a representation with a graph says; with its environments, how their scores differ; with a world, how each
    code mixes the true latents."""
    representation = fitted.representation
    if not isinstance(representation, HasGraph):
        return None
    a = representation.graph.detach().cpu().double().numpy()
    named = isinstance(representation, HasConcepts) and len(fitted.spec.labels) == len(a)
    names = tuple(label.name for label in fitted.spec.labels) if named else tuple(f"z{j}" for j in range(len(a)))
    grids = []
    if len(a) <= NODES:
        grids.append(Grid("Confidence", "of each edge, from the row to the column", names, rows_of(names, a)))
    if isinstance(representation, HasInterventions):
        d = representation.intervention_matrix.detach().cpu().double().numpy()
        told = rows_of(environments(fitted, d.shape[1]), d.T)
        grids.append(
            Grid("Interventions", "how much of what an environment changes lies along each latent", names, told)
        )
    if view is not None and len(a) <= NODES and (differences := sizes_of_differences(representation, view)) is not None:
        grids.append(
            Grid(
                "Score differences",
                "how much the score of the codes (of Gaussians) changes along each latent, each row's largest 1: at "
                "the latents that an environment intervenes on, and at their causes",
                names,
                rows_of(view.names, differences),
            )
        )
    if probe is not None and probe.world.graph is not None and len(a) <= NODES:
        z, v = probe.pool
        if isinstance(representation, HasConcepts):
            z = np.asarray(representation.concepts(z.astype(np.float32)))
        mixing = np.abs(effective_mixing(z, v))
        mixing /= np.linalg.norm(mixing, axis=1, keepdims=True).clip(1e-12)
        code = matched(np.asarray(z, float), np.asarray(v, float))
        order = sorted(range(len(code)), key=lambda k: code[k] if code[k] >= 0 else len(a))
        truth = tuple(f"true {probe.world.factors[k].name}" for k in order)
        grids.append(
            Grid(
                "Effective mixing",
                "of the true latents in each code, rows of length 1: the encoder times the mixing, H G, where both are "
                "linear. Columns are in the order of the codes that hold them",
                truth,
                rows_of(names, mixing[:, order]),
            )
        )
    return Causes(
        figure=drawing.graph(names, a) if len(a) <= NODES else None,
        edges=int((a > drawing.EDGE).sum()),
        grids=tuple(grids),
    )


def rows_of(names: Sequence[str], numbers: np.ndarray) -> tuple[tuple[str, tuple[float, ...]], ...]:
    return tuple((name, tuple(row)) for name, row in zip(names, numbers.tolist(), strict=True))


def sizes_of_differences(representation: Representation, view: Environments) -> np.ndarray | None:
    """(E, n): root mean squares of Gaussian score differences of the codes, whatever their units."""
    if any(told.kind == "do" for told in view.told):
        return None
    z = codes_of(representation, view)
    d = score_differences(view, z)
    if d is None:
        return None
    size = d.square().mean(1).sqrt().numpy() * z[0].std(0).numpy()
    return size / size.max(1, keepdims=True).clip(1e-300)


def latent_panels(fitted: Fitted, probe: Probe | None, view: Environments | None) -> LatentPanels | None:
    """Of causal representations of pictures: each latent, and where interventions are seen."""
    found = latents(fitted.representation, probe, view)
    if found is None:
        return None
    panels_ = tuple(
        LatentPanel(
            index=one.number,
            factor=one.factor,
            correlation=one.correlation,
            scatter=None
            if one.z is None or one.v is None
            else drawing.scatter(one.v, one.z, (f"true {one.factor}", f"z{one.number}")),
            low=float(one.at[0]),
            high=float(one.at[-1]),
            moved=drawing.sheet(one.moved[None].numpy()),
            done=None if one.done is None else drawing.sheet(one.done[None].numpy()),
        )
        for one in found.each
    )
    maps = tuple((name, drawing.sheet(picture[None, None])) for name, picture in found.maps)
    return LatentPanels(drawing.sheet(found.x[None].numpy()), panels_, len(found.each[0].at), maps)


def signs(representation: Representation) -> Signs | None:
    """The quality that a representation reports of itself."""
    if not isinstance(representation, HasQuality):
        return None
    quality: Any = representation.quality
    help = values.field_help(type(quality))
    each = tuple(Sign(name.replace("_", " "), value, help.get(name, "")) for name, value in quality._asdict().items())
    return Signs(quality.failed, each)


def identified(representation: Representation) -> str:
    """Which latents the theory covers."""
    if not isinstance(representation, SaysIdentified):
        return ""
    known = [f"z{i}" for i, yes in enumerate(representation.identified) if yes]
    if len(known) == len(representation.identified):
        return "Of this run's latents it covers all."
    if not known:
        return "Of this run's latents it covers none: they do not have the interventions that it asks for."
    return f"Of this run's latents it covers {', '.join(known)}, and not the others."


def timings(fitted: Fitted) -> tuple[tuple[str, float, str], ...]:
    """Each stage with steps, and what is between them."""
    if len(fitted.stages) < 2:
        return ()
    rest = max(0.0, fitted.seconds - sum(fitted.stages.values()))
    whole = max(fitted.seconds, sum(fitted.stages.values()), 1e-9)
    each = {**{name.replace("-", " "): t for name, t in fitted.stages.items()}, "all the rest": rest}
    return tuple((name, t / whole, words.duration(t)) for name, t in each.items())


def interventions(fitted: Fitted, probe: Probe | None) -> Interventions | None:
    """Every concept set over its range, if there is a picture to start from."""
    if probe is None or not drawing.is_picture(fitted.spec.shape):
        return None
    found = panels(fitted.representation, probe)
    if found is None:
        return None
    x, concepts = found
    shown = []
    for panel in concepts:
        rows = [panel.pictures]
        if panel.truth is not None:
            rows += [panel.truth, 1 - (panel.pictures - panel.truth).abs()]
        sheet = drawing.sheet(np.stack([row.numpy() for row in rows]))
        shown.append(Intervened(panel.name, panel.at[0], panel.at[-1], sheet, len(panel.at), panel.error))
    return Interventions(drawing.sheet(x[None].numpy()), tuple(shown))


def environments(fitted: Fitted, many: int) -> tuple[str, ...]:
    """Names of the interventional environments, if the run's record has them."""
    recorded = tuple(fitted.data.get("environments", ()))[1:]
    return recorded if len(recorded) == many else tuple(f"environment {m}" for m in range(1, many + 1))


def traversed(moved: Traversals, shape: Sequence[int], results: Results | None) -> Traversed | None:
    picture, profile = drawing.is_picture(shape), drawing.is_profile(shape)
    if not (picture or profile):
        return None
    share = information(results)
    strips = []
    for row, j in enumerate(moved.codes):
        low, high = float(moved.at[row, 0]), float(moved.at[row, -1])
        most = None if results is None or share is None else int(share[j].argmax())
        place = None
        if moved.start is not None and high > low:
            place = 100 * min(max((float(moved.start[row]) - low) / (high - low), 0.0), 1.0)
        strips.append(
            Strip(
                code=j,
                kl=None if moved.kl is None else float(moved.kl[j]),
                factor=None if results is None or most is None else results.factors[most],
                share=None if share is None or most is None else float(share[j, most]),
                low=low,
                high=high,
                start=place,
                image=drawing.sheet(drawing.as_pictures(moved.x[row], shape)[None]) if picture else None,
                figure=None if picture else fan(moved.x[row], float(moved.x.min()), float(moved.x.max())),
            )
        )
    return Traversed(
        tuple(strips), moved.dims, FRAMES, drawing.GAP, moved.prior, moved.start is not None, moved.kl is not None
    )


def fan(x: np.ndarray, low: float, high: float) -> Markup:
    """One code's observations that are not pictures: from one end of its range to the other."""
    return drawing.profile(x.reshape(len(x), -1), [f"fan f{i}" for i in range(len(x))], low, high)


def why_not_traversed(fitted: Fitted, absent: str) -> str:
    if not isinstance(fitted.representation, Decodes):
        return f"{type(fitted.representation).__name__} encodes only: nothing turns its codes back into observations."
    if not (drawing.is_picture(fitted.spec.shape) or drawing.is_profile(fitted.spec.shape)):
        return f"There is no way here to draw {kind_of(fitted.spec.shape)}."
    if not isinstance(fitted.representation, HasPosterior):
        return f"{absent} Without observations the range of a code that has no prior is not known."
    return absent


def reconstructions(
    fitted: Fitted, probe: Probe | None, absent: str
) -> tuple[tuple[tuple[str, int, int], ...], tuple[Markup, ...], str]:
    """Sheets of pictures or profiles of the same observations before and after; if none, why."""
    shape = fitted.spec.shape
    if not isinstance(fitted.representation, Decodes) or not (drawing.is_picture(shape) or drawing.is_profile(shape)):
        return (), (), why_not_traversed(fitted, absent)
    both = None if probe is None else probe.reconstructions(COLUMNS)
    if both is None:
        return (), (), absent
    x, x_ = (a.numpy() for a in both)
    if drawing.is_picture(shape):
        pairs = drawing.as_pictures(np.stack([x, x_]), shape)
        return tuple(drawing.sheet(pairs[:, i : i + HALF]) for i in range(0, COLUMNS, HALF)), (), ""
    low, high = float(min(x.min(), x_.min())), float(max(x.max(), x_.max()))
    rows = zip(x.reshape(COLUMNS, -1), x_.reshape(COLUMNS, -1), strict=True)
    return (), tuple(drawing.profile(np.stack(row), ["before", "after"], low, high) for row in rows), ""


def curves(curve: Curve) -> tuple[tuple[str, Markup], ...]:
    return tuple((name, drawing.curve(curve.steps, curve[name], name)) for name in curve.names)


# --- what was run ----------------------------------------------------------------------------------------------------


def settings(
    fitted: Fitted, record: Mapping[str, Any], world: World | None
) -> tuple[tuple[str, tuple[Setting, ...]], ...]:
    method = fitted.method
    groups = [(f"Method: {type(method).__name__}", settings_of(method))]
    if fitted.recipe is not None:
        groups.append(("Recipe", settings_of(fitted.recipe)))
    groups.append((f"Data: {source_of(fitted.data)}", data_settings(fitted.data, world)))
    weights = sum(tensor.numel() for tensor in fitted.representation.state_dict().values())
    facts = [
        Setting("seed", str(fitted.seed), "of everything random"),
        Setting("time", words.duration(fitted.seconds), "to fit"),
        Setting(
            "threads", str(record.get("threads", "unknown")), "on the CPU; another number may change the last digits"
        ),
        Setting("weights", f"{weights:,}", "numbers in the representation"),
        Setting("versions", ", ".join(f"{name} {number}" for name, number in record.get("versions", {}).items()), ""),
        Setting("fingerprint", str(record.get("fingerprint", "")), "of method, data, recipe and seed"),
    ]
    return tuple((title, tuple(rows)) for title, rows in (*groups, ("Run", facts)) if rows)


def settings_of(value: Any) -> list[Setting]:
    """A dataclass's fields with what the source says about each."""
    meaning = values.field_help(type(value))
    return [
        Setting(f.name, told(getattr(value, f.name)), words.plain(meaning.get(f.name, "")))
        for f in fields_of(value)
        if f.init
    ]


def told(value: Any) -> str:
    """
    >>> told(None), told({}), told("float32"), told((64, 64))
    ('none', 'none', 'float32', '(64, 64)')
    """
    if value is None or value == {} or value == ():
        return "none"
    return value if isinstance(value, str) else words.code(value)


def data_settings(data: Mapping[str, Any], world: World | None) -> list[Setting]:
    """Options of the world, and how it was seen. A world that could not be built is told as recorded."""
    recorded = data.get("world", {})
    of_world = (
        settings_of(world)
        if world is not None and recorded
        else [Setting(key, told(item), "") for key, item in recorded.items() if key != "type"]
    )
    kept = {key: item for key, item in data.items() if key not in ("world", "read", "environments")}
    read = [Setting(key, told(item), "of the table") for key, item in data.get("read", {}).items()]
    rows = [
        Setting(name, count(about["shape"][0], "row"), "observational" if e == 0 else "")
        for e, (name, about) in enumerate(data.get("environments", {}).items())
    ]
    return (
        of_world
        + [
            Setting(
                key,
                item if isinstance(item, str) else words.code(item),
                "what the learner saw" if key == "view" else "",
            )
            for key, item in kept.items()
            if item is not None
        ]
        + read
        + rows
    )


def snippet(
    fitted: Fitted, name: str, results: Results | None, kinds: Mapping[str, type], known: Iterable[type]
) -> str:
    """Python that makes this run again."""
    used: set[type] = set()
    functions = [("whence", "fit")]
    data, before = seen(fitted, used, known)
    lines = [words.code(fitted.method, used), data, f"seed={fitted.seed}"]
    standard = getattr(type(fitted.method), "recipe", None)
    if fitted.recipe is not None and standard is not None:
        changed = [
            f"{f.name}={words.code(getattr(fitted.recipe, f.name), used)}"
            for f in fields_of(fitted.recipe)
            if values.describe(getattr(fitted.recipe, f.name)) != values.describe(getattr(standard, f.name))
        ]
        if changed:
            functions.append(("dataclasses", "replace"))
            lines.append(f"recipe=replace({type(fitted.method).__name__}.recipe, {', '.join(changed)})")
    lines.append(f"into={name!r}")
    body = [*before, "fitted = " + call("fit", lines)]
    if results is not None:
        functions.append(("whence.metrics", "evaluate"))
        asked = ["fitted", f"seed={results.seed}", f"samples={results.samples}", *chosen(results, kinds, used, known)]
        body.append(call("evaluate", asked))
    return "\n".join([*words.imports(used, *functions), "", *body])


def call(function: str, arguments: Sequence[str], width: int = 88) -> str:
    """On one line if it fits, else an argument a line."""
    line = f"{function}({', '.join(arguments)})"
    return line if len(line) <= width else "\n".join([f"{function}(", *(f"    {a}," for a in arguments), ")"])


def seen(fitted: Fitted, used: set[type], known: Iterable[type]) -> tuple[str, list[str]]:
    """The data as Python, and lines that go before."""
    data = dict(fitted.data)
    if "environments" in data:
        used.add(Environments)
        if "read" in data:
            options = [repr(data["view"]), *(f"{key}={words.code(item)}" for key, item in data["read"].items())]
            return "view", ["view = " + call("Environments.read", options)]
        first, *others = data["environments"]
        given = ["x[0]", "x[1:]", f"names={words.code(others)}", f"control={first!r}"]
        return "view", [
            f"x = ...  # an array for each of {first}, {', '.join(others)}",
            "view = " + call("Environments.of", given),
        ]
    if "world" not in data:
        shape = " × ".join(f"{n:,}" for n in data.get("shape", ()))
        return "x", [f"x = ...  # your array: {shape}, {data.get('dtype')}, sha256 {data.get('sha256')}"]
    try:
        world = runs.world_of(data, tuple(known))
        text = words.code(world, used)
    except ValueError:
        text = f"{data['world'].get('type')}(...)"
    view = str(data.get("view", ""))
    told = [
        f"{key}={words.code(item)}" for key, item in data.items() if key not in ("world", "view") and item is not None
    ]
    usual = fitted.method.needs.__name__.lower()
    return (text if view == usual and not told else f"{text}.{view}({', '.join(told)})"), []


def usual(results: Results, known: Iterable[type]) -> list[Metric]:
    """The metrics that a world is measured with unless others are asked for."""
    try:
        return suited(runs.world_of({"world": results.world}, tuple(known)))
    except ValueError:  # a world that is not here
        return [kind() for kind in METRICS]


def chosen(results: Results, kinds: Mapping[str, type], used: set[type], known: Iterable[type]) -> list[str]:
    """The metrics, if they are not the usual ones."""
    asked = list({values.digest(r.settings): r.settings for r in results}.values())  # one for all parts of a metric
    if asked == [values.describe(metric) for metric in usual(results, known)]:
        return []
    try:
        metrics = [words.code(values.build(settings, kinds.values()), used) for settings in asked]
    except ValueError:
        return []
    return [f"metrics=[{', '.join(metrics)}]"]
