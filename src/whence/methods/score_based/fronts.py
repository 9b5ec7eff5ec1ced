"""The first stage of GSCALE: observations to a code of few numbers, and back, without a thought of causes."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch import Generator, Tensor, nn
from torch.nn.functional import avg_pool2d, interpolate

from whence.descend import ALL, Adam, Cosine, Recipe, Run, Terms, Turn, descend
from whence.views import Single, View

Source = Callable[[], Iterable[Tensor]]  #: chunks of rows of one environment, the same each time

BLURS = (0.12, 0.18, 0.25, 0.35, 0.5)  #: widths of blurs, relative to a picture
EDGE = 1e-6  #: how close to 1 a tanh is taken to come, in single precision


class Code(nn.Module, ABC):
    """(B, *shape) -> (B, dims) and back; dims may be padded with zeros beyond `rank`."""

    dims: int

    @abstractmethod
    def encode(self, x: Tensor) -> Tensor: ...

    @abstractmethod
    def decode(self, y: Tensor) -> Tensor:
        """Differentiable."""

    @property
    def rank(self) -> int:
        return self.dims

    def starts(self, x: Iterable[Tensor], n: int) -> list[Tensor]:
        """Coordinates, n or a few more, that a reduction to n numbers might begin at, one row an observation."""
        return []


class Front(ABC):
    """A frozen dataclass: how observations are coded."""

    linear: ClassVar[bool] = False  #: the code is a linear map of the latents, as many numbers as there are latents
    chance: ClassVar[bool] = False  #: another attempt can end otherwise

    @abstractmethod
    def build(self, shape: tuple[int, ...], latents: int) -> Code:
        """Without having seen data."""

    @abstractmethod
    def learn(self, code: Any, environments: Sequence[Source], run: Run, attempt: int = 1) -> float:
        """Learn from all environments; the share of the variance of observations that is lost."""


# --- tanh of a linear map --------------------------------------------------------------------------------------------


class TanhCode(Code):
    r""":math:`x = \tanh(B u)`."""

    def __init__(self, d: int, n: int) -> None:
        super().__init__()
        self.dims = n
        self.register_buffer("basis", torch.eye(d, n))

    basis: Tensor  #: B, (d, n)

    def encode(self, x: Tensor) -> Tensor:
        """Weighted least squares in atanh: a saturated coordinate has lost its digits and hardly counts."""
        x, B = x.double().clamp(EDGE - 1, 1 - EDGE), self.basis.double()
        w = (1 - x.square()).square()
        square = torch.einsum("di,bd,dj->bij", B, w, B)
        return torch.linalg.solve(square, (w * torch.atanh(x)) @ B).to(self.basis.dtype)

    def decode(self, y: Tensor) -> Tensor:
        return torch.tanh(y @ self.basis.T.to(y))


@dataclass(frozen=True, kw_only=True)
class TanhLinear(Front):
    r"""Observations are known to be :math:`x = \tanh(G z)`: only G is unknown.

    atanh(x) lies in a subspace of n dimensions, which is found from the half of the rows that are least saturated.
    """

    linear: ClassVar[bool] = True

    def build(self, shape: tuple[int, ...], latents: int) -> TanhCode:
        d = math.prod(shape)
        if d < latents or len(shape) != 1:
            raise ValueError(f"TanhLinear takes vectors of at least {latents} numbers, got shape {tuple(shape)}.")
        return TanhCode(d, latents)

    def learn(self, code: TanhCode, environments: Sequence[Source], run: Run, attempt: int = 1) -> float:
        x = torch.cat([part for source in environments for part in source()]).double()
        if float(x.abs().max()) > 1 + EDGE:
            raise ValueError(
                f"TanhLinear needs observations between -1 and 1, got {float(x.abs().max()):.3g}. For other mixings "
                "use Principal()."
            )
        n = code.dims
        clear = x[x.abs().amax(1).argsort()[: max(len(x) // 2, min(len(x), 4 * n))]]
        t = torch.atanh(clear.clamp(EDGE - 1, 1 - EDGE))
        value, vector = torch.linalg.eigh(t.T @ t / len(t))
        code.basis = vector[:, -n:].float()
        u = torch.cat([code.encode(part) for part in environments[0]()]).double()
        L = torch.linalg.cholesky((u - u.mean(0)).T @ (u - u.mean(0)) / len(u))
        code.basis = (vector[:, -n:] @ L).float()
        return float(1 - value[-n:].sum() / value.sum())


# --- principal components --------------------------------------------------------------------------------------------


class PrincipalCode(Code):
    r""":math:`y = B^\top (x - m) / c`, with orthonormal B, some of whose columns may be zero."""

    def __init__(self, shape: tuple[int, ...], dims: int) -> None:
        super().__init__()
        self.shape, self.dims = shape, dims
        d = math.prod(shape)
        self.register_buffer("mean", torch.zeros(d))
        self.register_buffer("basis", torch.eye(d, dims))
        self.register_buffer("scale", torch.ones(()))

    mean: Tensor
    basis: Tensor
    scale: Tensor  #: c: the code has unit variance in all

    def encode(self, x: Tensor) -> Tensor:
        return (x.flatten(1) - self.mean) @ self.basis / self.scale

    def decode(self, y: Tensor) -> Tensor:
        return (self.mean.to(y) + self.scale.to(y) * y @ self.basis.T.to(y)).unflatten(1, self.shape)

    @property
    def rank(self) -> int:
        return int((self.basis != 0).any(0).sum())

    def starts(self, x: Iterable[Tensor], n: int) -> list[Tensor]:
        y = torch.cat([self.encode(part) for part in x])[:, : min(n + 2, self.rank)]
        return [(y - y.mean(0)) / y.std(0)]


@dataclass(frozen=True, kw_only=True)
class Principal(Front):
    """The leading principal components of all environments: for vectors whose mixing is not known."""

    dims: int = 16  #: components, at most

    def build(self, shape: tuple[int, ...], latents: int) -> PrincipalCode:
        return PrincipalCode(shape, max(latents, min(self.dims, math.prod(shape))))

    def learn(self, code: PrincipalCode, environments: Sequence[Source], run: Run, attempt: int = 1) -> float:
        from whence.scores import Support

        sources = [lambda source=source: (part.flatten(1) for part in source()) for source in environments]
        wanted = min(code.dims, sum(len(part) for part in sources[0]()))
        try:
            support = Support.find(sources, wanted)
        except ValueError:  # it varies in fewer directions
            support = Support.find(sources)
        n = min(support.n, wanted)
        value = support.spectrum.eigenvalues
        code.mean = support.mean.float()
        code.basis = torch.zeros_like(code.basis)
        code.basis[:, :n] = support.basis[:, :n].float()
        code.scale = value[:n].sum().sqrt().float()
        return float(1 - value[:n].sum() / value.sum())


# --- convolutional ---------------------------------------------------------------------------------------------------


class ConvCode(Code):
    """Pictures are pooled to `side` pixels and coded by strided convolutions; decoded pictures are enlarged again."""

    def __init__(self, shape: tuple[int, ...], dims: int, side: int, width: int) -> None:
        super().__init__()
        c, h, _ = shape
        self.shape, self.dims, self.pool, w, s = shape, dims, h // side, width, side // 8
        self.to_code = nn.Sequential(
            nn.Conv2d(c, w, 4, 2, 1),
            nn.SiLU(),
            nn.Conv2d(w, 2 * w, 4, 2, 1),
            nn.SiLU(),
            nn.Conv2d(2 * w, 2 * w, 4, 2, 1),
            nn.SiLU(),
            nn.Flatten(),
            nn.Linear(2 * w * s * s, dims),
        )
        self.to_picture = nn.Sequential(
            nn.Linear(dims, 2 * w * s * s),
            nn.SiLU(),
            nn.Unflatten(1, (2 * w, s, s)),
            nn.ConvTranspose2d(2 * w, 2 * w, 4, 2, 1),
            nn.SiLU(),
            nn.ConvTranspose2d(2 * w, w, 4, 2, 1),
            nn.SiLU(),
            nn.ConvTranspose2d(w, c, 4, 2, 1),
        )
        self.register_buffer("middle", torch.zeros(c, side, side))
        self.register_buffer("mean", torch.zeros(dims))
        self.register_buffer("scale", torch.ones(()))

    middle: Tensor  #: the mean picture, which the networks see and make deviations from
    mean: Tensor
    scale: Tensor  #: the code has unit variance in all

    def small(self, x: Tensor) -> Tensor:
        return avg_pool2d(x, self.pool) if self.pool > 1 else x

    def starts(self, x: Iterable[Tensor], n: int) -> list[Tensor]:
        """Principal components of blurred pictures. Pictures of a thing that moves are all equally far apart as soon as
        they do not overlap; the wider they are blurred, the more a move is a move along a line."""
        small = torch.cat([self.small(piece) for part in x for piece in part.split(200)])
        small, side = small - small.mean(0), small.shape[-1]
        place, found = torch.arange(side, device=small.device), []
        for width in BLURS:
            g = torch.exp(-0.5 * ((place[:, None] - place) / (width * side)).square())
            b = torch.cat([(g @ part @ g).flatten(1) for part in small.split(1_000)])
            _, vector = torch.linalg.eigh((b.T @ b).double() / len(b))
            lead = b @ vector[:, -n - 2 :].flip(1).to(b)
            found.append(lead / lead.std(0))
        return found

    def encode(self, x: Tensor) -> Tensor:
        return (self.to_code(self.small(x) - self.middle) - self.mean) / self.scale

    def decode(self, y: Tensor) -> Tensor:
        x = (self.to_picture(y * self.scale + self.mean) + self.middle).clamp(0, 1)
        return interpolate(x, size=self.shape[1:], mode="bilinear", align_corners=False) if self.pool > 1 else x


@dataclass(frozen=True, kw_only=True)
class Pictures(View[Single]):
    """Pictures that are resident as uint8."""

    rows: Tensor

    def gather(self, ticket: Tensor, rng: Generator) -> Single:
        return Single(self.rows[ticket].to(torch.float32).div_(255))


@dataclass(frozen=True, kw_only=True)
class Convolutional(Front):
    """An autoencoder of pictures, trained on all environments by the squared error of pixels.

    The networks see and make deviations from the mean picture: small things on a white ground are never found by an
    output that is squashed to [0, 1] and begins at the ground's colour.
    """

    chance: ClassVar[bool] = True

    dims: int = 16  #: numbers of the code
    side: int = 16  #: pixels that pictures are pooled to; a power of two that divides theirs
    width: int = 16  #: channels of the first convolution; later ones have twice as many
    steps: float = 1.5  #: relative to the recipe of the method
    batch: int = 96  #: pictures a step
    lr: float = 6e-3  #: at the top of its one cycle

    def build(self, shape: tuple[int, ...], latents: int) -> ConvCode:
        if len(shape) != 3 or shape[1] != shape[2] or shape[1] % self.side or self.side % 8:
            raise ValueError(
                f"Convolutional takes square pictures whose side divides by {self.side}, itself a multiple of 8, got "
                f"shape {tuple(shape)}. Change side, or use Principal() for vectors."
            )
        return ConvCode(shape, self.dims, self.side, self.width)

    def learn(self, code: ConvCode, environments: Sequence[Source], run: Run, attempt: int = 1) -> float:
        held = bytearray()  # one growing block: many small tensors between large ones would cost ten times the memory
        for source in environments:
            for part in source():
                held += small_bytes(code, part).numpy().tobytes()
        rows = torch.frombuffer(held, dtype=torch.uint8).view(-1, *code.middle.shape)
        steps = max(1, round(self.steps * run.recipe.steps))
        recipe = Recipe(
            steps=steps,
            batch=min(self.batch, len(rows)),
            optimiser=Adam(lr=self.lr, weight_decay=1e-4),
            schedule=Cosine(warmup=steps // 10),
            every=min(100, steps),
        )

        some = rows[torch.linspace(0, len(rows) - 1, min(4_000, len(rows))).long()].float().div_(255)
        code.middle = some.mean(0).to(run.device)
        variance = float((some - some.mean(0)).square().flatten(1).sum(1).mean())

        def turns(nets: Any, batch: Single, t: int) -> Iterator[Turn]:
            x = batch.x - nets.middle
            error = (nets.to_picture(nets.to_code(x)) - x).square()
            yield Turn(ALL, Terms(reconstruction=error.flatten(1).sum(1).mean() / variance))

        view = Pictures(
            shape=tuple(rows.shape[1:]),
            draw_=lambda n, rng: torch.randint(len(rows), (n,), generator=rng),
            observe=lambda ticket, rng: rows[ticket],
            rows=rows,
        )
        descend(turns, code, view, inner := replace(run, recipe=recipe), stage=f"autoencoder-{attempt}")
        run.stopped_at = inner.stopped_at
        with torch.no_grad():
            parts = [part.to(run.device) - code.middle for part in some.split(250)]
            raw = [code.to_code(part) for part in parts]
            lost = sum(float((code.to_picture(y) - x).square().sum()) for x, y in zip(parts, raw, strict=True))
            y = torch.cat(raw)
            code.mean = y.mean(0)
            code.scale = (y - y.mean(0)).square().sum(1).mean().sqrt()
        return lost / (variance * len(some))


def small_bytes(code: ConvCode, x: Tensor) -> Tensor:
    return torch.cat([code.small(part).mul(255).round().to(torch.uint8) for part in x.split(200)])


FRONTS: tuple[type[Front], ...] = (TanhLinear, Principal, Convolutional)
