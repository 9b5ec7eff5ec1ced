r"""How a node comes from its parents and its own noise, :math:`z = f(z_{pa}, u)`, and back.

Everything is batched over leading axes, differentiable, and computed in the dtype of what is passed in: parents have
shape (..., k), values and noise (...).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Generator, Tensor
from torch.distributions import Distribution, Laplace, Normal, StudentT
from torch.nn.functional import linear
from torch.special import erfc, log_ndtr, ndtri

#: (..., k) parents -> (...)
Link = Callable[[Tensor], Tensor]
Change = Literal["scale", "increase"]


# --- links -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Linear:
    r""":math:`w^\top z_{pa}`."""

    weights: Tensor  #: (k,)

    def __call__(self, pa: Tensor) -> Tensor:
        return pa @ self.weights.to(pa)


@dataclass(frozen=True, eq=False)
class Quadratic:
    r""":math:`\sqrt{z_{pa}^\top A z_{pa}}` with :math:`A = B^\top B`; its gradient at 0 is set to 0."""

    root: Tensor  #: B, (k, k)

    def __call__(self, pa: Tensor) -> Tensor:
        return torch.linalg.vector_norm(pa @ self.root.T.to(pa), dim=-1)


@dataclass(frozen=True, eq=False)
class Network:
    r""":math:`v^\top \mathrm{ReLU}(W z_{pa} + b) + c`."""

    W: Tensor  #: (hidden, k)
    b: Tensor  #: (hidden,)
    v: Tensor  #: (hidden,)
    c: Tensor  #: ()

    def __call__(self, pa: Tensor) -> Tensor:
        W, b, v, c = (t.to(pa) for t in (self.W, self.b, self.v, self.c))
        return linear(pa, W, b).relu_() @ v + c


# --- mechanisms ------------------------------------------------------------------------------------------------------


class Mechanism(ABC):
    """The conditional of one node given its parents, as a function of the parents and of noise u of its own.

    `predict` and `abduct` are inverse to each other in z and u, which makes counterfactuals exact.
    """

    @property
    def is_root(self) -> bool:
        """Without an effect of parents: as an intervention, it cuts the edges into the node."""
        return False

    @property
    def exogenous(self) -> object:
        """What u is drawn from: two mechanisms with the same one can be compared on the same u."""
        return self

    @abstractmethod
    def draw(self, shape: tuple[int, ...], rng: Generator) -> Tensor:
        """The noise u."""

    @abstractmethod
    def predict(self, u: Tensor, pa: Tensor) -> Tensor: ...

    @abstractmethod
    def abduct(self, z: Tensor, pa: Tensor) -> Tensor: ...

    @abstractmethod
    def log_prob(self, z: Tensor, pa: Tensor) -> Tensor: ...

    def sample(self, pa: Tensor, rng: Generator) -> Tensor:
        return self.predict(self.draw(tuple(pa.shape[:-1]), rng).to(pa), pa)

    def changed(
        self,
        *,
        link: Link | None = None,
        gain: float = 1.0,
        shift: float = 0.0,
        variance: float | None = None,
        change: Change = "scale",
    ) -> Mechanism:
        """The mechanism with another link, gain, shift or variance, if it has such."""
        raise TypeError(
            f"{type(self).__name__} does not say how its link and variance change. Give the replacement itself: "
            "do={node: mechanism}."
        )


@dataclass(frozen=True, eq=False, kw_only=True)
class Additive(Mechanism):
    r""":math:`z = a\, f(z_{pa}) + m + s\, u` with :math:`u` from any scalar continuous distribution."""

    link: Link | None = None  #: f; none: no parents have an effect
    noise: Distribution  #: of u
    gain: float = 1.0  #: a
    shift: float = 0.0  #: m
    scale: float = 1.0  #: s

    def __post_init__(self) -> None:
        d = self.noise
        if d.batch_shape or d.event_shape or d.support.is_discrete:  # type: ignore[union-attr]
            raise ValueError(
                f"Noise is one scalar continuous distribution, such as Normal(0.0, 1.0), got {d} with batch "
                f"{tuple(d.batch_shape)} and event {tuple(d.event_shape)}. Give each node its own mechanism."
            )
        if not 0 < self.scale < math.inf:
            raise ValueError(
                f"The scale of noise is positive, got {self.scale}. For a constant use do={{node: value}}."
            )

    @property
    def is_root(self) -> bool:
        return self.link is None or self.gain == 0

    @property
    def exogenous(self) -> object:
        return self.noise

    @property
    def variance(self) -> float:
        """Of the noise as it enters z."""
        return self.scale**2 * float(self.noise.variance)

    def centre(self, pa: Tensor) -> Tensor:
        r""":math:`a\, f(z_{pa}) + m`."""
        if self.is_root:
            return torch.full(pa.shape[:-1], self.shift, dtype=pa.dtype, device=pa.device)
        out = self.link(pa)  # type: ignore[misc]
        if out.shape != pa.shape[:-1]:
            raise ValueError(
                f"A link maps parents of shape (..., k) to (...): from {tuple(pa.shape)} it must give "
                f"{tuple(pa.shape[:-1])}, got {tuple(out.shape)}. Reduce the last axis, as in pa.sum(-1). "
                "(A function of the node's own value is Moved(f).)"
            )
        return self.gain * out + self.shift

    def draw(self, shape: tuple[int, ...], rng: Generator) -> Tensor:
        return drawn(self.noise, shape, rng)

    def predict(self, u: Tensor, pa: Tensor) -> Tensor:
        return self.centre(pa) + self.scale * u

    def abduct(self, z: Tensor, pa: Tensor) -> Tensor:
        return (z - self.centre(pa)) / self.scale

    def log_prob(self, z: Tensor, pa: Tensor) -> Tensor:
        u = self.abduct(z, pa)
        inside = self.noise.support.check(u)  # type: ignore[union-attr]
        if inside.all():
            return self.noise.log_prob(u) - math.log(self.scale)
        some = drawn(self.noise, (), Generator().manual_seed(0)).to(u)
        return (self.noise.log_prob(torch.where(inside, u, some)) - math.log(self.scale)).masked_fill(
            ~inside, -math.inf
        )

    def changed(
        self,
        *,
        link: Link | None = None,
        gain: float = 1.0,
        shift: float = 0.0,
        variance: float | None = None,
        change: Change = "scale",
    ) -> Additive:
        """Another link or its multiple, a shift of the mean, a variance multiplied by or increased by `variance`."""
        mean, before = float(self.noise.mean), self.variance
        if variance is None:
            factor = 1.0
        elif change == "scale":
            factor = variance
        elif math.isfinite(before):
            factor = (before + variance) / before
        else:
            raise ValueError(f"The noise {self.noise} has no finite variance to increase. Use change='scale'.")
        if not 0 < factor < math.inf:
            raise ValueError(
                f"A variance stays positive and finite: {change} {variance} on {before:g} is not possible. "
                "For a constant use do={node: value}."
            )
        scale = self.scale * math.sqrt(factor)
        return replace(
            self,
            link=self.link if link is None else link,
            gain=gain * (self.gain if link is None else 1.0),
            shift=self.shift + shift + ((self.scale - scale) * mean if math.isfinite(mean) else 0.0),
            scale=scale,
        )


@dataclass(frozen=True, eq=False, kw_only=True)
class Boxed(Additive):
    r"""A Gaussian :math:`\mathcal N(a\, f(z_{pa}) + m,\, s^2 \sigma^2)` truncated to :math:`|z| \le b`.

    Its noise is uniform on [0, 1]: z is the quantile function at u, so that the noise can be abducted.
    """

    box: float  #: b

    def __post_init__(self) -> None:
        super().__post_init__()
        if type(self.noise) is not Normal or float(self.noise.loc) != 0 or not self.box > 0:
            raise ValueError(f"Boxed needs noise Normal(0, sigma) and a positive box, got {self.noise}, {self.box}.")

    @property
    def exogenous(self) -> object:
        return Boxed

    def draw(self, shape: tuple[int, ...], rng: Generator) -> Tensor:
        return torch.rand(shape, generator=rng, dtype=torch.float64)

    def ends(self, pa: Tensor) -> tuple[Tensor, float, Tensor, Tensor, Tensor]:
        """Centre, deviation, and the box in standard units, mirrored into the lower tail, where cdfs are exact."""
        centre, deviation = self.centre(pa).double(), math.sqrt(self.variance)
        flip = torch.where(centre < 0, -1.0, 1.0).to(centre)
        low, high = (-self.box - flip * centre) / deviation, (self.box - flip * centre) / deviation
        return centre, deviation, flip, low, high

    def predict(self, u: Tensor, pa: Tensor) -> Tensor:
        centre, deviation, flip, low, high = self.ends(pa)
        below, above = ndtr(low), ndtr(high)
        if (above == 0).any():
            raise ValueError(
                f"The box |z| <= {self.box} lies more than 37 deviations from the mean in {int((above == 0).sum())} "
                "rows. Use smaller weights, a larger box or more noise."
            )
        v = torch.where(flip > 0, u.double(), 1 - u.double())
        t = ndtri(below + v * (above - below))
        return (centre + flip * deviation * torch.minimum(torch.maximum(t, low), high)).to(pa.dtype)

    def abduct(self, z: Tensor, pa: Tensor) -> Tensor:
        centre, deviation, flip, low, high = self.ends(pa)
        below, above = ndtr(low), ndtr(high)
        v = (ndtr(flip * (z.double() - centre) / deviation) - below) / (above - below)
        return torch.where(flip > 0, v, 1 - v).to(z.dtype)

    def log_prob(self, z: Tensor, pa: Tensor) -> Tensor:
        centre, deviation, _, low, high = self.ends(pa)
        mass = log_ndtr(high) + torch.log1p(-torch.exp(log_ndtr(low) - log_ndtr(high)))
        t = (z.double() - centre) / deviation
        density = -0.5 * t**2 - math.log(deviation) - 0.5 * math.log(2 * math.pi) - mass
        outside = ~(z.abs() <= self.box * (1 + 1e-6))  # rounding a sample to float32 does not expel it
        return density.masked_fill(outside, -math.inf).to(z.dtype)


@dataclass(frozen=True, eq=False)
class Point(Mechanism):
    """A value set from outside: one, or one for each sample. A point mass, so there is no density."""

    value: float | Tensor

    @property
    def is_root(self) -> bool:
        return True

    def draw(self, shape: tuple[int, ...], rng: Generator) -> Tensor:
        return torch.zeros(shape)

    def predict(self, u: Tensor, pa: Tensor) -> Tensor:
        value = torch.as_tensor(self.value, dtype=pa.dtype, device=pa.device)
        if value.ndim and value.shape != pa.shape[:-1][-value.ndim :]:
            raise ValueError(
                f"A node is set to one value or to one for each sample, {tuple(pa.shape[:-1])}, got "
                f"{tuple(value.shape)}."
            )
        return value.expand(pa.shape[:-1])

    def abduct(self, z: Tensor, pa: Tensor) -> Tensor:
        return torch.zeros_like(z)

    def log_prob(self, z: Tensor, pa: Tensor) -> Tensor:
        raise ValueError("A value set by do is a point mass and has no density. Use a hard intervention with noise.")


@dataclass(frozen=True, eq=False)
class Determined(Mechanism):
    r""":math:`z = f(z_{pa})` exactly. Values that were set otherwise keep their distance from it: u is the residual."""

    link: Link

    def draw(self, shape: tuple[int, ...], rng: Generator) -> Tensor:
        return torch.zeros(shape)

    def predict(self, u: Tensor, pa: Tensor) -> Tensor:
        return self.link(pa) + u

    def abduct(self, z: Tensor, pa: Tensor) -> Tensor:
        return z - self.link(pa)

    def log_prob(self, z: Tensor, pa: Tensor) -> Tensor:
        raise ValueError(
            "A value that its causes determine is a point mass and has no density. Use a world or mechanism with noise."
        )


@dataclass(frozen=True, eq=False)
class Transformed(Mechanism):
    """Another mechanism's value, passed through a function. A density and abduction need a
    `torch.distributions.Transform`."""

    base: Mechanism
    f: Callable[[Tensor], Tensor]

    @property
    def is_root(self) -> bool:
        return self.base.is_root

    @property
    def exogenous(self) -> object:
        return self.base.exogenous

    def draw(self, shape: tuple[int, ...], rng: Generator) -> Tensor:
        return self.base.draw(shape, rng)

    def predict(self, u: Tensor, pa: Tensor) -> Tensor:
        return self.f(self.base.predict(u, pa))

    def inverse(self, z: Tensor) -> tuple[Tensor, Tensor]:
        if not isinstance(self.f, torch.distributions.Transform):
            raise ValueError(
                "The inverse of a plain function is not known. Pass a torch.distributions.Transform, such as "
                "AffineTransform(loc=1.0, scale=2.0), to have densities and noise."
            )
        natural = self.f.inv(z)
        return natural, self.f.log_abs_det_jacobian(natural, z)

    def abduct(self, z: Tensor, pa: Tensor) -> Tensor:
        return self.base.abduct(self.inverse(z)[0], pa)

    def log_prob(self, z: Tensor, pa: Tensor) -> Tensor:
        natural, log_det = self.inverse(z)
        return self.base.log_prob(natural, pa) - log_det


def ndtr(t: Tensor) -> Tensor:
    """The normal cdf; torch's own loses its lower tail to rounding (0 below -8.3)."""
    return erfc(-t / math.sqrt(2)) / 2


