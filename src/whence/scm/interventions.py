"""What is done to a node: it is set (do), cut from its causes (hard), or its mechanism changes (soft)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
import torch
from torch import Generator, Tensor
from torch.distributions import Distribution

from whence.scm.mechanisms import Additive, Change, Link, Mechanism, Point, Transformed
from whence.views import Kind

#: Node name or position -> what is done to it: a number or a tensor with one for each sample (do), a distribution
#: (hard), a function of the parents that replaces the link (soft), a Mechanism, or an Intervention.
Do = Mapping[str | int, Any]


class Intervention(ABC):
    """A change of one mechanism."""

    @property
    @abstractmethod
    def kind(self) -> Kind: ...

    @abstractmethod
    def on(self, mechanism: Mechanism) -> Mechanism: ...


@dataclass(frozen=True, eq=False)
class Set(Intervention):
    """do(z = value), one or one for each sample."""

    value: float | Tensor

    @property
    def kind(self) -> Kind:
        return "do"

    def on(self, mechanism: Mechanism) -> Mechanism:
        return Point(self.value)


@dataclass(frozen=True, kw_only=True)
class Hard(Intervention):
    """Without its causes (perfect); the noise stays, with its variance scaled or increased, and may be shifted."""

    variance: float | None = None  #: factor of the variance, or what is added to it; none: as it was
    change: Change = "scale"  #: scale or increase
    shift: float = 0.0  #: added to the mean

    @property
    def kind(self) -> Kind:
        return "hard"

    def on(self, mechanism: Mechanism) -> Mechanism:
        return mechanism.changed(gain=0.0, variance=self.variance, change=self.change, shift=self.shift)


@dataclass(frozen=True, kw_only=True)
class Soft(Intervention):
    """The link is multiplied or replaced (imperfect), the variance scaled or increased, the mean shifted."""

    gain: float = 0.5  #: factor of the link
    link: Link | None = None  #: replaces the link (and gain multiplies it)
    variance: float | None = None  #: factor of the variance, or what is added to it; none: as it was
    change: Change = "scale"  #: scale or increase
    shift: float = 0.0  #: added to the mean

    @property
    def kind(self) -> Kind:
        return "soft"

    def on(self, mechanism: Mechanism) -> Mechanism:
        return mechanism.changed(
            link=self.link, gain=self.gain, variance=self.variance, change=self.change, shift=self.shift
        )


@dataclass(frozen=True, eq=False)
class Moved(Intervention):
    """f of what the node's value would have been. (The callables of dowhy's interventions mean this.)"""

    f: Callable[[Tensor], Tensor]  #: a `torch.distributions.Transform` if densities are wanted

    @property
    def kind(self) -> Kind:
        return "soft"

    def on(self, mechanism: Mechanism) -> Mechanism:
        return Transformed(mechanism, self.f)


@dataclass(frozen=True, eq=False)
class Replaced(Intervention):
    """Another mechanism; without links it is a hard intervention."""

    mechanism: Mechanism

    @property
    def kind(self) -> Kind:
        if isinstance(self.mechanism, Point):
            return "do"
        return "hard" if self.mechanism.is_root else "soft"

    def on(self, mechanism: Mechanism) -> Mechanism:
        return self.mechanism


def intervention(how: Any) -> Intervention:
    """The plain forms of `do={node: how}` as values.

    >>> [intervention(how).kind for how in (2.0, torch.distributions.Normal(0.0, 1.0), lambda pa: pa.sum(-1))]
    ['do', 'hard', 'soft']
    """
    match how:
        case Intervention():
            return how
        case Mechanism():
            return Replaced(how)
        case Distribution():
            return Replaced(Additive(noise=how))
        case Real():
            return finite(float(how))
        case Tensor() | np.ndarray() | np.generic():
            return finite(torch.as_tensor(how))
        case _ if callable(how):
            return Soft(link=how, gain=1.0)
    raise TypeError(
        "A node can be given a number or one for each sample (do), a distribution (hard), a function of its parents "
        f"(soft), a Mechanism or an Intervention such as Soft(gain=0.5), got {how!r}."
    )


def finite(value: float | Tensor) -> Set:
    if not torch.isfinite(torch.as_tensor(value)).all():
        raise ValueError(f"A node is set to finite values, got {value}.")
    return Set(value)


def kind_of(do: Do) -> Kind | None:
    """The kind of an intervention on several nodes; None if they differ or nothing is done."""
    kinds = {intervention(how).kind for how in do.values()}
    return kinds.pop() if len(kinds) == 1 else None


# --- several nodes at once -------------------------------------------------------------------------------------------


def targets_of(matrix: Tensor | np.ndarray | Sequence[Sequence[float]]) -> tuple[frozenset[int], ...]:
    """The target sets of an intervention matrix D: D[i, m] is true if environment m intervenes on node i.

    >>> targets_of([[1, 0], [1, 1]])
    (frozenset({0, 1}), frozenset({1}))
    """
    d = torch.as_tensor(np.asarray(matrix) if not isinstance(matrix, Tensor) else matrix)
    if d.ndim != 2:
        raise ValueError(f"An intervention matrix has a row a node and a column an environment, got {tuple(d.shape)}.")
    return tuple(frozenset(column.nonzero()[:, 0].tolist()) for column in (d != 0).T)


def random_intervention_matrix(n: int, *, probability: float = 0.5, rng: Generator) -> Tensor:
    """An invertible (n, n) matrix of target sets: ones on the diagonal, each entry above it with this probability,
    columns in random order. acarturk-e/score-based-crl@abb5a09 (UMNI-CRL/) with probability .5."""
    d = torch.eye(n, dtype=torch.bool) | (torch.rand(n, n, generator=rng) < probability).triu(1)
    return d[:, torch.randperm(n, generator=rng)]
