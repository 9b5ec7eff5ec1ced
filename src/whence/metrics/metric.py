"""Metric and Results."""

from __future__ import annotations

import csv
import io
import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np

from whence import values
from whence.evidence import Evidence, Reference
from whence.metrics.arrays import Unmeasurable
from whence.metrics.probe import Probe
from whence.worlds import World


class Part(NamedTuple):
    """One of the numbers a metric gives."""

    name: str  #: "" if it is the only one
    best: float = 1.0
    higher_is_better: bool = True


class Metric(ABC):
    """A frozen dataclass of a metric's settings. The formula is a pure function beside it.

    A metric that gives several numbers lists them in `parts` and returns them in that order; each becomes a result.
    """

    parts: ClassVar[tuple[Part, ...]] = (Part(""),)
    asks: ClassVar[tuple[type, ...]] = ()  #: capabilities a representation must have
    compares: ClassVar[bool] = True  #: with the truth; if not, there is no chance level and no ceiling
    saturates: ClassVar[bool] = (
        False  #: on a sample even the factors themselves may miss the best: show what they reach
    )
    resamples: bool = True  #: measured on the pool alone, so that its rows can be drawn again
    redraws: ClassVar[bool] = False  #: if not: whether it is quick enough to be measured again on new observations
    reference: ClassVar[Reference]
    evidence: ClassVar[tuple[Evidence, ...]]

    @abstractmethod
    def measure(self, probe: Probe) -> float | Sequence[float]:
        """The value on one probe, or the values of all parts. Raises `Unmeasurable` if there is none."""

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """Of its results: "mig", or "dci.completeness" for one of several parts."""
        name = values.name_of(cls)
        return tuple(f"{name}.{part.name}" if part.name else name for part in cls.parts)

    def suits(self, world: World) -> bool:
        """Whether the world has what the metric asks about; where not, `evaluate` leaves it out unless asked for it."""
        return True

    def lacks(self, probe: Probe) -> str:
        """Why it cannot be measured on this probe; empty if it can."""
        lacking = [kind.__name__ for kind in self.asks if not isinstance(probe.representation, kind)]
        return f"needs {', '.join(lacking)}, which {type(probe.representation).__name__} is not" if lacking else ""

    def __call__(self, probe: Probe, *, chance: bool = True, bootstrap: int = 0) -> tuple[Result, ...]:
        """A result for each part: the value; what the same codes give when dealt to other observations; what the
        factors themselves give, for a metric that saturates; and a 95 % interval from `bootstrap` draws of the rows, or
        of new observations where rows do not decide."""
        note = self.lacks(probe)
        measured: list[float | None] = [None] * len(self.parts)
        if not note:
            try:
                measured = [*self.numbers(probe)]
            except Unmeasurable as why:
                note = str(why)
        there = not note
        by_chance = self.tried(probe.chance) if there and chance and self.compares else None
        ceiling = self.tried(probe.truth) if there and self.compares and self.saturates else None
        spread = self.intervals(probe, bootstrap) if there and bootstrap else None
        settings = values.describe(self)
        return tuple(
            Result(
                metric=name,
                value=measured[i],
                chance=None if by_chance is None else by_chance[i],
                best=part.best,
                higher_is_better=part.higher_is_better,
                settings=settings,
                note=note,
                ceiling=None if ceiling is None else ceiling[i],
                interval=None if spread is None else shifted(measured[i], spread[:, i]),
            )
            for i, (name, part) in enumerate(zip(self.names(), self.parts, strict=True))
        )

    def numbers(self, probe: Probe) -> tuple[float, ...]:
        """One finite number for each part."""
        given = self.measure(probe)
        numbers = tuple(map(float, given)) if isinstance(given, Sequence) else (float(given),)
        if len(numbers) != len(self.parts) or not all(map(math.isfinite, numbers)):
            raise ArithmeticError(
                f"{values.name_of(type(self))} came out as {given}: a metric gives {len(self.parts)} finite number(s), "
                "or raises Unmeasurable and says why there is none."
            )
        return numbers

    def tried(self, probe: Probe) -> tuple[float, ...] | None:
        """The numbers on codes other than the ones asked about; nothing if there are none."""
        try:
            return self.numbers(probe)
        except Unmeasurable:
            return None

    def intervals(self, probe: Probe, draws: int) -> np.ndarray | None:
        """(draws, parts): the numbers on redrawn rows, or observations; None if most draws could not be measured."""
        if not self.resamples and (not self.redraws or probe.origin is not None):
            return None
        again = probe.redrawn if self.resamples else probe.renewed
        found = [n for b in range(draws) if (n := self.tried(again(b))) is not None]
        return np.array(found) if len(found) > draws / 2 else None


def shifted(value: float | None, draws: np.ndarray) -> tuple[float, float] | None:
    """A 95 % interval around a value: the middle of the redrawn values, moved so that their mean is the value.

    Rows drawn twice bias every estimate of dependence upwards; the move takes that out.
    """
    if value is None:
        return None
    low, high = np.quantile(draws, [0.025, 0.975]) - draws.mean() + value
    return float(low), float(high)


@dataclass(frozen=True)
class Result:
    """One number with those that give it meaning."""

    metric: str  #: "dci.completeness" is a part of the metric dci
    value: float | None  #: None: it could not be measured, and `note` says why
    chance: float | None  #: the value of the same codes dealt at random
    best: float
    higher_is_better: bool = True
    settings: dict[str, Any] = field(default_factory=dict)
    note: str = ""
    ceiling: float | None = None  #: what the factors themselves reach on this sample, if that may be less than the best
    interval: tuple[float, float] | None = None  #: 95 %, from redrawn rows, if asked for

    def __str__(self) -> str:
        if self.value is None:
            return f"{self.metric}: not measured ({self.note})"
        interval = "" if self.interval is None else f" [{self.interval[0]:.3f}, {self.interval[1]:.3f}]"
        ceiling = "" if self.ceiling is None else f", the factors themselves {self.ceiling:.3f}"
        chance = "" if self.chance is None else f", chance {self.chance:.3f}"
        return f"{self.metric}: {self.value:.3f}{interval} (best {self.best:g}{ceiling}{chance})"


@dataclass(frozen=True)
class Results(Sequence[Result]):
    """What `evaluate` returns: results by name or position, and what the report draws."""

    results: tuple[Result, ...]
    world: Any = None  #: the world's description
    seed: int = 0
    samples: int = 0
    factors: tuple[str, ...] = ()
    mutual_information: list[list[float]] | None = None  #: (D, K), in nats, normalised by each factor's entropy
    kl: list[float] | None = None  #: each code's divergence from the prior, in nats

    def __getitem__(self, which: Any) -> Any:
        if isinstance(which, str):
            table = {result.metric: result for result in self.results}
            if which not in table:
                raise KeyError(values.unknown("metric", which, table))
            return table[which]
        return self.results[which]

    def __len__(self) -> int:
        return len(self.results)

    def __iter__(self) -> Iterator[Result]:
        return iter(self.results)

    def csv(self) -> str:
        out = io.StringIO()
        table = csv.writer(out, lineterminator="\n")
        table.writerow(["metric", "value", "low", "high", "chance", "ceiling", "best", "higher_is_better", "note"])
        for r in self.results:
            low, high = r.interval or (None, None)
            table.writerow([r.metric, r.value, low, high, r.chance, r.ceiling, r.best, r.higher_is_better, r.note])
        return out.getvalue()

    def __str__(self) -> str:
        return "\n".join(map(str, self.results))