def drawn(d: Distribution, shape: tuple[int, ...], rng: Generator) -> Tensor:
    """Samples of a distribution from a generator, which `Distribution.sample` does not take."""
    if type(d) is Normal:
        return d.loc + d.scale * torch.randn(shape, generator=rng, dtype=d.loc.dtype)
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(int(torch.randint(2**63 - 1, (), generator=rng)))
        return d.sample(torch.Size(shape))


# --- random mechanisms -----------------------------------------------------------------------------------------------


def uniform(low: float, high: float, shape: tuple[int, ...], rng: Generator) -> Tensor:
    return low + (high - low) * torch.rand(shape, generator=rng, dtype=torch.float64)


def signed(low: float, high: float, shape: tuple[int, ...], rng: Generator) -> Tensor:
    """Either sign, the size uniform between low and high."""
    return uniform(low, high, shape, rng) * (2 * torch.randint(2, shape, generator=rng) - 1)


@dataclass(frozen=True, kw_only=True)
class Random(ABC):
    """A recipe for mechanisms: `draw(k, rng)` gives one for a node with k parents. Parameters are float64.

    Ranges are those of Varıcı et al. (2025) unless told otherwise; acarturk-e/score-based-crl@abb5a09 (scm/).
    """

    variance: tuple[float, float] = (0.5, 1.5)  #: range of the noise's variance
    noise: Literal["normal", "laplace", "student"] = "normal"  #: what the noise is (student: 5 degrees of freedom)

    def __post_init__(self) -> None:
        if not 0 < self.variance[0] <= self.variance[1]:
            raise ValueError(f"variance is a range of positive numbers, low first, got {self.variance}.")

    def draw(self, k: int, rng: Generator) -> Mechanism:
        return Additive(noise=self.distribution(rng), link=self.link(k, rng) if k else None)

    def distribution(self, rng: Generator) -> Distribution:
        deviation = uniform(*self.variance, (), rng).sqrt()
        zero = torch.zeros((), dtype=torch.float64)
        if self.noise == "laplace":
            return Laplace(zero, deviation / math.sqrt(2))
        if self.noise == "student":
            return StudentT(zero + 5, zero, deviation * math.sqrt(3 / 5))
        return Normal(zero, deviation)

    @abstractmethod
    def link(self, k: int, rng: Generator) -> Link: ...


