r"""The graph between latents that hard interventions have identified, each up to a monotone map.

From true score differences: of the observational environment and one that intervenes on i, the difference has
components along i and its causes only. Those of the two environments of a pair have a component along i only, so what
they have elsewhere is error, and is the unit in which the former are read.

From samples: an intervention on i changes the distribution of its effects and of nothing else, which gives an order.
Given those before it, the mechanism of i is the same in all environments that do not intervene on i, and those that do
leave no dependence at all. So what they show of linear and quadratic dependence is error of the codes and is taken
away; then j is a cause if it helps to predict i, on rows that were not learned from, by a t-test.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Generator, Tensor

RANDOM = 256  #: random features of a regression
ROWS = 40_000  #: that a regression looks at, of all environments together
SURE = 3.0  #: an edge of true differences is this many times the error


class Mechanisms(NamedTuple):
    r"""Regressions :math:`z_i = \phi(z_{pa(i)}) \beta_i + \varepsilon_i` on random features."""

    causes: Tensor  #: (n, n), causes[j, i]: j enters the regression of i
    coefficients: Tensor  #: (n, F), row i


class Features(NamedTuple):
    """A constant, the coordinates, their products, and cosines in random directions of two lengths."""

    directions: Tensor  #: (n, RANDOM)
    phases: Tensor  #: (RANDOM,)

    @classmethod
    def draw(cls, n: int) -> Features:
        rng = Generator().manual_seed(n)
        length = torch.tensor([0.5, 1.5]).repeat(RANDOM // 2) / math.sqrt(n)
        return cls(torch.randn(n, RANDOM, generator=rng) * length, 2 * math.pi * torch.rand(RANDOM, generator=rng))

    def __call__(self, z: Tensor, causes: Tensor) -> Tensor:
        """(B, n) and (n,) bool -> (B, F): what is no cause is taken for 0."""
        z = z * causes.to(z)
        i, j = torch.triu_indices(z.shape[1], z.shape[1])
        waves = torch.cos(z @ self.directions.to(z) + self.phases.to(z))
        return torch.cat([torch.ones_like(z[:, :1]), z, z[:, i] * z[:, j], waves], 1)


def width(n: int) -> int:
    """Features there are of n coordinates."""
    return 1 + n + n * (n + 1) // 2 + RANDOM


def causal_order(weight: Tensor) -> list[int]:
    r"""The order that maximises the sum of weight[i, j] over i before j, exact: best orders of sets, :math:`n 2^n`."""
    n, w = len(weight), weight.double()
    best: list[tuple[float, int]] = [(0.0, -1)]
    for chosen in range(1, 2**n):
        inside = [i for i in range(n) if chosen >> i & 1]
        into = w[inside].sum(0).tolist()
        best.append(max((best[chosen ^ 1 << j][0] + into[j] - float(w[j, j]), j) for j in inside))
    order, left = [], 2**n - 1
    while left:
        order.append(best[left][1])
        left ^= 1 << order[-1]
    return order[::-1]


def kolmogorov(a: Tensor, b: Tensor) -> Tensor:
    """Largest distances of the distribution functions of each column, (N, n) and (M, n) -> (n,), in units of their
    deviation under equality."""
    pooled = torch.cat([a, b]).T.contiguous()
    at = pooled.sort(1).values
    below = [torch.searchsorted(x.T.contiguous().sort(1).values, at, right=True) / len(x) for x in (a, b)]
    return (below[0] - below[1]).abs().amax(1) * math.sqrt(len(a) * len(b) / (len(a) + len(b)))


def effects(z: Sequence[Tensor], pairs: Sequence[tuple[int, int]]) -> Tensor:
    """(n, n): how surely an intervention on i changes the distribution of j; 0 where that is chance."""
    n = z[0].shape[1]
    out = torch.zeros(n, n, dtype=torch.float64)
    for i, (a, b) in enumerate(pairs):
        changed = (kolmogorov(z[a], z[b]) - 1.6).clamp_min(0)  # 1.6: exceeded once in a hundred times
        out[i] = torch.log1p(changed.double())
        out[i, i] = 0
    return out


class Dependence(NamedTuple):
    statistic: Tensor  #: (n, n): t of j as a cause of i, at [j, i]
    critical: float  #: where it becomes an edge


def causes_from_samples(z: Sequence[Tensor], pairs: Sequence[tuple[int, int]], level: float) -> Dependence:
    """z[e] are the codes in environment e, (N, n), the observational one first; pairs are environments of a latent."""
    from scipy.stats import norm

    n, p = z[0].shape[1], len(pairs)
    order = [i for i in causal_order(effects(z, pairs)) if i < p]
    out = torch.full((n, n), -math.inf, dtype=torch.float64)
    features = Features.draw(n)
    for place, i in enumerate(order):
        before = torch.zeros(n, dtype=torch.bool)
        before[order[:place]] = True
        if not place:
            continue
        hit = [e for e in pairs[i] if e]
        free = untouched(z, hit)
        target = free[:, i] - error_of(z, hit, i, before, free)
        whole = held_out(features(free, before), target)
        for j in order[:place]:
            less = before.clone()
            less[j] = False
            gain = (held_out(features(free, less), target) - whole).double()
            out[j, i] = gain.mean() / (gain.std() / math.sqrt(len(gain))).clamp_min(1e-300)
    return Dependence(out, float(norm.isf(level / max(p * (p - 1) / 2, 1))))


def untouched(z: Sequence[Tensor], hit: Sequence[int]) -> Tensor:
    """Rows of the environments that do not intervene on a latent, equally many of each as far as there are."""
    free = [rows for e, rows in enumerate(z) if e not in hit or not e]
    return torch.cat([rows[: ROWS // len(free)] for rows in free]).float()


def error_of(z: Sequence[Tensor], hit: Sequence[int], i: int, before: Tensor, at: Tensor) -> Tensor:
    """What predecessors predict of code i, linearly and by squares, where i is intervened on and they should not."""

    def simple(u: Tensor) -> Tensor:
        return torch.cat([u[:, before], u[:, before].square()], 1)

    square, product = torch.zeros(()), torch.zeros(())
    for e in hit:
        u = z[e].double()
        x, y = simple(u), u[:, i] - u[:, i].mean()
        x, weight = x - x.mean(0), 1 / y.var()
        square, product = square + weight * (x.T @ x), product + weight * (x.T @ y)
    return simple(at) @ torch.linalg.lstsq(square, product).solution.to(at)


def held_out(x: Tensor, y: Tensor) -> Tensor:
    """Squared errors of ridge regressions, each half of the rows predicted from the other."""
    out = torch.empty_like(y)
    for half in (0, 1):
        beta = ridge(x[half::2], y[half::2])
        out[1 - half :: 2] = (y[1 - half :: 2] - x[1 - half :: 2] @ beta).square()
    return out


def ridge(x: Tensor, y: Tensor) -> Tensor:
    square = (x.T @ x).double()
    square.diagonal().add_(1e-5 * square.diagonal().mean() + 1e-12)
    return torch.linalg.solve(square, (x.T @ y).double()).to(x)


def confidence_of_samples(found: Dependence) -> Tensor:
    """One half at the critical value."""
    return torch.sigmoid(found.statistic - found.critical)


def confidence_of_differences(D0: Tensor, D: Tensor, spread: Tensor) -> Tensor:
    """(n, n), [j, i], from mean differences (P, n) of the observational environment and of pairs.

    A component along j is compared with the error in i's row and in j's, since either code may hold the other's
    latent. A component of rounding's size is none.
    """
    p, n = D.shape
    each = torch.arange(p)
    free, error = D0 * spread, D * spread
    free, error = free / free[each, each, None], error / error[each, each, None]
    error[each, each] = 0
    both = torch.zeros(p, n).to(D)
    both[:, :p] = torch.maximum(error[:, :p], error[:, :p].T)
    ratio = free / (SURE * both).clamp_min(1e-3)
    out = torch.zeros(n, n).to(D)
    out[:p, :p] = (ratio.square() / (1 + ratio.square()))[:, :p].T
    out.fill_diagonal_(0)
    order = causal_order(out)
    rank = torch.empty(n, dtype=torch.long)
    rank[order] = torch.arange(n)
    return out * (rank[:, None] < rank)


def mechanisms(z: Sequence[Tensor], pairs: Sequence[tuple[int, int]], confidence: Tensor) -> Mechanisms:
    """Regressions on the causes found, in all environments that do not intervene on the effect."""
    n = z[0].shape[1]
    causes, features = confidence > 0.5, Features.draw(n)
    out = torch.zeros(n, width(n))
    for i in range(n):
        hit = pairs[i] if i < len(pairs) else ()
        if causes[:, i].any():
            free = untouched(z, hit)
            out[i] = ridge(features(free, causes[:, i]), free[:, i]).float()
    return Mechanisms(causes, out)
