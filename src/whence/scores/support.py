"""The n-dimensional support of observations in d dimensions, streamed: nothing of size N x d is ever copied."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Generator, Tensor

from whence.views import as_tensor

CHUNK = 2**22  #: numbers in a chunk of rows
DENSE = 1024  #: up to this many dimensions the whole covariance is kept; beyond, a sketch of it

#: Rows of one environment: an array, chunks of rows, or a function that gives them anew each time it is called.
Source = Tensor | np.ndarray | Iterable[Any] | Callable[[], Iterable[Any]]


class Moments(NamedTuple):
    """In float64."""

    mean: Tensor  #: (d,)
    cov: Tensor  #: (d, d)
    rows: int


class Spectrum(NamedTuple):
    """Why the support has n dimensions."""

    eigenvalues: Tensor  #: of the pooled covariance, from the largest; the leading ones only, for many dimensions
    gap: float  #: how many times the n-th eigenvalue exceeds the next, or the numerical floor if there is none above it
    n: int
    residual: float = 0.0  #: of the eigenvectors, relative to the largest eigenvalue: 0 where they are exact

    def __str__(self) -> str:
        return f"{self.n} dimensions; eigenvalue {self.n} is {self.gap:.3g} times the next"


def chunks(source: Source) -> Iterator[Tensor]:
    """Rows of a source, a bounded number at a time, in the dtype they have."""
    pieces = [source] if isinstance(source, Tensor | np.ndarray) else source() if callable(source) else source
    for piece in pieces:
        x = as_tensor(piece)
        if x.ndim != 2:
            raise ValueError(f"Rows have shape (N, d), got {tuple(x.shape)}. Flatten each observation: x.flatten(1).")
        yield from (x if x.is_floating_point() else x.float()).split(max(1, CHUNK // max(x.shape[1], 1)))


def deviations(sources: Sequence[Source], where: str = "") -> Iterator[tuple[Tensor, Tensor]]:
    """Chunks of all rows less the mean of the first chunk, so that a large mean costs no digits, and that mean.

    Rows that are not finite are counted to the end and then refused.
    """
    origin: Tensor | None = None
    rows = bad = 0
    for source in sources:
        for x in chunks(source):
            if not torch.isfinite(x.sum()):
                bad += int((~torch.isfinite(x)).any(1).sum())
            rows += len(x)
            if len(x):
                origin = x.double().mean(0).to(x.dtype) if origin is None else origin
                yield origin.double(), x - origin
    if bad:
        raise ValueError(
            f"Observations{where and ' ' + where} must be finite, got NaN or infinity in {bad} of {rows} rows. "
            "Drop or impute them."
        )
    if origin is None:
        raise ValueError(f"There are no rows{where and ' ' + where}. Give at least two.")


def accumulate(sources: Sequence[Source], where: str = "") -> Moments:
    """Mean and covariance (divided by N) of all rows together, in one pass, in float64."""
    sums: tuple[Tensor, Tensor, Tensor] | None = None
    rows = 0
    for origin, y in deviations(sources, where):
        y = y.double()
        total, square = y.sum(0), y.T @ y
        sums = (origin, total, square) if sums is None else (origin, sums[1] + total, sums[2] + square)
        rows += len(y)
    assert sums is not None
    origin, total, square = sums
    shift = total / rows
    return Moments(origin + shift, square / rows - torch.outer(shift, shift), rows)


@dataclass(frozen=True, kw_only=True)
class Support:
    r"""The affine subspace :math:`m + \operatorname{span} B` that observations vary in, with orthonormal B."""

    mean: Tensor  #: (d,)
    basis: Tensor  #: (d, n), columns from the largest variance to the smallest
    spectrum: Spectrum

    @property
    def n(self) -> int:
        return self.basis.shape[1]

    @property
    def d(self) -> int:
        return self.basis.shape[0]

    @classmethod
    def find(cls, samples: Sequence[Source], n: int | None = None, *, seed: int = 0) -> Support:
        """The support of all environments together, of n dimensions or as many as the spectrum shows.

        Each sample is an array, chunks of rows, or a function that gives the chunks anew. Up to 1,024 observed
        dimensions the pooled covariance is exact and the data are read once; beyond, block subspace iteration reads
        them a few times (Halko, Martinsson and Tropp 2011). Without n: the numerical rank, where it is less than the
        number of columns that vary; for noisy data the largest ratio of neighbouring eigenvalues, if it exceeds the
        ratios of the largest to the smallest both above it and below it, as a floor of noise looks; else all of them.
        """
        for e, source in enumerate(samples):
            if isinstance(source, Iterator):
                raise TypeError(
                    f"Sample {e} can be read only once ({type(source).__name__}), and is needed again to be projected. "
                    "Pass a list of chunks, or a function that returns them anew."
                )
        first = next((x for source in samples for x in chunks(source)), None)
        if first is None:
            raise ValueError("There are no rows. Give at least two.")
        d, eps = first.shape[1], torch.finfo(first.dtype).eps
        if n is not None and not 1 <= n <= d:
            raise ValueError(
                f"A support of n = {n} dimensions needs at least as many observed ones, got d = {d}. "
                "A mixing of n causes into fewer observations cannot be undone: give more columns, or a smaller n."
            )
        if d <= DENSE:
            mean, cov, rows = accumulate(samples)
            value, vector = torch.linalg.eigh(cov)
            value, vector, residual = value.flip(0), vector.flip(1), 0.0
            varying = int((cov.diagonal() > 0).sum())
        else:
            mean, value, vector, residual, varying, rows = leading(samples, d, n or 64, seed)
        value = value.clamp_min(0)
        floor = float(value[0]) * max(torch.finfo(torch.float64).eps * d, (8 * eps) ** 2)
        rank = int((value > floor).sum())
        if rank < (n or 1):
            raise ValueError(
                f"A support of n = {n or 1} dimensions needs that many directions that vary, got {rank} in {rows} rows "
                f"of {d} columns. Give more rows, or a smaller n."
            )
        if n is None:
            n = count(value[:rank], exact=rank < min(varying, len(value)), whole=len(value) == d)
        below = float(value[n]) if n < len(value) else 0.0
        spectrum = Spectrum(value, float(value[n - 1]) / max(below, floor), n, residual)
        return cls(mean=mean, basis=upright(vector[:, :n]), spectrum=spectrum)

    def project(self, x: Source) -> Tensor:
        """(N, d) -> (N, n), in the dtype of the rows; sources of any kind, chunk by chunk."""
        return torch.cat([self.coordinates(part) for part in chunks(x)])

    def coordinates(self, x: Tensor) -> Tensor:
        if x.shape[-1] != self.d:
            raise ValueError(f"This support is of observations of {self.d} values, got {x.shape[-1]}.")
        return (x - self.mean.to(x)) @ self.basis.to(x)

    def lift(self, u: Tensor) -> Tensor:
        """(N, n) -> (N, d): the observations at these coordinates."""
        return u @ self.basis.T.to(u) + self.mean.to(u)

    def gradient(self, s: Tensor) -> Tensor:
        """A gradient with respect to observations, (..., d), as one with respect to coordinates, (..., n)."""
        return s @ self.basis.to(s)


def count(value: Tensor, *, exact: bool, whole: bool) -> int:
    """How many of the eigenvalues, from the largest, are signal."""
    if exact:
        return len(value)
    gaps = value[:-1] / value[1:]
    floors = [i for i in range(1, len(value) - 1) if gaps[i - 1] > max(value[0] / value[i - 1], value[i] / value[-1])]
    if floors:
        return max(floors, key=lambda i: float(gaps[i - 1]))
    if whole:
        return len(value)
    raise ValueError(
        f"The leading {len(value)} eigenvalues of the covariance show no gap, so the number of dimensions cannot be "
        "read off. Pass n."
    )


def upright(vector: Tensor) -> Tensor:
    """Each column's largest entry is positive, so that a basis does not depend on the solver's signs."""
    largest = vector.gather(0, vector.abs().argmax(0, keepdim=True))
    return vector * torch.where(largest < 0, -1.0, 1.0)


def leading(
    sources: Sequence[Source], d: int, wanted: int, seed: int, passes: int = 12, tolerance: float = 1e-6
) -> Leading:
    """Mean, leading eigenvalues and eigenvectors of the covariance, their residual, columns that vary, rows.

    Block subspace iteration: a pass multiplies an orthonormal (d, k) block by the covariance of all rows. Products of
    float32 rows are float32, sums over chunks and all that follows float64. It ends when the wanted directions stand
    still, or when rounding lets them stand no stiller.
    """
    k = min(2 * wanted + 8, d)
    block = torch.linalg.qr(torch.randn(d, k, generator=Generator().manual_seed(seed), dtype=torch.float64)).Q
    residual = math.inf
    for _ in range(passes):
        rows, total, square, mean = 0, *torch.zeros(3, d, dtype=torch.float64)
        image, small = torch.zeros(d, k, dtype=torch.float64), torch.zeros(k, k, dtype=torch.float64)
        for origin, y in deviations(sources):
            mean = origin
            u = y @ block.to(y)
            total += y.sum(0)
            square += y.square().sum(0)
            image += y.T @ u
            small += u.double().T @ u.double()
            rows += len(y)
        shift = total / rows
        image = image / rows - torch.outer(shift, shift @ block)
        small = small / rows - torch.outer(shift @ block, shift @ block)
        value, turn = (a.flip(-1) for a in torch.linalg.eigh(small))
        vector = block @ turn
        off = (image @ turn - vector * value).norm(dim=0)[:wanted]
        before, residual = residual, float(off.max() / value[0].clamp_min(1e-300))
        if residual <= tolerance or (residual < 1e-3 and residual > before / 2):
            break
        block = torch.linalg.qr(image).Q
    return Leading(mean + shift, value, vector, residual, int((square > 0).sum()), rows)


class Leading(NamedTuple):
    mean: Tensor
    value: Tensor
    vector: Tensor
    residual: float
    varying: int
    rows: int
