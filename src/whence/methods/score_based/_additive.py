r"""Single-node hard interventions under a linear mixing and polynomial mechanisms with additive noise, by likelihood.

.. math:: z = H u, \qquad z_i = b_i^\top \varphi(z_1, \dots, z_{i-1}) + \sqrt{v_i}\, e, \qquad
          z_i = m_i + \sqrt{w_i}\, e \ \text{ where } i \text{ is intervened on}

with :math:`\varphi` all monomials up to a degree, latents in causal order, and a Gaussian likelihood. It needs only the
second moments of the monomials of u in each environment: monomials of z are linear in those of u, so every order and
encoder is judged without another look at the data. With degree one it is the model of `_multinode`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor

from whence.methods.score_based._multinode import Blocks, deviation

FIRST, GLANCE, LAST = 20, 8, 60  #: steps of the likelihood: at the first order, at one more order, at the last
FAR = 6  #: latents; with more, only neighbours change places
ENOUGH = 4  #: rows for each coefficient, at least, where mechanisms of environments are compared
CHUNK = 32  #: rows of a matrix of second derivatives, computed at a time


class Monomials:
    """All products of at most `degree` of n variables: 1, the variables themselves, then the higher ones."""

    def __init__(self, n: int, degree: int) -> None:
        self.n, self.degree = n, degree
        self.every = [
            powers for d in range(degree + 1) for powers in itertools.combinations_with_replacement(range(n), d)
        ]
        self.place = {powers: p for p, powers in enumerate(self.every)}
        self.within = torch.tensor([max(powers, default=-1) for powers in self.every])

    def __len__(self) -> int:
        return len(self.every)

    @cached_property
    def layers(self) -> list[tuple[Tensor, Tensor, Tensor]]:
        """For each degree above one: monomials are products of one of the degree below (first) and a variable (second);
        the table tells which one a product is."""
        found = []
        for d in range(2, self.degree + 1):
            below = [powers for powers in self.every if len(powers) == d - 1]
            here = [powers for powers in self.every if len(powers) == d]
            start_below, start = self.place[below[0]], self.place[here[0]]
            first = torch.tensor([self.place[powers[:-1]] - start_below for powers in here])
            second = torch.tensor([powers[-1] for powers in here])
            table = [[self.place[tuple(sorted((*powers, k)))] - start for k in range(self.n)] for powers in below]
            found.append((first, second, torch.tensor(table)))
        return found

    def of(self, u: Tensor) -> Tensor:
        """(N, n) -> (N, P)."""
        parts = [torch.ones_like(u[:, :1]), u]
        for first, second, _ in self.layers:
            parts.append(parts[-1][:, first] * u[:, second])
        return torch.cat(parts, 1)

    def change(self, H: Tensor) -> Tensor:
        """(P, P): the monomials of H u as combinations of those of u."""
        parts = [torch.ones(1, 1).to(H), H]
        for first, second, table in self.layers:
            each = parts[-1][first][:, :, None] * H[second][:, None]
            out = torch.zeros(len(first), int(table.max()) + 1).to(H)
            parts.append(out.index_add(1, table.flatten(), each.flatten(1)))
        return torch.block_diag(*parts)


class Fit(NamedTuple):
    """Latents in causal order; `hits[i]` is the environment that intervenes on latent i, from 1 on."""

    cost: float  #: minus twice the log-likelihood, but for a constant
    H: Tensor  #: (n, n)
    hits: tuple[int, ...]


def profile(basis: Monomials, M: Tensor, count: Tensor, H: Tensor, hits: Sequence[int]) -> Tensor:
    """Minus twice the largest log-likelihood of an encoder: regressions and variances are solved."""
    change = basis.change(H)
    C = change @ M @ change.T
    total = -2 * count.sum() * torch.linalg.slogdet(H)[1]
    whole = torch.einsum("g,gpq->pq", count, C)
    for i, e in enumerate(hits):
        hit, at = C[e], 1 + i
        free = whole - count[e] * hit
        causes = (basis.within < i).nonzero()[:, 0]
        cross = free[causes, at]
        rest = free[at, at] - cross @ torch.linalg.solve(free[causes][:, causes], cross)
        rows = count.sum() - count[e]
        total = total + rows * (rest / rows).log() + count[e] * (hit[at, at] - hit[0, at] ** 2).log()
    return total


def maximise(basis: Monomials, M: Tensor, count: Tensor, start: Tensor, hits: Sequence[int], steps: int) -> Fit:
    """Over encoders, by BFGS in relative changes :math:`H \\to (I + E) H`; rows keep their scale."""
    from scipy.optimize import minimize

    n = len(start)
    mix = (~torch.eye(n, dtype=torch.bool)).nonzero().T
    rows = float(count.sum())
    change = basis.change(start)
    M = change @ M @ change.T

    def encoder(e: Tensor) -> Tensor:
        return torch.eye(n).to(M).index_put((mix[0], mix[1]), e)

    def value(e: object) -> tuple[float, object]:
        at = torch.as_tensor(e, dtype=torch.float64).requires_grad_()
        cost = profile(basis, M, count, encoder(at), hits) / rows
        if not torch.isfinite(cost):
            return math.inf, at.detach().numpy() * 0
        (slope,) = torch.autograd.grad(cost, at)
        return cost.item(), slope.numpy()

    with torch.enable_grad():
        found = minimize(
            value,
            torch.zeros(mix.shape[1], dtype=torch.float64).numpy(),
            jac=True,
            method="BFGS",
            options={"maxiter": steps, "gtol": 1e-5},
        )
    H = encoder(torch.as_tensor(found.x)) @ start
    return Fit(float(found.fun) * rows - 2 * rows * float(torch.linalg.slogdet(start)[1]), H, tuple(hits))


class Spread(NamedTuple):
    """Of the coefficients of mechanisms, at z = H u."""

    b: Tensor  #: (n, P): of each latent on the monomials of those before it
    at: Tensor  #: (n, P) where a coefficient is among the parameters, else -1
    covariance: Tensor  #: of all parameters, the encoder's uncertainty included
    freedom: int  #: of its estimate


def spread(basis: Monomials, blocks: Blocks, fit: Fit) -> Spread:
    r"""Coefficients and the covariance of their estimates, encoder included, :math:`A^{-1} B A^{-1}`, with the
    likelihood's curvature A and the gradient's covariance B from its spread over blocks of rows, so that noise may have
    any distribution."""
    change = basis.change(fit.H)
    blocks = blocks.under(change)
    (M, count), n = blocks.totals, len(fit.H)
    b = torch.zeros(n, len(basis)).to(M)
    v, w, m = torch.ones(3, n).to(M)
    whole = torch.einsum("g,gpq->pq", count, M)
    for i, e in enumerate(fit.hits):
        free = whole - count[e] * M[e]
        causes = (basis.within < i).nonzero()[:, 0]
        b[i, causes] = torch.linalg.solve(free[causes][:, causes], free[causes, 1 + i])
        v[i] = (free[1 + i, 1 + i] - b[i] @ free[:, 1 + i]) / (count.sum() - count[e])
        m[i] = M[e, 0, 1 + i]
        w[i] = M[e, 1 + i, 1 + i] - m[i] ** 2
    mix = (~torch.eye(n, dtype=torch.bool)).nonzero().T
    causes = (basis.within < torch.arange(n)[:, None]).nonzero().T
    at = torch.full((n, len(basis)), -1)
    at[causes[0], causes[1]] = torch.arange(causes.shape[1]) + mix.shape[1]
    theta = torch.cat([torch.zeros(mix.shape[1]).to(M), b[causes[0], causes[1]], v.log(), w.log(), m])
    sizes = [mix.shape[1], causes.shape[1], n, n, n]

    def cost(theta: Tensor, M: Tensor, rows: Tensor, hit: Tensor) -> Tensor:
        e, b, v, w, m = theta.split(sizes)
        E = torch.eye(n).to(M).index_put((mix[0], mix[1]), e)
        B = torch.zeros(n, len(basis)).to(M).index_put((causes[0], causes[1]), b)
        one = torch.zeros_like(B)
        one[:, 0] = 1.0
        change = basis.change(E)
        own = change[1 : 1 + n]
        c = torch.where(hit[:, None], own - m[:, None] * one, own - B @ change)
        s = torch.where(hit, w, v)
        square = ((c @ M) * c).sum(1)
        return rows * ((s + square * (-s).exp()).sum() / 2 - torch.linalg.slogdet(E)[1])

    hit = torch.tensor(fit.hits)[None] == torch.arange(len(M))[:, None]
    A = torch.zeros(len(theta), len(theta)).to(M)
    gradient = []
    for g in range(len(M)):
        A += torch.func.jacrev(torch.func.grad(cost), chunk_size=CHUNK)(theta, M[g], count[g], hit[g])
        each = torch.func.vmap(torch.func.grad(cost), in_dims=(None, 0, 0, None))
        gradient.append(each(theta, blocks.second[g], blocks.rows[g], hit[g]))
    moved = deviation(torch.stack(gradient))
    root = moved @ torch.linalg.pinv(A, hermitian=True)
    return Spread(b, at, root.T @ root, moved.shape[0] - len(M))


def edges(basis: Monomials, found: Spread, doubt: Doubt, later: Tensor, lasts: Tensor) -> Tensor:
    """(n, n): [i, j] is the probability that what `lasts` of all coefficients of latent i on monomials with latent j is
    as far from zero as it is, were there no edge from j to i: by what chance does to them (Hotelling), by what the
    model leaves unsaid (quasi-likelihood; Wedderburn 1974), and by chance in the order of the two (a likelihood ratio),
    the largest."""
    from scipy.stats import chi2
    from scipy.stats import f as fisher

    n, p = len(found.b), torch.ones(len(found.b), len(found.b), dtype=torch.float64)
    for i in range(n):
        for j in range(i):
            group = torch.tensor([k for k, powers in enumerate(basis.every) if j in powers and found.at[i, k] >= 0])
            at, b = found.at[i, group], found.b[i, group]
            q = len(group)
            T = float(lasts[i, j] * (b @ torch.linalg.solve(found.covariance[at][:, at], b)))
            left = found.freedom - q + 1
            chance = float(fisher.sf(T * left / (found.freedom * q), q, left))
            unsaid = float(fisher.sf(T / (q * doubt.factor[i]), q, doubt.freedom[i])) if doubt.freedom[i] else 0.0
            p[i, j] = max(chance, unsaid, float(chi2.sf(float(later[i, j]) / doubt.factor[i], 1)))
    return p


class Doubt(NamedTuple):
    """How wrong the model of each latent's mechanism is, by the one thing that theory says of any: it is the same in
    all environments that do not intervene on the latent."""

    factor: list[float]  #: how many times chance its coefficients differ between those environments, at least one
    freedom: list[int]  #: of that; 0: too few rows to see it


def doubt(basis: Monomials, M: Tensor, count: Tensor, fit: Fit) -> Doubt:
    """Of regressions in each environment alone to one for all (an F statistic). Mechanisms that are no polynomials,
    and an encoder that these have misled, make coefficients that follow the distribution of the causes, and so differ
    where that does."""
    change = basis.change(fit.H)
    C = count[:, None, None] * (change @ M @ change.T)
    factors, freedoms = [], []
    for i, e in enumerate(fit.hits):
        free = [g for g in range(len(M)) if g != e]
        causes = (basis.within < i).nonzero()[:, 0]
        q = len(causes)
        left = float(count[free].sum()) - q * len(free)
        if i == 0 or len(free) < 2 or left < ENOUGH * q:
            factors.append(1.0)
            freedoms.append(0)
            continue
        alone = sum(rest(C[g], causes, 1 + i) for g in free)
        more = (rest(C[free].sum(0), causes, 1 + i) - alone) / (q * (len(free) - 1))
        factors.append(max(more / (alone / left), 1.0))
        freedoms.append(q * (len(free) - 1))
    return Doubt(factors, freedoms)


def parts(basis: Monomials, M: Tensor, count: Tensor, fit: Fit) -> Tensor:
    """(n, n): [i, j] is the part of latent j in the mechanism of latent i: by how many times the variance of the noise
    the sum of squares grows without it, less what chance does."""
    change = basis.change(fit.H)
    C = count[:, None, None] * (change @ M @ change.T)
    n = len(fit.H)
    out = torch.zeros(n, n).to(M)
    for i, e in enumerate(fit.hits):
        free = C.sum(0) - C[e]
        rows = count.sum() - count[e]
        causes = (basis.within < i).nonzero()[:, 0]
        left = rest(free, causes, 1 + i)
        for j in range(i):
            others = torch.tensor([k for k in causes.tolist() if j not in basis.every[k]])
            out[i, j] = rows * (rest(free, others, 1 + i) / left - 1) - (len(causes) - len(others))
    return out.clamp_min(0)


def lasting(before: Tensor, after: Tensor) -> Tensor:
    r"""Which share of a part is left at least, were polynomials of ever higher degree: if each degree changes its root
    at most three quarters as much as the last one did, then all to come change it by no more than
    :math:`\sum_k (3/4)^k = 3` times that. What kinks put on a latent that is no cause goes away with the degree; what
    a cause does stays."""
    root = after.sqrt()
    return (1 - 3 * (root - before.sqrt()).abs() / root.clamp_min(1e-150)).clamp_min(0).square()


def rest(C: Tensor, causes: Tensor, at: int) -> float:
    """The sum of squares that a regression leaves."""
    cross = C[causes, at]
    return float(C[at, at] - cross @ torch.linalg.lstsq(C[causes][:, causes], cross).solution)


# --- the search ------------------------------------------------------------------------------------------------------


class Search(NamedTuple):
    fit: Fit
    later: Tensor  #: (n, n): [i, j] is what it costs, at least, to have latent j after latent i, of those before it


def likeliest(basis: Monomials, M: Tensor, count: Tensor, start: Tensor, hits: Sequence[int]) -> Search:
    """The order and encoder of largest likelihood, from a first guess of both: latents are moved to other places, to
    neighbouring ones first, until no move is an improvement."""
    n = len(start)
    best = maximise(basis, M, count, start, hits, FIRST)
    tried = {best.hits: best.cost}
    reach = 1
    while reach <= (n - 1 if n <= FAR else 1):
        before = best.cost
        for a, b in itertools.permutations(range(n), 2):
            if abs(a - b) != reach or (reach == 1 and a > b):
                continue
            place = list(range(n))
            place.insert(b, place.pop(a))
            moved = tuple(best.hits[p] for p in place)
            if moved not in tried:
                new = maximise(basis, M, count, best.H[place], moved, GLANCE)
                tried[moved] = new.cost
                best = new if new.cost < best.cost - 1.0 else best  # of a likelihood ratio, whose unit is one
        reach = 1 if best.cost < before else reach + 1
    later = torch.full((n, n), math.inf, dtype=torch.float64)
    for other, cost in tried.items():
        at = [other.index(e) for e in best.hits]
        for i in range(n):
            for j in range(i):
                if at[j] > at[i]:
                    later[i, j] = min(float(later[i, j]), max(cost - best.cost, 0.0))
    return Search(maximise(basis, M, count, best.H, best.hits, LAST), later)


def dependence(basis: Monomials, M: Tensor, count: Tensor, fit: Fit) -> Tensor:
    """(n,): how often a latent would look as dependent on its predecessors where it is intervened on, were it not. The
    encoder makes it uncorrelated with them, so that only products of theirs tell."""
    from scipy.stats import chi2

    change = basis.change(fit.H)
    p = []
    for i, e in enumerate(fit.hits):
        C = change @ M[e] @ change.T
        causes = (basis.within < i).nonzero()[:, 0]
        cross = C[causes, 1 + i]
        left = C[1 + i, 1 + i] - cross @ torch.linalg.solve(C[causes][:, causes], cross)
        ratio = float(count[e] * ((C[1 + i, 1 + i] - C[0, 1 + i] ** 2) / left).log())
        p.append(float(chi2.sf(ratio, len(causes) - 1 - i)) if len(causes) > 1 + i else 1.0)
    return torch.tensor(p, dtype=torch.float64)
