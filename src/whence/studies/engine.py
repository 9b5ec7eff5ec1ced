"""Runs a study's tasks in a pool of processes with one thread each. Resumable: a second call does what is missing."""

from __future__ import annotations

import contextlib
import multiprocessing
import multiprocessing.connection
import os
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from pathlib import Path

from whence import runs, storage, values
from whence.fit import clock
from whence.methods import Gradient
from whence.methods._together import may_train_together
from whence.studies.study import Outcome, Row, Scale, Study, Task, labels, table_csv, table_markdown, tasks

Say = Callable[[str], None]


def run_study(
    study: Study,
    *,
    scale: Scale = "smoke",
    seeds: int | None = None,
    jobs: int = 1,
    only: Sequence[str] = (),
    into: str | Path = "runs",
    device: str = "cpu",
    retry: bool = False,
    say: Say = print,
) -> list[Outcome]:
    """All rows times seeds, each in a folder named by a hash of its content; then `table.csv` and `table.md`.

    A run that is there is not repeated; one that failed is shown as failed, and repeated only with `retry`. Killed
    runs resume from their checkpoints. `only` runs those rows whose label contains one of its texts: the table shows
    what is there of the others, too, and says what is not.
    """
    folder = storage.folder(Path(into) / f"{study.name}-{scale}")
    every = tasks(study, scale, seeds or study.seeds)
    asked = {task.key for task in chosen(every, only)}
    found = {task.key: outcome for task in every if (outcome := recall(folder, task, retry)) is not None}
    missing = [task for task in every if task.key in asked and task.key not in found]
    there = len(asked) - len(missing)
    say(f"{study.name} at scale {scale}: {len(asked)} runs, {there} already there, {jobs} at a time.")
    begin = time.monotonic()
    for done, (task, outcome) in enumerate(work_through(study, scale, missing, folder, device, jobs), start=1):
        found[task.key] = outcome
        left = (time.monotonic() - begin) / done * (len(missing) - done)
        state = "failed: " + outcome.error.splitlines()[-1] if outcome.error else f"{clock(outcome.seconds)}"
        say(f"  {there + done}/{len(asked)}  {outcome.label}, seed {outcome.seed}: {state}   ({clock(left)} left)")
    order = labels(study, scale)
    outcomes = sorted((found[task.key] for task in every if task.key in found), key=lambda o: order.index(o.label))
    about = {
        "command": f"`whence study {study.name} --scale {scale} --seeds {seeds or study.seeds}"
        + ("`" if device == "cpu" else f" --device {device}`"),
        "seeds": f"0 to {(seeds or study.seeds) - 1}",
        "machine": machine(device),
        "versions": ", ".join(f"{name} {number}" for name, number in runs.versions().items()),
        "date": time.strftime("%Y-%m-%d"),
        "seconds in runs": f"{sum(o.seconds for o in outcomes):,.0f}",
    }
    if absent := Counter(task.row.label for task in every if task.key not in found):
        about["not run yet"] = "; ".join(f"{label} ({n})" for label, n in absent.items())
    storage.write(folder / "table.csv", table_csv(outcomes))
    storage.write(folder / "table.md", table_markdown(study, outcomes, about))
    if study.draw is not None:
        study.draw(outcomes, folder)
    say(f"Written: {', '.join(sorted(str(path) for path in folder.glob('*.*')))}")
    return outcomes


def chosen(every: Sequence[Task], only: Sequence[str]) -> Sequence[Task]:
    """The tasks of the rows whose label contains one of these texts; all, if there are none."""
    if not only:
        return every
    there = dict.fromkeys(task.row.label for task in every)
    for text in only:
        if not any(text in label for label in there):
            raise ValueError(f"No row's label contains {text!r}. The rows are: {'; '.join(there)}.")
    return [task for task in every if any(text in task.row.label for text in only)]


def recall(folder: Path, task: Task, retry: bool) -> Outcome | None:
    """The outcome of an earlier call, if there is one."""
    path = folder / task.key / "outcome.json"
    if not path.is_file():
        return None
    about = storage.read_json(path)
    if about["error"] and retry:
        return None
    return Outcome(**about)


