"""Rows of environments, to be read as often as a method needs them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from torch import Generator, Tensor

from whence.descend import Run, mix
from whence.views import Environments


def sources(data: Environments, examples: int, run: Run) -> list[Callable[[], Iterator[Tensor]]]:
    """For each environment, the observational one first, a call that reads up to `examples` rows of it in chunks; the
    same ones each time, so that they can be read to find a support and again to be projected, and by a resumed run."""

    def rows(e: int) -> Iterator[Tensor]:
        return data.rows(e, examples, Generator().manual_seed(mix(run.seed, f"environment {e}")))

    return [partial(rows, e) for e in range(1 + len(data.told))]


def flat(chunks: Callable[[], Iterator[Tensor]]) -> Callable[[], Iterator[Tensor]]:
    """The same, with observations as rows of numbers."""
    return lambda: (part.flatten(1) for part in chunks())
