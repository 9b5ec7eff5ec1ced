"""Injective maps from latents to observations, drawn at random."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations_with_replacement
from typing import Literal

import torch
from torch import Generator, Tensor

CHUNK = 2**22  # numbers of a Jacobian in memory at once
TRIES = 200


class Map(ABC):
    """x = g(z), (B, n) -> (B, d), in the dtype of z; it has an inverse on its image."""

    @abstractmethod
    def __call__(self, z: Tensor) -> Tensor: ...

    @abstractmethod
    def inverse(self, x: Tensor) -> Tensor: ...

    def jacobian(self, z: Tensor) -> Tensor:
        r"""(B, d, n). A column is :math:`J e_j = \nabla_v (v^\top J e_j)`: n backward passes, not d."""
        with torch.enable_grad():
            at = z.detach().requires_grad_()
            x = self(at)
            v = torch.zeros_like(x, requires_grad=True)
            (g,) = torch.autograd.grad(x, at, v, create_graph=True)
            columns = [torch.autograd.grad(g[:, j].sum(), v, retain_graph=True)[0] for j in range(z.shape[1])]
        return torch.stack(columns, -1)

    def push(self, z: Tensor, g: Tensor, dtype: torch.dtype | None = None) -> Tensor:
        r"""Gradients (..., B, n) of a function of z as gradients along the image, (..., B, d):
        :math:`J (J^\top J)^{-1} g = Q R^{-\top} g`, the transposed pseudo-inverse."""
        d, n = self(z[:1]).shape[1], z.shape[1]
        parts = []
        for points, some in zip(z.split(size := max(1, CHUNK // (d * n))), g.split(size, -2), strict=True):
            Q, R = torch.linalg.qr(self.jacobian(points))
            parts.append(
                (Q @ torch.linalg.solve_triangular(R.mT, some[..., None], upper=False))[..., 0].to(dtype or g.dtype)
            )
        return torch.cat(parts, -2)


def squash(t: Tensor) -> Tensor:
    """tanh, kept off the 1 that rounding makes of it and that has no inverse."""
    edge = 1 - torch.finfo(t.dtype).eps
    return torch.tanh(t).clamp(-edge, edge)


def stretch(x: Tensor) -> Tensor:
    """The inverse of `squash`."""
    edge = 1 - torch.finfo(x.dtype).eps
    return torch.atanh(x.clamp(-edge, edge))


def well_conditioned(d: int, n: int, smallest: float, rng: Generator) -> Tensor:
    """(d, n): orthonormal columns times a random matrix whose singular values differ by at most 1 / smallest, each
    column then scaled to a largest entry of 1. acarturk-e/score-based-crl@abb5a09; there without an end to the
    drawing, which for many nodes would take for ever: singular values are raised if 200 draws have none."""
    q, r = torch.linalg.qr(torch.randn(d, n, generator=rng, dtype=torch.float64))
    q = q * r.diagonal().sign()  # Haar
    for _ in range(TRIES):
        R = torch.rand(n, n, generator=rng, dtype=torch.float64) - 0.5
        U, s, V = torch.linalg.svd(R)
        if s[-1] >= smallest * s[0]:
            break
    else:
        R = U * s.clamp(min=float(smallest * s[0])) @ V
    G = q @ R
    return G / G.abs().amax(0)


@dataclass(frozen=True, kw_only=True)
class Mixing(ABC):
    """A recipe for maps: `draw(z, dims, rng)` gives one for latents like the sample z (N, n), float64."""

    smallest: float = 0.1  #: singular value of its matrices relative to the largest, at least

    def __post_init__(self) -> None:
        if not 0 < self.smallest <= 1:
            raise ValueError(
                f"smallest is a ratio of singular values, above 0 (so that the map is injective) and at most 1, got "
                f"{self.smallest}."
            )

    @abstractmethod
    def draw(self, z: Tensor, dims: int, rng: Generator) -> Map: ...


# --- linear ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class LinearMap(Map):
    G: Tensor  #: (d, n)

    def __call__(self, z: Tensor) -> Tensor:
        return z @ self.G.T.to(z)

    def inverse(self, x: Tensor) -> Tensor:
        return x @ torch.linalg.pinv(self.G).T.to(x)

    def jacobian(self, z: Tensor) -> Tensor:
        return self.G.to(z).expand(len(z), -1, -1)

    def push(self, z: Tensor, g: Tensor, dtype: torch.dtype | None = None) -> Tensor:
        g = g.to(dtype or g.dtype)
        return g @ torch.linalg.pinv(self.G).to(g)


@dataclass(frozen=True, kw_only=True)
class LinearMixing(Mixing):
    """x = G z."""

    def draw(self, z: Tensor, dims: int, rng: Generator) -> LinearMap:
        return LinearMap(well_conditioned(dims, z.shape[1], self.smallest, rng))


# --- tanh of linear --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class TanhMap(Map):
    G: Tensor  #: (d, n)

    def __call__(self, z: Tensor) -> Tensor:
        return squash(z @ self.G.T.to(z))

    def inverse(self, x: Tensor) -> Tensor:
        """Weighted least squares in atanh: saturated coordinates have lost their digits and hardly count."""
        t, G = stretch(x).double(), self.G
        if G.shape[0] == G.shape[1]:
            return torch.linalg.solve(G, t.T).T.to(x)
        w = (1 - x.double() ** 2) ** 2
        w = torch.maximum(w, 1e-12 * w.amax(1, keepdim=True))  # and yet keep the problem solvable
        return torch.linalg.solve(torch.einsum("di,bd,dj->bij", G, w, G), (w * t) @ G).to(x)

    def jacobian(self, z: Tensor) -> Tensor:
        G = self.G.to(z)
        return (1 - torch.tanh(z @ G.T) ** 2)[:, :, None] * G


@dataclass(frozen=True, kw_only=True)
class TanhMixing(Mixing):
    """x = tanh(G z)."""

    def draw(self, z: Tensor, dims: int, rng: Generator) -> TanhMap:
        return TanhMap(well_conditioned(dims, z.shape[1], self.smallest, rng))


# --- layers ----------------------------------------------------------------------------------------------------------

SLOPE = 0.2
Activation = tuple[Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]]
ACTIVATIONS: dict[str, Activation] = {
    "tanh": (squash, stretch),
    "leaky_relu": (
        lambda t: torch.nn.functional.leaky_relu(t, SLOPE),
        lambda x: torch.nn.functional.leaky_relu(x, 1 / SLOPE),
    ),
}


@dataclass(frozen=True, eq=False)
class LayeredMap(Map):
    layers: tuple[tuple[Tensor, Tensor], ...]  #: weights (outputs, inputs) of full column rank, and offsets
    activation: str

    def __call__(self, z: Tensor) -> Tensor:
        act, _ = ACTIVATIONS[self.activation]
        for W, b in self.layers:
            z = act(z @ W.T.to(z) + b.to(z))
        return z

    def inverse(self, x: Tensor) -> Tensor:
        _, back = ACTIVATIONS[self.activation]
        for W, b in reversed(self.layers):
            x = (back(x) - b.to(x)) @ torch.linalg.pinv(W).T.to(x)
        return x


@dataclass(frozen=True, kw_only=True)
class MLPMixing(Mixing):
    """x = σ(W ... σ(W z + b) + b): every layer invertible, its units centred and scaled before σ on a sample."""

    layers: int = 3  #: at least 1
    activation: Literal["tanh", "leaky_relu"] = "tanh"  #: σ, one to one (leaky slope .2)
    width: int | None = None  #: of hidden layers, from the number of latents to that of observations; none: the latter
    spread: float = 1.0  #: standard deviation of a unit before σ: the larger, the more it bends

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.layers < 1 or not self.spread > 0:
            raise ValueError(f"There is at least one layer and spread is positive, got {self.layers}, {self.spread}.")

    def draw(self, z: Tensor, dims: int, rng: Generator) -> LayeredMap:
        n, width = z.shape[1], self.width or dims
        if not n <= width <= dims:
            raise ValueError(
                f"An injective network never narrows: width lies between the latents ({n}) and the dimensions of x "
                f"({dims}), got {width}."
            )
        layers = []
        for outputs in [width] * (self.layers - 1) + [dims]:
            W = well_conditioned(outputs, z.shape[1], self.smallest, rng)
            t = z @ W.T
            W = W * (self.spread / t.std(0))[:, None]
            t = z @ W.T
            layers.append((W, -t.mean(0)))
            z = ACTIVATIONS[self.activation][0](t + layers[-1][1])
        return LayeredMap(tuple(layers), self.activation)


# --- polynomials -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class PolynomialMap(Map):
    r""":math:`x = G y + P m(t)`, :math:`y = t + C m(t)`: t is z in units of its deviation, m its monomials of degree
    two and more, C strictly triangular (:math:`y_i` has products of :math:`t_1 \dots t_{i-1}`), and the columns of P
    orthogonal to those of G. So :math:`y = G^+ x`, and t follows from y one coordinate after the other."""

    G: Tensor  #: (d, n)
    P: Tensor  #: (d, m)
    C: Tensor  #: (n, m)
    deviation: Tensor  #: (n,)
    powers: tuple[tuple[int, ...], ...]  #: the coordinates that each monomial multiplies

    def monomials(self, t: Tensor) -> Tensor:
        return monomials(t, self.powers)

    def __call__(self, z: Tensor) -> Tensor:
        t = z / self.deviation.to(z)
        m = self.monomials(t)
        return (t + m @ self.C.T.to(z)) @ self.G.T.to(z) + m @ self.P.T.to(z)

    def inverse(self, x: Tensor) -> Tensor:
        y = x @ torch.linalg.pinv(self.G).T.to(x)
        t = torch.zeros_like(y)
        for i in range(y.shape[1]):
            t[:, i] = y[:, i] - self.monomials(t) @ self.C[i].to(x)
        return t * self.deviation.to(x)


def monomials(t: Tensor, powers: tuple[tuple[int, ...], ...]) -> Tensor:
    degrees = sorted({len(p) for p in powers})
    return torch.cat([t[:, torch.tensor([p for p in powers if len(p) == k])].prod(-1) for k in degrees], 1)


@dataclass(frozen=True, kw_only=True)
class PolynomialMixing(Mixing):
    """Polynomials of z with random coefficients, injective for any number of observations."""

    degree: int = 2  #: at least 2
    strength: float = 1.0  #: deviation of what is not linear, in units of what is

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.degree < 2 or not 0 <= self.strength < math.inf:
            raise ValueError(
                f"degree is at least 2 (1 is LinearMixing) and strength not negative, got {self.degree}, "
                f"{self.strength}."
            )

    def draw(self, z: Tensor, dims: int, rng: Generator) -> PolynomialMap:
        n, deviation = z.shape[1], z.std(0)
        G = well_conditioned(dims, n, self.smallest, rng)
        powers = tuple(p for k in range(2, self.degree + 1) for p in combinations_with_replacement(range(n), k))
        m = monomials(z / deviation, powers)
        below = torch.tensor([[max(p) < i for p in powers] for i in range(n)])
        C = torch.randn(n, len(powers), generator=rng, dtype=torch.float64) * below
        P = torch.randn(dims, len(powers), generator=rng, dtype=torch.float64)
        P = P - G @ (torch.linalg.pinv(G) @ P) if dims > n else torch.zeros_like(P)
        t = z / deviation
        C = self.strength * C * scale(t.std(), (m @ C.T).std(0))[:, None]
        P = self.strength * P * scale((t @ G.T).std(), (m @ P.T).std())  # one number: P stays orthogonal to G
        return PolynomialMap(G, P, C, deviation, powers)


def scale(wanted: Tensor, got: Tensor) -> Tensor:
    """The factor from one deviation to another; 0 where there is nothing to scale."""
    return torch.where(got > 0, wanted / got.masked_fill(got <= 0, 1.0), 0.0)


MIXINGS: tuple[type[Mixing], ...] = (LinearMixing, TanhMixing, MLPMixing, PolynomialMixing)
