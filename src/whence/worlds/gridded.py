"""Gridded: what the worlds with published pictures on a grid of their causes share."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from functools import cached_property
from typing import Any, Literal

import torch
from torch import Generator, Tensor
from torch.distributions import Uniform

from whence import values
from whence.scm import SCM, Additive, Determined, Link, Mechanism
from whence.views import Labelled
from whence.worlds.world import Do, World

Split = Literal["all", "train", "test"]


def uniform(low: float, high: float) -> Mechanism:
    """A cause without causes."""
    return Additive(noise=Uniform(*torch.tensor([low, high], dtype=torch.float64)))


def varied(link: Link, by: float) -> Mechanism:
    """An effect that varies by up to so much beside its causes."""
    if not by:
        return Determined(link)
    bound = torch.tensor(by, dtype=torch.float64)
    return Additive(link=link, noise=Uniform(-bound, bound))


class Gridded(World):
    """A world with a structural causal model, whose causes were published on a grid that is split in two.

    A dataclass of it has the fields `size`, `noise`, `split` and `truncated`.
    """

    size: int
    noise: float
    split: Split | None
    truncated: bool

    def __post_init__(self) -> None:
        if self.size < 16:
            raise ValueError(
                f"{type(self).__name__} needs at least 16 pixels a side to show anything, got {self.size}."
            )
        if self.noise < 0:
            raise ValueError(f"noise is how far effects vary beside their causes, at least 0, got {self.noise}.")
        if self.split not in ("all", "train", "test", None):
            raise ValueError(values.unknown("split", str(self.split), ("all", "train", "test")))

    @property
    @abstractmethod
    def scm(self) -> SCM: ...

    @cached_property
    @abstractmethod
    def table(self) -> Tensor:
        """(N, causes): all published values, in their order."""

    @abstractmethod
    def is_test(self, number: Tensor) -> Tensor:
        """Which of the published pictures are for testing."""

    @abstractmethod
    def placed(self, row: Tensor) -> dict[str | int, Tensor]:
        """Rows of the table as values of the causes."""

    @cached_property
    def rows(self) -> Tensor:
        """Those of the table that the split leaves."""
        number = torch.arange(len(self.table))
        test = self.is_test(number)
        keep = {"all": test | ~test, "train": ~test, "test": test}[self.split or "all"]
        return self.table[keep]

    def everything(self, rng: Generator | None = None) -> Tensor:
        """The factors of every published picture of the split, in order; `rng` draws the noise, where there is some."""
        if self.noise and rng is None:
            raise ValueError(f"Effects in this {type(self).__name__} have noise: pass rng=torch.Generator().")
        return self.scm.sample(len(self.rows), do=self.placed(self.rows), rng=rng or Generator()).float()

    def draw(self, n: int, *, rng: Generator, do: Do | None = None) -> Tensor:
        if self.split is None:
            return super().draw(n, rng=rng, do=do)
        chosen = self.rows[torch.randint(len(self.rows), (n,), generator=rng)]
        v = self.scm.sample(n, do=self.placed(chosen), rng=rng).float()
        return self.counterfactual(v, do) if do else v

    def labels(self, v: Tensor) -> Tensor:
        return v.trunc() if self.truncated else v

    def labelled(self, **options: Any) -> Labelled:
        view = super().labelled(**options)
        return replace(view, label=lambda ticket: view.label(ticket).trunc()) if self.truncated else view

    def checked(self, v: Tensor) -> Tensor:
        """Factor values that can be drawn."""
        if v.ndim != 2 or v.shape[1] != len(self.factors) or not torch.isfinite(v).all():
            names = ", ".join(factor.name for factor in self.factors)
            raise ValueError(
                f"{type(self).__name__} needs rows of {len(self.factors)} finite values ({names}), got shape "
                f"{tuple(v.shape)}."
            )
        return v.detach().to("cpu", torch.float32)
