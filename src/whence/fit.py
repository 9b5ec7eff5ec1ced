"""11. fit: checks the view, seals randomness, records provenance."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor

from whence import runs, storage, values
from whence.descend import Diverged, Progress, Recipe, Run, Watch, mix, share
from whence.methods import Gradient, Method
from whence.methods._together import may_train_together, train_together
from whence.representation import Representation
from whence.runs import Fitted
from whence.views import Environments, Singles, View
from whence.worlds import World


def fit(
    method: Method,
    data: View | World | Tensor | np.ndarray,
    *,
    seed: int = 0,
    device: str = "cpu",
    recipe: Recipe | None = None,
    into: str | Path | None = None,
    watch: Watch | Iterable[Watch] | None = None,
    save_every: float = 30.0,
) -> Fitted:
    """Fit a method on a view, a world (its default view is taken) or an array of observations. A method that learns
    from single observations takes those of all environments, if it is given environments.

    `recipe` replaces the paper's budget (`replace(method.recipe, steps=1000)`). `into` is the run's folder: a
    finished run there is loaded, an unfinished one resumed, another one's folder refused. `watch` hears of progress:
    `Console()` prints it, None (the default) is silent. The caller's random state is left as it was.
    """
    view = as_view(method, data)
    if isinstance(method, Gradient):
        recipe = recipe or method.recipe
    elif recipe is not None:
        raise TypeError(f"{type(method).__name__} does not descend, so it takes no recipe. Leave recipe out.")
    run = Run(
        seed=seed,
        device=device,
        recipe=recipe or Recipe(),
        into=None if into is None else storage.folder(Path(into)),
        watch=() if watch is None else (watch,) if callable(watch) else tuple(watch),
        save_every=save_every,
        fingerprint=runs.fingerprint(method, view.origin, seed, recipe),
    )
    if run.into is not None and (run.into / "run.json").exists():
        about = runs.read_record(run.into)
        if about["fingerprint"] != run.fingerprint:
            raise storage.StorageError(
                f"{str(run.into)!r} holds another run ({difference(about, method, view, seed, recipe)}). "
                "Choose another folder, or remove that one."
            )
        if about["status"] == "done":
            return runs.load(run.into, known=known_of(method))
    elif run.into is not None and share()[0] == 0:
        storage.write_json(run.into / "run.json", runs.record(method, view.origin, view.spec, seed, recipe, device))
    begin = time.monotonic()
    with torch.random.fork_rng():
        torch.manual_seed(mix(seed, "init"))
        representation = method.fit(view, run).frozen()
    return finished(method, view, run, recipe, representation, time.monotonic() - begin)


def finished(
    method: Method, view: View, run: Run, recipe: Recipe | None, representation: Representation, seconds: float
) -> Fitted:
    """What `fit` returns, and the run's folder if there is one."""
    fitted = Fitted(
        method=method,
        representation=representation,
        spec=view.spec._replace(latents=representation.spec.latents),  # learned from the data, or None
        data=values.describe(view.origin),
        seed=run.seed,
        recipe=recipe,
        curves=run.curves,
        device=run.device,
        seconds=seconds,
        stages=run.seconds,
    )
    rank, workers = share()
    if run.into is not None:
        fitted = runs.save(fitted, run.into) if rank == 0 else replace(fitted, folder=run.into)
    if workers > 1:
        dist.barrier()  # no process goes on before the run is written
    return fitted


def fit_many(
    method: Method,
    data: View | World | Tensor | np.ndarray,
    *,
    seeds: Iterable[int],
    device: str = "cpu",
    recipe: Recipe | None = None,
    into: str | Path | Sequence[str | Path] | None = None,
    watch: Watch | Iterable[Watch] | None = None,
    save_every: float = 30.0,
) -> list[Fitted]:
    """`fit` for several seeds, all together where the method allows it: one player, fully connected networks.

    Each seed sees the batches and the noise that it sees alone, so results are those of `fit` up to rounding. What
    cannot train together is fitted one after another; so is everything if one of the seeds diverges or fails. `into`
    is a folder for all, with one a seed in it, or a folder for each. A second call loads what is finished.
    """
    view, seeds = as_view(method, data), list(seeds)
    if len(set(seeds)) < len(seeds):
        raise ValueError(f"Seeds are all different, got {seeds}.")
    folders: list[Path | None] = [None] * len(seeds)
    if isinstance(into, str | Path):
        folders = [Path(into) / f"seed-{seed}" for seed in seeds]
    elif into is not None:
        folders = [Path(folder) for folder in into]
    options = {"device": device, "recipe": recipe, "watch": watch, "save_every": save_every}

    def alone(seed: int, folder: Path | None) -> Fitted:
        return fit(method, view, seed=seed, into=folder, **options)  # type: ignore[arg-type]

    missing = [
        (seed, folder)
        for seed, folder in zip(seeds, folders, strict=True)
        if folder is None
        or not (folder / "run.json").exists()
        or storage.read_json(folder / "run.json").get("status") != "done"
    ]
    found: dict[int, Fitted] = {}
    if isinstance(method, Gradient) and len(missing) > 1 and share()[1] == 1:
        used = recipe or method.recipe
        if may_train_together(method, used, view.spec):
            # RuntimeError: vmap cannot take the loss, such as one with randperm; alone it is as it always is
            with contextlib.suppress(Diverged, RuntimeError):
                found = _together(method, view, missing, used, device, watch, save_every)
    return [found[s] if s in found else alone(s, folder) for s, folder in zip(seeds, folders, strict=True)]


