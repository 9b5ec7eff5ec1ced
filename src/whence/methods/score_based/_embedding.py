"""A first guess of n coordinates for points on a curved surface in more dimensions, without folds."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np
import torch
from torch import Generator, Tensor

LANDMARKS = 2_500  #: points that distances are taken between
NEAREST = (6, 8)  #: neighbours of a point in the graph; the number with the least folding is taken
FOLDED = 1.6  #: neighbours this many times farther apart in y than need be are the sign of a fold
SPARE = 3  #: coordinates beyond n, of which the best n are taken


class Embedding(NamedTuple):
    points: Tensor  #: (L,) which rows have coordinates
    at: Tensor  #: (L, n), of unit variance
    folding: float  #: how far apart in y are those who are neighbours in the embedding; 1 at best


def embedding(y: Tensor, n: int, starts: Sequence[Tensor] = (), landmarks: int = LANDMARKS) -> Embedding:
    """Of all that is offered, the n coordinates that fold least.

    Offered are the leading coordinates of `starts`, each (len(y), n or more), and if all of them fold, those of Isomap
    (Tenenbaum, de Silva and Langford 2000) on the first rows: classical scaling of distances along the graph of nearest
    neighbours. Of n + 3 leading coordinates those n are taken whose neighbours are neighbours in y: a long direction's
    second harmonic may come before a short direction, and folds if it is taken instead.
    """
    y = y.double()
    few = torch.arange(min(landmarks, len(y)))
    best: Embedding | None = None
    for start in starts:
        which, fold = flattest(y[few], start[few].double(), n)
        if best is None or fold < best.folding:
            best = Embedding(torch.arange(len(y)), start[:, which].double(), fold)
    if best is not None and best.folding < FOLDED:
        return best
    for k in NEAREST:
        try:
            rows, coordinates = scaled(y[few], k, n + SPARE)
        except ValueError:
            continue
        which, fold = flattest(y[rows], coordinates, n)
        if best is None or fold < best.folding:
            best = Embedding(rows, coordinates[:, which], fold)
    if best is None:
        raise ValueError(f"{len(y)} points are too few to find {n} curved coordinates. Give more examples.")
    return best


def flattest(y: Tensor, coordinates: Tensor, n: int) -> tuple[list[int], float]:
    """Which n of the leading coordinates fold least, and how much."""
    many = min(n + SPARE, coordinates.shape[1])
    found = {which: folding(y, coordinates[:, list(which)]) for which in combinations(range(many), n)}
    best = min(found, key=lambda which: found[which])
    return list(best), found[best]


def scaled(y: Tensor, k: int, many: int) -> tuple[Tensor, Tensor]:
    """Rows of the largest connected part, and its leading coordinates of classical scaling, of unit variance."""
    from scipy.sparse.csgraph import connected_components, shortest_path
    from sklearn.neighbors import kneighbors_graph

    if len(y) <= k + 1:
        raise ValueError
    graph = kneighbors_graph(y.numpy(), k, mode="distance")
    graph = graph.maximum(graph.T)
    _, label = connected_components(graph, directed=False)
    rows = np.flatnonzero(label == np.bincount(label).argmax())
    if len(rows) <= many + 1:
        raise ValueError
    distance = torch.from_numpy(shortest_path(graph[rows][:, rows], directed=False)).float()
    b = distance.square()
    b = -0.5 * (b - b.mean(0) - b.mean(1, keepdim=True) + b.mean())
    start = torch.randn(len(b), many, generator=Generator().manual_seed(0), dtype=b.dtype)
    _, vector = torch.lobpcg(b, k=many, X=start, niter=100)
    return torch.from_numpy(rows), (vector * len(rows) ** 0.5).double()


def folding(y: Tensor, at: Tensor, sample: int = 500) -> float:
    """The mean over points of the distance in y to the neighbours in the embedding, over that to those in y."""
    which = torch.linspace(0, len(y) - 1, min(sample, len(y))).long()
    far = torch.cdist(y[which], y)
    near = torch.cdist(at[which], at).topk(7, largest=False).indices[:, 1:]
    own = far.topk(7, largest=False).values[:, 1:]
    return float((far.gather(1, near).mean(1) / own.mean(1).clamp_min(1e-12)).mean())
