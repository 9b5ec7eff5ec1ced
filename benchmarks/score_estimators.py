"""All estimators of score differences in one table: how near the truth, what LSCALE makes of them, seconds, memory.

    python benchmarks/score_estimators.py --into benchmarks

Models of five nodes with networks as mechanisms, one hard intervention on each (variance times .25, then times 5), seen
through a linear mixing, 10,000 rows an environment. `relative error` is the mean square of the error of the score
differences over the mean square of the true ones, at the observational rows they were fitted on, in white coordinates,
so that all directions count alike. Mixing error (l_scale) and SHD are those of LSCALE with that estimator, which fits
it twice, on halves of the rows. CPU seconds and the peak of memory above the arrays are those of one fit on all rows.
Every estimator is a process of its own, with one thread.
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

SEED = 3_100_000  #: of the models; nothing was chosen on them
NODES, ROWS = 5, 10_000
FACTORS = (0.25, 5.0)
NUMBERS = ("relative error", "mixing error", "SHD", "seconds", "memory")


def peak() -> float:
    """MB, the most that this process ever had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def estimators() -> dict[str, Any]:
    from whence.scores import ESTIMATORS

    return {"likelihood (no scores)": None, "Oracle": "oracle"} | {kind.__name__: kind() for kind in ESTIMATORS}


def measure(name: str, models: int) -> list[dict[str, float | str]]:
    import torch
    from torch import Generator

    from whence.descend import Run
    from whence.methods import LSCALE
    from whence.metrics import scale_mixing, shd
    from whence.scm import RandomMLP
    from whence.scores import Oracle, Support
    from whence.views import Environments
    from whence.worlds import Mixed

    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    found: list[dict[str, float | str]] = []
    for factor in FACTORS:
        for seed in range(models):
            world = Mixed(nodes=NODES, dims=NODES + 2, mechanism=RandomMLP(), model_seed=SEED + seed)
            design = {"kind": "hard", "scale": factor}
            view = world.environments(**design)
            x = [torch.cat(list(view.rows(e, ROWS, Generator().manual_seed(e)))) for e in range(NODES + 1)]
            data = Environments.of(x[0], x[1:], targets=list(range(NODES)), kinds="hard")
            truth, scores = Oracle(world.score_differences(**design)), estimators()[name]
            line: dict[str, float | str] = {"factor": factor, "seed": seed}
            if scores == "oracle":
                scores = truth
            elif scores is not None:
                support = Support.find(x, NODES)
                u = [support.project(part) for part in x]
                before, begin = peak(), time.process_time()
                fitted = scores.fit(u, run=Run(seed=seed))
                got = fitted.differences(u[0]).double()
                line |= {"seconds": time.process_time() - begin, "memory": peak() - before}
                true = truth.within(support).fit(u).differences(u[0]).double()
                root = torch.linalg.cholesky(torch.cov(u[0].double().T))
                line["relative error"] = float(((got - true) @ root).square().mean() / (true @ root).square().mean())
            before, begin = peak(), time.process_time()
            code: Any = LSCALE(latents=NODES, scores=scores, examples=ROWS).fit(data, Run(seed=seed))
            if scores is None:
                line |= {"seconds": time.process_time() - begin, "memory": peak() - before}
            z = world.scm.sample(5_000, rng=Generator().manual_seed(seed)).float()
            codes = code.encode(world.observe(z))
            line["mixing error"] = scale_mixing(codes, z).norm
            line["SHD"] = shd(code.graph, world.scm.graph)
            found.append(line)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=int, default=4, help="for each factor of the variance")
    parser.add_argument(
        "--into", type=Path, help="folder of score_estimators.csv, continued, and .md; none: printed only"
    )
    parser.add_argument("--one", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.one:
        print(json.dumps(measure(asked.one, asked.models)))
        return
    from whence import runs
    from whence.studies.engine import machine

    path = asked.into / "score_estimators.csv" if asked.into else None
    kept = list(csv.DictReader(io.StringIO(path.read_text()))) if path and path.exists() else []
    every: list[dict[str, Any]] = []
    about = (__doc__ or "").split("\n\n", 2)[2].strip()
    lines = ["# Estimators of score differences", "", about, ""]
    head = [f"{what}, × {factor:g}" for factor in FACTORS for what in NUMBERS[:3]]
    lines += ["| | " + " | ".join([*head, "CPU seconds", "MB"]) + " |", "|---" * (len(head) + 3) + "|"]
    for name in estimators():
        known = [one for one in kept if one["estimator"] == name]
        found = [
            {key: float(one[key]) for key in ("factor", *NUMBERS) if one[key]} | {"seed": one["seed"]} for one in known
        ]
        if len(found) != asked.models * len(FACTORS):
            command = [sys.executable, __file__, "--one", name, "--models", str(asked.models)]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                lines.append(
                    f"| {name} | failed: {done.stderr.strip().splitlines()[-1][:80]} |" + " |" * (len(head) + 1)
                )
                print(lines[-1], flush=True)
                continue
            found = json.loads(done.stdout.strip().splitlines()[-1])
        every += [{"estimator": name, **one} for one in found]
        cells = [mean([one for one in found if one["factor"] == f], what) for f in FACTORS for what in NUMBERS[:3]]
        most = max((one["memory"] for one in found if "memory" in one), default=None)
        cells += [mean(found, "seconds"), "–" if most is None else f"{most:.0f}"]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
        print(lines[-1], flush=True)
        if path:
            path.write_text(as_csv(every))
    lines += [
        "",
        f"Means over {asked.models} models for each factor; none is left out.",
        "",
        f"- command: `python benchmarks/score_estimators.py --models {asked.models} --into benchmarks`",
        f"- seeds: model seeds {SEED:,} to {SEED + asked.models - 1:,}",
        f"- machine: {machine('cpu')}, shared with other work",
        f"- versions: {', '.join(f'{name} {number}' for name, number in runs.versions().items())}",
        f"- date: {time.strftime('%Y-%m-%d')}",
    ]
    if asked.into:
        (asked.into / "score_estimators.md").write_text("\n".join(lines) + "\n")


def as_csv(every: list[dict[str, Any]]) -> str:
    out = io.StringIO()
    table = csv.writer(out, lineterminator="\n")
    table.writerow(["estimator", "factor", "seed", *NUMBERS])
    for one in every:
        cells = [f"{one[key]:.4f}" if key in one else "" for key in NUMBERS]
        table.writerow([one["estimator"], one["factor"], one["seed"], *cells])
    return out.getvalue()


def mean(found: list[dict[str, Any]], what: str) -> str:
    numbers = [one[what] for one in found if what in one]
    return f"{sum(numbers) / len(numbers):.3f}" if numbers else "–"


if __name__ == "__main__":
    main()
