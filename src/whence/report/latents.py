"""Each latent of a causal representation of pictures: what it is, what moving it and setting it do, and where in a
picture interventions are seen."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Generator, Tensor

from whence.metrics.graphs import matched
from whence.metrics.probe import Probe
from whence.report import drawing
from whence.report.traversals import QUANTILES, first, sweep
from whence.representation import Decodes, HasConcepts, HasGraph, Intervenes, Representation
from whence.scores import SingleGaussian
from whence.views import Environments

FRAMES = 9
POINTS = 500  #: of a scatter
VECTORS, PICTURES = 20_000, 2_000  #: observations of each environment whose codes are compared
STEP = 0.05  #: of central differences, in standard deviations of a latent
HIDDEN = 1e-3  #: singular values of the decoder's Jacobian below this share of the largest move no pixel
PALE = 0.25  #: how much is left of a picture under a map
MARK = np.array([0.71, 0.27, 0.12], np.float32)  #: the colour of maps, that of marks on the page


class Latent(NamedTuple):
    """One latent, beside the true factor that is matched with it, where the truth is known."""

    number: int
    factor: str | None
    correlation: float | None  #: of the two, in absolute value
    z: np.ndarray | None  #: (N,)
    v: np.ndarray | None  #: (N,)
    at: np.ndarray  #: (F,) values that it takes
    moved: Tensor  #: (F, *shape) this number of the code is another
    done: Tensor | None  #: (F, *shape) it is set, and its effects follow


class Latents(NamedTuple):
    x: Tensor  #: the observation that is changed, (1, *shape)
    each: tuple[Latent, ...]
    maps: tuple[tuple[str, np.ndarray], ...]  #: of each environment, a picture (3, H, W)


def latents(representation: Representation, probe: Probe | None, view: Environments | None) -> Latents | None:
    """Nothing for representations that are not causal, have named concepts, or see no pictures."""
    r: Any = representation
    causal = isinstance(r, HasGraph) and isinstance(r, Intervenes) and isinstance(r, Decodes)
    if not causal or isinstance(r, HasConcepts) or not drawing.is_picture(r.spec.shape):
        return None
    codes = None if view is None else codes_of(representation, view)
    if probe is not None:
        x, z = first(probe)[:1], torch.from_numpy(np.asarray(probe.pool.z)).float()
    elif view is not None and codes is not None:
        x, z = next(view.rows(0, 1, Generator().manual_seed(0)))[:1], codes[0].float()
    else:
        return None
    low, high = torch.from_numpy(np.quantile(z.numpy(), QUANTILES, axis=0)).float()
    at, moved = sweep(r, r.encode(x)[0], list(range(r.dims)), low, high, FRAMES)
    back = r.decode(r.encode(x))  # of the observation itself, what the code does not hold would stay where it was
    partner, correlation = factors_of(probe)
    each = []
    for i in range(r.dims):
        k = partner.get(i)
        own = None if probe is None or k is None else (probe.pool.z[:POINTS, i], probe.pool.v[:POINTS, k])
        each.append(
            Latent(
                number=i,
                factor=None if probe is None or k is None else probe.world.factors[k].name,
                correlation=correlation.get(i),
                z=None if own is None else np.asarray(own[0], float),
                v=None if own is None else np.asarray(own[1], float),
                at=at[i].numpy(),
                moved=moved[i],
                done=r.do(back.expand(FRAMES, *x.shape[1:]), {i: lambda z, at=at[i]: at}),
            )
        )
    maps = () if view is None or codes is None else difference_maps(representation, x, view, codes)
    return Latents(x, tuple(each), maps)


def factors_of(probe: Probe | None) -> tuple[dict[int, int], dict[int, float]]:
    """Of each code the number of its true factor, and their correlation in absolute value."""
    if probe is None:
        return {}, {}
    z, v = np.asarray(probe.pool.z, float), np.asarray(probe.pool.v, float)
    partner = {int(code): k for k, code in enumerate(matched(z, v)) if code >= 0}
    return partner, {i: float(abs(np.corrcoef(z[:, i], v[:, k])[0, 1])) for i, k in partner.items()}


def codes_of(representation: Representation, view: Environments) -> list[Tensor]:
    """The codes of every environment, the observational one first, read in pieces."""
    n = PICTURES if drawing.is_picture(view.shape) else VECTORS
    rng = Generator().manual_seed(0)
    return [
        torch.cat([representation.encode(part) for part in view.rows(e, n, rng)]).double()
        for e in range(1 + len(view.told))
    ]


def score_differences(view: Environments, codes: list[Tensor], at: Tensor | None = None) -> Tensor | None:
    """(E, N, n): differences of scores of Gaussians at codes; None where there are no densities."""
    if any(told.kind == "do" for told in view.told):
        return None  # a value that is set has no score
    try:
        return SingleGaussian().fit(codes).differences(codes[0] if at is None else at.double())
    except ValueError:  # codes that do not vary in some environment
        return None


def difference_maps(
    representation: Representation, x: Tensor, view: Environments, codes: list[Tensor]
) -> tuple[tuple[str, np.ndarray], ...]:
    r"""Where a picture tells of an intervention: :math:`(J^+)^\top d(z)` for the decoder's Jacobian J and the score
    difference d of the codes, its length at each pixel, over the pale picture."""
    r: Any = representation
    z = r.encode(x)
    d = score_differences(view, codes, z)
    if d is None:
        return ()
    step = STEP * codes[0].std(0).to(z)
    ends = torch.cat([z + torch.diag(step), z - torch.diag(step)])
    ahead, behind = r.decode(ends).double().chunk(2)
    J = ((ahead - behind) / (2 * step.double()).view(-1, *[1] * (x.ndim - 1))).flatten(1)  # (n, pixels)
    along = d[:, 0] @ torch.linalg.pinv(J, rtol=HIDDEN).T  # (E, pixels)
    size = along.unflatten(1, x.shape[1:]).square().sum(1).sqrt().numpy()
    size = size / size.max((1, 2), keepdims=True).clip(1e-300)
    ground = 1 - PALE * (1 - x[0].mean(0, keepdim=True).numpy())
    colour = MARK[:, None, None]
    pictures = [(1 - own[None]) * ground + own[None] * colour for own in size**0.7]
    return tuple(zip(view.names, pictures, strict=True))
