"""The public conformance suite: what every method, world and metric promises, executed.

`whence check my_file.py:MyMethod` runs it on a class of your own; our tests run it on all of ours.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import NoneType
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Generator, Tensor

from whence import runs, values
from whence.descend import Recipe
from whence.evidence import Evidence, Guarantee, Reference
from whence.fit import fit, known_of
from whence.methods import Gradient, Method
from whence.metrics import Metric, Probe, Ranking, Result
from whence.representation import Decodes, Representation
from whence.runs import Fitted
from whence.views import Environments, Pairs, Singles, View
from whence.worlds import Mixed, Sprites, World

TINY = Recipe(steps=4, batch=8, every=2)


class CheckFailed(Exception):
    """A promise that was not kept, in words."""


class Check(NamedTuple):
    name: str
    run: Callable[[], None]


def need(holds: Any, otherwise: str) -> None:
    if not holds:
        raise CheckFailed(otherwise)


def refused(call: Callable[[], Any], kinds: tuple[type[Exception], ...], what: str) -> str:
    """The message with which a call was refused."""
    try:
        call()
    except kinds as error:
        need(len(str(error)) > 20, f"{what} is refused without saying what is needed and what to do: {error!s:.80}")
        return str(error)
    except Exception as error:
        raise CheckFailed(
            f"{what} is refused with {type(error).__name__}: {error}. Expected {kinds[0].__name__}."
        ) from error
    raise CheckFailed(f"{what} is accepted. It must be refused with the requirement, what was got, and the cure.")


# --- values ----------------------------------------------------------------------------------------------------------


def check_value(value: Any, known: tuple[type, ...]) -> None:
    """A frozen dataclass that survives JSON and equals its copy."""
    kind = type(value)
    need(
        dataclasses.is_dataclass(kind),
        f"{kind.__name__} is not a dataclass. Use @dataclass(frozen=True, kw_only=True).",
    )
    fields = dataclasses.fields(kind)
    if fields:
        try:
            setattr(value, fields[0].name, None)
        except dataclasses.FrozenInstanceError:
            pass
        else:
            raise CheckFailed(f"{kind.__name__} can be changed after it is made. Use @dataclass(frozen=True, ...).")
    need(
        value == replace(value), f"{kind.__name__} does not equal its copy: keep arrays and networks out of its fields."
    )
    back = values.build(values.describe(value), (*known, kind))
    need(back == value, f"{kind.__name__} changes on the way to JSON and back: {value} became {back}.")


def check_about(kind: type, names: dict[str, Any]) -> None:
    """The class says where it comes from."""
    need((inspect.getdoc(kind) or "").strip(), f"{kind.__name__} has no docstring.")
    for name, expected in names.items():
        held = getattr(kind, name, None)
        held = held[0] if name == "evidence" and held else held
        need(isinstance(held, expected), f"{kind.__name__} needs {name}: a ClassVar of {expected}, got {held!r}.")


# --- methods ---------------------------------------------------------------------------------------------------------


def method_checks(method: Method, world: World | None = None) -> Iterator[Check]:
    """What every method promises, one by one."""
    world = world or (Mixed() if issubclass(method.needs, Environments) else Sprites())
    if "examples" in {f.name for f in dataclasses.fields(method)}:  # type: ignore[arg-type]
        method = replace(method, examples=64)  # type: ignore[type-var]
    kind: Any = type(method)
    recipe = replace(TINY, players=kind.recipe.players) if isinstance(method, Gradient) else None
    view = world.view(method.needs, **method.design)
    x = world.observe(world.draw(5, rng=Generator().manual_seed(1)), Generator().manual_seed(2))
    fitted: list[Fitted] = []

    def fresh(data: View = view, seed: int = 0, into: Path | None = None) -> Fitted:
        return fit(method, data, seed=seed, recipe=recipe, into=into, save_every=0)

    def first() -> Fitted:
        if not fitted:
            fitted.append(fresh())
        return fitted[0]

    def value() -> None:
        check_value(method, runs.KNOWN)
        names = {"reference": Reference, "guarantee": Guarantee, "evidence": Evidence, "needs": type}
        check_about(kind, names)
        kw_only = all(f.kw_only for f in dataclasses.fields(kind))
        need(kw_only, f"{kind.__name__} takes positional arguments. Use @dataclass(frozen=True, kw_only=True).")

    def shapes() -> None:
        r = first().representation
        need(isinstance(r, Representation), f"fit returned {type(r).__name__}, not a Representation.")
        z = r.encode(x)
        need(isinstance(z, Tensor) and z.shape == (5, r.dims), f"encode gave {tuple(z.shape)}, not (5, {r.dims}).")
        need(z.dtype == torch.float32 and torch.isfinite(z).all(), "codes are not finite float32.")
        need(isinstance(r.encode(x.numpy()), np.ndarray), "encode of a NumPy array does not give a NumPy array.")
        need(torch.allclose(r.encode(x[2:3]), z[2:3], atol=1e-4), "a code depends on the other rows of its batch.")
        need(r.encode(x[:0]).shape[0] == 0, "encode of an empty batch is not empty.")
        if isinstance(r, Decodes):
            need(r.decode(z).shape == x.shape, f"decode gave {tuple(r.decode(z).shape)}, not {tuple(x.shape)}.")
        refused(lambda: r.encode(x[0]), (ValueError,), "an observation without a batch axis")

    def determinism() -> None:
        need(
            same(first(), fresh()), "two fits with one seed differ. Draw randomness from torch's generator or run.seed."
        )

    def random_state() -> None:
        torch.manual_seed(123)
        np.random.seed(123)  # noqa: NPY002  the global state is what is checked
        expected = torch.rand(3), np.random.rand(3)  # noqa: NPY002
        torch.manual_seed(123)
        np.random.seed(123)  # noqa: NPY002
        fresh()
        after = torch.rand(3), np.random.rand(3)  # noqa: NPY002
        need(torch.equal(expected[0], after[0]), "fit leaves torch's random state changed.")
        need((expected[1] == after[1]).all(), "fit leaves NumPy's random state changed.")

    def wrong_view() -> None:
        other = Pairs if issubclass(method.needs, Singles) else Singles
        message = refused(lambda: fresh(world.view(other)), (TypeError,), f"a view of {other.__name__}")
        need(method.needs.__name__ in message, "the refusal of a wrong view does not name the right one.")

    def round_trip() -> None:
        with tempfile.TemporaryDirectory() as folder:
            saved = fresh(into=Path(folder) / "run")
            loaded = runs.load(Path(folder) / "run", known=known_of(method))
            need(same(saved, loaded), "weights change on the way to a file and back.")
            need(
                torch.equal(saved.representation.encode(x), loaded.representation.encode(x)),
                "a loaded run encodes otherwise.",
            )
            need(loaded.method == method, "the method changes on the way to a file and back.")

    def resume() -> None:
        if recipe is None:
            return
        with tempfile.TemporaryDirectory() as folder:
            calls = iter(range(100))

            def stops(ticket: Tensor, rng: Generator) -> Tensor:
                if next(calls) == 3:
                    raise InterruptedError
                return view.observe(ticket, rng)

            try:
                fresh(replace(view, observe=stops), into=Path(folder) / "run")
            except InterruptedError:
                resumed = fresh(into=Path(folder) / "run")
            else:
                raise CheckFailed("fit looked at fewer than four batches in four steps.")
            need(same(first(), resumed), "a resumed run ends otherwise: keep state in the networks, not elsewhere.")

    def no_gradient() -> None:
        r = first().representation
        need(not any(p.requires_grad for p in r.parameters()), "the representation still asks for gradients.")
        need(not any(p.grad is not None for p in r.parameters()), "the representation still holds gradients.")
        need(not r.training, "the representation is in training mode.")
        need(not r.encode(x).requires_grad, "codes carry a graph.")

    def no_truth() -> None:
        text = inspect.getsource(inspect.getmodule(kind) or kind)
        need(
            "whence.worlds" not in text and "whence.metrics" not in text,
            "the file imports worlds or metrics: a learner cannot see the truth.",
        )

    for check in (value, shapes, determinism, random_state, wrong_view, round_trip, resume, no_gradient, no_truth):
        yield Check(check.__name__, check)


def same(a: Fitted, b: Fitted) -> bool:
    """Equal weights and curves, bit for bit."""
    one, two = a.representation.state_dict(), b.representation.state_dict()
    equal = one.keys() == two.keys() and all(torch.equal(one[name], two[name]) for name in one)
    return equal and all(a.curves[s].rows == b.curves[s].rows for s in a.curves) and a.curves.keys() == b.curves.keys()


# --- worlds ----------------------------------------------------------------------------------------------------------


def world_checks(world: World) -> Iterator[Check]:
    """What every world promises."""

    def seeded(n: int = 1) -> Generator:
        return Generator().manual_seed(n)

    def value() -> None:
        check_value(world, runs.KNOWN)
        check_about(type(world), {"reference": (Reference, NoneType)})

    def shapes() -> None:
        v = world.draw(7, rng=seeded())
        need(v.shape == (7, len(world.factors)), f"draw gave {tuple(v.shape)}, not (7, {len(world.factors)}).")
        x = world.observe(v, seeded())
        need(x.shape == (7, *world.shape), f"observe gave {tuple(x.shape)}, not (7, {world.shape}).")
        need(x.dtype == torch.float32 and torch.isfinite(x).all(), "observations are not finite float32.")
        if len(world.shape) == 3:
            need(x.min() >= 0 and x.max() <= 1, "images are not in [0, 1].")

    def determinism() -> None:
        a, b = (world.draw(5, rng=seeded(3)) for _ in range(2))
        need(torch.equal(a, b), "draw is not a function of its generator.")
        one, two = (world.observe(a, seeded(4)) for _ in range(2))
        need(torch.equal(one, two), "observe is not a function of its arguments.")

    def factors() -> None:
        v = world.draw(500, rng=seeded())
        for k, factor in enumerate(world.factors):
            low, high = min(factor.values), max(factor.values)
            need(low - 1e-6 <= v[:, k].min() and v[:, k].max() <= high + 1e-6, f"{factor.name} leaves its range.")
            if factor.size:
                need((factor.index(v[:, k]) < factor.size).all(), f"{factor.name} has values off its grid.")
        names = [factor.name for factor in world.factors]
        need(len(set(names)) == len(names), f"factors share a name: {names}.")

    def intervention() -> None:
        factor = world.factors[0]
        v = world.draw(20, rng=seeded(), do={factor.name: factor.values[-1]})
        need((v[:, 0] - factor.values[-1]).abs().max() < 1e-6, f"do did not set {factor.name}.")
        refused(lambda: world.draw(1, rng=seeded(), do={"no such factor": 0.0}), (KeyError,), "an unknown factor")

    def views() -> None:
        for view in (world.singles(), world.pairs()):
            ticket = view.draw(6, seeded())
            need(len(ticket) == 6, "a ticket does not have one row an item.")
            whole = view.gather(ticket, seeded(2))
            need(all(t.shape == (6, *world.shape) for t in whole[:2]), "a batch has the wrong shape.")
        half = world.pairs(changing=1).draw(50, seeded()).chunk(2, 1)
        need(((half[0] != half[1]).sum(1) <= 1).all(), "pairs that change one factor differ in more.")

    for check in (value, shapes, determinism, factors, intervention, views):
        yield Check(check.__name__, check)


# --- metrics ---------------------------------------------------------------------------------------------------------


class Identity(Representation):
    """The observation as its own code, for checks of metrics."""

    def codes(self, x: Tensor) -> Tensor:
        return x.flatten(1)

    def decode(self, z: Tensor) -> Tensor:
        return z.unflatten(1, self.spec.shape)


def metric_checks(metric: Metric) -> Iterator[Check]:
    """What every metric promises: anchors, and no dependence on order, sign or the caller's state."""
    from whence.worlds import Unmixed

    world = Unmixed()
    kind = type(metric)

    def probe(columns: list[int] | None = None, sign: float = 1.0) -> Probe:
        class Changed(Identity):
            def codes(self, x: Tensor) -> Tensor:
                return sign * x[:, columns or list(range(x.shape[1]))]

            def decode(self, z: Tensor) -> Tensor:
                back = torch.empty_like(z)
                back[:, columns or list(range(z.shape[1]))] = sign * z
                return back

        k = len(world.factors)
        return Probe(Changed(world.singles().spec, k).frozen(), world, samples=3_000)

    @functools.cache
    def results() -> tuple[Result, ...]:
        return metric(probe())

    def numbers(**changed: Any) -> tuple[float | None, ...]:
        return tuple(r.value for r in metric(probe(**changed), chance=False))

    def value() -> None:
        check_value(metric, (*runs.KNOWN, kind))
        check_about(kind, {"reference": Reference, "evidence": Evidence})

    def anchors() -> None:
        for r in results():
            if r.value is None:
                need(bool(r.note), f"{r.metric} has neither a value nor a note that says why.")
                continue
            reach = r.best if r.ceiling is None else r.ceiling
            sign = 1 if r.higher_is_better else -1
            need(
                sign * (r.best - r.value) > -1e-9,
                f"{r.metric}: perfect codes ({r.value:.3f}) pass the best {r.best:g}.",
            )
            need(abs(reach - r.value) < 0.25, f"{r.metric}: perfect codes give {r.value:.3f}, far from {reach:g}.")
            if metric.compares:
                need(r.chance is not None, f"{r.metric} has no chance level.")
                assert r.chance is not None
                need(
                    sign * (r.value - r.chance) > 0,
                    f"{r.metric}: perfect codes ({r.value:.3f}) do not beat chance ({r.chance:.3f}).",
                )

    def determinism() -> None:
        need(numbers() == tuple(r.value for r in results()), "two measurements with one seed differ.")

    def invariance() -> None:
        moved = numbers(columns=[3, 1, 4, 0, 2], sign=-1.0)
        for r, number in zip(results(), moved, strict=True):
            if r.value is None or number is None:
                need(r.value is number, f"{r.metric}: order and sign of codes decide whether it can be measured.")
                continue
            need(abs(number - r.value) < 0.05, f"{r.metric}: order and sign of codes change it: {r.value} to {number}.")

    def inputs() -> None:
        p = probe()
        before = p.pool.z.copy(), p.pool.v.copy()
        metric(p)
        need((before[0] == p.pool.z).all() and (before[1] == p.pool.v).all(), "the metric changed its inputs.")

    for check in (value, anchors, determinism, invariance, inputs):
        yield Check(check.__name__, check)


