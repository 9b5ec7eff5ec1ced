"""Method and Gradient: a method is a value, and fitting returns another value."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from torch import nn

from whence.descend import ALL, Recipe, Run, Terms, Turn, descend
from whence.evidence import Evidence, Guarantee, Reference
from whence.representation import Representation
from whence.views import Spec, View


class Method(ABC):
    """A frozen, keyword-only dataclass of hyper-parameters. It is the configuration and owns no weights."""

    needs: ClassVar[type[View]]  #: the kind of view it learns from
    design: ClassVar[Mapping[str, Any]] = {}  #: options of that view, where a method is handed a whole world
    reference: ClassVar[Reference]
    guarantee: ClassVar[Guarantee]
    evidence: ClassVar[tuple[Evidence, ...]]

    @property
    def promise(self) -> Guarantee:
        """The guarantee with these settings, where they decide which theorem applies; else that of the class."""
        return self.guarantee

    @abstractmethod
    def fit(self, data: View, run: Run) -> Representation:
        """Learn from a view. Called by `whence.fit`, which checks the view and seals randomness."""

    @abstractmethod
    def skeleton(self, spec: Spec) -> Representation:
        """What `fit` returns, before learning: saved weights are loaded into it."""


class Gradient(Method):
    """A method trained by descent: networks, a loss of named terms, and what the networks become."""

    recipe: ClassVar[Recipe]  #: the paper's budget and optimisers

    @abstractmethod
    def init(self, spec: Spec) -> nn.Module:
        """Fresh networks; the children are the players that turns name."""

    @abstractmethod
    def represent(self, nets: nn.Module, spec: Spec) -> Representation:
        """The trained networks as a representation."""

    def loss(self, nets: Any, batch: Any, t: int) -> Terms:
        """The terms of step t, weighted; one-player methods write only this."""
        raise TypeError(f"{type(self).__name__} needs a `loss` (one player) or `turns` (several). Write one of them.")

    def turns(self, nets: Any, batch: Any, t: int) -> Iterator[Turn]:
        """One yield for each player's move; code after a yield sees the moved player."""
        yield Turn(ALL, self.loss(nets, batch, t))

    def check(self, data: View) -> None:
        """Refuses data that the method cannot learn from."""

    def fit(self, data: View, run: Run) -> Representation:
        self.check(data)
        nets = descend(self.turns, self.init(data.spec), data, run)
        return self.represent(nets, data.spec)

    def skeleton(self, spec: Spec) -> Representation:
        return self.represent(self.init(spec), spec)
