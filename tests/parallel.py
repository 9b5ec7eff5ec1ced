"""A deterministic method and a run of it, for tests/test_parallel.py: torchrun ... -m tests.parallel FOLDER."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from whence import Adam, Recipe, Singles, fit
from whence.descend import Terms
from whence.methods import Gradient
from whence.nets import Nets
from whence.representation import Representation
from whence.views import Single, Spec, View

FAILS_AT: int | None = None  # the step at which the power goes


class Code(Representation):
    def __init__(self, nets: Any, spec: Spec) -> None:
        super().__init__(spec, 4)
        self.nets = nets

    def codes(self, x: Tensor) -> Tensor:
        return self.nets.encoder(x)


@dataclass(frozen=True, kw_only=True)
class Autoencoder(Gradient):
    """Without noise, so that the loss of a batch is the mean over its halves. Convolutions, for their memory layout."""

    needs: ClassVar[type[View]] = Singles
    recipe: ClassVar[Recipe] = Recipe(steps=12, batch=8, optimiser=Adam(lr=1e-3), every=5, clip=1.0)

    def init(self, spec: Spec) -> Nets:
        c = spec.shape[0]
        return Nets(
            encoder=nn.Sequential(
                nn.Conv2d(c, 6, 4, 2, 1), nn.Tanh(), nn.Conv2d(6, 4, 4, 2, 1), nn.Tanh(), nn.Flatten()
            ),
            decoder=nn.Sequential(nn.Linear(16, 20), nn.Tanh(), nn.Linear(20, 64 * c), nn.Unflatten(1, spec.shape)),
        )

    def loss(self, nets: Any, batch: Single, t: int) -> Terms:
        if t == FAILS_AT:
            raise RuntimeError("the power went")
        return Terms(error=(nets.decoder(nets.encoder(batch.x)) - batch.x).square().sum((1, 2, 3)).mean())

    def represent(self, nets: Any, spec: Spec) -> Code:
        return Code(nets, spec)


DATA = torch.rand(40, 2, 8, 8, generator=torch.Generator().manual_seed(0))


def main(folder: Path, batch: int, fails_at: int | None = None) -> None:
    global FAILS_AT
    FAILS_AT = fails_at
    torch.set_num_threads(1)
    if rank := int(os.environ.get("RANK", "0")):
        torch.manual_seed(rank)  # the callers' random states differ

        def refuse(*_: Any) -> None:
            raise AssertionError("only the first process writes")

        from whence import storage

        storage.write = refuse  # type: ignore[assignment]
    recipe = Recipe(**{**vars(Autoencoder.recipe), "batch": batch})
    heard: list[int] = []
    fit(Autoencoder(), DATA, seed=1, recipe=recipe, into=folder, watch=lambda p: heard.append(p.step), save_every=0.0)
    print(f"rank {rank} heard {len(heard)}", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), *map(int, sys.argv[2:]))
