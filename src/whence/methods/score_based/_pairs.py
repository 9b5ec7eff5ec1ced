r"""Pairs of environments that intervene on one latent, and score differences carried from one space to another."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from whence.views import Environments

NEIGHBOURS = 12  #: points of a neighbourhood, in which a curved axis is nearly straight
ANCHORS = 400  #: neighbourhoods that are looked at


class Pair(NamedTuple):
    """Environments with the same target; 0 is the observational one."""

    first: int
    second: int
    target: int | None  #: the latent's number, if told


def told_pairs(data: Environments, per_node: int | None) -> list[Pair] | None:
    """Which environments belong together, latents in the order of told targets or of appearance; None: nobody says.

    A latent with one environment is paired with the observational one.
    """
    for name, env in zip(data.names, data.told, strict=True):
        if env.kind in ("soft", "do"):
            raise ValueError(
                f"GSCALE needs hard interventions, which cut a latent from its causes and leave it some noise, and the "
                f"view says that {name} is {env.kind}. Leave it out."
            )
        if env.targets is not None and len(env.targets) != 1:
            raise ValueError(
                f"GSCALE needs interventions on one latent each, and {name} is on {len(env.targets)}. "
                "Leave it out, or use UMNI for sets of latents under a linear mixing."
            )
    keys = [(0, *env.targets) if env.targets is not None else (1, env.group) for env in data.told]
    if any(key == (1, None) for key in keys):
        if per_node == 2:
            return None
        return [Pair(0, e, None) for e in range(1, len(keys) + 1)]
    order = sorted(set(keys)) if all(key[0] == 0 for key in keys) else list(dict.fromkeys(keys))
    pairs = []
    for key in order:
        mine = [e for e, other in enumerate(keys, 1) if other == key]
        if len(mine) > 2:
            names = ", ".join(data.names[e - 1] for e in mine)
            raise ValueError(
                f"GSCALE takes one or two environments of a latent, got {len(mine)} with the same target ({names}). "
                "Leave some out."
            )
        pairs.append(Pair(mine[0], mine[1], None) if len(mine) == 2 else Pair(0, mine[0], None))
        pairs[-1] = pairs[-1]._replace(target=key[1] if key[0] == 0 else None)
    return pairs


def between(differences: Tensor, pairs: list[Pair]) -> Tensor:
    """(E, N, k) of observational less interventional scores -> (P, N, k), the first of a pair less the second."""
    none = torch.zeros_like(differences[:1])
    each = torch.cat([none, differences])
    return each[[p.second for p in pairs]] - each[[p.first for p in pairs]]


def find_pairs(u: Tensor, differences: Tensor, *, straight: bool) -> list[Pair]:
    """Which environments have the same target, if nobody says.

    The difference of two environments of one latent runs along the gradient of that latent everywhere, so that in a
    small neighbourhood it has one direction; of environments of different latents it has several. The cost of a pair
    is the mean share of other directions, and the pairing of least total cost is taken. If the map is linear
    (`straight`), the whole is one neighbourhood.
    """
    e, n, _ = differences.shape
    if e % 2:
        raise ValueError(
            f"Two environments of each latent are an even number, got {e}. Leave out the one without a partner, or "
            "tell which belong together: Environments.of(..., groups=...)."
        )
    if straight:
        near = torch.arange(n)[None]
    else:
        anchors = torch.linspace(0, n - 1, min(ANCHORS, n)).long()
        near = torch.cdist(u[anchors], u).topk(min(NEIGHBOURS, n), largest=False).indices
    cost = torch.full((e, e), math.inf, dtype=torch.float64)
    for a in range(e):
        for b in range(a + 1, e):
            d = (differences[a] - differences[b])[near].double()
            value = torch.linalg.eigvalsh(d.mT @ d)
            total = value.sum(-1)
            cost[a, b] = ((total - value[:, -1]) / total.clamp_min(1e-300)).mean().item()
    return [Pair(a + 1, b + 1, None) for a, b in cheapest_pairing(cost)]


def cheapest_pairing(cost: Tensor) -> list[tuple[int, int]]:
    """The perfect matching of least total cost, (e, e), of which the upper triangle is read: best matchings of sets,
    the smallest member first."""
    e, c = len(cost), cost.tolist()
    best: dict[int, tuple[float, list[tuple[int, int]]]] = {0: (0.0, [])}
    for taken in range(1, 2**e):
        if taken.bit_count() % 2:
            continue
        a = taken.bit_length() - 1
        found = None
        for b in range(a):
            if taken >> b & 1:
                before = best[taken ^ 1 << a ^ 1 << b]
                if found is None or before[0] + c[b][a] < found[0]:
                    found = before[0] + c[b][a], [*before[1], (b, a)]
        assert found is not None
        best[taken] = found
    return sorted(best[2**e - 1][1])


def pulled(decode: Callable[[Tensor], Tensor], z: Tensor, d: Tensor, *, graph: bool = False) -> Tensor:
    r"""Score differences d (P, B, *shape) at decode(z) as those at z, (P, B, n): :math:`J(z)^\top d`.

    One vector-Jacobian product for each pair: no Jacobian is made. `graph`: differentiable in the decoder.
    """
    with torch.enable_grad():
        at = z if z.requires_grad else z.detach().requires_grad_()
        x = decode(at)
        columns = [
            torch.autograd.grad(x, at, own.to(x), create_graph=graph, retain_graph=graph or k + 1 < len(d))[0]
            for k, own in enumerate(d)
        ]
    return torch.stack(columns)


def pulled_in_chunks(decode: Callable[[Tensor], Tensor], z: Tensor, d: Tensor, rows: int = 512) -> Tensor:
    """The same for as many points as there are."""
    parts = zip(z.split(rows), d.split(rows, 1), strict=True)
    return torch.cat([pulled(decode, at, own).detach() for at, own in parts], 1)
