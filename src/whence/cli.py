"""The command line: `whence fit beta_vae --beta 4 --world sprites --steps 20000`."""

from __future__ import annotations

import contextlib
import inspect
import sys
import textwrap
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from whence import values

USAGE = """\
whence: find what your data came from

  whence demo                        the whole pipeline in a few minutes: pictures in; causes, graph, report out
  whence fit METHOD [options]        fit a method on a world or an array; METHOD is a name or path.py:Class
  whence resume RUN                  finish a run that was interrupted
  whence evaluate RUN [options]      measure it with every metric, each with its chance level
  whence evaluate RUN RUN ...        without the truth: how far do these runs agree with each other?
  whence report RUN                  one HTML page: results, traversals, curves, bibliography
  whence do RUN light=0.4..1.6       what a picture would have been, had a concept been set otherwise: a strip
  whence list [methods|worlds|metrics|studies]
  whence cite RUN                    BibTeX of its method, world and metrics
  whence data check PATH             a folder of pictures or a table of yours: what is there, what is missing
  whence check path.py:Class         the conformance suite on a method, world or metric of yours
  whence study NAME [options]        a published table as code: rows x seeds, published numbers beside ours

Every command explains itself with --help, and every method with: whence fit METHOD --help
"""


class Wrong(Exception):
    """A command line that cannot be done: the message is all the user needs."""


def main(words: Sequence[str] | None = None) -> int:
    words = list(sys.argv[1:] if words is None else words)
    show_trace = "--traceback" in words
    words = [word for word in words if word != "--traceback"]
    if not words or words[0] in ("-h", "--help", "help"):
        print(USAGE)
        return 0
    if words[0] == "--version":
        from whence.runs import this_version

        print(f"whence {this_version()}")
        return 0
    try:
        if words[0] not in COMMANDS:
            raise Wrong(values.unknown("command", words[0], COMMANDS))
        with contextlib.nullcontext() if show_trace else plain_warnings():
            return COMMANDS[words[0]](words[1:]) or 0
    except KeyboardInterrupt as stopped:
        print(f"\n{stopped or 'Stopped.'}", file=sys.stderr)
        return 130
    except BrokenPipeError:
        return 1
    except Exception as error:
        if show_trace:
            traceback.print_exc()
        known = isinstance(error, Wrong | ValueError | TypeError | KeyError | OSError | ArithmeticError | ImportError)
        message = error.args[0] if isinstance(error, KeyError) and error.args else error
        name = "" if known else f"{type(error).__name__}: "
        print(f"whence: {name}{message}", file=sys.stderr)
        if not known:
            print("whence: this should not happen; the same command with --traceback shows where.", file=sys.stderr)
        return 2


