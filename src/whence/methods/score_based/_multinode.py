r"""Unknown multi-node interventions under a linear mixing: which environments hit which latents, and along what.

Notation: u are the n coordinates of the support; a latent is a row of the encoder H, :math:`z = H u`; `hits[i, m]` is
one if environment m intervenes on latent i. Latents are in causal order, causes first, so their mechanisms see only
the flag of subspaces :math:`V_i = \operatorname{span}(h_1, \dots, h_i)`. Two facts carry everything:

* the density of the last latent given the others is one function in the environments that hit it and another one in
  the rest, so :math:`\Theta_m g = \Theta_0 g + c_m \varphi` for its decoder column g, with :math:`c \in \{0, 1\}^M`;
* without the last latent, the others are a model of the same kind.

So a causal order, hits and flag are found from the last latent to the first, by eigenvectors for each of the
:math:`2^M` patterns c; no search over integer combinations of environments is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

BLOCKS = 64  #: of rows in each environment: what the variance of an estimate is estimated from


class Blocks(NamedTuple):
    """Second moments of (1, u) in blocks of rows of each environment, the observational one first."""

    second: Tensor  #: (G, b, 1 + n, 1 + n)
    rows: Tensor  #: (G, b)

    @classmethod
    def of(
        cls,
        samples: Sequence[Tensor | Callable[[], Iterable[Tensor]]],
        b: int | None = None,
        features: Callable[[Tensor], Tensor] | None = None,
    ) -> Blocks:
        """Of the rows of each environment, or of chunks of them that are read once; with `features` of u that begin
        with (1, u), the second moments of these."""
        b = b or min([BLOCKS, *(len(u) // 2 for u in samples if isinstance(u, Tensor))])
        second, rows = [], []
        for source in samples:
            sums, many = None, torch.zeros(b, dtype=torch.float64)
            for chunk in [source] if isinstance(source, Tensor) else source():
                for k, part in enumerate(chunk.double().tensor_split(b)):
                    phi = (features or with_one)(part)
                    sums = phi.new_zeros(b, phi.shape[1], phi.shape[1]) if sums is None else sums
                    sums[k] += phi.T @ phi
                    many[k] += len(part)
            assert sums is not None
            second.append(sums / many.clamp_min(1)[:, None, None])
            rows.append(many)
        return cls(torch.stack(second), torch.stack(rows))

    @property
    def totals(self) -> tuple[Tensor, Tensor]:
        """Second moments (G, 1 + n, 1 + n) of all rows, and how many they are (G,)."""
        count = self.rows.sum(1)
        return torch.einsum("gb,gbij->gij", self.rows / count[:, None], self.second), count

    def under(self, change: Tensor) -> Blocks:
        """In other coordinates of (1, u)."""
        return Blocks(change @ self.second @ change.T, self.rows)


def with_one(u: Tensor) -> Tensor:
    return torch.cat([torch.ones_like(u[:, :1]), u], 1)


def beside_one(H: Tensor) -> Tensor:
    """H on u as a map of (1, u)."""
    return torch.block_diag(torch.ones(1, 1).to(H), H)


def whiten(T: Tensor) -> tuple[Tensor, Tensor]:
    """The map of (1, u) that makes second moments T the identity, and the map W of u in it."""
    root = torch.linalg.inv(torch.linalg.cholesky(T))
    return root, root[1:, 1:]


def patterns(m: int) -> Tensor:
    """(2^m, m): all sets of environments, none first."""
    return torch.cartesian_prod(*[torch.tensor([0.0, 1.0], dtype=torch.float64)] * m).view(-1, m)


def pooled(T: Tensor, count: Tensor, hits: Tensor) -> tuple[Tensor, Tensor]:
    """Second moments (C, 2, q, q) and rows (C, 2) of the environments outside and inside each pattern."""
    outside = torch.cat([torch.ones_like(hits[:, :1]), 1 - hits], 1)
    weight = torch.stack([outside, 1 - outside], 1) * count
    rows = weight.sum(2)
    mean = torch.einsum("ckg,gij->ckij", weight / rows.clamp_min(1)[..., None], T)
    empty = (rows == 0)[..., None, None]
    return torch.where(empty, torch.eye(T.shape[-1]).to(T), mean), rows


def log_variance(T: Tensor) -> Tensor:
    """Of each coordinate given the constant and those before it: (..., 1 + n, 1 + n) -> (..., n)."""
    return 2 * torch.linalg.cholesky(T).diagonal(dim1=-2, dim2=-1)[..., 1:].log()


def misfit(T: Tensor, count: Tensor, L: Tensor, hits: Tensor) -> float:
    """Twice the log-likelihood ratio of Gaussians with free moments in each environment to the flag L with its hits."""
    Y = beside_one(L) @ T @ beside_one(L).T
    P, rows = pooled(Y, count, hits)
    own = log_variance(P).diagonal(dim1=0, dim2=2).T
    return float((rows * own).sum() - count @ log_variance(Y).sum(1))


def effects(T: Tensor, count: Tensor, L: Tensor, hits: Tensor) -> Tensor:
    """(n,): twice the log-likelihood ratio of two mechanisms to one, of each latent. With hits of full rank the score
    differences of the model are dependent only if that of some latent is zero."""
    n = len(L)
    Y = beside_one(L) @ T @ beside_one(L).T
    P, rows = pooled(Y, count, torch.cat([hits, torch.zeros_like(hits[:1])]))
    own = log_variance(P)
    return count.sum() * own[n, 0] - (rows[:n, :, None] * own[:n]).sum(1).diagonal()


def freedom(n: int, hits: Tensor) -> int:
    """Degrees of freedom of the misfit: free means and covariances less flag, regressions, variances, intercepts."""
    groups = len(hits) + int(hits.any(1).sum())
    classes = 1 + hits.any(1).long()
    regressions = int((classes * torch.arange(n)).sum())
    return (1 + hits.shape[1]) * (n + n * (n + 1) // 2) - n * (n - 1) // 2 - regressions - 2 * groups


# --- the search, by likelihood ---------------------------------------------------------------------------------------


class Flag(NamedTuple):
    cost: float
    L: Tensor  #: (n, n), causes first: row i completes a basis of V_i
    hits: Tensor  #: (n, M)


def flags_by_likelihood(
    T: Tensor, count: Tensor, beam: int, *, independent: bool = True, every: Tensor | None = None
) -> list[Flag]:
    """Orders, flags and hits from the last latent to the first, the best first; T is white in the observational one.

    Rows of hits are linearly independent, or may be anything. Where they are known, but for their order, they are told
    as `every`.
    """
    n, every = T.shape[-1] - 1, patterns(len(T) - 1) if every is None else every
    states: list[tuple[float, Tensor, list[Tensor], list[int]]] = [(0.0, torch.eye(n).to(T), [], [])]
    for k in range(n, 0, -1):
        found = []
        for cost, rest, rows, hit in states:
            new = torch.arange(len(every))
            if independent:
                new = new[(every @ outside(every[hit])).square().sum(1) > 1e-9]
            least, g = last_latents(beside_one(rest) @ T @ beside_one(rest).T, count, every[new], beam)
            for c in least.argsort()[:beam].tolist():
                found.append((cost + float(least[c]), rest, g[c], rows, [*hit, int(new[c])]))
        found.sort(key=lambda state: state[0])
        states, seen = [], set()
        for cost, rest, direction, rows, hit in found:
            if (key := tuple(sorted(hit))) in seen:
                continue  # the same latents, taken in another order
            seen.add(key)
            q = torch.linalg.qr(torch.cat([direction[:, None], torch.eye(k).to(T)], 1)).Q
            states.append((cost, q[:, 1:].T @ rest, [q[:, 0] @ rest, *rows], hit))
            if len(states) == beam:
                break
    return [Flag(cost, torch.stack(rows), every[hit[::-1]]) for cost, _, rows, hit in states]


def outside(rows: Tensor) -> Tensor:
    """The projector on what is orthogonal to all rows."""
    q = torch.linalg.qr(rows.T).Q
    return torch.eye(rows.shape[1]).to(rows) - q @ q.T


def last_latents(T: Tensor, count: Tensor, hits: Tensor, beam: int) -> tuple[Tensor, Tensor]:
    r"""For each pattern the likeliest direction g of a last latent, and twice its log-likelihood ratio.

    .. math:: \sum_m N_m \log g^\top \Theta_m g - \sum_k N_k \log g^\top P_k g

    for the precisions of environments and of the two pools. It is stationary where the generalised eigenproblem of the
    two sums, each term divided by its quadratic form, has the eigenvalue one; that is iterated for the best patterns.
    """
    theta = torch.linalg.inv(T)[:, 1:, 1:]
    P, rows = pooled(T, count, hits)
    P = torch.linalg.inv(P)[..., 1:, 1:]

    def ratio(g: Tensor, P: Tensor, rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        a, b = torch.einsum("ci,gij,cj->cg", g, theta, g), torch.einsum("ci,ckij,cj->ck", g, P, g)
        return a.log() @ count - (rows * b.log()).sum(1), a, b

    g = extreme(torch.einsum("g,gij->ij", count, theta), torch.einsum("ck,ckij->cij", rows, P))
    cost, a, b = ratio(g, P, rows)
    best = cost.argsort()[: 2 * beam]
    for _ in range(3):
        A = torch.einsum("cg,gij->cij", count / a[best], theta)
        B = torch.einsum("ck,ckij->cij", rows[best] / b[best], P[best])
        new = extreme(A, B)
        lower, a_, b_ = ratio(new, P[best], rows[best])
        better = lower < cost[best]
        at = best[better]
        g[at], cost[at], a[at], b[at] = new[better], lower[better], a_[better], b_[better]
    return cost, g


def extreme(A: Tensor, B: Tensor) -> Tensor:
    """(C, n): where B is largest compared with A."""
    root = torch.linalg.inv(torch.linalg.cholesky(A))
    return (root.mT @ torch.linalg.eigh(root @ B @ root.mT).eigenvectors[..., -1:]).squeeze(-1)


def likeliest_hits(T: Tensor, count: Tensor, L: Tensor) -> Tensor:
    """(n, M): for each latent of a flag the environments that hit it."""
    Y = beside_one(L) @ T @ beside_one(L).T
    every = patterns(len(T) - 1)
    P, rows = pooled(Y, count, every)
    return every[torch.einsum("ck,cki->ci", rows, log_variance(P)).argmin(0)]


# --- the search, by moments of score differences ---------------------------------------------------------------------


def flags_by_moments(R: Tensor, beam: int, every: Tensor | None = None) -> list[Flag]:
    """The same from cross moments (M, M, n, n) of score differences, whatever the causal model.

    A combination of environments that is orthogonal to the hits of the latents found so far does not see them: its
    score difference has no component along their decoder columns. The cost is the share of the score differences
    along those columns that such combinations see. Hits are found up to those of later latents; `likeliest_hits`
    tells them apart.
    """
    m, n = R.shape[1:3]
    every = patterns(m)[1:] if every is None else every
    whole = torch.eye(m).to(R)
    states: list[tuple[float, Tensor, list[Tensor], list[int], Tensor]] = [(0.0, torch.eye(n).to(R), [], [], whole)]
    for _ in range(n):
        found = []
        for cost, rest, columns, hit, P in states:
            seen = every @ P
            size = seen.square().sum(1)
            new = size > 1e-9 * every.sum(1)
            unit = seen / size.clamp_min(1e-12).sqrt()[:, None]
            unit = unit * torch.where(unit.gather(1, unit.abs().argmax(1, keepdim=True)) < 0, -1.0, 1.0)
            _, group = unit.round(decimals=6).unique(dim=0, return_inverse=True)
            first = torch.full((int(group.max()) + 1,), len(every)).scatter_reduce(
                0, group, torch.arange(len(every)), "amin"
            )
            first = first[new[first]]
            less = P - unit[first, :, None] * unit[first, None, :]
            share, g = unseen(R, less, rest)
            for j in share.argsort()[:beam].tolist():
                found.append((cost + float(share[j]), rest, [g[j], *columns], [*hit, int(first[j])], less[j]))
        found.sort(key=lambda state: state[0])
        states, known = [], set()
        for cost, _, columns, hit, P in found:
            if (key := tuple(P.flatten().mul(1e5).round().long().tolist())) in known:
                continue
            known.add(key)
            q = torch.linalg.qr(torch.stack(columns, 1), mode="complete").Q
            states.append((cost, q[:, len(columns) :].T, columns, hit, P))
            if len(states) == beam:
                break
    return [Flag(cost, functionals(torch.stack(columns, 1)), every[hit[::-1]]) for cost, _, columns, hit, _ in states]


def unseen(R: Tensor, P: Tensor, rest: Tensor) -> tuple[Tensor, Tensor]:
    """For projectors P (C, M, M) of environments the direction, among the rows of `rest`, of least share, and it."""
    inside = torch.einsum("ai,mkij,bj->mkab", rest, R, rest)
    inside = (inside + inside.permute(1, 0, 3, 2)) / 2
    total = torch.einsum("mmab->ab", inside)
    value, vector = torch.linalg.eigh(total)
    W = vector * value.clamp_min(1e-14 * float(value[-1])).rsqrt()
    share, g = torch.linalg.eigh(W.T @ torch.einsum("cmk,mkab->cab", P, inside) @ W)
    g = (W @ g[..., :1]).squeeze(-1) @ rest
    return share[:, 0].clamp_min(0), g / g.norm(dim=1, keepdim=True)


def functionals(G: Tensor) -> Tensor:
    """Of the columns of a decoder, causes first, the flag: row i vanishes on all later columns."""
    return torch.linalg.qr(G.flip(1)).Q.T.flip(0)


# --- mechanisms, refinement, uncertainty -----------------------------------------------------------------------------


class Mechanisms(NamedTuple):
    """Of latents :math:`z = H u`: what is left of a latent after regression on its predecessors where it is hit.

    Where it is not: :math:`z_i = \\sum_j B_{ij} z_j + a_{i0} + \\sqrt{v_{i0}}\\, e`; where it is, a_{i1} and v_{i1}.
    """

    H: Tensor  #: (n, n)
    B: Tensor  #: (n, n), strictly lower triangular: row i has the coefficients of the causes of i
    a: Tensor  #: (n, 2)
    v: Tensor  #: (n, 2)


def mechanisms(T: Tensor, count: Tensor, L: Tensor, hits: Tensor) -> Mechanisms:
    n = len(L)
    P, _ = pooled(beside_one(L) @ T @ beside_one(L).T, count, hits)
    C = torch.linalg.cholesky(P)
    each = torch.arange(n)
    scale = C[each, :, each + 1, each + 1]  # (n, 2)
    rest = torch.linalg.inv(C)[each, :, each + 1] * scale[..., None]
    never = ~hits.any(1)
    rest[never, 1], scale[never, 1] = rest[never, 0], scale[never, 0]
    free, R = rest[:, 0, 1:], rest[:, 1, 1:]
    B = torch.eye(n).to(R) - free @ torch.linalg.inv(R)
    return Mechanisms(R @ L, B.tril(-1), -rest[..., 0], scale.square())


def slopes(z: Blocks, fit: Mechanisms, hits: Tensor) -> tuple[Tensor, Tensor]:
    r"""Gradients of the log-likelihood in each block (G, b, p), and its Fisher information (p, p), at z = H u.

    Parameters: an infinitesimal mixing of the latents, :math:`H \to (I + E) H`, row by row without the diagonal; the
    coefficients B below the diagonal; log-variances; intercepts.
    """
    _, B, a, v = fit
    n = len(B)
    eye = torch.eye(n).to(B)
    mix, below = (~torch.eye(n, dtype=torch.bool)).nonzero(), torch.ones(n, n).tril(-1).nonzero()
    unit = torch.eye(1 + n).to(B)
    sd = v.sqrt()
    F = [torch.cat([-a[:, k : k + 1], C], 1) / sd[:, k : k + 1] for k, C in enumerate((eye - B, eye))]
    # In either class of mechanisms the change of F by a parameter is the product of a column and a row.
    column = torch.stack(
        [
            torch.cat(
                [
                    F[k][:, 1:].T[mix[:, 0]],
                    -(eye / sd[:, 0])[below[:, 0]] * (k == 0),
                    (eye[:, None] * own).flatten(0, 1),
                    (-(eye / sd[:, k])[:, None] * own).flatten(0, 1),
                ]
            )
            for k, own in enumerate(torch.eye(2).to(B)[:, :, None])
        ]
    )
    row = torch.cat(
        [
            unit[1 + mix[:, 1]],
            unit[1 + below[:, 1]],
            -torch.stack(F, 1).flatten(0, 1) / 2,
            unit[:1].expand(2 * n, -1),
        ]
    )
    gradient, information = [], torch.zeros(len(row), len(row)).to(B)
    for g, (T, rows) in enumerate(zip(z.second, z.rows, strict=True)):
        hit = torch.zeros(n, dtype=torch.bool) if g == 0 else hits[:, g - 1].bool()
        here = torch.where(hit[:, None], F[1], F[0])
        c = torch.where(hit, column[1], column[0])
        w = row[:, 1:] @ torch.linalg.inv(here[:, 1:])
        shift = row[:, 0] - w @ here[:, 0]
        moved = torch.stack([((c @ part) * row).sum(1) for part in here @ T])
        gradient.append(rows[:, None] * ((c * w).sum(1) - moved))
        cross = c @ w.T
        information += rows.sum() * ((c @ c.T) * (w @ w.T + torch.outer(shift, shift)) + cross * cross.T)
    return torch.stack(gradient), information


def inverse(information: Tensor) -> Tensor:
    """Of a matrix that has one; else its pseudo-inverse."""
    scale = information.diagonal().clamp_min(1e-300).rsqrt()
    root, failed = torch.linalg.cholesky_ex(scale[:, None] * information * scale)
    if failed or root.diagonal().min() < 1e-5:
        return torch.linalg.pinv(information, hermitian=True)
    return scale[:, None] * torch.cholesky_inverse(root) * scale


def refine(blocks: Blocks, L: Tensor, hits: Tensor, steps: int = 50) -> Flag:
    """Maximum likelihood over the flag by Fisher scoring; regressions and variances are solved exactly in between."""
    (T, count), n = blocks.totals, len(L)
    mix = (~torch.eye(n, dtype=torch.bool)).nonzero()
    cost = misfit(T, count, L, hits)
    for _ in range(steps):
        fit = mechanisms(T, count, L, hits)
        whole = Blocks(T[:, None], count[:, None]).under(beside_one(fit.H))
        gradient, information = slopes(whole, fit, hits)
        slope = gradient.sum((0, 1))
        step = inverse(information) @ slope
        E = torch.zeros(n, n).to(L)
        E[mix[:, 0], mix[:, 1]] = step[: len(mix)]
        size = 1.0
        while size > 1e-3:
            new = (torch.eye(n).to(L) + size * E) @ fit.H
            if (lower := misfit(T, count, new, hits)) < cost:
                break
            size /= 2
        else:
            break
        done = cost - lower < 1e-4  # of a likelihood ratio, whose unit is one
        cost, L = lower, new
        if done:
            break
    return Flag(cost, L, hits)


class Uncertainty(NamedTuple):
    se: Tensor  #: (n, n): standard errors of B, the encoder's uncertainty included
    inflation: float  #: of the misfit's mean, by noise that is not Gaussian (Satorra and Bentler 1994); else about one


def uncertainty(blocks: Blocks, fit: Mechanisms, hits: Tensor) -> Uncertainty:
    """From the spread of the gradient over blocks, so whatever the distribution of the noise."""
    n = len(fit.B)
    gradient, information = slopes(blocks.under(beside_one(fit.H)), fit, hits)
    back = inverse(information)
    spread = deviation(gradient)
    below = torch.ones(n, n).tril(-1).nonzero()
    se = torch.zeros(n, n).to(fit.B)
    variance = (spread @ back).square().sum(0)[n * (n - 1) :]
    se[below[:, 0], below[:, 1]] = variance[: len(below)].sqrt()
    free = float(spread_of_moments(blocks).sum())
    left = freedom(n, hits)
    return Uncertainty(se, (free - float(((spread @ back) * spread).sum())) / left if left else 1.0)


def spread_of_moments(blocks: Blocks) -> Tensor:
    """(G,): the variance of white means and covariances, summed, in units of what Gaussians have: with them it is
    the number n + n (n + 1) / 2 of these moments."""
    found = []
    for T, rows, whole in zip(blocks.second, blocks.rows, blocks.totals[0], strict=True):
        root, _ = whiten(whole)
        moved = deviation((rows[:, None, None] * (root @ T @ root.T))[None])
        found.append(moved.square().sum() / 2 / rows.sum())
    return torch.stack(found)


def deviation(parts: Tensor) -> Tensor:
    """Of (G, b, ...) sums over blocks: squares of the rows, (G b, ...), add up to the variance of the sum over all."""
    b = parts.shape[1]
    return (parts - parts.mean(1, keepdim=True)).flatten(0, 1) * (b / (b - 1)) ** 0.5


# --- latents from moments of score differences ----------------------------------------------------------------------


def flag_of(R: Tensor, hits: Tensor) -> Tensor:
    """(n, n): the flag, given the hits of its latents, causes first."""
    columns: list[Tensor] = []
    P, rest = torch.eye(hits.shape[1]).to(R), torch.eye(R.shape[-1]).to(R)
    for c in hits.flip(0):
        seen = P @ c
        P = P - torch.outer(seen, seen) / seen.square().sum()
        columns.insert(0, unseen(R, P[None], rest)[1][0])
        rest = torch.linalg.qr(torch.stack(columns, 1), mode="complete").Q[:, len(columns) :].T
    return functionals(torch.stack(columns, 1))


def single(R: Tensor, hits: Tensor) -> Tensor:
    r"""(n, n, n): :math:`\mathbb{E}[\delta_i \delta_i^\top]` of the score difference that hitting latent i alone makes.

    Differences add up, :math:`d_m = \sum_i c_{im} \delta_i`, so a right inverse of the hits takes them apart.
    """
    W = torch.linalg.pinv(hits)
    return torch.einsum("mi,mkab,ki->iab", W, R, W)


def most_changed(D: Tensor) -> Tensor:
    """(n, n): for each latent the direction in which its own score difference is largest."""
    return torch.linalg.eigh((D + D.mT) / 2).eigenvectors[..., -1]


def leaks(H: Tensor, D: Tensor, replicates: Tensor, noise: Tensor) -> Tensor:
    r"""(n, n): [i, j] is how many times the part of :math:`\delta_i` along latent j, its mean square, exceeds what the
    uncertainty of the encoder and of the scores alone would put there. Above the diagonal there is nothing else.

    Most of what leaks is the part along i, so the larger of two ratios is taken: of the part along j, and of what is
    left of it after regression on the part along i. `replicates` (b, n, n) are encoders without one block of the data
    each, `noise` (n, n, n) the second moments of the error of :math:`\delta_i`.
    """
    n, b = len(H), len(replicates)
    decoder = torch.linalg.inv(H)
    moved = torch.linalg.inv(replicates)
    mix = H @ (moved - moved.mean(0))  # (b, n, n): column j is the error of decoder column j, in latents
    spread = torch.einsum("bkj,blj->jkl", mix, mix) * (b - 1) / b
    inside, error = decoder.T @ D @ decoder, decoder.T @ noise @ decoder
    inside = (inside + inside.mT) / 2
    own = torch.stack([part[i] for i, part in enumerate(inside)])
    left = inside - own[:, :, None] * own[:, None] / own.diagonal()[:, None, None]
    floor = n * torch.finfo(torch.float32).eps ** 2 * inside.diagonal(dim1=1, dim2=2).amax(1, keepdim=True)
    ratios = []
    for part in (inside, left):
        leak = torch.einsum("ikl,jkl->ij", part, spread) + error.diagonal(dim1=1, dim2=2)
        ratios.append(part.diagonal(dim1=1, dim2=2) / (leak + floor))
    return torch.maximum(*ratios)
