"""How often LSCALE claims an edge that is not there, in each setting, beside the one rate that it states.

    python benchmarks/edge_calibration.py --models 20 --into benchmarks

Models of five latents, one hard intervention on each, which multiplies its variance; graphs without any edge, and with
each edge there with probability one half; observations of seven dimensions. `level` is the stated probability that a
graph has any false edge, the default of LSCALE in every row. Polynomials are the truth where mechanisms are linear;
roots of quadratic forms and networks of 32 ReLUs are no polynomials.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("MKL_NUM_THREADS", "1")

import argparse
import csv
import io
import itertools
import math
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

SEED = 5_000_000  #: of the models; nothing was chosen on them
NODES, ROWS = 5, 50_000
HEAD = ("mechanisms", "factor", "edges", "seed", "false", "missed", "seconds")
Key = tuple[str, str, str, str]


def settings(models: int) -> Iterator[Key]:
    for kind, factor, edges in itertools.product(("linear", "quadratic", "networks"), ("0.25", "5"), ("none", "half")):
        for seed in range(SEED, SEED + models):
            yield kind, factor, edges, str(seed)


def measure(kind: str, factor: str, edges: str, seed: str) -> tuple[int, int, float]:
    """False edges, missed ones, CPU seconds."""
    from whence.descend import Run
    from whence.methods import LSCALE
    from whence.scm import RandomLinear, RandomMLP, RandomQuadratic
    from whence.worlds import Mixed

    mechanism = {"linear": RandomLinear(), "quadratic": RandomQuadratic(), "networks": RandomMLP()}[kind]
    density = 0.0 if edges == "none" else 0.5
    world = Mixed(nodes=NODES, dims=NODES + 2, density=density, mechanism=mechanism, model_seed=int(seed))
    view = world.environments(kind="hard", scale=float(factor))
    begin = time.process_time()
    found = LSCALE(latents=NODES, examples=ROWS).fit(view, Run()).graph > 0.5  # type: ignore[attr-defined]
    true = world.scm.graph
    return int((found & ~true).sum()), int((true & ~found).sum()), time.process_time() - begin


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=int, default=20, help="for each setting")
    parser.add_argument(
        "--into", type=Path, default=Path("."), help="folder of edge_calibration.csv, continued, and .md"
    )
    asked = parser.parse_args()

    import torch

    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    path = asked.into / "edge_calibration.csv"
    done: dict[Key, list[str]] = {}
    if path.exists():
        lines = list(csv.reader(io.StringIO(path.read_text())))[1:]
        done = {(line[0], line[1], line[2], line[3]): line for line in lines}
    every = list(settings(asked.models))
    for key in every:
        if key not in done:
            false, missed, seconds = measure(*key)
            done[key] = [*key, str(false), str(missed), f"{seconds:.2f}"]
            write(path, [done[k] for k in every if k in done])
            print(",".join(done[key]), flush=True)
    (asked.into / "edge_calibration.md").write_text(table([done[key] for key in every], asked.models))


def write(path: Path, lines: list[list[str]]) -> None:
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows([HEAD, *lines])
    path.write_text(out.getvalue())


def table(lines: list[list[str]], models: int) -> str:
    from whence import runs
    from whence.methods import LSCALE
    from whence.studies.engine import machine

    about = (__doc__ or "").split("\n\n", 2)[2].strip()
    text = ["# False edges beside the stated rate", "", about, ""]
    columns = ("mechanisms", "variance", "edges", "level", "graphs with a false edge", "false edges a graph")
    text.append("| " + " | ".join([*columns, "missed edges a graph", "models", "CPU seconds"]) + " |")
    text.append("|---" * (len(columns) + 3) + "|")
    for (kind, factor, edges), group in itertools.groupby(lines, lambda line: (line[0], line[1], line[2])):
        mine = list(group)
        n = len(mine)
        false, missed = [int(line[4]) for line in mine], [int(line[5]) for line in mine]
        share = sum(f > 0 for f in false) / n
        error = math.sqrt(share * (1 - share) / n)
        seconds = sum(float(line[6]) for line in mine) / n
        text.append(
            f"| {kind} | × {factor} | {edges} | {LSCALE.level:g} | {share:.2f} ± {error:.2f} | {sum(false) / n:.2f} | "
            f"{sum(missed) / n:.2f} | {n} | {seconds:.1f} |"
        )
    with_false = sum(int(line[4]) > 0 for line in lines)
    text += [
        "",
        f"Of all {len(lines)} graphs {with_false} have a false edge, {with_false / len(lines):.3f}. None is left out.",
        "",
        f"- command: `python benchmarks/edge_calibration.py --models {models} --into benchmarks`",
        f"- seeds: model seeds {SEED:,} to {SEED + models - 1:,}",
        f"- machine: {machine('cpu')}, shared with other work",
        f"- versions: {', '.join(f'{name} {number}' for name, number in runs.versions().items())}",
        f"- date: {time.strftime('%Y-%m-%d')}",
    ]
    return "\n".join(text) + "\n"


if __name__ == "__main__":
    main()
