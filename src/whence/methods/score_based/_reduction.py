"""Observations as so many numbers as there are latents, without a thought of causes: GSCALE's first two stages, for
other methods, so that methods are compared on one autoencoder."""

from __future__ import annotations

import warnings
from dataclasses import replace

import torch
from torch import Tensor, nn

from whence.descend import Run
from whence.methods.score_based._sources import sources
from whence.methods.score_based.fronts import Code, Front
from whence.methods.score_based.gscale import GSCALE, Quality, encoded
from whence.views import Environments, Spec


class Reduction(nn.Module):
    """Observations to n numbers each, of unit variance, and back."""

    def __init__(self, spec: Spec, n: int, front: Front | None) -> None:
        super().__init__()
        self.how = GSCALE(front=front)
        self.front: Code = self.how.front_for(spec).build(tuple(spec.shape), n)
        self.reducer = self.how.reducer(self.front.dims, n)
        self.register_buffer("mean", torch.zeros(n))
        self.register_buffer("scale", torch.ones(n))

    mean: Tensor
    scale: Tensor

    def forward(self, x: Tensor) -> Tensor:
        """(B, *shape) -> (B, n)."""
        return (self.reducer.encoder(self.front.encode(x)[None])[0] - self.mean) / self.scale

    def back(self, u: Tensor) -> Tensor:
        """(B, n) -> (B, *shape)."""
        return self.front.decode(self.reducer.decoder((u * self.scale + self.mean)[None])[0])

    def learn(self, data: Environments, examples: int, run: Run) -> list[Tensor]:
        """Learn from all environments; the numbers of each one's rows, the observational first."""
        inner, n = replace(run, recipe=replace(GSCALE.recipe, steps=run.recipe.steps)), len(self.mean)
        code = self.how.skeleton(data.spec._replace(latents=n)).to(run.device)
        x = sources(data, examples, run)
        lost = self.how.code(code.front, x, inner, data.spec)
        y = [encoded(code.front, source(), run.device) for source in x]
        self.how.check_codes(code.front, y, n, data)
        u, _, reduction = self.how.reduced(code, y, x[0], inner)
        run.stopped_at = inner.stopped_at
        if failed := Quality(lost, *reduction).failed:
            warnings.warn(f"This run does not trust its latents: {failed}. Try another seed.", stacklevel=3)
        self.front, self.reducer = code.front, code.reducer
        every = torch.cat(u)
        self.mean, self.scale = every.mean(0), every.std(0).clamp_min(1e-12)
        return [(rows - self.mean) / self.scale for rows in u]