def ranking_checks(ranking: Ranking) -> Iterator[Check]:
    """What every metric of several models promises: those that agree are first, and no dependence on order or sign."""
    from whence.worlds import Unmixed

    world, kind = Unmixed(), type(ranking)
    k = len(world.factors)
    turn = torch.linalg.qr(torch.randn(k, k, generator=Generator().manual_seed(0)))[0]

    class Turned(Identity):
        by: Tensor

        def __init__(self, by: Tensor) -> None:
            super().__init__(world.singles().spec, k)
            self.register_buffer("by", by)

        def codes(self, x: Tensor) -> Tensor:
            return x @ self.by

        def decode(self, z: Tensor) -> Tensor:
            return z @ self.by.T

    alike = [torch.eye(k), -torch.eye(k)[:, [3, 1, 4, 0, 2]], torch.eye(k)]

    def probes(order: tuple[int, ...] = (0, 1, 2, 3)) -> list[Probe]:
        models = [Turned(by).frozen() for by in (*alike, turn)]  # three alike, and one that is rotated
        return [Probe(models[i], world, samples=2_000) for i in order]

    @functools.cache
    def results() -> tuple[Result, ...]:
        return ranking(probes())

    def value() -> None:
        check_value(ranking, (*runs.KNOWN, kind))
        check_about(kind, {"reference": Reference, "evidence": Evidence})

    def anchors() -> None:
        found = [r.value for r in results() if r.value is not None]
        need(len(found) == 4, f"{kind.__name__} does not measure each of four models that encode and decode.")
        need(max(found) <= results()[0].best + 1e-9, f"{kind.__name__}: {max(found):.3f} passes the best.")
        need(
            min(found[:3]) > found[3], f"{kind.__name__}: three models that agree, {found[:3]}, do not beat {found[3]}."
        )
        for r in results():
            need(r.chance is not None, f"{r.metric} has no chance level.")
            assert r.chance is not None
            need(
                found[0] > r.chance + 0.1, f"{r.metric}: models that agree ({found[0]:.3f}) do not beat {r.chance:.3f}."
            )

    def determinism() -> None:
        again = ranking(probes(), chance=False)
        need([r.value for r in again] == [r.value for r in results()], "two measurements with one seed differ.")

    def invariance() -> None:
        order = (3, 1, 0, 2)
        moved = ranking(probes(order), chance=False)
        for r, i in zip(moved, order, strict=True):
            before, after = results()[i].value or 0.0, r.value or 0.0
            need(abs(after - before) < 0.05, f"{r.metric}: the order of models changes it: {before} to {after}.")

    for check in (value, anchors, determinism, invariance):
        yield Check(check.__name__, check)


