"""CPU seconds and memory of LSCALE, from arrays to encoder, graph and confidences, and how they grow.

    python benchmarks/lscale_speed.py --into benchmarks

One thread; every measurement is a process of its own. Seconds are those of the CPU in `fit`, without imports and
without what a first fit of a few rows warms up; memory is the peak of the process above what it was before `fit`, when
the arrays are there. The first table has the settings that have a bound; the curves grow in latents n, in observed
dimensions d, and in rows N of each environment, where a world makes the rows anew each time they are read ("of which
rows" is what making them alone takes). Graphs of the curve in n have one edge a node on average: with half of all
edges, 30 latents span more orders of magnitude than single precision holds.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("MKL_NUM_THREADS", "1")

import argparse
import csv
import io
import json
import resource
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Any

SEED = 3_000_000  #: of the models; nothing was chosen on them

BOUNDS = [
    {"what": "linear, soft, likelihood", "n": 5, "d": 100, "rows": 50_000, "bound": 0.5},
    {"what": "networks, hard, likelihood", "n": 5, "d": 100, "rows": 50_000, "bound": 5.0},
    {"what": "networks, hard, classifier", "n": 5, "d": 100, "rows": 50_000, "bound": None},
]
LINEAR = {"what": "linear, soft, likelihood", "n": 5, "d": 100, "rows": 5_000}
CURVES: dict[str, list[dict[str, Any]]] = {
    "latents": [LINEAR | {"n": n, "degree": 1.0} for n in (2, 5, 10, 20, 30)],
    "observed dimensions": [LINEAR | {"d": d, "rows": 2_000} for d in (10, 100, 1_000, 10_000)],
    "rows, streamed": [LINEAR | {"d": 10, "rows": 10**k, "streamed": True} for k in (4, 5, 6)],
    "the largest": [
        LINEAR | {"n": 50, "degree": 1.0},
        LINEAR | {"d": 10, "rows": 10**7, "streamed": True},
    ],
}


def peak() -> float:
    """MB, the most that this process ever had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measure(
    what: str, n: int, d: int, rows: int, seed: int, streamed: bool = False, degree: float | None = None, **_: Any
) -> dict[str, float]:
    import torch
    from torch import Generator

    from whence.descend import Run
    from whence.methods import LSCALE
    from whence.metrics import closure_shd, shd
    from whence.scm import RandomLinear, RandomMLP
    from whence.scores import MulticlassRatio
    from whence.views import Environments
    from whence.worlds import Mixed

    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    linear, hard = what.startswith("linear"), "hard" in what
    kind = "hard" if hard else "soft"
    mechanism = RandomLinear() if linear else RandomMLP()
    world = Mixed(nodes=n, dims=d, degree=degree, mechanism=mechanism, model_seed=SEED + seed)
    view = world.environments(kind=kind)
    scores = MulticlassRatio() if "classifier" in what else None
    method = LSCALE(latents=n, kind=kind, scores=scores, examples=rows)
    making = 0.0
    if streamed:
        begin = time.process_time()
        for e in range(n + 1):
            for _part in view.rows(e, rows, Generator().manual_seed(e)):
                pass
        making = time.process_time() - begin
        data = view
    else:
        x = [torch.cat(list(view.rows(e, rows, Generator().manual_seed(e)))) for e in range(n + 1)]
        data = Environments.of(x[0], x[1:], targets=list(range(n)), kinds=kind)
        few = Environments.of(x[0][:500], [part[:500] for part in x[1:]], targets=list(range(n)), kinds=kind)
        if n <= 10:
            LSCALE(latents=n, kind=kind, examples=500).fit(few, Run())
    before, begin = peak(), time.process_time()
    code: Any = method.fit(data, Run(seed=seed))
    seconds = time.process_time() - begin
    truth = world.scm.graph
    distance = shd(code.graph, truth) if hard else closure_shd(code.graph, truth)
    return {"seconds": seconds, "rows alone": making, "memory": peak() - before, "distance": distance}


def apart(setting: dict[str, Any], seed: int) -> dict[str, float]:
    """In a process of its own."""
    command = [sys.executable, __file__, "--one", json.dumps(setting | {"seed": seed})]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return json.loads(done.stdout.strip().splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3, help="models of the settings with a bound; curves have one")
    parser.add_argument("--into", type=Path, help="folder for lscale_speed.md and .csv; none: printed only")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.one:
        print(json.dumps(measure(**json.loads(asked.one))))
        return
    from whence import runs
    from whence.studies.engine import machine

    lines = ["# LSCALE: seconds and memory", "", (__doc__ or "").split("\n\n", 2)[2].strip(), ""]
    out = io.StringIO()
    table = csv.writer(out, lineterminator="\n")
    table.writerow(["table", "what", "n", "d", "rows", "seed", "seconds", "rows_alone", "memory_mb", "distance"])
    end = [
        "SHD is the distance to the true graph (hard) or of transitive closures (soft), of the model measured.",
        "",
        f"- command: `python benchmarks/lscale_speed.py --seeds {asked.seeds} --into benchmarks`",
        f"- seeds: model seeds {SEED:,} and on; {asked.seeds} for the settings with a bound, one for each other line",
        f"- machine: {machine('cpu')}, shared with other work",
        f"- versions: {', '.join(f'{name} {number}' for name, number in runs.versions().items())}",
        f"- date: {time.strftime('%Y-%m-%d')}",
    ]
    plans = {"with a bound": BOUNDS, **CURVES}
    for name, settings in plans.items():
        lines += [f"## {name.capitalize()}", ""]
        lines += [
            "| | n | d | N | CPU seconds | of which rows | MB | SHD | bound |",
            "|---|---|---|---|---|---|---|---|---|",
        ]
        for setting in settings:
            found = [apart(setting, seed) for seed in range(asked.seeds if name == "with a bound" else 1)]
            for seed, one in enumerate(found):
                at = [name, setting["what"], setting["n"], setting["d"], setting["rows"], seed]
                table.writerow([*at, *(f"{one[key]:.3f}" for key in ("seconds", "rows alone", "memory", "distance"))])
            passes = 2 if setting.get("streamed") else 0
            mean = {key: sum(one[key] for one in found) / len(found) for key in found[0]}
            bound = setting.get("bound")
            lines.append(
                f"| {setting['what']} | {setting['n']} | {setting['d']:,} | {setting['rows']:,} "
                f"| {mean['seconds']:.2f} | {passes * mean['rows alone']:.2f} | {mean['memory']:.0f} "
                f"| {mean['distance']:.2f} | {'' if bound is None else f'{bound:g} s'} |"
            )
            print(lines[-1], flush=True)
        lines.append("")
        if asked.into:  # what is there is kept, should the rest be stopped
            (asked.into / "lscale_speed.md").write_text("\n".join([*lines, *end]) + "\n")
            (asked.into / "lscale_speed.csv").write_text(out.getvalue())


if __name__ == "__main__":
    main()
