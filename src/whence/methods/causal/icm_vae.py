"""ICM-VAE: mechanisms that are flows, in the order of a known graph."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Generator, Tensor, nn
from torch.distributions import Normal
from torch.nn.functional import binary_cross_entropy_with_logits

from whence.descend import Adam, Recipe, Run, Terms, Turn, descend
from whence.evidence import Evidence, Guarantee, Reference
from whence.methods.causal._concepts import (
    ConceptCode,
    ConceptMethod,
    anchored,
    check_labels,
    check_pictures,
    graph_of,
    known_mean,
)
from whence.methods.causal._linear import Averaged
from whence.nets import Architecture, Nets, mlp, suited
from whence.representation import Representation
from whence.scm import parents, topological_order
from whence.terms import gaussian, kl, kl_pairwise
from whence.views import Labelled, Labels, Spec, View


class Affine(nn.Module):
    r"""For each concept an affine map whose scale and shift its causes decide, :math:`e^{s_j(z_{pa})} y + t_j(z_{pa})`:
    invertible in y, and at the start the identity."""

    def __init__(self, graph: Tensor, width: int, hidden: int) -> None:
        super().__init__()
        self.causes = [list(parents(graph, j)) for j in range(len(graph))]
        self.links = nn.ModuleList(mlp([max(width * len(c), 1), hidden, 2 * width], nn.SiLU) for c in self.causes)
        for link in self.links:
            for p in list(link.parameters())[-2:]:  # of the last layer
                nn.init.zeros_(p)

    def forward(self, z: list[Tensor], j: int) -> tuple[Tensor, Tensor]:
        """Concepts (B, width) each, of which j's causes are looked at -> log scale and shift, (B, width)."""
        seen = torch.cat([z[i] for i in self.causes[j]], 1) if self.causes[j] else torch.zeros_like(z[j][:, :1])
        s, t = self.links[j](seen).chunk(2, 1)
        return s.tanh(), t