def _together(
    method: Gradient,
    view: View,
    missing: Sequence[tuple[int, Path | None]],
    recipe: Recipe,
    device: str,
    watch: Watch | Iterable[Watch] | None,
    save_every: float,
) -> dict[int, Fitted]:
    """All the seeds that are missing, in one descent; its checkpoint lies in the first one's folder."""
    each = [
        Run(
            seed=seed,
            device=device,
            recipe=recipe,
            into=None if folder is None else storage.folder(folder),
            fingerprint=runs.fingerprint(method, view.origin, seed, recipe),
        )
        for seed, folder in missing
    ]
    begun = [run for run in each if run.into is not None and (run.into / "run.json").exists()]
    if any(runs.read_record(run.into)["fingerprint"] != run.fingerprint for run in begun if run.into is not None):
        return {}  # fit refuses it, and says why
    for run in each:
        if run.into is not None:
            storage.write_json(
                run.into / "run.json", runs.record(method, view.origin, view.spec, run.seed, recipe, device)
            )
    begin = time.monotonic()
    method.check(view)
    nets = []
    with torch.random.fork_rng():
        for run in each:
            torch.manual_seed(mix(run.seed, "init"))
            nets.append(method.init(view.spec))
        watchers = () if watch is None else (watch,) if callable(watch) else tuple(watch)
        key = values.digest([run.fingerprint for run in each])
        whole = replace(each[0], fingerprint=key, watch=watchers, save_every=save_every)
        curves = train_together(method, nets, view, whole, [run.seed for run in each])
    seconds = (time.monotonic() - begin) / len(each)
    found = {}
    for run, own, curve in reversed(list(zip(each, nets, curves, strict=True))):  # the checkpoint's folder comes last
        run.curves["train"] = curve
        representation = method.represent(own.eval(), view.spec).frozen()
        found[run.seed] = finished(method, view, run, recipe, representation, seconds)
    return found


def as_view(method: Method, data: View | World | Tensor | np.ndarray) -> View:
    """The view a method needs, or an error that says how to get it."""
    if not isinstance(method, Method):
        raise TypeError(f"fit needs a method such as BetaVAE(beta=4), got {method!r}. Build it first: BetaVAE().")
    if isinstance(data, World):
        data = data.view(method.needs, **method.design)
    if isinstance(data, Tensor | np.ndarray):
        if method.needs is not Singles:
            raise TypeError(wrong_view(method, "an array"))
        data = Singles.of(data)
    if isinstance(data, Environments) and method.needs is Singles:
        data = data.pooled()  # so that baselines learn from what methods for environments learn from
    if not isinstance(data, method.needs):
        raise TypeError(wrong_view(method, type(data).__name__))
    return data


def wrong_view(method: Method, got: str) -> str:
    need = method.needs.__name__
    return (
        f"{type(method).__name__} learns from {need}, got {got}. "
        f"Take that view of a world, world.{need.lower()}(), or build one from your arrays: {need}.of(...)."
    )


def known_of(method: Method) -> set[type]:
    """The classes of a method in memory, so that its own run can be loaded whatever file they come from."""
    import dataclasses

    parts = (getattr(method, f.name) for f in dataclasses.fields(method))  # type: ignore[arg-type]
    return {type(method), *(type(part) for part in parts if dataclasses.is_dataclass(part))}


def difference(about: dict, method: Method, view: View, seed: int, recipe: Recipe | None) -> str:
    """The first setting in which a recorded run differs from the one asked for."""
    mine = {"method": method, "data": view.origin, "seed": seed, "recipe": recipe}
    for part, value in mine.items():
        there, here = about[part], values.describe(value)
        if there != here:
            if isinstance(there, dict) and isinstance(here, dict):
                key = next(k for k in {**there, **here} if there.get(k) != here.get(k))
                return f"its {part} has {key}={there.get(key)!r}, this one {here.get(key)!r}"
            return f"its {part} is {there!r}, this one's {here!r}"
    return "it was made otherwise"


class Console:
    """Progress on the terminal: one line that renews itself, or a line every ten seconds in a log."""

    def __init__(self, out=None, label: str = "") -> None:
        self.out = out or sys.stderr
        self.label = label
        self.tty = self.out.isatty()
        self.last = -1e9

    def __call__(self, p: Progress) -> None:
        last = p.step == p.steps
        if not self.tty and p.seconds - self.last < 10 and not last:
            return
        self.last = p.seconds
        terms = "  ".join(f"{n} {v:.4g}" for n, v in zip(p.curve.names, (p.curve.rows or [[]])[-1], strict=False))
        done = f"{self.label or p.stage} {p.step:,}/{p.steps:,} ({p.step / p.steps:.0%})"
        left = f"{clock(p.seconds)} done" if last else f"{clock(p.left)} left"
        line = f"{done}  {left}  {terms}"
        end = "\n" if last or not self.tty else ""
        print(f"\r\x1b[2K{line[:160]}" if self.tty else line, end=end, file=self.out, flush=True)


def clock(seconds: float) -> str:
    """
    >>> clock(5), clock(125), clock(7300)
    ('5 s', '2 min 05 s', '2 h 01 min')
    """
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


class TensorBoard:
    """Writes every term to a TensorBoard folder (needs the extra: pip install 'whence[tensorboard]')."""

    def __init__(self, folder: str | Path) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise ImportError("TensorBoard is an extra: pip install 'whence[tensorboard]'.") from error
        self.writer = SummaryWriter(str(folder))
        self.written: dict[str, int] = {}

    def __call__(self, p: Progress) -> None:
        for row in range(self.written.get(p.stage, 0), len(p.curve)):
            for name, value in zip(p.curve.names, p.curve.rows[row], strict=True):
                self.writer.add_scalar(f"{p.stage}/{name}", value, p.curve.steps[row])
        self.written[p.stage] = len(p.curve)
        if p.step == p.steps:
            self.writer.flush()