@contextlib.contextmanager
def plain_warnings() -> Iterator[None]:
    """What the library warns of, without the line of code that does: whoever typed the command wants the message."""

    def plain(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> str:
        told = f"whence: warning: {message}\n"
        return told if issubclass(category, UserWarning) else before(message, category, *where, **more)

    before, warnings.formatwarning = warnings.formatwarning, plain
    try:
        yield
    finally:
        warnings.formatwarning = before


# --- commands --------------------------------------------------------------------------------------------------------


def fit(words: list[str]) -> int:
    """whence fit METHOD [options]

    METHOD is one of `whence list methods`, or path.py:Class for one of your own.
    The run is written to runs/NAME (--into changes it) and can be interrupted and resumed at any time."""
    from whence.fit import fit as fit_
    from whence.flags import make
    from whence.views import Environments, Singles

    if not words or words[0].startswith("--"):
        if wants_help(words):
            print(f"{inspect.getdoc(fit)}\n\nmethods:\n{methods_table()}")
            return 0
        raise Wrong(f"fit needs a method: whence fit METHOD [options]. There are: {', '.join(method_names())}.")
    kind, flags, known = fit_flags(words)
    if wants_help(words):
        from whence.report.words import paragraphs

        text = "\n\n".join(folded(paragraph) for paragraph in [*paragraphs(kind), str(kind.guarantee)])
        print(f"whence fit {words[0]} [options]\n\n{text}\n{flags.help()}")
        return 0
    found = flags.read(words[1:])
    method = make(kind, known, found, flags)
    recipe = recipe_of(method, found, flags, known)
    if "data" in found and ("world" in found or any(name.startswith(("world.", "view.")) for name in found)):
        raise Wrong("Give --data (an array of your own) or --world, not both.")
    view: Any
    if "data" in found:
        if not Path(found["data"]).suffix and not Path(found["data"]).exists():
            raise Wrong(f"--data: there is no file or folder {found['data']!r}.")
        source = Path(found["data"]).stem
        told = {n: found[n] for n in (*TABLE_FLAGS, *FOLDER_FLAGS) if n in found}
        folder = Path(found["data"]).is_dir()
        reads: Any = {*FOLDER_FLAGS, *SHARED_FLAGS} if folder else TABLE_FLAGS
        if wrong := next((n for n in told if n not in reads), None):
            here, there = ("a folder", "a table") if folder else ("a table", "a folder of pictures")
            raise Wrong(f"--{wrong} says how to read {there}, and {found['data']!r} is {here}.")
        if folder and method.needs in (Environments, Singles):
            view = Environments.pictures(found["data"], **flags.parsed(told))
        elif method.needs is Environments or (method.needs is Singles and (told or is_table(found["data"]))):
            view = Environments.read(found["data"], **flags.parsed(told))
        elif method.needs is Singles:
            view = Singles.of(array_of(Path(found["data"])), name=found["data"])
        else:
            raise Wrong(f"{kind.__name__} learns from {method.needs.__name__}; --data gives single observations.")
    else:
        if option := next((n for n in (*TABLE_FLAGS, *FOLDER_FLAGS) if n in found), None):
            raise Wrong(f"--{option} says how to read data of yours: give --data cells.csv, or a folder of pictures.")
        world = make(world_kind(found, kind), known, found, flags, prefix="world.")
        options = flags.parsed({n: t for n, t in found.items() if n.startswith("view.")})
        offer = getattr(world, values.name_of(method.needs))
        asked = {name.removeprefix("view."): value for name, value in options.items()}
        view = offer(**{**method.design, **asked})
        source = values.name_of(type(world))
    options = flags.parsed({name: found[name] for name in RUN_FLAGS if name in found})
    seed = options.get("seed", 0)
    from whence.runs import fingerprint

    default = f"{values.name_of(kind)}-{source}-{seed}-{fingerprint(method, view.origin, seed, recipe)[:6]}"
    into = Path(options.get("into") or Path("runs") / default)
    begin = time.monotonic()
    try:
        fitted = fit_(
            method,
            view,
            seed=seed,
            device=options.get("device", "cpu"),
            recipe=recipe,
            into=into,
            watch=watchers(options, into),
            save_every=options.get("save_every", 30.0),
        )
    except KeyboardInterrupt as stopped:
        raise stopped_at(into, stopped) from None
    done(fitted, into, time.monotonic() - begin, own=":" in words[0] and words[0])
    return 0


def resume(words: list[str]) -> int:
    """whence resume RUN [--method path.py:Class] [--device cpu]

    Finish an interrupted run from its last checkpoint. It ends exactly as an uninterrupted one would have."""
    from whence import runs
    from whence.fit import fit as fit_

    flags = plain_flags(method=(str, "", "path.py:Class, if the run's method is your own"), device=(str, "cpu", ""))
    folder, options = run_and(words, resume, flags)
    about = runs.read_record(folder)
    if about["status"] == "done":
        print(f"{folder} is finished: nothing to do. Next: whence evaluate {folder}")
        return 0
    known = [*runs.KNOWN, *runs.TOLD, *own(options.get("method"))]
    data = dict(about["data"])
    if "world" not in data:
        raise Wrong(f"{folder} was fitted on an array: give the same `whence fit` command again with --into {folder}.")
    world, name = values.build(data.pop("world"), known), data.pop("view")
    try:
        begin = time.monotonic()
        fitted = fit_(
            values.build(about["method"], known),
            getattr(world, name)(**data),
            seed=about["seed"],
            recipe=values.build(about["recipe"], known),
            device=options.get("device", "cpu"),
            into=folder,
            watch=watchers({}, folder),
        )
    except KeyboardInterrupt as stopped:
        raise stopped_at(folder, stopped) from None
    done(fitted, folder, time.monotonic() - begin, own=options.get("method"))
    return 0


def evaluate(words: list[str]) -> int:
    """whence evaluate RUN [RUN ...] [options]

    Measure a run with every metric (or those named), each with its chance level; writes results.json.
    Of several runs: how far they agree with each other, without the truth, to choose one of them."""
    from whence import runs
    from whence.metrics import METRICS, RANKINGS
    from whence.metrics import evaluate as evaluate_
    from whence.metrics import rank as rank_

    flags = plain_flags(
        metrics=(tuple[str, ...], (), "names with commas between (default: all)"),
        seed=(int, 0, "of the observations and of what metrics draw"),
        samples=(int, 10_000, "observations to encode"),
        bootstrap=(int, 0, "draws of the rows for 95 % intervals, such as 200 (default: no intervals)"),
        world=(str, "", "another world than the run's own, with its default options"),
        method=(str, "", "path.py:Class, if the run's method is your own"),
        csv=(bool, False, "print the results as CSV"),
    )
    first = next((i for i, word in enumerate(words) if word.startswith("--")), len(words))
    folders, several = words[:first], first > 1
    folder, options = run_and([*folders[:1], *words[first:]], evaluate, flags)
    kinds: Sequence[type] = RANKINGS if several else METRICS
    for name in options.get("metrics", ()):
        if not several and name in {values.name_of(kind) for kind in RANKINGS}:
            raise Wrong(f"{name} compares several runs with each other: whence evaluate RUN RUN --metrics {name}.")
    chosen = [
        values.pick("metric of several runs" if several else "metric", name, kinds)()
        for name in options.get("metrics", ())
    ] or None
    known = own(options.get("method"))
    world = values.pick("world", options["world"], runs.WORLDS)() if options.get("world") else None
    tty = sys.stderr.isatty()
    asked: dict[str, Any] = {
        "seed": options.get("seed", 0),
        "samples": options.get("samples", 10_000),
        "bootstrap": options.get("bootstrap", 0),
        "watch": lambda name: print(
            f"\r\x1b[2K  {name} ..." if tty else f"  {name} ...", end="" if tty else "\n", file=sys.stderr, flush=True
        ),
    }
    if several:
        ranked = rank_([runs.load(f, known=known) for f in folders], world, rankings=chosen, **asked)
    else:
        found = evaluate_(runs.load(folder, known=known), world, metrics=chosen, **asked)
    if tty:
        print("\r\x1b[2K", end="", file=sys.stderr)
    if several:
        print(ranked_csv(folders, ranked) if options.get("csv") else ranked_table(folders, ranked))
    elif options.get("csv"):
        print(found.csv())
    else:
        print(f"{results_table(found)}\n\nNext: whence report {folder}")
    return 0


def report(words: list[str]) -> int:
    """whence report RUN

    Write report.html, one page that needs no network: results, traversals, curves, what was run, bibliography."""
    from whence.report import report as report_

    flags = plain_flags(method=(str, "", "path.py:Class, if the run's method is your own"))
    folder, options = run_and(words, report, flags)
    print(report_(folder, known=own(options.get("method"))))
    return 0


def list_(words: list[str]) -> int:
    """whence list [methods|worlds|metrics|studies]"""
    tables = {"methods": methods_table, "worlds": worlds_table, "metrics": metrics_table, "studies": studies_table}
    if wants_help(words):
        print(inspect.getdoc(list_))
        return 0
    for word in words:
        if word not in tables:
            raise Wrong(values.unknown("list", word, tables))
    for name in words or tables:
        print(f"{name}:\n{tables[name]()}\n")
    return 0


def cite(words: list[str]) -> int:
    """whence cite RUN | NAME

    BibTeX of a run's method, world and metrics, or of a single method, world or metric."""
    from whence import cite as citations
    from whence.methods import METHODS
    from whence.metrics import METRICS, RANKINGS
    from whence.worlds import WORLDS

    if wants_help(words) or len(words) != 1:
        print(inspect.getdoc(cite))
        return 0 if wants_help(words) else 2
    kinds = (*METHODS, *WORLDS, *METRICS, *RANKINGS)
    if (Path(words[0]) / "run.json").is_file():
        found = citations.references(words[0])
    elif "/" in words[0] or Path(words[0]).is_dir():
        from whence.runs import read_record

        read_record(words[0])
        return 2
    else:
        found = citations.unique([values.pick("run, method, world or metric", words[0], kinds).reference])  # type: ignore[attr-defined]
    print(citations.bibtex(found))
    return 0


def check(words: list[str]) -> int:
    """whence check NAME | path.py:Class [--FIELD VALUE ...]

    Run the public conformance suite on a method, world or metric, ours or your own."""
    from whence import check as checks
    from whence.flags import Flags, make
    from whence.methods import METHODS, Method
    from whence.metrics import METRICS, RANKINGS, Metric, Ranking
    from whence.runs import KNOWN, outside
    from whence.worlds import WORLDS, World

    if wants_help(words) or not words:
        print(inspect.getdoc(check))
        return 0 if wants_help(words) else 2
    if ":" in words[0]:
        kind = outside(words[0], object)
    else:
        kind = values.pick("method, world or metric", words[0], (*METHODS, *WORLDS, *METRICS, *RANKINGS))
    suites: dict[type, Callable[..., None]] = {
        Method: checks.check_method,
        World: checks.check_world,
        Metric: checks.check_metric,
        Ranking: checks.check_ranking,
    }
    suite = next((run for base, run in suites.items() if issubclass(kind, base)), None)
    if suite is None:
        raise Wrong(f"{kind.__name__} is not a Method, World or Metric: derive from one of them.")
    flags = Flags()
    flags.add_fields(kind, KNOWN, loose(words[1:]))
    value = make(kind, KNOWN, flags.read(words[1:]), flags)
    print(f"{kind.__name__}:")
    try:
        suite(value, say=print)
    except checks.CheckFailed as error:
        print(str(error).splitlines()[0])
        return 1
    print("All promises are kept.")
    return 0


def data(words: list[str]) -> int:
    """whence data check PATH [--control LABEL] [options]

    PATH is a folder of pictures with environments.csv (columns file, environment, and optionally targets, kind,
    group), or a table. Says what is there, what is missing or wrong, whether environments differ, what could be learned
    from them and with which guarantee, and what to do next. Exits with 1 if fitting would refuse the data."""
    from whence.examine import examine

    flags = plain_flags(
        control=(str | None, None, "label of the observational environment"),
        environment=(str | None, None, "column of environment labels (default: environment; perturbation for tables)"),
        labels=(str, "environments.csv", "a folder's file of labels"),
        ignore=(tuple[str, ...], (), "columns of a table to leave out, commas between"),
        size=(int | None, None, "the size that pictures will be brought to"),
    )
    if wants_help(words) or not words:
        print(f"{inspect.getdoc(data)}\n{flags.help()}")
        return 0 if wants_help(words) else 2
    if words[0] != "check":
        raise Wrong(values.unknown("data command", words[0], ["check"]))
    if len(words) < 2 or words[1].startswith("--"):
        raise Wrong("data check needs a folder of pictures or a table: whence data check PATH --control LABEL.")
    found = examine(words[1], **flags.parsed(flags.read(words[2:])))
    print(found)
    return 1 if found.faults else 0


def do(words: list[str]) -> int:
    """whence do RUN CONCEPT=VALUE | CONCEPT=LOW..HIGH ... [options]

    What an observation would have been, had concepts been set to values in their labels' own units: a strip of
    pictures, the observation first. One concept may run over a range; several may be set at once."""
    from whence import runs
    from whence.report.interventions import settings_of, strip
    from whence.storage import write

    flags = plain_flags(
        of=(Path | None, None, "picture to start from (PNG, JPEG or .npy; default: one of the run's world)"),
        frames=(int, 9, "pictures of a range"),
        seed=(int, 0, "of the world's observation"),
        out=(Path | None, None, "file to write (default: do.png in the run's folder)"),
        method=(str | None, None, "path.py:Class of a method of your own"),
    )
    asked = [word for word in words[1:] if "=" in word and not word.startswith("--")]
    rest = [word for word in words if word not in asked]
    folder, options = run_and(rest, do, flags)
    if not asked:
        raise Wrong("do needs what to set: whence do RUN light=0.4..1.6, or light=90 pendulum=-20.")
    fitted = runs.load(folder, known=own(options.get("method")))
    settings = settings_of(asked)
    png = strip(fitted, settings, of=options.get("of"), frames=options.get("frames", 9), seed=options.get("seed", 0))
    out = Path(options.get("out") or folder / "do.png")
    write(out, png)
    print(f"Written: {out}")
    return 0


def study(words: list[str]) -> int:
    """whence study NAME [options]

    Run a published table: rows x seeds in processes of one thread each. A second call does only what is missing.
    With --only, the table shows what is there of the other rows, too."""
    from whence.studies import SCALES, run_study
    from whence.studies.engine import named

    flags = plain_flags(
        scale=(str, "smoke", f"{', '.join(SCALES)}: how much is spent"),
        seeds=(int | None, None, "runs of each row (default: the study's own)"),
        jobs=(int, 1, "processes at a time, one thread each"),
        only=(str, "", "rows whose label contains this text, or one of several: 'PCA|ICA' (default: all)"),
        into=(str, "runs", "where the study's folder goes"),
        device=(str, "cpu", "where to fit"),
        retry=(bool, False, "run again what failed before"),
    )
    if wants_help(words) or not words:
        print(f"{inspect.getdoc(study)}\n{flags.help()}\n\nstudies:\n{studies_table()}")
        return 0 if wants_help(words) else 2
    chosen = named(words[0])
    options = flags.parsed(flags.read(words[1:]))
    if options.get("scale", "smoke") not in SCALES:
        raise Wrong(values.unknown("scale", options["scale"], SCALES))
    only = options.pop("only", "").split("|") if options.get("only") else ()
    outcomes = run_study(chosen, **options, only=only, say=lambda line: print(line, flush=True))
    folder = Path(options.get("into", "runs")) / f"{chosen.name}-{options.get('scale', 'smoke')}"
    print("\n" + (folder / "table.md").read_text())
    return 1 if any(outcome.error for outcome in outcomes) else 0


def demo(words: list[str]) -> int:
    """whence demo [--steps N] [--examples N] [--into FOLDER]

    The whole pipeline in a few minutes: pictures of balls under interventions in; causes, their graph and what
    interventions would do out, as a report."""
    from whence import runs
    from whence.fit import Console, clock
    from whence.fit import fit as fit_
    from whence.methods import GSCALE
    from whence.metrics import MCC, R2, SHD
    from whence.metrics import evaluate as evaluate_
    from whence.report import report as report_
    from whence.worlds import Balls

    flags = plain_flags(
        steps=(int, DEMO["steps"], "of the method's recipe, which has 2,000"),
        examples=(int, DEMO["examples"], "pictures of each environment"),
        into=(str, "runs/demo", "folder of the run"),
    )
    if wants_help(words):
        print(f"{inspect.getdoc(demo)}\n{flags.help()}")
        return 0
    options = {**DEMO, "into": "runs/demo", **flags.parsed(flags.read(words))}
    begin = time.monotonic()
    world, into = Balls(), Path(options["into"])
    view = world.environments(kind="hard", per_node=2, scale=(0.25, 4.0))
    method = GSCALE(examples=options["examples"])
    recipe = replace(method.recipe, steps=options["steps"])
    pictures = options["examples"] * (1 + len(view.told))
    print(
        f"1. A world: {pictures:,} pictures of two balls, as nature has them and under {len(view.told)} interventions. "
        "Their four positions\n   cause each other. The learner sees pictures only, and which belong together."
    )
    print("2. Fit: GSCALE, stage by stage; each tells how long it has left.")
    try:
        fitted = fit_(method, view, seed=0, recipe=recipe, into=into, watch=Console())
    except KeyboardInterrupt as stopped:
        raise stopped_at(into, stopped, again="whence demo") from None
    print("3. Evaluate: are the latents the positions, and is the graph right?")
    print(results_table(evaluate_(fitted, metrics=[MCC(), R2(), SHD()], samples=5_000)))
    print("4. Report: each latent against its true cause, moved and set; where each intervention is seen; the graph.")
    page = report_(into)
    print(f"   {page.resolve()}")
    took = clock(time.monotonic() - begin)
    print(f"   {took} in all. Next: whence list, or pictures of your own: whence data check FOLDER")
    assert runs.load(into).method == method
    return 0


#: Fewer examples and steps than the method's own: a few minutes.
DEMO: dict[str, Any] = {"steps": 1_000, "examples": 5_000}

COMMANDS: dict[str, Callable[[list[str]], int]] = {
    "demo": demo,
    "fit": fit,
    "resume": resume,
    "evaluate": evaluate,
    "report": report,
    "do": do,
    "list": list_,
    "cite": cite,
    "check": check,
    "data": data,
    "study": study,
}

# --- the flags of fit ------------------------------------------------------------------------------------------------

#: How a table is read, for methods that learn from environments.
TABLE_FLAGS = {
    "environment": "the column of environment labels (of a folder's file: environment)",
    "control": "the label of the observational environment",
    "columns": "the columns of numbers to use, commas between (default: all)",
    "ignore": "columns to leave out, commas between",
    "only": "labels to use beside the control, commas between (default: all)",
    "skip": "labels to leave out, commas between",
    "least": "rows that every environment must have",
}
#: How a folder of pictures is read, beside those that both have.
FOLDER_FLAGS = {
    "labels": "a folder's file with the environment of each picture",
    "size": "pixels a side that pictures are brought to (default: as they are)",
    "fit": "how: the middle is cut out (crop), or they are stretched (stretch)",
    "mode": "RGB or L, grey",
}
SHARED_FLAGS = ("environment", "control", "only", "skip", "least")
RUN_FLAGS: dict[str, tuple[Any, Any, str]] = {
    "seed": (int, 0, "of weights, batches and noise"),
    "into": (str, "runs/…", "folder of the run"),
    "device": (str, "cpu", "where to fit, such as cuda"),
    "save_every": (float, 30.0, "seconds between checkpoints"),
    "quiet": (bool, False, "no progress"),
    "tensorboard": (bool, False, "also write TensorBoard files into the run's folder"),
}


def fit_flags(words: Sequence[str]) -> tuple[Any, Any, list[type]]:
    """The method's class, all flags that `fit` takes for it and the chosen world, and the classes they may name."""
    from whence.descend import Recipe
    from whence.flags import Flags
    from whence.methods import METHODS, Gradient
    from whence.runs import KNOWN
    from whence.views import Environments, Singles

    known = [*KNOWN, *own(words[0])]
    kind: Any = own(words[0])[0] if ":" in words[0] else values.pick("method", words[0], METHODS)
    given = loose(words[1:])
    flags = Flags()
    flags.add_fields(kind, known, given)
    world = world_kind(given, kind)
    flags.add(
        "world",
        str,
        values.name_of(world),
        "where the data come from: " + ", ".join(map(values.name_of, worlds())),
        "data",
    )
    array = "a .npy file of observations, one a row"
    tables = "a .csv, .tsv or .parquet table with a column of environment labels, or a folder of pictures"
    accepted = {Environments: tables, Singles: f"{array}, or {tables}"}
    flags.add("data", str, "none", f"instead of a world: {accepted.get(kind.needs, array)}", "data")
    if kind.needs in accepted:
        reads = inspect.signature(Environments.read, eval_str=True).parameters
        for name, help in TABLE_FLAGS.items():
            flags.add(name, reads[name].annotation, reads[name].default, help, "data")
        reads = inspect.signature(Environments.pictures, eval_str=True).parameters
        for name, help in FOLDER_FLAGS.items():
            flags.add(name, reads[name].annotation, reads[name].default, help, "data")
    flags.add_fields(world, known, given, prefix="world.")
    flags.add_arguments(view_of(world, kind), "view.", f"view ({kind.needs.__name__})")
    if issubclass(kind, Gradient):
        flags.add("lr", float, kind.recipe.optimiser.lr, "learning rate of every player", "recipe")
        before = set(flags)
        flags.add_fields(Recipe, known, given)
        for name in set(flags) - before:  # the method's own budget is the default
            with contextlib.suppress(AttributeError):
                default = kind.recipe
                for part in name.split("."):
                    default = getattr(default, part)
                flags[name] = replace(flags[name], default=default, group="recipe")
    for name, (annotation, default, help) in RUN_FLAGS.items():
        flags.add(name, annotation, default, help, "run")
    return kind, flags, known


def worlds() -> tuple[type, ...]:
    from whence.worlds import WORLDS

    return WORLDS


def world_kind(given: dict[str, Any], method: Any) -> Any:
    """The world asked for, or the usual one for what the method learns from."""
    from whence.views import Environments

    return values.pick(
        "world", given.get("world") or ("mixed" if method.needs is Environments else "sprites"), worlds()
    )


def view_of(world: Any, method: Any) -> Any:
    return getattr(world, values.name_of(method.needs))


def recipe_of(method: Any, found: dict[str, str], flags: Any, known: Sequence[type]) -> Any:
    """The method's recipe with what was asked for replaced; None for methods without descent."""
    from whence.descend import Recipe
    from whence.flags import fields_of, make
    from whence.methods import Gradient

    if not isinstance(method, Gradient):
        return None
    asked = {field.name for field, _ in fields_of(Recipe)} & {name.partition(".")[0] for name in found}
    whole = make(Recipe, known, found, flags)
    recipe = replace(method.recipe, **{name: getattr(whole, name) for name in asked})
    return recipe.with_lr(flags.parsed({"lr": found["lr"]})["lr"]) if "lr" in found else recipe


def is_table(path: str) -> bool:
    from whence.tables import ENDINGS, ending

    return ending(Path(path)) in ENDINGS


def array_of(path: Path) -> Any:
    """A .npy file, memory-mapped; nothing that could run code is read."""
    import numpy as np

    if path.suffix != ".npy":
        raise Wrong(
            f"--data reads a .npy file of observations or a table (.csv, .tsv, .parquet), got {str(path)!r}. "
            "Save an array with numpy.save."
        )
    if not path.is_file():
        raise Wrong(f"--data: there is no file {str(path)!r}.")
    return np.array(np.load(path, mmap_mode="r", allow_pickle=False))


# --- small things ----------------------------------------------------------------------------------------------------


def wants_help(words: Sequence[str]) -> bool:
    return "--help" in words or "-h" in words


def loose(words: Sequence[str]) -> dict[str, Any]:
    """Flags as far as they can be told before all are known: enough to see which kinds were chosen."""
    from whence.flags import split

    return split([word for word in words if word not in ("--help", "-h")])


def own(text: str | None) -> list[type]:
    """The class of path.py:Class as a list; empty for names."""
    from whence.runs import outside

    return [outside(text, object)] if text and ":" in text else []


def plain_flags(**options: tuple[Any, Any, str]) -> Any:
    from whence.flags import Flags

    flags = Flags()
    for name, (annotation, default, help) in options.items():
        flags.add(name, annotation, default, help)
    return flags


def run_and(words: list[str], command: Callable, flags: Any) -> tuple[Path, dict[str, Any]]:
    """The run's folder and the options behind it."""
    if wants_help(words):
        print(f"{inspect.getdoc(command)}\n{flags.help()}")
        raise SystemExit(0)
    if not words or words[0].startswith("--"):
        runs_ = sorted(str(p.parent) for p in Path("runs").glob("*/run.json"))
        there = f" There are: {', '.join(runs_)}." if runs_ else " Make one with: whence fit METHOD."
        raise Wrong(f"{(inspect.getdoc(command) or '').splitlines()[0]}: which run?{there}")
    return Path(words[0]), flags.parsed(flags.read(words[1:]))


def watchers(options: dict[str, Any], into: Path) -> list[Any]:
    from whence.fit import Console, TensorBoard

    watch: list[Any] = [] if options.get("quiet") else [Console()]
    return [*watch, TensorBoard(into / "tensorboard")] if options.get("tensorboard") else watch


def stopped_at(into: Path, stopped: KeyboardInterrupt, again: str | None = None) -> KeyboardInterrupt:
    saved = any(into.glob("checkpoint-*.safetensors"))
    how = f"Resume it with: {again or f'whence resume {into}'}" if saved else "Nothing was saved yet; start it again."
    return KeyboardInterrupt(f"{str(stopped) or 'Stopped.'}\n{how}")


def done(fitted: Any, into: Path, seconds: float, own: Any = None) -> None:
    from whence.fit import clock

    again = "" if seconds >= 0.5 or fitted.seconds < 0.5 else " (it was there already)"
    print(f"{into}: {type(fitted.method).__name__} fitted in {clock(fitted.seconds)}{again}.")
    has_truth = "world" in fitted.data
    print(f"Next: whence {'evaluate' if has_truth else 'report'} {into}" + (f" --method {own}" if own else ""))


def results_table(found: Any) -> str:
    columns = ["value", "chance", "best"]
    columns[1:1] = ["95 % interval"] if any(r.interval for r in found) else []
    columns[-1:-1] = ["factors"] if any(r.ceiling is not None for r in found) else []
    wide = {"metric": max([20, *(len(r.metric) for r in found)]), "95 % interval": 16}
    lines = [
        "  " + " ".join(f"{c:>{wide.get(c, 8)}}" if c != "metric" else f"{c:<{wide[c]}}" for c in ["metric", *columns])
    ]
    missing: dict[str, list[str]] = {}
    for r in found:
        if r.value is None:
            names = missing.setdefault(r.note, [])
            names += [name] if (name := r.metric.partition(".")[0]) not in names else []
            continue
        cells = {
            "value": f"{r.value:.3f}",
            "95 % interval": "" if r.interval is None else "{:.3f} to {:.3f}".format(*r.interval),
            "chance": "" if r.chance is None else f"{r.chance:.3f}",
            "factors": "" if r.ceiling is None else f"{r.ceiling:.3f}",
            "best": f"{r.best:g}",
        }
        lines.append(
            f"  {r.metric:<{wide['metric']}} "
            + " ".join(f"{cells[c]:>{wide.get(c, 8)}}" for c in columns)
            + ("" if r.higher_is_better else "  (lower is better)")
        )
    for note, names in missing.items():
        lines.append(f"  not measured: {', '.join(names)}: {note}")
    if "factors" in columns:
        lines.append("  factors: what the true factors reach as codes of the same observations")
    return "\n".join(lines)


def ranked_table(folders: Sequence[str], ranked: Sequence[Any]) -> str:
    """A line for each run, the one that the others agree with most first; chance and best below."""
    lines: list[str] = []
    for results in zip(*ranked, strict=True):
        if results[0].value is None:
            lines += [f"  {results[0].metric}: not measured: {results[0].note}", ""]
            continue
        rows = [("", results[0].metric, "95 % interval", "chance")]
        for folder, r in sorted(zip(folders, results, strict=True), key=lambda pair: -pair[1].value):
            interval = "" if r.interval is None else "{:.3f} to {:.3f}".format(*r.interval)
            rows.append((folder, f"{r.value:.3f}", interval, "" if r.chance is None else f"{r.chance:.3f}"))
        kept = [i for i in range(4) if any(row[i] for row in rows[1:])]
        lines += [columns([[row[i] for i in kept] for row in rows]), f"  (best {results[0].best:g})", ""]
    return "\n".join([*lines, "  The first of each list is the most typical, which is not to say the best."])


def ranked_csv(folders: Sequence[str], ranked: Sequence[Any]) -> str:
    """The table of each run's results, one after another, with the run in front."""
    tables = [
        [f"{folder},{line}" for line in found.csv().splitlines()] for folder, found in zip(folders, ranked, strict=True)
    ]
    return "\n".join([f"run,{tables[0][0].partition(',')[2]}", *(line for table in tables for line in table[1:])])


def sentence(kind: type) -> str:
    """The first paragraph of a docstring."""
    from whence.report.words import paragraphs

    return paragraphs(kind)[0]


def folded(paragraph: str) -> str:
    """A paragraph in lines that a terminal shows whole."""
    return paragraph if paragraph.startswith("    ") else textwrap.fill(paragraph, 110)


def method_names() -> list[str]:
    from whence.methods import METHODS

    return [values.name_of(kind) for kind in METHODS]


def columns(rows: Sequence[Sequence[str]]) -> str:
    """Rows of words, each column as wide as its longest word."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join("  " + "  ".join(f"{c:<{w}}" for c, w in zip(row, widths, strict=True)).rstrip() for row in rows)


def methods_table() -> str:
    from whence.evidence import BADGES
    from whence.methods import METHODS

    def badge(kind: Any) -> str:
        return min((e.badge for e in kind.evidence), key=BADGES.index)

    return columns([(values.name_of(kind), badge(kind), kind.needs.__name__, sentence(kind)) for kind in METHODS])


def worlds_table() -> str:
    return columns([(values.name_of(kind), sentence(kind)) for kind in worlds()])


def metrics_table() -> str:
    from whence.metrics import METRICS, RANKINGS

    kinds: tuple[type, ...] = (*METRICS, *RANKINGS)
    return columns([(values.name_of(kind), sentence(kind)) for kind in kinds])


def studies_table() -> str:
    from whence.studies import STUDIES

    return columns([(study.name, study.title) for study in STUDIES])


if __name__ == "__main__":
    raise SystemExit(main())
