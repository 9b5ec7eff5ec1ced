"""Directed acyclic graphs as (n, n) bool tensors: A[i, j] means that i causes j."""

from __future__ import annotations

import heapq
from collections.abc import Hashable, Iterable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Generator, Tensor

from whence import values


def random_graph(
    n: int,
    *,
    probability: float | None = None,
    degree: float | None = None,
    shuffle: bool = False,
    rng: Generator,
) -> Tensor:
    """A random DAG: every edge i -> j with i < j is there with this probability, independently.

    `degree` asks for that many edges a node on average instead (the "ER2" of the literature has 2 n edges), as far as
    n nodes can have them. The topological order is 0, 1, ... unless shuffled.
    """
    if (probability is None) == (degree is None):
        raise ValueError(f"Give probability or degree, one of them, got {probability=} and {degree=}.")
    if n < 1:
        raise ValueError(f"A graph has at least one node, got n={n}.")
    p = min(2 * degree / max(n - 1, 1), 1.0) if degree is not None else probability
    if p is None or not 0 <= p <= 1:
        what = f"degree={degree}" if degree is not None else f"probability={probability}"
        raise ValueError(f"The probability of an edge lies between 0 and 1 and degree is not negative, got {what}.")
    a = (torch.rand(n, n, generator=rng) < p).triu(1)
    if not shuffle:
        return a
    place = torch.randperm(n, generator=rng)
    return a[place][:, place]


def from_matrix(a: Tensor | np.ndarray | Sequence[Sequence[float]], names: Sequence[str] | None = None) -> Tensor:
    """An adjacency matrix, of weights too (not zero: an edge), checked: square and without a cycle."""
    m = torch.as_tensor(np.asarray(a) if not isinstance(a, Tensor) else a)
    if m.ndim != 2 or m.shape[0] != m.shape[1]:
        raise ValueError(f"A graph is a square matrix A with A[i, j] true if i causes j, got shape {tuple(m.shape)}.")
    if m.dtype.is_floating_point and not torch.isfinite(m).all():
        raise ValueError(f"A graph is a matrix of finite numbers, got {int((~torch.isfinite(m)).sum())} that are not.")
    g = m != 0
    topological_order(g, names)
    return g


def from_edges(edges: Iterable[tuple[Hashable, Hashable]], nodes: int | Sequence[Hashable]) -> Tensor:
    """Pairs (cause, effect) of positions or names; `nodes` is how many there are, or their names in order.

    >>> from_edges([("rain", "wet"), ("hose", "wet")], ["rain", "hose", "wet"]).int().tolist()
    [[0, 0, 1], [0, 0, 1], [0, 0, 0]]
    """
    names = list(range(nodes)) if isinstance(nodes, int) else list(nodes)
    place = {name: k for k, name in enumerate(names)}
    a = torch.zeros(len(names), len(names), dtype=torch.bool)
    for edge in edges:
        for end in edge:
            if end not in place:
                raise ValueError(values.unknown("node", str(end), map(str, names)))
        a[place[edge[0]], place[edge[1]]] = True
    return from_matrix(a, [str(name) for name in names])


def from_networkx(graph: Any) -> tuple[Tensor, tuple[str, ...]]:
    """The adjacency matrix and the nodes' names of a networkx.DiGraph."""
    if not graph.is_directed():
        raise TypeError(
            f"A causal graph has directed edges, got a {type(graph).__name__}, whose edges have no direction. Build a "
            "networkx.DiGraph of (cause, effect)."
        )
    nodes = list(graph.nodes)
    return from_edges(graph.edges(), nodes), tuple(map(str, nodes))


def to_networkx(a: Tensor, names: Sequence[str] | None = None) -> Any:
    """A networkx.DiGraph with named nodes."""
    import networkx

    names = names or range(len(a))  # type: ignore[assignment]
    graph = networkx.DiGraph()
    graph.add_nodes_from(names)
    graph.add_edges_from((names[i], names[j]) for i, j in a.nonzero().tolist())  # type: ignore[index]
    return graph


def topological_order(a: Tensor, names: Sequence[str] | None = None) -> tuple[int, ...]:
    """Causes before effects; among equals the smaller number first. A cycle is refused by its names."""
    causes, effects = ([set(np.flatnonzero(row).tolist()) for row in m.cpu().numpy()] for m in (a.T, a))
    left = [len(c) for c in causes]
    ready = [j for j, many in enumerate(left) if not many]
    order: list[int] = []
    while ready:
        order.append(heapq.heappop(ready))
        for j in effects[order[-1]]:
            left[j] -= 1
            if not left[j]:
                heapq.heappush(ready, j)
    if len(order) < len(causes):
        among = set(range(len(causes))) - set(order)
        found = [str(k) if names is None else names[k] for k in _cycle(causes, among)]
        raise ValueError(f"A causal graph has no cycle, got {' -> '.join(found)}. Remove one of these edges.")
    return tuple(order)


