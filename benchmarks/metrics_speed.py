"""Seconds and memory of every metric, the classic loops beside ours, and growth with rows and codes.

    python benchmarks/metrics_speed.py --rounds 3

One thread. The first table has every metric with its defaults on 15,000 rows (10,000 to learn from, 5,000 to test on),
10 codes, factors of sizes 3, 6, 40, 32, 32. The second re-states, in this file only, how the reference library computes
five of them (one batch after another in Python, its factors drawn anew and looked up among the codes of all
observations; one pair of columns after another by scikit-learn), and times both in one process, taking turns. The third
grows to a million rows and a hundred codes, and is drawn. Every measurement of the first and the third is a process of
its own, forked when everything is imported; peak memory is above that of the arrays. Every single measurement is in the
CSV.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import functools
import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("MKL_NUM_THREADS", "1")

import json
import platform
import resource
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

SIZES = (3, 6, 40, 32, 32)
ROWS, CODES, BATCHES, GROUP = 15_000, 10, 15_000, 64


def codes_of(v: np.ndarray, d: int, rng: np.random.Generator) -> np.ndarray:
    """Codes that hold the factors, mixed a little, with noise and some that hold nothing."""
    n = np.array(SIZES)
    s = (v - (n - 1) / 2) / np.sqrt((n**2 - 1) / 12)
    z = s @ np.random.default_rng(1).normal(size=(len(SIZES), d)) * 0.2
    z[:, : len(SIZES)] += s
    z += 0.1 * rng.normal(size=z.shape)
    return z


def arrays(n: int = ROWS, d: int = CODES, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """What a metric is given: the codes of n observations, and their factors."""
    rng = np.random.default_rng(seed)
    v = rng.integers(SIZES, size=(n, len(SIZES)))
    return codes_of(v, d, rng), v


# --- as the reference computes them -----------------------------------------------------------------------------------


class World:
    """Codes of every observation there is, looked up by its factors, which are drawn anew for every batch, one factor
    after another: what the reference's metrics sample from, with the encoder's cost left out."""

    def __init__(self) -> None:
        grid = np.stack(np.unravel_index(np.arange(np.prod(SIZES)), SIZES), 1)
        self.codes = codes_of(grid, CODES, np.random.default_rng(0))
        self.bases = np.prod(SIZES) / np.cumprod(SIZES)
        self.place = np.arange(len(grid))  # an observation's index in the data set, by its index in the grid

    def factors(self, n: int, rng: np.random.RandomState) -> np.ndarray:
        v = np.zeros((n, len(SIZES)), np.int64)
        for k, size in enumerate(SIZES):
            v[:, k] = rng.randint(size, size=n)
        return v

    def encoded(self, v: np.ndarray) -> np.ndarray:
        if np.any(v > np.expand_dims(SIZES, 0)) or np.any(v < 0):
            raise ValueError("A factor is out of its range.")
        return self.codes[self.place[np.array(np.dot(v, self.bases), dtype=np.int64)]]


def loop_beta_vae(world: World, z: np.ndarray, v: np.ndarray) -> float:
    from sklearn.linear_model import LogisticRegression

    rng = np.random.RandomState(0)
    x, y = np.empty((BATCHES, z.shape[1])), np.empty(BATCHES, int)
    for b in range(BATCHES):
        y[b] = k = rng.randint(len(SIZES))
        one, other = world.factors(GROUP, rng), world.factors(GROUP, rng)
        other[:, k] = one[:, k]
        x[b] = np.mean(np.abs(world.encoded(one) - world.encoded(other)), axis=0)
    model = LogisticRegression(max_iter=100).fit(x[:10_000], y[:10_000])
    return float(model.score(x[10_000:], y[10_000:]))


def loop_factor_vae(world: World, z: np.ndarray, v: np.ndarray) -> float:
    rng, spread = np.random.RandomState(0), z.var(0, ddof=1)
    votes, test = np.zeros((z.shape[1], len(SIZES))), []
    for b in range(BATCHES):
        k, members = rng.randint(len(SIZES)), world.factors(GROUP, rng)
        members[:, k] = members[0, k]
        least = int(np.argmin(np.var(world.encoded(members), axis=0, ddof=1) / spread))
        if b < 10_000:
            votes[least, k] += 1
        else:
            test.append((least, k))
    named = votes.argmax(1)
    return float(np.mean([named[least] == k for least, k in test]))


def pairwise(z: np.ndarray, v: np.ndarray) -> np.ndarray:
    from sklearn.metrics import mutual_info_score

    cut = np.stack([np.digitize(c, np.histogram(c, 20)[1][:-1]) for c in z.T], 1)
    return np.array([[mutual_info_score(a, b) for b in v.T] for a in cut.T])


def loop_mig(world: World, z: np.ndarray, v: np.ndarray) -> float:
    from sklearn.metrics import mutual_info_score

    m = np.sort(pairwise(z, v), 0)
    return float(np.mean((m[-1] - m[-2]) / [mutual_info_score(c, c) for c in v.T]))


def loop_modularity(world: World, z: np.ndarray, v: np.ndarray) -> float:
    m = pairwise(z, v) ** 2
    return float(np.mean(1 - (m.sum(1) - m.max(1)) / (m.max(1) * (m.shape[1] - 1))))


def loop_unsupervised(world: World, z: np.ndarray, v: np.ndarray) -> float:
    import scipy.linalg
    from sklearn.metrics import mutual_info_score

    c = np.cov(z.T)
    root = scipy.linalg.sqrtm(scipy.linalg.sqrtm(np.diag(np.diag(c))) @ c @ scipy.linalg.sqrtm(np.diag(np.diag(c))))
    wasserstein = np.trace(c + np.diag(np.diag(c)) - 2 * np.real(root))
    cut = np.stack([np.digitize(x, np.histogram(x, 20)[1][:-1]) for x in z.T], 1)
    mutual = [[mutual_info_score(a, b) for b in cut.T] for a in cut.T]
    return float(0.5 * (np.log(np.diag(c)).sum() - np.linalg.slogdet(c)[1]) + wasserstein + np.mean(mutual))


#: Names of ours, and what they are measured against.
LOOPS: dict[tuple[str, ...], Callable[[World, np.ndarray, np.ndarray], float]] = {
    ("beta_vae_metric",): loop_beta_vae,
    ("factor_vae_metric",): loop_factor_vae,
    ("mig",): loop_mig,
    ("modularity",): loop_modularity,
    (
        "gaussian_total_correlation",
        "gaussian_wasserstein_correlation",
        "code_information",
    ): loop_unsupervised,
}


# --- ours -------------------------------------------------------------------------------------------------------------


def probe_of(z: np.ndarray, v: np.ndarray):
    """A probe whose pool is these arrays: what `evaluate` hands to a metric once everything is encoded."""
    from whence import Sprites
    from whence.methods import Pixels
    from whence.metrics import Probe
    from whence.metrics.arrays import Codes
    from whence.views import Spec

    representation = Pixels().skeleton(Spec((z.shape[1],))).frozen()
    return Probe(representation, Sprites(), samples=len(z)).like(Codes(z, v))


def metrics() -> dict:
    """The metrics that compare codes with factors or look at codes alone, by name."""
    from whence import values
    from whence.metrics import METRICS

    return {values.name_of(kind): kind() for kind in METRICS if not kind.asks}


def measure_all(chosen: list, probe) -> list:
    return [metric.measure(probe) for metric in chosen]


def seconds(call: Callable[[], object]) -> float:
    begin = time.process_time()
    call()
    return time.process_time() - begin


def measure_each(names: list[str], n: int, d: int, limit: float) -> Iterator[dict]:
    """CPU seconds of metrics and memory above what the arrays take, each in a fork of this process, which has imported
    what they need."""
    chosen = metrics()
    small = probe_of(*arrays(600, d))
    for name in names:
        with contextlib.suppress(ValueError, AttributeError):
            chosen[name].measure(small)
    z, v = arrays(n, d)
    for name in names:
        read, write = os.pipe()
        if (child := os.fork()) == 0:
            signal.setitimer(signal.ITIMER_VIRTUAL, limit)  # ends the fork
            os.write(write, json.dumps({"name": name, **measure_one(chosen[name], z, v)}).encode())
            os._exit(0)
        os.close(write)
        with os.fdopen(read) as pipe:
            told = pipe.read()
        os.waitpid(child, 0)
        yield json.loads(told) if told else {"name": name, "why": f"> {limit:g} s"}


def measure_one(metric: Any, z: np.ndarray, v: np.ndarray) -> dict:
    from whence.metrics import Unmeasurable

    probe = probe_of(z, v)
    before = peak()
    try:
        took = seconds(lambda: metric.measure(probe))
    except Unmeasurable as why:
        return {"why": str(why).splitlines()[0]}
    return {"seconds": took, "MB": (peak() - before) / 1024}


def peak() -> int:
    """The most memory this process has had, in kB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def apart(names: list[str], n: int, d: int, limit: float = 600.0) -> dict[str, dict]:
    """`measure_each` in a process of its own, which has nothing of earlier measurements."""
    words = [sys.executable, __file__, "--apart", str(n), str(d), str(limit), *names]
    out = subprocess.run(words, capture_output=True, text=True)
    if out.returncode:
        raise SystemExit(f"{n} x {d} failed:\n{out.stderr[-2000:]}")
    return {found["name"]: found for found in map(json.loads, out.stdout.splitlines())}


