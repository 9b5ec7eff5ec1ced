"""Concepts set one by one: strips of pictures, beside the world's own counterfactuals where it has them."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Generator, Tensor

from whence import runs
from whence.metrics.probe import Probe
from whence.report.drawing import sheet
from whence.representation import HasConcepts, Intervenes, Representation
from whence.runs import Fitted
from whence.worlds import World

FRAMES = 7


class Panel(NamedTuple):
    """One concept over its range."""

    name: str
    at: list[float]  #: (F,) values, in the label's units
    pictures: Tensor  #: (F, *shape) what the model says
    truth: Tensor | None  #: (F, *shape) what the world says
    error: float | None  #: mean squared difference of the two


def panels(representation: Representation, probe: Probe, frames: int = FRAMES) -> tuple[Tensor, list[Panel]] | None:
    """The first observation that the report shows, and a panel for every concept; None if nothing can be set."""
    if not isinstance(representation, Intervenes) or not isinstance(representation, HasConcepts):
        return None
    r: Any = representation
    if not r.spec.labels:
        return None
    world, rng = probe.world, probe.generator("reconstruct")
    v = world.draw(1, rng=rng)
    nuisance = int(torch.randint(2**62, (1,), generator=rng))
    x = world.observe(v, Generator().manual_seed(nuisance))
    names = [factor.name for factor in world.factors]
    found = []
    for label in r.spec.labels:
        at = torch.linspace(label.low, label.high, frames)
        pictures = r.grid(x, label.name, at)[0]
        truth = None
        if world.scm is not None and label.name in names:
            after = [world.counterfactual(v, {label.name: value}) for value in at.tolist()]
            truth = torch.cat([world.observe(one, Generator().manual_seed(nuisance)) for one in after])
        error = None if truth is None else float((pictures - truth).square().mean())
        found.append(Panel(label.name, at.tolist(), pictures, truth, error))
    return x, found


def settings_of(words: Sequence[str]) -> dict[str, float | tuple[float, float]]:
    """ "light=0.4..1.6" and "light=90" as values.

    >>> settings_of(["light=0.4..1.6", "pendulum=-20"])
    {'light': (0.4, 1.6), 'pendulum': -20.0}
    """
    found: dict[str, float | tuple[float, float]] = {}
    for word in words:
        name, _, text = word.partition("=")
        low, dots, high = text.partition("..")
        try:
            found[name] = (float(low), float(high)) if dots else float(text)
        except ValueError:
            raise ValueError(
                f"A concept is set to a number or a range, such as light=90 or light=60..147, got {word!r}."
            ) from None
    if sum(isinstance(value, tuple) for value in found.values()) > 1:
        raise ValueError(f"One concept runs over a range and the others have one value, got {' '.join(words)}.")
    return found


def strip(
    fitted: Fitted,
    settings: Mapping[str, float | tuple[float, float]],
    *,
    of: Path | None = None,
    frames: int = 9,
    seed: int = 0,
) -> bytes:
    """A PNG: an observation, and what it would have been under each value of the range."""
    r: Any = fitted.representation
    if not isinstance(fitted.representation, Intervenes):
        raise ValueError(
            f"{type(fitted.method).__name__} has no interventions. Fit a causal method, such as "
            "anchored_vae or causal_vae."
        )
    x = observation(of, r.spec.shape) if of is not None else drawn(runs.world_of(fitted.data), seed)
    width = max([frames if isinstance(value, tuple) else 1 for value in settings.values()])
    do = {
        name: torch.linspace(*value, width) if isinstance(value, tuple) else torch.full((width,), value)
        for name, value in settings.items()
    }
    pictures = r.do(x.expand(width, *x.shape[1:]), do)
    uri, _, _ = sheet(torch.cat([x, pictures])[None].numpy())
    return base64.b64decode(uri.partition(",")[2])


def drawn(world: World, seed: int) -> Tensor:
    rng = Generator().manual_seed(seed)
    return world.observe(world.draw(1, rng=rng), rng)


def observation(path: Path, shape: Sequence[int]) -> Tensor:
    """A picture from a file, (1, *shape), of the size and mode that the model has seen."""
    if not path.is_file():
        raise ValueError(f"There is no file {str(path)!r}.")
    if path.suffix == ".npy":
        x = torch.from_numpy(np.load(path, allow_pickle=False))
        x = x.float() / 255 if x.dtype == torch.uint8 else x.float()
        x = x if x.ndim == len(shape) + 1 else x[None]
    else:
        from PIL import Image

        try:
            with Image.open(path) as opened:
                picture = opened.convert("L" if shape[0] == 1 else "RGB")
        except OSError as error:
            raise ValueError(f"{str(path)!r} is not a picture that can be read: {error}.") from error
        a = np.asarray(picture, dtype=np.float32) / 255
        x = torch.from_numpy(a[None, None] if a.ndim == 2 else a.transpose(2, 0, 1)[None].copy())
    if tuple(x.shape[1:]) != tuple(shape):
        raise ValueError(
            f"The model has seen pictures of shape {tuple(shape)} (channels, height, width), and {path.name} has "
            f"{tuple(x.shape[1:])}. Scale it to {shape[-1]} x {shape[-2]} pixels."
        )
    return x[:1]
