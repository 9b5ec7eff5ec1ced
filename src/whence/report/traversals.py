"""What each code does: one observation, decoded again and again while a single code moves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from whence.metrics.probe import Probe
from whence.representation import Decodes, HasPosterior, Representation
from whence.worlds import World

Array = np.ndarray

ROWS = 12  #: codes shown: no VAE of the literature uses more
FRAMES = 11  #: an odd number, so that the middle of the range is one of them
RANGE = 2.0  #: standard deviations of the prior, to either side: 95 % of it
QUANTILES = (0.025, 0.975)  #: the same share of the data, for codes without a prior
CANDIDATES = 64  #: codes whose effect is measured when there are very many
SAMPLES = 1024
LARGEST = 1 << 22  #: values in all rows of a page


@dataclass(frozen=True)
class Traversals:
    """Decoded observations, one row for each code, the most active code first."""

    codes: tuple[int, ...]  #: R of them
    dims: int  #: how many codes there are in all
    at: Array  #: (R, F) values that the code takes
    x: Array  #: (R, F, *shape)
    start: Array | None  #: (R,) the codes of the observation that the rows start from; None: the prior's mean
    kl: Array | None  #: (dims,) divergence from the prior in nats
    prior: bool  #: the range is the prior's, not the data's


def traversals(
    representation: Representation,
    probe: Probe | None,
    *,
    kl: Any = None,
    rows: int = ROWS,
    frames: int = FRAMES,
) -> Traversals | None:
    """Rows for the codes that do most, from the probe's first observation or else from the prior's mean.

    None if nothing decodes, or if neither a prior nor observations say where a code lives.
    """
    posterior = isinstance(representation, HasPosterior)
    if not isinstance(representation, Decodes) or (probe is None and not posterior):
        return None
    d = representation.dims
    z = None if probe is None else torch.from_numpy(probe.pool.z).float()
    if posterior:
        low, high = torch.full((d,), -RANGE), torch.full((d,), RANGE)
        kl = probe.kl() if kl is None and probe is not None else kl
    else:
        assert z is not None, "there is a probe"
        low, high = torch.from_numpy(np.quantile(z.numpy(), QUANTILES, axis=0)).float()
    start = torch.zeros(d) if probe is None else representation.encode(first(probe)[:1])[0]
    size = int(np.prod(representation.spec.shape))
    rows = max(1, min(rows, LARGEST // (frames * size)))
    if kl is not None:
        kl = np.asarray(kl, dtype=float)
        order = np.argsort(-kl, kind="stable")[:rows].tolist()
    else:
        candidates = list(range(d)) if z is None else torch.argsort(-z.std(0), stable=True)[:CANDIDATES].tolist()
        ends = sweep(representation, start, candidates, low, high, 2)[1]
        effect = (ends[:, 1] - ends[:, 0]).flatten(1).square().mean(1)
        order = [candidates[i] for i in torch.argsort(-effect, stable=True)[:rows].tolist()]
    at, x = sweep(representation, start, order, low, high, frames)
    return Traversals(
        codes=tuple(order),
        dims=d,
        at=at.numpy(),
        x=x.numpy(),
        start=None if probe is None else start[order].numpy(),
        kl=kl,
        prior=posterior,
    )


def sweep(
    representation: Any, start: Tensor, codes: list[int], low: Tensor, high: Tensor, frames: int
) -> tuple[Tensor, Tensor]:
    """(R, F) values and (R, F, *shape) decoded observations: all codes as in `start` but one."""
    at = torch.stack([torch.linspace(float(low[j]), float(high[j]), frames) for j in codes])
    z = start.repeat(len(codes), frames, 1)
    for row, j in enumerate(codes):
        z[row, :, j] = at[row]
    return at, representation.decode(z.flatten(0, 1)).unflatten(0, (len(codes), frames))


def probe_of(representation: Representation, world: World) -> Probe:
    """Enough observations to see what codes do."""
    return Probe(representation, world, seed=0, samples=SAMPLES)


def first(probe: Probe, n: int = 1) -> Tensor:
    """The observations that a report pictures: those the probe reconstructs."""
    rng = probe.generator("reconstruct")
    return probe.world.observe(probe.world.draw(n, rng=rng), rng)