def work_through(
    study: Study, scale: Scale, missing: Sequence[Task], folder: Path, device: str, jobs: int
) -> Iterator[tuple[Task, Outcome]]:
    """Outcomes as they come."""
    if not missing:
        return
    before = {name: os.environ.get(name) for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS")}
    os.environ.update(OMP_NUM_THREADS="1", MKL_NUM_THREADS="1")  # children read it before they import torch
    pool = ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn"), initializer=follow_parent)
    try:
        waiting: dict[Future[list[Outcome]], list[Task]] = {
            pool.submit(work, study.name, scale, [(t.row.label, t.seed) for t in tasks], str(folder), device): tasks
            for tasks in bundles(missing)
        }
        while waiting:
            done, _ = wait(waiting, return_when=FIRST_COMPLETED)
            for future in done:
                yield from zip(waiting.pop(future), future.result(), strict=True)
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def follow_parent() -> None:
    """A worker ends with the process that started it, even if that one is killed: the run resumes later."""
    parent = multiprocessing.parent_process()
    assert parent is not None

    def watch() -> None:
        multiprocessing.connection.wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def bundles(missing: Sequence[Task]) -> list[list[Task]]:
    """What one process does: the seeds of a row that train together, or one task. Rows come in their order."""
    alike: dict[str, list[Task]] = {}
    for task in missing:
        method, recipe = task.row.method, task.row.recipe
        content = [task.row.label, method, task.view.origin, recipe]
        together = isinstance(method, Gradient) and may_train_together(method, recipe or method.recipe, task.view.spec)
        alike.setdefault(values.digest(content if together else [task.key]), []).append(task)
    return list(alike.values())


def work(name: str, scale: Scale, runs: Sequence[tuple[str, int]], folder: str, device: str) -> list[Outcome]:
    """A bundle, in a process of its own: names and numbers come in, so nothing is shared but the study's code."""
    from whence.fit import fit_many
    from whence.studies import STUDIES

    study = next(s for s in STUDIES if s.name == name)
    rows = [(next(row for row in study.rows(scale, seed) if row.label == label), seed) for label, seed in runs]
    begin = time.monotonic()
    if len(rows) > 1:  # so that `one` finds the runs finished
        row, tasks = rows[0][0], [Task.of(study, row, seed, scale) for row, seed in rows]
        with contextlib.suppress(Exception):  # `one` meets it again, and records it
            into = [Path(folder) / task.key for task in tasks]
            seeds = [seed for _, seed in rows]
            fit_many(row.method, tasks[0].view, seeds=seeds, device=device, recipe=row.recipe, into=into)
    shared = (time.monotonic() - begin) / len(rows)
    return [one(study, scale, row, seed, Path(folder), device, shared) for row, seed in rows]


def one(study: Study, scale: Scale, row: Row, seed: int, folder: Path, device: str, before: float = 0.0) -> Outcome:
    """Fit, evaluate, write the outcome, with the seconds spent on it before. An error is an outcome too."""
    from whence.fit import fit
    from whence.metrics import evaluate

    task = Task.of(study, row, seed, scale)
    place = storage.folder(folder / task.key)
    begin = time.monotonic()
    measured: dict[str, float | None] = {}
    error = ""
    try:
        fitted = fit(row.method, task.view, seed=seed, device=device, recipe=row.recipe, into=place)
        found = evaluate(
            fitted, row.world, metrics=study.columns, seed=seed, samples=study.samples[scale], chance=False
        )
        measured = {result.metric: result.value for result in found}
    except Exception:
        error = traceback.format_exc()
    outcome = Outcome(row.label, seed, task.key, measured, round(before + time.monotonic() - begin, 1), error)
    content = {f: getattr(outcome, f) for f in ("label", "seed", "key", "values", "seconds", "error")}
    storage.write_json(place / "outcome.json", content)
    return outcome


def machine(device: str) -> str:
    """What ran it, in a few words."""
    import platform

    import torch

    if device.startswith("cuda"):
        return torch.cuda.get_device_name(device)
    model = platform.processor() or platform.machine()
    with contextlib.suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        model = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), model)
    return f"{model}, one thread a run"


def named(name: str) -> Study:
    """A study by its name; the nearest one is suggested."""
    from whence.studies import STUDIES

    table = {study.name: study for study in STUDIES}
    if name not in table:
        raise ValueError(values.unknown("study", name, table))
    return table[name]
