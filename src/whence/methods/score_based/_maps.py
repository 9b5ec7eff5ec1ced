"""Maps that are a linear one and a network, several side by side, and their vector-Jacobian products in one sweep."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from whence.scores.grouped import GroupedTanh


class Bent(nn.Module):
    """`groups` maps from n to m numbers: a linear one, and a tanh network that begins near zero
    (none, if it has no hidden layer)."""

    def __init__(self, groups: int, inputs: int, outputs: int, hidden: Sequence[int]) -> None:
        super().__init__()
        start = torch.eye(inputs, outputs).repeat(groups, 1, 1)
        self.slope, self.shift = nn.Parameter(start), nn.Parameter(torch.zeros(groups, 1, outputs))
        self.rest = GroupedTanh(groups, [inputs, *hidden, outputs]) if hidden else None

    def forward(self, z: Tensor) -> Tensor:
        """(groups, B, inputs) -> (groups, B, outputs)."""
        out = torch.baddbmm(self.shift, z.expand(len(self.slope), -1, -1), self.slope)
        return out if self.rest is None else out + self.rest(z)

    def pull(self, z: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """The map, and :math:`v^\\top J` for vectors v (groups or 1, P, B, outputs): (groups, P, B, inputs).

        The backward sweep is written as a forward one, so that a loss of it is differentiated once, not twice.
        """
        if self.rest is None:
            return self(z), v @ self.slope.mT[:, None]
        *hidden, (weight, bias) = zip(self.rest.weights, self.rest.biases, strict=True)
        states, u = [], z
        for w, b in hidden:
            states.append(u := torch.tanh(torch.baddbmm(b, u, w)))
        out = torch.baddbmm(self.shift, z, self.slope) + torch.baddbmm(bias, u, weight)
        g = v @ weight.mT[:, None]
        for (w, _), state in zip(reversed(hidden), reversed(states), strict=True):
            g = (g * (1 - state.square())[:, None]) @ w.mT[:, None]
        return out, g + v @ self.slope.mT[:, None]

    def member(self, r: int) -> dict[str, Tensor]:
        """The weights of one of the maps, as those of a group of one."""
        return {name: tensor[r : r + 1].clone() for name, tensor in self.state_dict().items()}


def set_linear(bent: Bent, slope: Tensor, shift: Tensor | None = None) -> None:
    """Begin at linear maps (groups or 1, inputs, outputs)."""
    with torch.no_grad():
        bent.slope.copy_(slope.expand_as(bent.slope))
        if shift is not None:
            bent.shift.copy_(shift.expand_as(bent.shift))