def spread(numbers: list[float]) -> str:
    return f"{statistics.median(numbers):.3f} ({min(numbers):.3f}–{max(numbers):.3f})"


def draw(rows: list[dict], path: Path) -> None:
    """Seconds over rows, one line a metric; grey lines are linear growth."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    grown = [row for row in rows if row["part"] == "growth" and "seconds" in row]
    if not grown:
        return
    widths = sorted({row["codes"] for row in grown})
    figure = Figure(figsize=(5.5 * len(widths), 5.5), layout="constrained")
    FigureCanvasAgg(figure)
    for axes, d in zip(figure.subplots(1, len(widths), sharey=True, squeeze=False)[0], widths, strict=True):
        lines = []
        for name in dict.fromkeys(row["name"] for row in grown):
            mine = [row for row in grown if (row["name"], row["codes"]) == (name, d)]
            if mine:
                x, y = zip(*sorted((row["rows"], max(row["seconds"], 1e-3)) for row in mine), strict=True)
                (line,) = axes.plot(x, y, marker="o", markersize=3, linewidth=1)
                lines.append((y[-1], x[-1], name.replace("_", " "), line.get_color()))
        below = 0.0
        for y, x, name, colour in sorted(lines):  # names one above another, each as near to its line as it can be
            below = max(y, below * 1.32)
            axes.annotate(
                name,
                (x, y),
                (1.7e6, below),
                fontsize=6,
                color=colour,
                va="center",
                arrowprops={"arrowstyle": "-", "color": "0.8", "linewidth": 0.5},
            )
        n = np.array(sorted({row["rows"] for row in grown}))
        for start in 10.0 ** np.arange(-4, 1):
            axes.plot(n, start * n / n[0], color="0.85", linewidth=0.7, zorder=0)
        axes.set(
            xscale="log",
            yscale="log",
            xlabel="rows",
            title=f"{d:.0f} codes",
            ylim=(8e-4, 300),
            xlim=(n[0] / 1.2, n[-1] * 30),
        )
    figure.axes[0].set_ylabel("CPU seconds, one thread")
    figure.savefig(path, dpi=110)


# --- measuring, and what is written ----------------------------------------------------------------------------------

FIELDS = ("part", "name", "rows", "codes", "seconds", "MB", "why")


def suite(names: list[str], rounds: int, limit: float) -> Iterator[dict]:
    for _ in range(rounds):
        for name, found in apart(names, ROWS, CODES, limit).items():
            yield {"part": "suite", "name": name, "rows": ROWS, "codes": CODES, **found}


def turns(names: list[str], rounds: int) -> Iterator[dict]:
    """The loops and ours, one after another, `rounds` times."""
    (z, v), world = arrays(), World()
    for those, loop in LOOPS.items():
        if not set(those) & set(names):
            continue
        mine = [metrics()[name] for name in those]
        call = functools.partial(measure_all, mine)
        call(probe_of(*arrays(600)))
        about = {"name": ", ".join(those), "rows": ROWS, "codes": CODES}
        for _ in range(rounds):
            yield {"part": "loops", **about, "seconds": seconds(functools.partial(loop, world, z, v))}
            yield {"part": "ours", **about, "seconds": seconds(lambda call=call: call(probe_of(z, v)))}


def growth(names: list[str], shapes: list[tuple[int, int]], limit: float) -> Iterator[dict]:
    for n, d in shapes:
        for name, found in apart(names, n, d, limit).items():
            yield {"part": "growth", "name": name, "rows": n, "codes": d, **found}


def merged(file: Path, found: list[dict]) -> list[dict]:
    """Measurements of earlier calls that were not made again, and these; written back."""

    def key(row: dict) -> tuple:
        return row["part"], row["name"], int(row["rows"]), int(row["codes"])

    kept = []
    if file.is_file():
        with file.open(newline="") as lines:
            kept = [{k: x for k, x in row.items() if x} for row in csv.DictReader(lines)]
    again = {key(row) for row in found}
    every = [row for row in kept if key(row) not in again] + found
    order = {name: i for i, name in enumerate(["suite", "loops", "ours", "growth", *metrics()])}
    every.sort(key=lambda row: (order[row["part"]], int(row["codes"]), int(row["rows"]), order.get(row["name"], 0)))
    with file.open("w", newline="") as lines:
        out = csv.DictWriter(lines, FIELDS, lineterminator="\n")
        out.writeheader()
        out.writerows(every)
    return [{**row, **{k: float(row[k]) for k in ("rows", "codes", "seconds", "MB") if k in row}} for row in every]


def tables(rows: list[dict]) -> list[str]:
    """What was measured, as Markdown."""
    of: dict[tuple[str, str], list[dict]] = {}
    for row in rows:
        of.setdefault((row["part"], row["name"]), []).append(row)

    def took(part: str, name: str) -> list[float]:
        return [row["seconds"] for row in of.get((part, name), ())]

    lines = ["# Speed of metrics", "", f"One thread, {ROWS:,} rows, {CODES} codes, factors of sizes {SIZES}.", ""]
    lines += ["| metric | CPU s: median (range) | MB above the arrays |", "|---|---|---|"]
    names = [name for part, name in of if part == "suite"]
    for name in names:
        lines.append(f"| {name} | {spread(took('suite', name))} | {max(row['MB'] for row in of['suite', name]):.0f} |")
    lines += [f"| **all** | **{sum(statistics.median(took('suite', name)) for name in names):.1f}** | |", ""]
    lines += ["**Against the loops of the reference**, re-stated in `benchmarks/metrics_speed.py`, taking turns:", ""]
    lines += ["| metric | loops, CPU s | ours, CPU s | times faster |", "|---|---|---|---|"]
    for name in (name for part, name in of if part == "loops"):
        theirs, ours = took("loops", name), took("ours", name)
        times = statistics.median(a / b for a, b in zip(theirs, ours, strict=True))
        lines.append(f"| {name} | {spread(theirs)} | {spread(ours)} | {times:.1f} |")
    shapes = sorted({(row["codes"], row["rows"]) for row in rows if row["part"] == "growth"})
    lines += ["", "**Growth**: CPU seconds (MB above the arrays), by rows × codes. A picture: `metrics_speed.png`.", ""]
    lines += ["| metric | " + " | ".join(f"{n:,.0f} × {d:.0f}" for d, n in shapes) + " |"]
    lines += ["|---" * (len(shapes) + 1) + "|"]
    for name in (name for part, name in of if part == "growth"):
        found = {(row["codes"], row["rows"]): row for row in of["growth", name]}
        cells = [
            "–"
            if (row := found.get(shape)) is None
            else row.get("why", "") or f"{row['seconds']:.2f} ({row['MB']:.0f})"
            for shape in shapes
        ]
        lines.append("| " + " | ".join([name, *(cell[:60] for cell in cells)]) + " |")
    lines += [
        "",
        "What is held beside the arrays is a portion of rows or of codes, but for one copy of the codes in single "
        "precision (beta_vae_metric and factor_vae_metric, which share it), and what was predicted of the test rows "
        "(mcc, r2, ease_of_use).",
    ]
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", nargs="+", default=["suite", "loops", "growth"], help="what to measure (again)")
    parser.add_argument("--metrics", nargs="+", help="names of those to measure (default: all)")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--grow", type=int, nargs="+", default=[10_000, 100_000, 1_000_000], help="rows")
    parser.add_argument("--wide", type=int, nargs="+", default=[10, 100], help="codes")
    parser.add_argument("--limit", type=float, default=120.0, help="CPU seconds after which a measurement is given up")
    parser.add_argument("--out", type=Path, default=Path(__file__).with_suffix(".md"))
    parser.add_argument("--apart", nargs="+", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.apart:
        n, d, limit, *names = given.apart
        for found in measure_each(names, int(n), int(d), float(limit)):
            print(json.dumps(found), flush=True)
        return
    needs_a_graph = {"parent_mixing"}
    names = given.metrics or [name for name in metrics() if name not in needs_a_graph]
    shapes = [(n, d) for d in given.wide for n in given.grow]
    measured: list[dict] = []
    for part, rows in (
        ("suite", suite(names, given.rounds, given.limit)),
        ("loops", turns(names, given.rounds)),
        ("growth", growth(names, shapes, given.limit)),
    ):
        for row in rows if part in given.parts else ():
            measured.append(row)
            print(row, flush=True)
    every = merged(given.out.with_suffix(".csv"), measured)
    draw(every, given.out.with_suffix(".png"))

    from whence.runs import versions
    from whence.studies.engine import machine

    about = [
        f"- command: `python benchmarks/metrics_speed.py --rounds {given.rounds} --limit {given.limit:g}`, "
        "or some of it with `--parts`, `--metrics`, `--grow` and `--wide`: what was measured before is kept",
        f"- machine: {machine('cpu').partition(',')[0]}, {os.cpu_count()} cores, {platform.system()}; "
        f"load when finished {os.getloadavg()[0]:.1f}",
        f"- versions: {', '.join(f'{k} {x}' for k, x in versions().items())}",
        f"- seed 0; date {time.strftime('%Y-%m-%d')}",
    ]
    given.out.write_text("\n".join([*tables(every), "", *about]) + "\n")


if __name__ == "__main__":
    main()