class ICMCode(ConceptCode):
    """A code is the concepts, `width` numbers for each. A do sets a concept to where the prior of its label lies."""

    def __init__(self, nets: Any, spec: Spec, width: int, graph: Tensor, order: tuple[int, ...]) -> None:
        super().__init__(spec, len(graph) * width, graph)
        self.nets, self.width, self.order = nets, width, order

    def abduct(self, x: Tensor) -> Tensor:
        return gaussian(self.nets.encoder(x)).loc.unflatten(1, (-1, self.width))

    def predict(self, e: Tensor, do: Mapping[int, Tensor]) -> Tensor:
        z = list(e.unbind(1))
        for j in self.order:
            y, flow = (do[j][:, None], self.nets.prior) if j in do else (e[:, j], self.nets.flow)
            s, t = flow(z, j)
            z[j] = s.exp() * y + t
        return torch.cat(z, 1)

    def values(self, z: Tensor) -> Tensor:
        own = list(z.unflatten(1, (-1, self.width)).unbind(1))
        found = []
        for j, y in enumerate(own):
            s, t = self.nets.prior(own, j)
            found.append(((y - t) / s.exp()).mean(1))
        return torch.stack(found, 1)

    def picture(self, z: Tensor) -> Tensor:
        return torch.sigmoid(self.nets.decoder(z.unflatten(1, (-1, self.width))))

    def noise(self, n: int, rng: Generator) -> Tensor:
        return torch.randn(n, self.dims // self.width, self.width, generator=rng)


@dataclass(frozen=True, kw_only=True)
class ICMVAE(ConceptMethod):
    r"""ICM-VAE: each concept is a flow of its own noise, and its causes decide which; the prior of concepts has the
    same form, with labels in place of noise.

    .. math:: \epsilon \sim q(\epsilon \mid x), \quad z_j = e^{s_j(z_{pa(j)})} \epsilon_j + t_j(z_{pa(j)}), \quad
              p(z_j \mid u_j, z_{pa(j)}) = \mathcal{N}\bigl(e^{s'_j(z_{pa(j)})} a(u_j) + t'_j(z_{pa(j)}), 1\bigr)

    .. math:: -\mathbb{E} \log p(x \mid z) + \alpha \, \mathrm{KL}(q(\epsilon \mid x) \,\|\, \mathcal{N}(0, 1))
              + \beta \sum_j \mathbb{E} \, \mathrm{KL}(q(z_j \mid x, z_{pa(j)}) \,\|\, p(z_j \mid u_j, z_{pa(j)}))

    The last sum is the divergence of all concepts by the chain rule: given a concept's causes both sides are Gaussian,
    so that each term is exact and only causes are drawn. It holds the flow's volume. Concepts in causal order, A[i, j]:
    i causes j. Sum over pixels and numbers, mean over the batch, of labels over the rows that have them.

    Departures from the reference: every concept has networks of its own, where the authors' code shares one pair and
    masks its input; their log scale is a sigmoid's, ours a hyperbolic tangent's, and 0 at the start; variances of q
    are learned, as in the paper, where the code has 1; a concept's value is read, and set, through the prior's map.
    """

    graph: tuple[str, ...] = ()  #: the causal graph, edges "cause->effect" by the labels' names
    width: int = 4  #: numbers for each concept
    alpha: float = 1.0  #: weight of the divergence of noise from its prior
    beta: float = 1.0  #: weight of the divergence of concepts from the prior that labels give
    hidden: int = 32  #: of the networks of scales and shifts
    net: Architecture | None = None  #: encoder and decoders; none: conv64 for 64x64 images, mlp for anything else

    recipe: ClassVar[Recipe] = Recipe(steps=8_700, batch=64, optimiser=Adam(lr=1e-3))
    reference: ClassVar[Reference] = Reference(
        key="komanduri2024icmvae",
        authors="Komanduri, Aneesh and Wu, Yongkai and Chen, Feng and Wu, Xintao",
        title="Learning Causally Disentangled Representations via the Principle of Independent Causal Mechanisms",
        venue="International Joint Conference on Artificial Intelligence",
        year=2024,
        url="https://arxiv.org/abs/2306.01213",
    )
    guarantee: ClassVar[Guarantee] = Guarantee(
        "concepts up to a map of each, and no permutation (Komanduri et al. 2024, theorem 1)",
        (
            "the causal graph, which is given, is right",
            "labels of all concepts vary the prior's parameters enough",
            "mechanisms are invertible in their noise, the decoder is injective and the posterior exact",
            "nothing is promised of pictures under interventions",
        ),
    )
    evidence: ClassVar[tuple[Evidence, ...]] = (Evidence("closed-form", "tests/methods/test_icm_vae.py"),)

    def __post_init__(self) -> None:
        if self.width < 1:
            raise ValueError(f"width is at least 1, got {self.width}.")

    def init(self, spec: Spec) -> Nets:
        names = self.names(spec)
        n, net, graph = len(names), suited(self.net, spec), graph_of(self.graph, names)
        return Nets(
            encoder=net.encoder(spec.shape, 2 * n * self.width),
            flow=Affine(graph, self.width, self.hidden),
            prior=Affine(graph, self.width, self.hidden),
            decoder=Averaged([net.decoder(self.width, spec.shape) for _ in range(n)]),
        )

    def represent(self, nets: Any, spec: Spec) -> ICMCode:
        graph = graph_of(self.graph, self.names(spec))
        return ICMCode(nets, spec, self.width, graph, topological_order(graph))

    def terms(self, nets: Any, x: Tensor, a: Tensor, order: tuple[int, ...]) -> Terms:
        """The loss on pictures and anchors (NaN: missing)."""
        q = gaussian(nets.encoder(x))
        mean, scale = (m.unflatten(1, (-1, self.width)) for m in (q.loc, q.scale))
        e = mean + scale * torch.randn_like(mean)
        z, off = list(e.unbind(1)), list(e[..., 0].unbind(1))
        for j in order:
            s, t = nets.flow(z, j)
            s_, t_ = nets.prior(z, j)
            given = Normal(s.exp() * mean[:, j] + t, s.exp() * scale[:, j], validate_args=False)
            centre = s_.exp() * a[:, j, None].nan_to_num() + t_
            off[j] = kl_pairwise(given, Normal(centre, torch.ones_like(centre), validate_args=False)).sum(1)
            z[j] = s.exp() * e[:, j] + t
        logits = nets.decoder(torch.stack(z, 1))
        return Terms(
            nll=binary_cross_entropy_with_logits(logits, x.to(logits.dtype), reduction="sum") / len(x),
            noise=self.alpha * kl(q),
            concepts=self.beta * known_mean(torch.stack(off, 1), ~a.isnan()),
        )

    def fit(self, data: View, run: Run) -> Representation:
        assert isinstance(data, Labelled)
        check_labels(data)
        check_pictures(data)
        order = topological_order(graph_of(self.graph, self.names(data.spec)))

        def turns(nets: Any, batch: Labels, t: int) -> Iterator[Turn]:
            yield Turn("all", self.terms(nets, batch.x, anchored(batch.u, data.labels), order))

        return self.represent(descend(turns, self.init(data.spec), data, run), data.spec)
