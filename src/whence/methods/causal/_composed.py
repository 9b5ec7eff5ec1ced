"""Pictures composed of parts, and nonlinear mechanisms between concepts: what the anchored methods are made of."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Generator, Tensor, nn
from torch.nn.functional import avg_pool2d, binary_cross_entropy, one_hot

from whence import values
from whence.nets import Architecture, mlp
from whence.scm import parents, topological_order

BLANK = 2.0  #: a part's logits start at minus this: nearly nothing is drawn yet
QUANTILES = 101
NEAR = 8  #: pictures that tell a place
SURE = 1e-6  #: no pixel is predicted with more certainty than 1 less this


def families(graph: Tensor) -> tuple[tuple[int, ...], ...]:
    """The parts of a picture if nothing else is told: every root by itself, effects of the same causes together.

    >>> g = torch.zeros(4, 4, dtype=torch.bool)
    >>> g[:2, 2:] = True
    >>> families(g)
    ((0,), (1,), (2, 3))
    """
    found: dict[tuple[int, ...], list[int]] = {}
    for j in range(len(graph)):
        causes = parents(graph, j)
        found.setdefault(causes or (-1 - j,), []).append(j)
    return tuple(tuple(members) for members in found.values())


def parts_of(parts: Sequence[str] | None, graph: Tensor, names: Sequence[str]) -> tuple[tuple[int, ...], ...]:
    """Parts such as "hole+flow" by the concepts' numbers; every concept must be in one."""
    if parts is None:
        return families(graph)
    found = []
    for part in parts:
        for name in part.split("+"):
            if name not in names:
                raise ValueError(values.unknown("concept in a part", name, names))
        found.append(tuple(list(names).index(name) for name in part.split("+")))
    if lost := [name for i, name in enumerate(names) if not any(i in part for part in found)]:
        raise ValueError(
            f"Every concept is drawn in a part of the picture, and {', '.join(lost)} is in none. Add it: "
            f"parts=(..., {lost[0]!r})."
        )
    return tuple(found)


def distances(a: Tensor) -> Tensor:
    return torch.cdist(a, a, compute_mode="donot_use_mm_for_euclid_dist")


@torch.no_grad()
def tellers(x: Tensor, a: Tensor, parts: Sequence[Sequence[int]]) -> Tensor:
    """(G, H, W) of 0 and 1: the part that tells each place of pictures x (N, C, H, W) best from its own concepts.

    A place is told by its mean in the pictures whose concepts, of a (N, L), are nearest; errors are summed over
    channels and over the eight places around. An effect tells its own place better than its causes do, which miss
    its noise.
    """
    errors: list[Tensor] = []
    same = distances(a) == 0  # a picture drawn twice tells itself
    for part in parts:
        far = distances(a[:, list(part)]).masked_fill_(same, torch.inf)
        near = far.topk(min(NEAR, len(x) - 1), largest=False).indices
        off = (
            (x[of].mean(1) - rows).square().sum((0, 1)) for rows, of in zip(x.split(64), near.split(64), strict=True)
        )
        errors.append(torch.stack(list(off)).sum(0))
    around = avg_pool2d(torch.stack(errors)[None], 3, stride=1, padding=1, count_include_pad=False)[0]
    return one_hot(around.argmin(0), len(parts)).movedim(2, 0).to(x.dtype)


class Waves(nn.Module):
    """Numbers in [-1, 1] with sines and cosines of them, so that a small change of place is a large change of input."""

    def __init__(self, octaves: int) -> None:
        super().__init__()
        self.octaves = octaves

    def width(self, inputs: int) -> int:
        return inputs * (1 + 2 * self.octaves)

    def forward(self, z: Tensor) -> Tensor:
        turns = [z * (math.pi / 2 * 2**k) for k in range(self.octaves)]
        return torch.cat([z, *(f(t) for t in turns for f in (torch.sin, torch.cos))], 1)


class Drawn(NamedTuple):
    product: Tensor  #: of all parts, (B, *shape), from 0 to 1
    ink: Tensor  #: how much parts draw, over pixels and parts, mean over the batch