@dataclass(frozen=True, kw_only=True)
class RandomLinear(Random):
    """Linear links, weights of either sign."""

    weight: tuple[float, float] = (0.5, 1.5)  #: range of the size of a weight

    def link(self, k: int, rng: Generator) -> Link:
        return Linear(signed(*self.weight, (k,), rng))


@dataclass(frozen=True, kw_only=True)
class RandomQuadratic(Random):
    """The root of a quadratic form that is not nearly singular."""

    smallest: float = 0.1  #: singular value of B, drawn again until it has it

    def link(self, k: int, rng: Generator) -> Link:
        while True:
            root = uniform(-1, 1, (k, k), rng)
            if torch.linalg.svdvals(root)[-1] >= self.smallest:
                return Quadratic(root)


@dataclass(frozen=True, kw_only=True)
class RandomMLP(Random):
    """A network of one hidden layer with PyTorch's default initialisation."""

    hidden: int = 32  #: units

    def link(self, k: int, rng: Generator) -> Link:
        h, one, two = self.hidden, k**-0.5, self.hidden**-0.5
        return Network(
            uniform(-one, one, (h, k), rng),
            uniform(-one, one, (h,), rng),
            uniform(-two, two, (h,), rng),
            uniform(-two, two, (), rng),
        )


@dataclass(frozen=True, kw_only=True)
class RandomBoxed(Random):
    """Linear Gaussian mechanisms whose values are truncated to a box, for positions in a picture."""

    variance: tuple[float, float] = (0.01, 0.02)  #: range of the variance before truncation
    weight: tuple[float, float] = (0.25, 1.0)  #: range of the size of a weight
    box: float = 0.1  #: |z| is at most this

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.noise != "normal":
            raise ValueError(f"Truncation to a box is for normal noise, got noise={self.noise!r}.")

    def draw(self, k: int, rng: Generator) -> Mechanism:
        return Boxed(noise=self.distribution(rng), link=self.link(k, rng) if k else None, box=self.box)

    def link(self, k: int, rng: Generator) -> Link:
        return Linear(signed(*self.weight, (k,), rng))


@dataclass(frozen=True, kw_only=True)
class RandomBoxedQuadratic(RandomBoxed):
    """The root of a quadratic form in place of the linear link, in the same box."""

    smallest: float = 0.1  #: singular value of B, drawn again until it has it

    def link(self, k: int, rng: Generator) -> Link:
        return RandomQuadratic(smallest=self.smallest).link(k, rng)


FAMILIES: tuple[type[Random], ...] = (RandomLinear, RandomQuadratic, RandomMLP, RandomBoxed, RandomBoxedQuadratic)
