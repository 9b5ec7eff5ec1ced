"""Rankings: metrics of several models at once, which are asked how far the others agree with each. No truth is used."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from whence import values
from whence.evidence import Evidence, Reference
from whence.metrics.arrays import Codes
from whence.metrics.metric import Part, Result, shifted
from whence.metrics.probe import Probe


class Ranking(ABC):
    """A frozen dataclass of the settings of a metric that compares models with each other. The formula is a pure
    function beside it.

    It gives each model one number, higher the more the others agree with it.
    """

    parts: ClassVar[tuple[Part, ...]] = (Part(""),)
    asks: ClassVar[tuple[type, ...]] = ()  #: capabilities every representation must have
    resamples: ClassVar[bool] = True  #: measured on pools alone, so that their rows can be drawn again; if not, anew
    reference: ClassVar[Reference]
    evidence: ClassVar[tuple[Evidence, ...]]

    @abstractmethod
    def measure(self, probes: Sequence[Probe]) -> Sequence[float]:
        """One number for each of the probes, whose pools hold the same observations."""

    @classmethod
    def names(cls) -> tuple[str, ...]:
        return (values.name_of(cls),)

    def __call__(self, probes: Sequence[Probe], *, chance: bool = True, bootstrap: int = 0) -> tuple[Result, ...]:
        """A result for each probe: the value; what the same codes give when each model's are dealt to other
        observations; and a 95 % interval from `bootstrap` draws of the rows."""
        lacking = next(
            (
                f"needs {kind.__name__}, which {type(probe.representation).__name__} is not"
                for kind in self.asks
                for probe in probes
                if not isinstance(probe.representation, kind)
            ),
            "",
        )
        value: Sequence[float] | None = None
        by_chance: Sequence[float] | None = None
        spread: np.ndarray | None = None
        if not lacking:
            value = self.measure(probes)
            by_chance = self.measure(dealt(probes)) if chance else None
            again = [probe.redrawn if self.resamples else probe.renewed for probe in probes]
            if bootstrap:
                spread = np.array([self.measure([draw(b) for draw in again]) for b in range(bootstrap)])
        return tuple(
            Result(
                metric=values.name_of(type(self)),
                value=None if value is None else value[i],
                chance=None if by_chance is None else by_chance[i],
                best=self.parts[0].best,
                settings=values.describe(self),
                note=lacking,
                interval=None if spread is None or value is None else shifted(value[i], spread[:, i]),
            )
            for i in range(len(probes))
        )


def dealt(probes: Sequence[Probe]) -> list[Probe]:
    """The same codes, those of each model dealt at random in a way of their own."""
    found = []
    for i, probe in enumerate(probes):
        z, v = probe.pool
        rows = probe.rng(f"deal {i}").permutation(len(z))
        found.append(probe.like(Codes(z[rows], v), shuffled=True, rows=rows))
    return found