class Parts(nn.Module):
    r"""A picture as the product of pictures of its parts, :math:`\hat x = \prod_g (1 - m_g \, \sigma(f_g(z_g)))`.

    Each part sees its own concepts alone, so parts go on being drawn as they were when others move, in combinations
    that were never seen. :math:`m_g` is 1 at places where the part may draw. On a dark ground it is the darkness that
    is multiplied.
    """

    def __init__(
        self, net: Architecture, shape: tuple[int, ...], parts: Sequence[Sequence[int]], light: bool, octaves: int
    ) -> None:
        super().__init__()
        self.parts, self.light = tuple(map(tuple, parts)), light
        self.waves = Waves(octaves)
        self.drawn = nn.ModuleList(net.decoder(self.waves.width(len(part)), shape) for part in self.parts)
        self.register_buffer("places", torch.ones(len(self.parts), 1, *shape[1:]))
        self.places: Tensor

    def forward(self, z: Tensor) -> Drawn:
        """Codes -> the product, (B, *shape), and what its parts draw."""
        product, ink = torch.ones((), device=z.device), torch.zeros((), device=z.device)
        for may, part, net in zip(self.places, self.parts, self.drawn, strict=True):
            drawn = may * torch.sigmoid(net(self.waves(z[:, part])).float() - BLANK)
            product, ink = product - product * drawn, ink + drawn.sum() / len(z)
        return Drawn(product, ink)

    def mean(self, product: Tensor) -> Tensor:
        """The product -> the picture."""
        return product if self.light else 1 - product

    def cross_entropy(self, product: Tensor, x: Tensor) -> Tensor:
        r"""Mean over the batch of :math:`-\sum_i x_i \log \hat x_i + (1 - x_i) \log(1 - \hat x_i)`."""
        shown = x if self.light else 1 - x
        return binary_cross_entropy(product.clamp(SURE, 1 - SURE), shown, reduction="sum") / len(x)


class Mechanisms(nn.Module):
    r"""Each concept from its causes, :math:`z_j = g_j(z_{pa(j)}) + e_j`, and back, in causal order."""

    def __init__(self, graph: Tensor, names: Sequence[str], hidden: Sequence[int]) -> None:
        super().__init__()
        self.order = topological_order(graph, names)
        self.causes = [parents(graph, j) for j in range(len(graph))]
        self.effects = [j for j, causes in enumerate(self.causes) if causes]
        self.links = nn.ModuleList(
            mlp([len(causes), *hidden, 1], nn.SiLU) if causes else nn.Identity() for causes in self.causes
        )
        self.register_buffer("quantiles", torch.linspace(-1, 1, QUANTILES).repeat(len(graph), 1))
        self.quantiles: Tensor

    def link(self, z: Tensor, j: int) -> Tensor:
        """g_j of the causes among z (B, L); 0 without causes."""
        if not self.causes[j]:
            return torch.zeros_like(z[:, j])
        return self.links[j](z[:, self.causes[j]])[:, 0]

    def abduct(self, z: Tensor) -> Tensor:
        return torch.stack([z[:, j] - self.link(z, j) for j in range(z.shape[1])], 1)

    def predict(self, e: Tensor, do: Mapping[int, Tensor]) -> Tensor:
        """Without the columns being written in place, so that gradients pass."""
        columns = list(e.unbind(1))
        for j in self.order:
            columns[j] = do[j] if j in do else e[:, j] + self.link(torch.stack(columns, 1), j)
        return torch.stack(columns, 1)

    def known(self, a: Tensor) -> Tensor:
        """(B, L): of which anchors both they and all their causes are known."""
        there = ~a.isnan()
        return torch.stack([there[:, [j, *causes]].all(1) for j, causes in enumerate(self.causes)], 1)

    @torch.no_grad()
    def learn_noise(self, a: Tensor) -> None:
        """The noise's quantiles, concept by concept, from anchors some of which may be missing."""
        at = torch.linspace(0, 1, QUANTILES)
        for j, (e, known) in enumerate(zip(self.abduct(a.nan_to_num()).T, self.known(a).T, strict=True)):
            if known.any():
                self.quantiles[j] = torch.quantile(e[known].cpu(), at.to(e.dtype))

    def noise(self, n: int, rng: Generator) -> Tensor:
        """(n, L): draws by the inverse of the distribution function."""
        at = torch.rand(n, len(self.causes), generator=rng) * (QUANTILES - 1)
        below = at.long().clamp(max=QUANTILES - 2)
        q = self.quantiles.cpu()
        column = torch.arange(len(q))
        low, high = q[column, below], q[column, below + 1]
        return low + (at - below) * (high - low)
