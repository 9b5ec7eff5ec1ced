"""Runs that tests/test_resume.py starts as processes and kills: python -m tests.killable CASE FOLDER."""

from __future__ import annotations

import sys
from pathlib import Path

import torch

from whence import Adam, BetaVAE, Cosine, FactorVAE, Recipe, Sprites, fit
from whence.methods import Gradient
from whence.metrics import MIG, Reconstruction, evaluate
from whence.nets import MLP, Conv64

SAVE_EVERY = 0.02  # seconds, so that there are many checkpoints to be killed between

#: One player with everything that has a state (average, schedule), and two players with convolutions, whose weights
#: have a memory layout of their own.
CASES: dict[str, tuple[Gradient, Recipe]] = {
    "one": (
        BetaVAE(latents=4, net=MLP(hidden=(4,))),
        Recipe(steps=800, batch=8, optimiser=Adam(lr=1e-3), schedule=Cosine(warmup=30, floor=0.1), ema=0.99, every=7),
    ),
    "two": (
        FactorVAE(latents=4, net=Conv64(width=4), critic=(32, 32)),
        Recipe(steps=200, batch=4, players={"critic": Adam(lr=1e-3, betas=(0.5, 0.9))}, clip=10.0, every=9),
    ),
}


def main(case: str, folder: Path) -> None:
    torch.set_num_threads(1)
    method, recipe = CASES[case]
    fitted = fit(method, Sprites(), seed=3, recipe=recipe, into=folder, save_every=SAVE_EVERY)
    evaluate(fitted, metrics=[MIG(), Reconstruction(observations=50)], samples=300)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