EXACT = 16  #: nodes up to which the nearest DAG is found for certain, with n 2^n numbers


def nearest_dag(weight: Tensor) -> Tensor:
    """Of weights of edges that may form cycles, weight[i, j] of i -> j and none negative, those to keep, so that no
    cycle is left and the least weight is lost; the others are 0."""
    place = torch.tensor(nearest_order(weight)).argsort()
    return weight * (place[:, None] < place[None])


def nearest_order(weight: Tensor) -> tuple[int, ...]:
    """The order of nodes in which most weight leads forward.

    Up to 16 nodes over all orders: the best order of a set is that of a smaller one with a last node (Silander and
    Myllymaki 2006). Beyond, nodes are moved to the places where they are best until none gains.
    """
    w = weight.detach().double().cpu().numpy().copy()
    if w.ndim != 2 or w.shape[0] != w.shape[1] or not np.isfinite(w).all():
        raise ValueError(f"Weights of edges are a square matrix of finite numbers, got shape {w.shape}.")
    np.fill_diagonal(w, 0)
    return _best_order(w) if len(w) <= EXACT else _good_order(w)


def _best_order(w: np.ndarray) -> tuple[int, ...]:
    n = len(w)
    into = np.zeros((n, 1))  # [j, set]: the weight from the set into j
    for i in range(n):
        into = np.concatenate([into, into + w[i][:, None]], 1)
    sets, size = np.arange(2**n), np.zeros(2**n, int)
    for i in range(n):
        size += sets >> i & 1
    best, last = np.full(2**n, -np.inf), np.zeros(2**n, int)
    best[0] = 0
    for k in range(1, n + 1):
        here = sets[size == k]
        for j in range(n):
            mine = here[here >> j & 1 == 1]
            rest = mine ^ 1 << j
            gain = best[rest] + into[j, rest]
            better = gain > best[mine]
            best[mine[better]], last[mine[better]] = gain[better], j
    order, left = [], 2**n - 1
    while left:
        order.append(int(last[left]))
        left ^= 1 << order[-1]
    return tuple(order[::-1])


def _good_order(w: np.ndarray) -> tuple[int, ...]:
    order: list[int] = []
    left = list(range(len(w)))
    while left:  # a source has nothing led into it
        inner = w[np.ix_(left, left)]
        order.append(left.pop(int((inner.sum(0) / np.maximum(inner.sum(0) + inner.sum(1), 1e-300)).argmin())))
    moved = True
    while moved:
        moved = False
        for node in list(order):
            at = order.index(node)
            others = [k for k in order if k != node]
            gain = np.concatenate([[0], np.cumsum(w[others, node] - w[node, others])])
            to = int(gain.argmax())
            if gain[to] > gain[at] + 1e-12 * np.abs(gain).max():
                order, moved = [*others[:to], node, *others[to:]], True
    return tuple(order)


def _cycle(causes: list[set[int]], among: set[int]) -> list[int]:
    """A cycle among nodes that all have a cause among themselves, its first node repeated at the end."""
    walk = [min(among)]
    while True:
        cause = min(causes[walk[-1]] & among)
        if cause in walk:
            return [cause, *reversed(walk[walk.index(cause) :])]
        walk.append(cause)


def is_acyclic(a: Tensor) -> bool:
    return not transitive_closure(a).diagonal().any()


def parents(a: Tensor, j: int) -> tuple[int, ...]:
    return tuple(a[:, j].nonzero()[:, 0].tolist())


def ancestors(a: Tensor, j: int) -> tuple[int, ...]:
    """All causes of j, direct or not; without j."""
    return parents(transitive_closure(a), j)


def descendants(a: Tensor, i: int) -> tuple[int, ...]:
    """All effects of i, direct or not; without i."""
    return ancestors(a.T, i)


def transitive_closure(a: Tensor) -> Tensor:
    """C[i, j]: a directed path leads from i to j."""
    c = a.to(torch.float32)
    for _ in range(max(len(a) - 1, 1).bit_length()):  # paths of length 1, 2, 4, ...
        c = ((c + c @ c) > 0).to(torch.float32)
    return c > 0


def transitive_reduction(a: Tensor) -> Tensor:
    """The fewest edges with the same closure: those that no longer path replaces."""
    return a & ~((a.float() @ transitive_closure(a).float()) > 0)


def reversals(a: Tensor, b: Tensor) -> Tensor:
    """The edges of a that b has in the other direction only."""
    return a & ~a.T & b.T & ~b
