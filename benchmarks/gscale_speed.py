"""Seconds and memory of GSCALE, stage by stage, and how both grow.

    python benchmarks/gscale_speed.py --out benchmarks/gscale_speed.md [--device cuda] [--growth] [--kept FILE]

Every case is a process of its own with one thread; reported are processor seconds of each stage (on a busy machine
they change less than seconds on the clock, which are given for the whole), and the peak memory of the process. Run with
--case NAME, it is one case. --growth adds short runs (a tenth of the steps) with one size changed at a time. --kept
names a JSON file where the results of cases are kept, so that a second call runs only what is missing.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
import time
import warnings
from pathlib import Path

TWO = {"kind": "hard", "per_node": 2, "scale": (0.25, 4.0)}

#: name: world, method's settings, steps
CASES: dict[str, dict] = {
    "table 9, n = 5, learned scores": {"nodes": 5, "steps": 1_000},
    "table 9, n = 8, learned scores": {"nodes": 8, "steps": 1_000},
    "2 balls, 90,000 pictures": {"balls": 2, "steps": 2_000},
}
GROWTH: dict[str, dict] = {
    "n = 5, d = 100, N = 10,000": {"nodes": 5, "steps": 100},
    "n = 8": {"nodes": 8, "steps": 100},
    "d = 400": {"nodes": 5, "dims": 400, "steps": 100},
    "N = 20,000": {"nodes": 5, "examples": 20_000, "steps": 100},
    "2 balls, 64 pixels, N = 2,000": {"balls": 2, "examples": 2_000, "steps": 100},
    "128 pixels": {"balls": 2, "side": 128, "examples": 2_000, "steps": 100},
    "3 balls": {"balls": 3, "examples": 2_000, "steps": 100},
}


def one(case: dict, device: str) -> dict:
    """Fit and say what each stage took."""
    from dataclasses import replace

    import torch

    from whence import fit
    from whence.methods import GSCALE
    from whence.methods.score_based.fronts import TanhLinear
    from whence.scm import RandomQuadratic
    from whence.worlds import Balls, Mixed
    from whence.worlds.mixing import TanhMixing

    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    examples = case.get("examples", 10_000)
    if "balls" in case:
        side = case.get("side", 64)
        world = Balls(balls=case["balls"], side=side, radius=5.0 * side / 64, model_seed=100)
        method = GSCALE(examples=examples)
    else:
        world = Mixed(
            nodes=case["nodes"],
            dims=case.get("dims", 100),
            mechanism=RandomQuadratic(),
            mixing=TanhMixing(),
            model_seed=1,
        )
        method = GSCALE(front=TanhLinear(), examples=examples)
    seconds: dict[str, float] = {}

    def timed(kind: type, name: str, label: str) -> None:
        original = getattr(kind, name)

        def wrapped(*args, **options):
            begin = time.process_time()
            try:
                return original(*args, **options)
            finally:
                seconds[label] = seconds.get(label, 0.0) + time.process_time() - begin

        setattr(kind, name, wrapped)

    for name, label in (
        ("code", "code"),
        ("reduced", "reduction"),
        ("differences", "score differences"),
        ("disentangled", "disentangling"),
        ("finish", "graph"),
    ):
        timed(GSCALE, name, label)
    begin, clock = time.process_time(), time.monotonic()
    recipe = replace(method.recipe, steps=case["steps"])
    fitted = fit(method, world.environments(**TWO), recipe=recipe, device=device)
    whole = time.process_time() - begin
    seconds["observing, encoding and the rest"] = whole - sum(seconds.values())
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    if device.startswith("cuda"):
        memory = torch.cuda.max_memory_allocated() / 2**20
    return {
        "seconds": seconds,
        "whole": whole,
        "clock": time.monotonic() - clock,
        "megabytes": memory,
        "trusted": not fitted.representation.quality.failed,
    }


def drawing() -> dict[str, float]:
    """Pictures of 2 balls drawn a second, the best of nine rounds of 4,000, by how many a call draws."""
    import torch

    from whence.worlds import Balls

    torch.set_num_threads(1)
    world = Balls()
    v = world.draw(4_000, rng=torch.Generator().manual_seed(0))
    best = {}
    for size in (100, 1_000, 4_000):
        seconds = []
        for _ in range(9):
            begin = time.process_time()
            for part in v.split(size):
                world.observe(part)
            seconds.append(time.process_time() - begin)
        best[f"{size:,}"] = len(v) / min(seconds)
    return best


def table(results: dict[str, dict]) -> list[str]:
    stages = list(dict.fromkeys(stage for result in results.values() for stage in result["seconds"]))
    lines = ["| | " + " | ".join([*stages, "all", "on the clock", "peak MB"]) + " |", "|---" * (len(stages) + 4) + "|"]
    for name, result in results.items():
        cells = [f"{result['seconds'].get(stage, 0):.1f}" for stage in stages]
        cells += [f"{result['whole']:.0f}", f"{result['clock']:.0f}", f"{result['megabytes']:.0f}"]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case")
    parser.add_argument("--only", default="", help="cases whose name contains this")
    parser.add_argument("--growth", action="store_true")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--kept", type=Path)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    if options.case == "drawing":
        print(json.dumps(drawing()))
        return
    if options.case:
        print(json.dumps(one({**CASES, **GROWTH}[options.case], options.device)))
        return

    kept = json.loads(options.kept.read_text()) if options.kept and options.kept.is_file() else {}

    def run(name: str):
        if name in kept:
            return kept[name]
        command = [sys.executable, __file__, "--case", name, "--device", options.device]
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
        out = subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout
        kept[name] = json.loads(out.splitlines()[-1])
        if options.kept:
            options.kept.write_text(json.dumps(kept))
        return kept[name]

    rates = run("drawing")
    told = "; ".join(f"{rate:,.0f} in calls of {calls} pictures" for calls, rate in rates.items())
    lines = ["# Speed of GSCALE", "", f"Pictures of 2 balls, 64x64, drawn a second: {told}.", ""]
    lines += ["A call of 4,000 spends most of its time getting the 200 MB from the operating system.", ""]
    lines += ["Processor seconds of each stage, one thread.", ""]
    lines += table({name: run(name) for name in CASES if options.only in name})
    if options.growth:
        lines += ["", "Growth, with a tenth of the steps or less; each row changes one thing.", ""]
        lines += table({name: run(name) for name in GROWTH if options.only in name})
    lines += ["", f"- device: {options.device}", f"- processor: {processor()}", f"- date: {time.strftime('%Y-%m-%d')}"]
    lines += ["- other processes ran on the machine, so seconds on the clock are upper bounds"]
    text = "\n".join(lines) + "\n"
    print(text)
    if options.out:
        options.out.write_text(text)


def processor() -> str:
    path = Path("/proc/cpuinfo")
    lines = path.read_text().splitlines() if path.is_file() else []
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())


if __name__ == "__main__":
    main()
