"""What to cite: the references of a run's method, world and metrics."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from whence import runs
from whence.evidence import Reference
from whence.methods import METHODS
from whence.metrics import METRICS, RANKINGS, read_results
from whence.worlds import WORLDS

#: Ours, for the library itself.
WHENCE = Reference(
    key="whence",
    authors="{The Whence developers}",
    title="Whence: find what your data came from",
    venue=f"Software, version {runs.this_version()}",
    year=2026,
)


def references(folder: str | Path, known: Iterable[type] = ()) -> list[Reference]:
    """What a run rests on: its method, its world, and the metrics it was evaluated with; `known` lists your own."""
    about = runs.read_record(folder)
    names = [about["method"]["type"], about["data"].get("world", {}).get("type", "")]
    if (Path(folder) / "results.json").is_file():
        names += [result.settings["type"] for result in read_results(folder)]
    kinds: dict[str, Any] = {kind.__name__: kind for kind in (*METHODS, *WORLDS, *METRICS, *RANKINGS, *known)}
    return unique([*(kinds[name].reference for name in names if name in kinds), WHENCE])


def unique(found: Iterable[Reference | None]) -> list[Reference]:
    return list({reference.key: reference for reference in found if reference is not None}.values())


def bibtex(found: Iterable[Reference]) -> str:
    return "\n\n".join(reference.bibtex() for reference in found)
