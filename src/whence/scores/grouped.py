"""Several small networks as one: weights with a leading axis, one batched product a layer."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

Activation = Callable[[Tensor], Tensor]


class Grouped(nn.Module):
    """`groups` MLPs of the same sizes, each with weights of its own.

    Initialised as PyTorch initialises linear layers, but for the first one, which begins `first` times larger, so that
    its bends are spread over white data, and the last, which begins ten times smaller.
    """

    def __init__(self, groups: int, sizes: Sequence[int], activation: Activation, first: float) -> None:
        super().__init__()
        self.activation = activation
        self.weights, self.biases = nn.ParameterList(), nn.ParameterList()
        scales = [first, *[1.0] * (len(sizes) - 3), 0.1]
        for (inputs, outputs), scale in zip(itertools.pairwise(sizes), scales, strict=True):
            bound = scale * inputs**-0.5
            self.weights.append(nn.Parameter(torch.empty(groups, inputs, outputs).uniform_(-bound, bound)))
            self.biases.append(nn.Parameter(torch.empty(groups, 1, outputs).uniform_(-bound, bound)))

    def forward(self, u: Tensor) -> Tensor:
        """(groups, B, inputs) -> (groups, B, outputs)."""
        *hidden, (weight, bias) = zip(self.weights, self.biases, strict=True)
        for w, b in hidden:
            u = self.activation(torch.baddbmm(b, u, w))
        return torch.baddbmm(bias, u, weight)


class GroupedTanh(Grouped):
    """With tanh, whose derivative is at hand, so directional derivatives ride along in the same sweep."""

    def __init__(self, groups: int, sizes: Sequence[int]) -> None:
        super().__init__(groups, sizes, torch.tanh, first=1.0)

    def along(self, u: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Points (G, B, n) and directions (G, m, B or 1, n) -> f(u) and J(u) v, (G, m, B, outputs)."""
        g, b, _ = u.shape
        m = v.shape[1]
        *hidden, (weight, bias) = zip(self.weights, self.biases, strict=True)
        for w, c in hidden:
            u = torch.tanh(torch.baddbmm(c, u, w))
            v = (v.flatten(1, 2) @ w).unflatten(1, (m, -1)) * (1 - u.square())[:, None]
        return torch.baddbmm(bias, u, weight), (v.flatten(1, 2) @ weight).view(g, m, b, -1)
