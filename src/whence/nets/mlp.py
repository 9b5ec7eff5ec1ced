"""Fully connected networks."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from torch import nn

from whence.nets.architecture import Architecture


def mlp(sizes: Sequence[int], activation: Callable[[], nn.Module] = nn.ReLU) -> nn.Sequential:
    """Linear layers of the given sizes with activations between."""
    layers: list[nn.Module] = []
    for inputs, outputs in itertools.pairwise(sizes):
        layers += [nn.Linear(inputs, outputs), activation()]
    return nn.Sequential(*layers[:-1])


@dataclass(frozen=True, kw_only=True)
class MLP(Architecture):
    """Fully connected, for vectors or flattened images."""

    hidden: tuple[int, ...] = (256, 256)  #: widths of the hidden layers; the decoder has them in reverse

    def encoder(self, shape: tuple[int, ...], outputs: int) -> nn.Module:
        return nn.Sequential(nn.Flatten(), mlp([math.prod(shape), *self.hidden, outputs]))

    def decoder(self, latents: int, shape: tuple[int, ...]) -> nn.Module:
        return nn.Sequential(mlp([latents, *reversed(self.hidden), math.prod(shape)]), nn.Unflatten(1, shape))