# --- all together ----------------------------------------------------------------------------------------------------


def run_checks(checks: Iterator[Check], say: Callable[[str], None] | None = None) -> None:
    """All of them; the failures are told together."""
    failures = []
    for check in checks:
        try:
            check.run()
        except CheckFailed as error:
            failures.append(f"{check.name}: {error}")
        except Exception as error:
            failures.append(f"{check.name}: {type(error).__name__}: {error}")
        if say is not None:
            failed = failures and failures[-1].startswith(f"{check.name}: ")
            say(
                f"  {'✗' if failed else '✓'} {check.name}"
                + (f"\n      {failures[-1].partition(': ')[2]}" if failed else "")
            )
    if failures:
        raise CheckFailed(f"{len(failures)} of the promises are not kept:\n  " + "\n  ".join(failures))


def check_method(method: Method, world: World | None = None, *, say: Callable[[str], None] | None = None) -> None:
    """Run the conformance suite on a method; `world` gives it data (none: Sprites, or Mixed for environments)."""
    run_checks(method_checks(method, world), say)


def check_world(world: World, *, say: Callable[[str], None] | None = None) -> None:
    """Run the conformance suite on a world."""
    run_checks(world_checks(world), say)


def check_metric(metric: Metric, *, say: Callable[[str], None] | None = None) -> None:
    """Run the conformance suite on a metric."""
    run_checks(metric_checks(metric), say)


def check_ranking(ranking: Ranking, *, say: Callable[[str], None] | None = None) -> None:
    """Run the conformance suite on a metric of several models."""
    run_checks(ranking_checks(ranking), say)
