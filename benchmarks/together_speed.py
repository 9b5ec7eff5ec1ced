"""Seeds of a small network trained together (`fit_many`), against one after another (`fit`), on one thread.

    OMP_NUM_THREADS=1 python benchmarks/together_speed.py --rounds 5 > benchmarks/together_speed.md

Both train the same seeds with the same batches and noise, in turn within each round, so that a busy machine slows both
alike; of those one after another three are timed, and counted for all. Reported: medians over rounds with the range,
and the largest difference of a weight at the end.
"""

from __future__ import annotations

import argparse
import platform
import statistics
import time

import torch

from whence import Adam, Recipe, Singles, fit, fit_many
from whence.methods import AdaGVAE, BetaTCVAE, BetaVAE
from whence.nets import MLP
from whence.views import Pairs

SEEDS, STEPS, ALONE = 20, 200, 3


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    torch.set_num_threads(1)
    x = torch.rand(5_000, 64, generator=torch.Generator().manual_seed(0))
    recipe = Recipe(steps=STEPS, batch=64, optimiser=Adam(lr=1e-3))
    print(f"# {SEEDS} seeds of a small network together, on one thread\n")
    print("| method | hidden layers | together, steps/s of a model | one after another | ratio | weights differ by |")
    print("|---|---|---|---|---|---|")
    for kind in (BetaVAE, BetaTCVAE, AdaGVAE):
        for hidden in ((32, 32), (64, 64), (128, 128)):
            method = kind(latents=6, net=MLP(hidden=hidden))
            view = Pairs.of(x, x.flip(0)) if kind is AdaGVAE else Singles.of(x)
            fit_many(method, view, seeds=range(2), recipe=Recipe(steps=3))
            fast, slow = [], []
            for _ in range(rounds):
                begin = time.perf_counter()
                many = fit_many(method, view, seeds=range(SEEDS), recipe=recipe)
                middle = time.perf_counter()
                alone = [fit(method, view, seed=seed, recipe=recipe) for seed in range(ALONE)]
                fast.append(SEEDS * STEPS / (middle - begin))
                slow.append(ALONE * STEPS / (time.perf_counter() - middle))
            apart = max(
                float((a - b).abs().max())
                for one, other in zip(alone, many, strict=False)
                for a, b in zip(one.representation.parameters(), other.representation.parameters(), strict=True)
            )
            ratios = [f / s for f, s in zip(fast, slow, strict=True)]
            print(
                f"| {kind.__name__} | {hidden[0]}, {hidden[1]} | {statistics.median(fast):,.0f} "
                f"| {statistics.median(slow):,.0f} | {statistics.median(ratios):.1f} ({min(ratios):.1f} to "
                f"{max(ratios):.1f}) | {apart:.0e} |",
                flush=True,
            )
    print(
        f"\nInputs of 64 numbers, 6 latents, batches of 64, {STEPS} steps; medians of {rounds} rounds (range). The "
        "gain is the overhead of a step, so it falls as products of matrices take over: wide ones gain less."
    )
    print(f"\n- command: `python benchmarks/together_speed.py --rounds {rounds}`")
    print(f"- machine: {platform.processor() or platform.machine()}, one thread, shared with other work")
    print(f"- torch: {torch.__version__}")


if __name__ == "__main__":
    main()
