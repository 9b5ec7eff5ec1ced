"""Which interventions an experiment makes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Generator

from whence.scm import SCM, Hard, Set, Soft, random_intervention_matrix, targets_of

Told = Literal["known", "coupled", "unknown"]


@dataclass(frozen=True, kw_only=True)
class Design:
    """Interventions on every node of a causal system; the defaults are one hard intervention each."""

    kind: Literal["hard", "soft", "do"] = "hard"  #: hard: without causes; soft: weaker effects; do: a value
    per_node: int = 1  #: environments for each node, 1 or 2
    scale: float | tuple[float, float] = 0.25  #: of the variance; a pair for two a node (else the second is 1 / scale)
    change: Literal["scale", "increase"] = "scale"  #: the variance is multiplied by scale, or increased by it
    shift: float = 0.0  #: added to the mean of what is intervened on, in the units of the model
    gain: float = 0.5  #: factor of a soft intervention on the effect of the causes
    targets: Told = "known"  #: coupled: which two environments have the same target is told, the target is not
    points: tuple[float, ...] = ()  #: what do sets a node to, in the units of the model; an environment for each
    multi_node: bool = False  #: random target sets, as many as nodes, with an invertible intervention matrix
    shuffle: bool = False  #: environments in random order
    seed: int = 0  #: of target sets and of the order

    def __post_init__(self) -> None:
        if self.per_node not in (1, 2):
            raise ValueError(f"There are one or two environments a node, got per_node={self.per_node}.")
        if (self.kind == "do") != bool(self.points):
            raise ValueError(f"kind='do' needs points to set nodes to, and no other kind has them, got {self.points}.")
        if self.kind == "do" and (self.per_node, self.targets == "coupled") != (1, False):
            raise ValueError("With kind='do' there is an environment for each point. Leave per_node, do not couple.")
        if self.multi_node and self.per_node == 2:
            raise ValueError("Sets of several nodes come once each. Use per_node=1 with multi_node.")
        if self.targets == "coupled" and self.per_node == 1:
            raise ValueError("Coupled environments share their target, so there are two a node. Use per_node=2.")
        if self.shift and self.kind == "do":
            raise ValueError(f"do sets a value, so no mean is shifted, got shift={self.shift}. Leave it out.")
        if not isinstance(self.scale, float | int) and (len(self.scale) != 2 or self.per_node == 1):
            raise ValueError(f"scale is one number, or a pair for per_node=2, got {self.scale}.")

    @property
    def scales(self) -> tuple[float, ...]:
        """One for each environment of a node."""
        if self.kind == "do":
            return self.points
        if not isinstance(self.scale, float | int):
            return tuple(self.scale)
        second = 1 / self.scale if self.change == "scale" else 2 * self.scale
        return (self.scale, second)[: self.per_node]

    def environments(self, n: int) -> list[tuple[frozenset[int], float]]:
        """Targets, and the change of their variance or their value: all nodes with the first, then the second."""
        rng = Generator().manual_seed(self.seed)
        sets = targets_of(random_intervention_matrix(n, rng=rng)) if self.multi_node else targets_of(torch.eye(n))
        made = [(targets, scale) for scale in self.scales for targets in sets]
        return [made[e] for e in torch.randperm(len(made), generator=rng)] if self.shuffle else made

    def dos(self, scm: SCM) -> list[dict[str | int, Hard | Soft | Set]]:
        """What is done in each environment."""

        def how(scale: float) -> Hard | Soft | Set:
            if self.kind == "do":
                return Set(scale)
            if self.kind == "hard":
                return Hard(variance=scale, change=self.change, shift=self.shift)
            return Soft(gain=self.gain, variance=scale, change=self.change, shift=self.shift)

        return [{i: how(scale) for i in sorted(targets)} for targets, scale in self.environments(len(scm))]

    def groups(self, n: int) -> list[int | None]:
        """Equal numbers for equal targets, in order of appearance, if that is told without the targets."""
        if self.targets != "coupled":
            return [None] * len(self.environments(n))
        seen: dict[frozenset[int], int] = {}
        return [seen.setdefault(targets, len(seen)) for targets, _ in self.environments(n)]

    def names(self, scm: SCM) -> list[str]:
        """Of environments, for reports; they tell no target that is not told."""
        made = self.environments(len(scm))
        if self.targets != "known":
            return [f"environment {e}" for e in range(1, len(made) + 1)]
        scales = list(dict.fromkeys(self.scales)) if len(self.scales) > 1 else []
        sign = "=" if self.kind == "do" else "×" if self.change == "scale" else "+"
        mark = {scale: f" ({sign}{scale:g})" for scale in scales}
        return [" ".join(scm.names[i] for i in sorted(targets)) + mark.get(scale, "") for targets, scale in made]
