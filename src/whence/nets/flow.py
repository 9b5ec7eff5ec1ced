"""Flows: one-to-one maps of n numbers, with the logarithm of their volume change and their inverse."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import softmax, softplus

from whence.nets.mlp import mlp

BOUND = 5.0  #: splines bend between -5 and 5, and are the identity beyond
LEAST = 1e-3  #: width, height and slope of a bin, relative to their mean


def spline(x: Tensor, bins: Tensor, inverse: bool = False) -> tuple[Tensor, Tensor]:
    r"""Monotone rational-quadratic splines of [-5, 5] onto itself (Durkan et al. 2019), each number with its own.

    Within a bin, with :math:`\theta` from 0 to 1 along it, mean slope s and slopes :math:`d_0, d_1` at its ends,

    .. math:: y = y_0 + h\, \frac{s \theta^2 + d_0 \theta (1 - \theta)}{s + (d_0 + d_1 - 2 s)\, \theta (1 - \theta)}.

    `x` is (...) and `bins` (..., 3 K - 1): K widths, K heights and K - 1 slopes between bins, all unbounded; zeros give
    the identity. Returns y, and the logarithm of dy/dx; of the inverse, x and the logarithm of dx/dy.
    """
    k = (bins.shape[-1] + 1) // 3
    width, height, slope = bins.split([k, k, k - 1], -1)

    def knots(t: Tensor) -> Tensor:
        share = LEAST + (1 - LEAST * k) * softmax(t, -1)
        edges = BOUND * (2 * share.cumsum(-1)[..., :-1] - 1)
        end = torch.full_like(edges[..., :1], BOUND)
        return torch.cat([-end, edges, end], -1)

    at, to = knots(width), knots(height)
    one = torch.ones_like(slope[..., :1])
    d = torch.cat([one, LEAST + (1 - LEAST) * softplus(slope + UNIT), one], -1)
    inside = x.abs() < BOUND
    given = torch.where(inside, x, torch.zeros_like(x))[..., None]
    i = torch.searchsorted((to if inverse else at)[..., 1:-1].contiguous(), given, right=True)

    def pick(t: Tensor, j: Tensor) -> Tensor:
        return t.gather(-1, j)[..., 0]

    x0, y0, d0, d1 = pick(at, i), pick(to, i), pick(d, i), pick(d, i + 1)
    w, h = pick(at, i + 1) - x0, pick(to, i + 1) - y0
    s, given = h / w, given[..., 0]
    bend = d0 + d1 - 2 * s
    if inverse:  # the root in [0, 1] of a quadratic, in the form that does not cancel
        up = given - y0
        a, b, c = h * (s - d0) + up * bend, h * d0 - up * bend, -s * up
        t = 2 * c / (-b - (b.square() - 4 * a * c).clamp_min(0).sqrt())
    else:
        t = (given - x0) / w
    rest = t * (1 - t)
    below = s + bend * rest
    out = x0 + w * t if inverse else y0 + h * (s * t.square() + d0 * rest) / below
    log = 2 * s.log() + (d1 * t.square() + 2 * s * rest + d0 * (1 - t).square()).log() - 2 * below.log()
    log = -log if inverse else log
    return torch.where(inside, out, x), torch.where(inside, log, torch.zeros_like(log))


UNIT = 0.5413248546129181  #: its softplus is 1


class Layer(nn.Module):
    """x -> y, (B, n) each, and the logarithm of the volume change, (B,)."""

    def forward(self, x: Tensor, inverse: bool = False) -> tuple[Tensor, Tensor]:
        raise NotImplementedError


class Affine(Layer):
    """Any invertible matrix, and a shift; begins as a rotation, or as the identity."""

    def __init__(self, n: int, rotated: bool = True) -> None:
        super().__init__()
        weight = torch.empty(n, n)
        self.weight = nn.Parameter(nn.init.orthogonal_(weight) if rotated else nn.init.eye_(weight))
        self.shift = nn.Parameter(torch.zeros(n))

    def forward(self, x: Tensor, inverse: bool = False) -> tuple[Tensor, Tensor]:
        log = torch.linalg.slogdet(self.weight).logabsdet.expand(len(x))
        if inverse:
            return torch.linalg.solve(self.weight, (x - self.shift).mT).mT, -log
        return x @ self.weight.mT + self.shift, log


class Coupling(Layer):
    """Some numbers stay; each of the others passes a spline of its own, which depends on those that stay."""

    def __init__(self, n: int, stay: int, hidden: tuple[int, ...], bins: int) -> None:
        super().__init__()
        self.stay, outputs = stay, (n - stay) * (3 * bins - 1)
        self.bins = mlp([stay, *hidden, outputs], nn.SiLU) if stay else nn.Linear(1, outputs)
        for p in self.bins[-1].parameters() if stay else self.bins.parameters():  # type: ignore[index]
            nn.init.zeros_(p)  # begins at the identity

    def forward(self, x: Tensor, inverse: bool = False) -> tuple[Tensor, Tensor]:
        kept, moved = x.split([self.stay, x.shape[1] - self.stay], 1)
        bins = self.bins(kept if self.stay else x.new_ones(len(x), 1)).unflatten(1, (moved.shape[1], -1))
        moved, log = spline(moved, bins, inverse)
        return torch.cat([kept, moved], 1), log.sum(1)


class Flow(nn.Module):
    """Layers of couplings with rotations between; at last a matrix, and a spline for each number."""

    def __init__(self, n: int, layers: int = 4, hidden: tuple[int, ...] = (64, 64), bins: int = 8) -> None:
        super().__init__()
        couplings = [m for _ in range(layers if n > 1 else 0) for m in (Coupling(n, n // 2, hidden, bins), Affine(n))]
        self.layers = nn.ModuleList([*couplings, Affine(n, rotated=False), Coupling(n, 0, (), bins)])

    def begin_at(self, matrix: Tensor) -> None:
        """Make a fresh flow, whose couplings are the identity still, this linear map."""
        *others, last = [layer for layer in self.layers if isinstance(layer, Affine)]
        with torch.no_grad():
            for layer in others:
                matrix = matrix @ layer.weight.T.to(matrix)  # the first to act is nearest to x
            last.weight.copy_(matrix)

    def forward(self, x: Tensor, inverse: bool = False) -> tuple[Tensor, Tensor]:
        """(B, n) -> (B, n), and the logarithm of the volume change, (B,); of the inverse, both of it."""
        log = x.new_zeros(len(x))
        for layer in reversed(self.layers) if inverse else self.layers:
            x, more = layer(x, inverse)
            log = log + more
        return x, log
