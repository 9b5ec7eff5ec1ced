"""The first stage of GSCALE: observations to a code of few numbers, and back, without a thought of causes."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch import Generator, Tensor, nn
from torch.nn.functional import avg_pool2d, interpolate, pad

from whence.descend import ALL, Adam, Cosine, Recipe, Run, Terms, Turn, descend
from whence.views import Single, View

Source = Callable[[], Iterable[Tensor]]  #: chunks of rows of one environment, the same each time

CODE_LOST = 0.1  #: share of the variance of observations; above it balls were missing, in experiments with known truth
BLURS = (0.12, 0.18, 0.25, 0.35, 0.5)  #: widths of blurs, relative to a picture
STEEP = 3.0  #: how much larger a layer's first weights are, so that its bends are spread over white data
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

    def small(self, x: Tensor) -> Tensor:
        """Observations, as small as the code sees them."""
        return x

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


# --- pictures --------------------------------------------------------------------------------------------------------


class PictureCode(Code, ABC):
    """Pictures are pooled to `side` pixels; decoded ones are enlarged again."""

    def __init__(self, shape: tuple[int, ...], side: int) -> None:
        super().__init__()
        self.shape, self.side, self.pool = shape, side, shape[1] // side

    def small(self, x: Tensor) -> Tensor:
        return avg_pool2d(x, self.pool) if self.pool > 1 else x

    def large(self, x: Tensor) -> Tensor:
        return interpolate(x, size=self.shape[1:], mode="bilinear", align_corners=False) if self.pool > 1 else x


def check_pictures(kind: str, shape: tuple[int, ...], side: int) -> None:
    if len(shape) != 3 or shape[1] != shape[2] or shape[1] % side or side % 8:
        raise ValueError(
            f"{kind} takes square pictures whose side divides by {side}, itself a multiple of 8, got shape "
            f"{tuple(shape)}. Change side, or use Principal() for vectors."
        )


@dataclass(frozen=True, kw_only=True)
class Pictures(View[Single]):
    """Pictures that are resident as uint8."""

    rows: Tensor

    def gather(self, ticket: Tensor, rng: Generator) -> Single:
        return Single(self.rows[ticket].to(torch.float32).div_(255))

    @classmethod
    def pooled(cls, code: PictureCode, environments: Sequence[Source]) -> Pictures:
        """Of all environments."""
        held = bytearray()  # one growing block: many small tensors between large ones would cost ten times the memory
        for source in environments:
            for part in source():
                held += small_bytes(code, part).numpy().tobytes()
        rows = torch.frombuffer(held, dtype=torch.uint8).view(-1, code.shape[0], code.side, code.side)
        return cls(
            shape=tuple(rows.shape[1:]),
            draw_=lambda n, rng: torch.randint(len(rows), (n,), generator=rng),
            observe=lambda ticket, rng: rows[ticket],
            rows=rows,
        )

    def some(self, n: int = 4_000) -> Tensor:
        which = torch.linspace(0, len(self.rows) - 1, min(n, len(self.rows))).long()
        return self.rows[which].float().div_(255)


def small_bytes(code: Code, x: Tensor) -> Tensor:
    return torch.cat([code.small(part).mul(255).round().to(torch.uint8) for part in x.split(200)])


def one_cycle(steps: int, batch: int, lr: float) -> Recipe:
    return Recipe(
        steps=steps,
        batch=batch,
        optimiser=Adam(lr=lr, weight_decay=1e-4),
        schedule=Cosine(warmup=steps // 10),
        every=min(100, steps),
    )


# --- blurred ---------------------------------------------------------------------------------------------------------


def growing(dims: int, channels: int, side: int, width: int, hidden: int = 0) -> nn.Sequential:
    """(B, dims) -> (B, channels, side, side)."""
    w, s = width, side // 8
    first = (nn.Linear(dims, hidden), nn.SiLU()) if hidden else ()
    return nn.Sequential(
        *first,
        nn.Linear(hidden or dims, 2 * w * s * s),
        nn.SiLU(),
        nn.Unflatten(1, (2 * w, s, s)),
        nn.ConvTranspose2d(2 * w, 2 * w, 4, 2, 1),
        nn.SiLU(),
        nn.ConvTranspose2d(2 * w, w, 4, 2, 1),
        nn.SiLU(),
        nn.ConvTranspose2d(w, channels, 4, 2, 1),
    )


def blurred(x: Tensor, width: float) -> Tensor:
    """Pictures (B, C, S, S) through a Gaussian whose width is relative to their side."""
    place = torch.arange(x.shape[-1]).to(x)
    g = torch.exp(-0.5 * ((place[:, None] - place) / (width * x.shape[-1])).square())
    return g @ x @ g


class BlurredCode(PictureCode):
    r""":math:`y = B^\top \mathrm{blur}(x - m) / c`, with each channel less its mean; pictures are grown from it."""

    def __init__(self, shape: tuple[int, ...], dims: int, side: int, width: int, hidden: int, blur: float) -> None:
        super().__init__(shape, side)
        c, self.dims, self.blur = shape[0], dims, blur
        self.to_picture = growing(dims, c, side, width, hidden)
        self.register_buffer("middle", torch.zeros(c, side, side))
        self.register_buffer("basis", torch.eye(c * side * side, dims))

    middle: Tensor  #: the mean picture
    basis: Tensor  #: principal components, over their deviations: the code has unit variance in all

    def moved(self, small: Tensor) -> Tensor:
        """Where there is more than usual, and where less, as rows."""
        b = blurred(small - self.middle, self.blur)
        return (b - b.mean((2, 3), keepdim=True)).flatten(1)

    def seen(self, small: Tensor) -> Tensor:
        """The code, of unit variance in each number."""
        return self.moved(small) @ self.basis

    def encode(self, x: Tensor) -> Tensor:
        return self.seen(self.small(x)) / self.dims**0.5

    def decode(self, y: Tensor) -> Tensor:
        return self.large((self.to_picture(y * self.dims**0.5) + self.middle).clamp(0, 1))

    def starts(self, x: Iterable[Tensor], n: int) -> list[Tensor]:
        y = torch.cat([self.encode(part) for part in x])[:, : n + 2]
        return [y / y.std(0)]


@dataclass(frozen=True, kw_only=True)
class Blurred(Front):
    """Principal components of widely blurred pictures. Only the way back to pictures is learned.

    The mean brightness of each channel is taken away, so that what a wide blur leaves of things that move are their
    first moments: nearly a linear map of where they are, whatever they look like, as many as there are latents, and
    without folds. What has no place of its own, as a thing that turns, is lost, and what is half hidden is misplaced.
    """

    dims: int | None = None  #: numbers of the code; none: as many as latents, so that nothing is left to reduce
    blur: float = 1.0  #: width of the blur, relative to a picture
    side: int = 16  #: pixels that pictures are pooled to; a multiple of 8 that divides theirs
    width: int = 16  #: channels of the last hidden layer; those before have twice as many
    hidden: int = 512  #: width of the layer that pictures grow from
    steps: float = 1.5  #: relative to the recipe of the method
    batch: int = 96  #: pictures a step
    lr: float = 6e-3  #: at the top of its one cycle

    def build(self, shape: tuple[int, ...], latents: int) -> BlurredCode:
        check_pictures("Blurred", shape, self.side)
        return BlurredCode(shape, max(self.dims or 0, latents), self.side, self.width, self.hidden, self.blur)

    def learn(self, code: BlurredCode, environments: Sequence[Source], run: Run, attempt: int = 1) -> float:
        view = Pictures.pooled(code, environments)
        some = view.some().to(run.device)
        code.middle = some.mean(0)
        variance = float((some - code.middle).square().flatten(1).sum(1).mean())
        b = code.moved(some).double()
        value, vector = torch.linalg.eigh(b.T @ b / len(b))
        value, vector = value[-code.dims :].flip(0), vector[:, -code.dims :].flip(1)
        code.basis = (vector / value.clamp_min(1e-9 * value[0]).sqrt()).float()
        with torch.no_grad():
            for p in code.to_picture[0].parameters():
                p.mul_(STEEP)

        def turns(nets: Any, batch: Single, t: int) -> Iterator[Turn]:
            error = nets.to_picture(nets.seen(batch.x)) - (batch.x - nets.middle)
            yield Turn(ALL, Terms(reconstruction=error.square().flatten(1).sum(1).mean() / variance))

        recipe = one_cycle(max(1, round(self.steps * run.recipe.steps)), min(self.batch, len(view.rows)), self.lr)
        descend(turns, code, view, inner := replace(run, recipe=recipe), stage=f"blurred-{attempt}")
        run.stopped_at = inner.stopped_at
        with torch.no_grad():
            back = torch.cat([code.to_picture(code.seen(part)) for part in some.split(250)]) + code.middle
            return float((back - some).square().flatten(1).sum(1).mean()) / variance


# --- convolutional ---------------------------------------------------------------------------------------------------


class ConvCode(PictureCode):
    """Pictures are coded by strided convolutions."""

    def __init__(self, shape: tuple[int, ...], dims: int, side: int, width: int) -> None:
        super().__init__(shape, side)
        c, self.dims, w, s = shape[0], dims, width, side // 8
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
        self.to_picture = growing(dims, c, side, width)
        self.register_buffer("middle", torch.zeros(c, side, side))
        self.register_buffer("mean", torch.zeros(dims))
        self.register_buffer("scale", torch.ones(()))

    middle: Tensor  #: the mean picture, which the networks see and make deviations from
    mean: Tensor
    scale: Tensor  #: the code has unit variance in all

    def starts(self, x: Iterable[Tensor], n: int) -> list[Tensor]:
        """Principal components of blurred pictures. Pictures of a thing that moves are all equally far apart as soon as
        they do not overlap; the wider they are blurred, the more a move is a move along a line."""
        small = torch.cat([self.small(piece) for part in x for piece in part.split(200)])
        small, found = small - small.mean(0), []
        for width in BLURS:
            b = blurred(small, width).flatten(1)
            _, vector = torch.linalg.eigh((b.T @ b).double() / len(b))
            lead = b @ vector[:, -n - 2 :].flip(1).to(b)
            found.append(lead / lead.std(0))
        return found

    def encode(self, x: Tensor) -> Tensor:
        return (self.to_code(self.small(x) - self.middle) - self.mean) / self.scale

    def decode(self, y: Tensor) -> Tensor:
        return self.large((self.to_picture(y * self.scale + self.mean) + self.middle).clamp(0, 1))


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
        check_pictures("Convolutional", shape, self.side)
        return ConvCode(shape, self.dims, self.side, self.width)

    def learn(self, code: ConvCode, environments: Sequence[Source], run: Run, attempt: int = 1) -> float:
        view = Pictures.pooled(code, environments)
        recipe = one_cycle(max(1, round(self.steps * run.recipe.steps)), min(self.batch, len(view.rows)), self.lr)
        some = view.some()
        code.middle = some.mean(0).to(run.device)
        variance = float((some - some.mean(0)).square().flatten(1).sum(1).mean())

        def turns(nets: Any, batch: Single, t: int) -> Iterator[Turn]:
            x = batch.x - nets.middle
            error = (nets.to_picture(nets.to_code(x)) - x).square()
            yield Turn(ALL, Terms(reconstruction=error.flatten(1).sum(1).mean() / variance))

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


# --- the first that keeps what there is ------------------------------------------------------------------------------


class EitherCode(Code):
    """Two codes, of which one is used; the shorter one is padded with zeros."""

    def __init__(self, first: Code, second: Code) -> None:
        super().__init__()
        self.first, self.second, self.dims = first, second, max(first.dims, second.dims)
        self.register_buffer("fell", torch.tensor(False))

    fell: Tensor  #: whether the second one is used

    @property
    def used(self) -> Code:
        return self.second if bool(self.fell) else self.first

    @property
    def rank(self) -> int:
        return self.used.rank

    def small(self, x: Tensor) -> Tensor:
        return self.used.small(x)

    def encode(self, x: Tensor) -> Tensor:
        return pad(self.used.encode(x), (0, self.dims - self.used.dims))

    def decode(self, y: Tensor) -> Tensor:
        return self.used.decode(y[:, : self.used.dims])

    def starts(self, x: Iterable[Tensor], n: int) -> list[Tensor]:
        return self.used.starts(x, n)


@dataclass(frozen=True, kw_only=True)
class Either(Front):
    """The first front, if it loses little of the variance of observations; else the one that loses less."""

    chance: ClassVar[bool] = True

    first: Front = Blurred()  #: what is tried first
    second: Front = Convolutional()  #: what is tried where that loses much

    def build(self, shape: tuple[int, ...], latents: int) -> EitherCode:
        return EitherCode(self.first.build(shape, latents), self.second.build(shape, latents))

    def learn(self, code: EitherCode, environments: Sequence[Source], run: Run, attempt: int = 1) -> float:
        lost = self.first.learn(code.first, environments, run) if attempt == 1 else math.inf
        if lost <= CODE_LOST:
            code.fell = torch.zeros_like(code.fell)
            return lost
        other = self.second.learn(code.second, environments, run, attempt)
        code.fell = torch.full_like(code.fell, other < lost)
        return min(lost, other)


FRONTS: tuple[type[Front], ...] = (TanhLinear, Principal, Blurred, Convolutional, Either)
