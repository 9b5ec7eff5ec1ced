"""Gradient-boosted trees on binned codes, many trees side by side: the importances of DCI in seconds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F

from whence.metrics.arrays import Array

NUMBERS = 300_000  #: of a table that is summed at once: a larger one leaves the processor's cache
TIES = 1e-5  #: a coin decides between gains that differ by a smaller share, so that equal codes are equally important


class Learned(NamedTuple):
    """What a learner found out about one factor."""

    importance: Array  #: (D,): of each code, not negative
    predicted: Array  #: of the test rows, as the targets were given: classes (N,) or numbers (N, M)


@dataclass(frozen=True, kw_only=True)
class Boosting:
    """Gradient boosting of small trees. A code is important as far as its splits remove squared error.

    Residuals, leaves and importances are those of scikit-learn's GradientBoosting. Departure: codes are cut into
    `bins`, each edge in the widest gap of its share of the rows, and splits lie between them.
    """

    rounds: int = 100  #: trees for each class or number
    rate: float = 0.1  #: share of a tree's step that is taken
    depth: int = 3  #: splits on the way to a leaf
    bins: int = 64  #: of each code, at most 256
    rows: int = 30_000  #: to learn from, at most

    def __call__(self, z: Array, y: Array, z_test: Array, seed: int = 0) -> Learned:
        rng = np.random.default_rng(seed)
        if len(z) > self.rows:
            some = np.sort(rng.choice(len(z), self.rows, replace=False))
            z, y = z[some], y[some]
        n, classify = len(z), y.ndim == 1
        v = (np.arange(y.max() + 1)[:, None] == y if classify else y.T).astype(np.float32)
        trees = Trees(cells(z, z_test, self.bins), n, rng)
        first = np.log(v.mean(1)) if classify else v.mean(1)
        told = np.repeat(first[:, None], n + len(z_test), 1)
        c = len(v)
        parts = np.array_split(np.arange(c), -(-c * n * 2**self.depth // (2 * NUMBERS)))
        for _ in range(self.rounds):
            p = torch.softmax(torch.from_numpy(told[:, :n]), 0).numpy() if classify else told[:, :n]
            for part in parts:
                mine = p[part]
                curvature = mine * (1 - mine) * (c / (c - 1)) if classify else np.ones_like(mine)
                told[part] += self.rate * trees.grow(v[part] - mine, curvature, self.depth)
        return Learned(trees.importance, told[:, n:].argmax(0) if classify else told[:, n:].T)


def cells(z: Array, z_test: Array, bins: int) -> Array:
    """(D, N) bin numbers of the rows to learn from, then of the others."""
    out = np.empty((z.shape[1], len(z) + len(z_test)), np.uint8)
    for j, (column, other) in enumerate(zip(z.T, z_test.T, strict=True)):
        edges = cuts(column, bins)
        out[j, : len(z)], out[j, len(z) :] = np.searchsorted(edges, column), np.searchsorted(edges, other)
    return out


def cuts(column: Array, bins: int) -> Array:
    """Edges between bins: between all values if they are few, else in the widest gap of each share of the rows."""
    ordered = np.sort(column.astype(np.float64))
    few = ordered[np.append(True, np.diff(ordered) > 0)]
    if len(few) <= bins:
        return (few[:-1] + few[1:]) / 2
    gap = np.diff(ordered)
    first = np.arange(bins - 1) * len(gap) // (bins - 1)
    widest = np.maximum.reduceat(gap, first)
    share = np.repeat(np.arange(bins - 1), np.diff(np.append(first, len(gap))))
    at = np.flatnonzero((gap == widest[share]) & (gap > 0))
    at = at[np.unique(share[at], return_index=True)[1]]
    return (ordered[at] + ordered[at + 1]) / 2


class Trees:
    """Grows one tree for each of several targets at once; each pass over the rows serves all of them."""

    def __init__(self, cells: Array, n: int, rng: np.random.Generator) -> None:
        self.cells, self.n, self.rng = cells, n, rng
        self.importance = np.zeros(len(cells))
        bins = max(int(cells.max()), 1) + 1
        self.counts = np.stack([np.bincount(row, minlength=bins) for row in cells[:, :n]]).astype(np.float32)
        order = np.argsort(cells[:, :n], axis=1, kind="stable")
        starts = np.arange(len(cells))[:, None] * n + self.counts.cumsum(1, dtype=np.int64) - self.counts
        self.order, self.starts = (torch.from_numpy(a.ravel().astype(np.int32)) for a in (order, starts))

    def sums(self, numbers: Array) -> Array:
        """(D, bins, ...) sums of (n, ...) numbers over the rows of each bin."""
        table = torch.from_numpy(numbers.reshape(self.n, -1))
        found = F.embedding_bag(self.order, table, self.starts, mode="sum")
        return found.numpy().reshape(*self.counts.shape, *numbers.shape[1:])

    def grow(self, residual: Array, curvature: Array, depth: int) -> Array:
        """(C, N): what trees that fit (C, n) residuals say of every row."""
        c, n = residual.shape
        node = np.zeros((c, self.cells.shape[1]), np.uint8)
        across = np.ascontiguousarray(residual.T)
        sums = self.sums(across[:, None])  # (D, bins, nodes, C)
        counts = np.broadcast_to(self.counts[:, :, None, None], sums.shape)
        for level in range(depth):
            code, edge = self.split(sums, counts)
            right = np.zeros(node.shape, bool)
            for k in range(2**level):
                right |= (node == k) & (self.cells[code[k]] > edge[k][:, None])
            node = 2 * node + right
            if level + 1 < depth:
                lefts = 2 * np.arange(2**level, dtype=np.uint8)[:, None]
                table = np.empty((n, 2, 2**level, c), np.float32)
                table[:, 1] = np.ascontiguousarray(node[:, :n].T)[:, None] == lefts
                np.multiply(table[:, 1], across[:, None], out=table[:, 0])
                left_sums, left_counts = self.sums(table).transpose(2, 0, 1, 3, 4)
                sums, counts = (
                    np.stack([a, b - a], 3).reshape(*a.shape[:2], -1, c)
                    for a, b in ((left_sums, sums), (left_counts, counts))
                )
        leaf = node + (np.arange(c, dtype=np.intp) << depth)[:, None]
        mine = leaf[:, :n].ravel()
        up, down = (np.bincount(mine, a.ravel(), minlength=c << depth) for a in (residual, curvature))
        step = np.divide(up, down, out=np.zeros_like(up), where=down > 0)
        return step.astype(np.float32)[leaf]

    def split(self, sums: Array, counts: Array) -> tuple[Array, Array]:
        """(nodes, C) of the best code and bin to split each node after; their gains are counted as importance."""
        left, below = sums.cumsum(1), counts.cumsum(1)
        total, number = left[0, -1], below[0, -1]
        left, below = left[:, :-1], below[:, :-1]
        above = number - below
        room = below * above / np.maximum(number, 1)
        off = left - total * (below / np.maximum(number, 1))
        gain = np.divide(off * off, room, out=np.zeros_like(off), where=room > 0)
        coin = 1 + TIES * self.rng.random((len(gain), 1, *gain.shape[2:]), dtype=np.float32)
        flat = (gain * coin).reshape(-1, *total.shape)
        best, most = flat.argmax(0), flat.max(0)
        code, edge = np.divmod(best, gain.shape[1])
        np.add.at(self.importance, code, most)
        return code, np.where(most > 0, edge, 255).astype(np.uint8)
