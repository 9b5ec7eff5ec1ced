"""Labels on their way into networks."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn

from whence.views import Label, as_inputs


class Inputs(nn.Module):
    """(B, L) labels in their own units -> (B, W): classes as one of many, numbers scaled, 0 where one is missing."""

    def __init__(self, labels: Sequence[Label]) -> None:
        super().__init__()
        self.labels = tuple(labels)
        self.width = sum(label.width for label in labels)

    def forward(self, u: Tensor) -> Tensor:
        return as_inputs(u, self.labels)


class ClassOf(nn.Module):
    """(B, L) labels -> (B,): the number of the class in one of them, -1 where it is missing."""

    def __init__(self, column: int, label: Label) -> None:
        super().__init__()
        self.column, self.label = column, label

    def forward(self, u: Tensor) -> Tensor:
        return self.label.position(u[:, self.column])
