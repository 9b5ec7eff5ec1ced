"""Study: a published table as code. Rows are generated, runs are cached by content, failures are shown."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

from whence import values
from whence.descend import Recipe
from whence.evidence import Reference
from whence.methods import Method
from whence.metrics import Metric
from whence.runs import fingerprint
from whence.views import View
from whence.worlds import World

Scale = Literal["smoke", "cpu", "paper"]
WIDE = 12  #: columns; a table with more has means without errors (the CSV has every run)
SCALES: tuple[Scale, ...] = ("smoke", "cpu", "paper")


class Row(NamedTuple):
    """One line of a table: a method on a world, to be run with several seeds."""

    label: str
    method: Method
    world: World
    recipe: Recipe | None = None
    view: Callable[[World], View] | None = None  #: None: the view the method needs, with its defaults


class Published(NamedTuple):
    """A number of the literature, shown beside ours and marked as published."""

    mean: float
    error: float | None = None

    def __str__(self) -> str:
        return f"{self.mean:g}" + ("" if self.error is None else f" ± {self.error:g}")


@dataclass(frozen=True, kw_only=True)
class Study:
    """What a table needs: rows, the metrics that are its columns, and the published numbers."""

    name: str
    title: str
    rows: Callable[[Scale, int], Iterator[Row]] = field(
        repr=False
    )  #: of one seed: a world drawn at random may follow it
    columns: tuple[Metric, ...]
    published: Mapping[tuple[str, str], Published] = field(default_factory=dict)  #: by (label, metric name)
    reference: Reference
    seeds: int = 5  #: unless asked otherwise
    percent: bool = False  #: show metrics times 100, as the paper does
    samples: Mapping[str, int] = field(default_factory=lambda: {"smoke": 2_000, "cpu": 10_000, "paper": 10_000})
    notes: str = ""  #: what differs from the paper's protocol
    draw: Callable[[Sequence[Outcome], Path], None] | None = field(default=None, repr=False)  #: figures, too


class Task(NamedTuple):
    """One run of a study."""

    row: Row
    seed: int
    view: View
    key: str  #: hash of all that the numbers depend on

    @classmethod
    def of(cls, study: Study, row: Row, seed: int, scale: Scale) -> Task:
        view = row.view(row.world) if row.view else row.world.view(row.method.needs, **row.method.design)
        run = fingerprint(row.method, view.origin, seed, row.recipe)
        return cls(row, seed, view, values.digest([run, list(study.columns), study.samples[scale], row.world]))


def tasks(study: Study, scale: Scale, seeds: int) -> list[Task]:
    """Rows times seeds; the seeds of one row come one after another, so that a table fills evenly."""
    found = labels(study, scale)
    if len(set(found)) < len(found):
        raise ValueError(f"The rows of a study have different labels, got {found}.")
    return [Task.of(study, row, seed, scale) for seed in range(seeds) for row in study.rows(scale, seed)]


def labels(study: Study, scale: Scale) -> list[str]:
    """The rows in their order."""
    return [row.label for row in study.rows(scale, 0)]


@dataclass(frozen=True)
class Outcome:
    """What one run came to."""

    label: str
    seed: int
    key: str
    values: Mapping[str, float | None]  #: by metric name; None where a metric could not be measured
    seconds: float = 0.0
    error: str = ""  #: why it failed


def mean_and_error(numbers: Sequence[float]) -> tuple[float, float | None]:
    """The mean and its standard error (None for a single number)."""
    n = len(numbers)
    mean = sum(numbers) / n
    if n < 2:
        return mean, None
    return mean, math.sqrt(sum((x - mean) ** 2 for x in numbers) / (n - 1) / n)


def table_csv(outcomes: Sequence[Outcome]) -> str:
    """Every run, one line each, failures included."""
    metrics = list(dict.fromkeys(name for o in outcomes for name in o.values))
    out = io.StringIO()
    table = csv.writer(out, lineterminator="\n")
    table.writerow(["row", "seed", *metrics, "seconds", "error", "key"])
    for o in outcomes:
        cells = ["" if (v := o.values.get(name)) is None else repr(v) for name in metrics]
        table.writerow(
            [o.label, o.seed, *cells, f"{o.seconds:.1f}", o.error.splitlines()[-1] if o.error else "", o.key]
        )
    return out.getvalue()


def table_markdown(study: Study, outcomes: Sequence[Outcome], about: Mapping[str, Any]) -> str:
    """Ours as mean ± standard error (number of runs), the published number beside it, failures counted."""
    names = [name for metric in study.columns for name in metric.names()]
    wide = len(names) > WIDE
    shown = [(name, any((label, name) in study.published for label in {o.label for o in outcomes})) for name in names]
    head = ["", *(cell for name, has in shown for cell in ((name, "published") if has else (name,))), "runs", "failed"]
    lines = [f"# {study.title}", "", "| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    for label in dict.fromkeys(o.label for o in outcomes):
        mine = [o for o in outcomes if o.label == label]
        good = [o for o in mine if not o.error]
        cells = [label]
        for name, has in shown:
            numbers = [v for o in good if (v := o.values.get(name)) is not None]
            cells.append(show(numbers, study.percent, plain=wide) if numbers else "–")
            if has:
                cells.append(str(study.published.get((label, name), "–")))
        lines.append("| " + " | ".join([*cells, str(len(mine)), str(len(mine) - len(good))]) + " |")
    unit = " (metrics in %)" if study.percent else ""
    ours = "mean" if wide else "mean ± standard error"
    cited = "Published" if study.published else "Reference"
    lines += ["", f"Ours: {ours} over seeds{unit}. {cited}: {study.reference}", ""]
    lines += [study.notes, ""] if study.notes else []
    lines += [f"- {key}: {value}" for key, value in about.items()]
    return "\n".join(lines) + "\n"


def show(numbers: Sequence[float], percent: bool, plain: bool = False) -> str:
    """
    >>> show([0.5, 0.75], percent=True), show([0.5], percent=False)
    ('62.5 ± 12.5', '0.500')
    """
    mean, error = mean_and_error(numbers)
    form = (lambda x: f"{100 * x:.1f}") if percent else (lambda x: f"{x:.3f}")
    return form(mean) + ("" if error is None or plain else f" ± {form(error)}")
