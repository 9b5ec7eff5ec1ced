"""A world with a causal graph, seen through a rotation, and representations of it whose graph is known."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from whence.representation import Representation
from whence.scm.graph import from_edges
from whence.views import Spec
from whence.worlds.world import Factor, World

EDGES = ((0, 1), (0, 2), (1, 2), (2, 3), (1, 4))
WEIGHTS = (1.2, -0.8, 1.0, 0.7, -1.1)
N = 5


@dataclass(frozen=True)
class Caused(World):
    """Linear and Gaussian, five factors, observed as they are."""

    names: tuple[str, ...] = field(default=tuple("abcde"))

    @property
    def factors(self) -> tuple[Factor, ...]:
        return tuple(Factor(name, "continuous", (-20.0, 20.0)) for name in self.names)

    @property
    def shape(self) -> tuple[int, ...]:
        return (N,)

    @property
    def graph(self) -> Tensor:
        return from_edges(EDGES, N)

    def draw(self, n, *, rng, do=None) -> Tensor:
        v = torch.randn(n, N, generator=rng)
        for (i, j), w in sorted(zip(EDGES, WEIGHTS, strict=True), key=lambda edge: edge[0][1]):
            v[:, j] += w * v[:, i]
        return v

    def observe(self, v: Tensor, rng=None) -> Tensor:
        return v


class Graphed(Representation):
    """Codes x W, and a graph between them."""

    def __init__(self, mixing: np.ndarray, graph: np.ndarray) -> None:
        super().__init__(Spec((N,)), mixing.shape[1])
        self.register_buffer("mixing", torch.as_tensor(mixing, dtype=torch.float32))
        self.register_buffer("a", torch.as_tensor(graph))

    def codes(self, x: Tensor) -> Tensor:
        return x @ self.mixing

    @property
    def graph(self) -> Tensor:
        return self.a


def relabelled(order: list[int], signs: float = 1.0) -> Graphed:
    """Code m is factor order[m], and the graph is the true one in these places."""
    a = Caused().graph.numpy()
    return Graphed(signs * np.eye(N)[:, order], a[np.ix_(order, order)])
