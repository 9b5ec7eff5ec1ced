"""DEAR: a bidirectional adversarial model whose prior is a causal one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Generator, Tensor, nn
from torch.nn.functional import softplus

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
from whence.nets import Architecture, Nets, mlp, suited
from whence.representation import Representation
from whence.scm import topological_order
from whence.terms import effects, gaussian
from whence.views import Labelled, Labels, Spec, View

FEATURES = 64  #: of a picture, before the code is joined to them
CLIP = (0.5, 2.0)  #: of the generator's weights, for stability
QUICK = 20.0  #: how much larger steps of the graph's weights are than those of others


class Causes(nn.Module):
    r"""The prior, :math:`z = c \circ (I - A^\top)^{-1} \epsilon + d` for concepts and :math:`\epsilon` for the rest.
    A[i, j]: i causes j; weights outside of the support are 0."""

    def __init__(self, support: Tensor) -> None:
        super().__init__()
        n = len(support)
        self.register_buffer("support", support)
        self.weights, self.log_scale, self.shift = (nn.Parameter(torch.zeros(shape)) for shape in ((n, n), (n,), (n,)))
        self.support: Tensor

    def matrix(self) -> Tensor:
        return QUICK * self.weights * self.support

    def forward(self, e: Tensor) -> Tensor:
        n = len(self.support)
        return torch.cat([self.out(e[:, :n] @ effects(self.matrix()).T), e[:, n:]], 1)

    def inverse(self, z: Tensor) -> Tensor:
        n = len(self.support)
        y = self.back(z[:, :n])
        return torch.cat([y - y @ self.matrix(), z[:, n:]], 1)

    def out(self, y: Tensor) -> Tensor:
        return self.log_scale.exp() * y + self.shift

    def back(self, z: Tensor) -> Tensor:
        return (z - self.shift) / self.log_scale.exp()


class Critic(nn.Module):
    """The mean of three opinions: of the picture, of the code, and of both together."""

    def __init__(self, net: Architecture, shape: tuple[int, ...], latents: int, hidden: tuple[int, ...]) -> None:
        super().__init__()

        def opinion(inputs: int) -> nn.Module:
            return mlp([inputs, *hidden, 1], lambda: nn.LeakyReLU(0.2))

        self.body = net.encoder(shape, FEATURES)
        self.x, self.z, self.both = opinion(FEATURES), opinion(latents), opinion(FEATURES + latents)

    def forward(self, x: Tensor, z: Tensor) -> Tensor:
        """(B,): the log odds that a pair is the encoder's."""
        h = self.body(x)
        return (self.x(h) + self.z(z) + self.both(torch.cat([h, z], 1)))[:, 0] / 3


class DEARCode(ConceptCode):
    """A code is the concepts' anchors and, behind them, what is not labelled."""

    def __init__(self, nets: Any, spec: Spec, latents: int, graph: Tensor) -> None:
        super().__init__(spec, latents, graph)
        self.nets, self.order = nets, topological_order(graph)

    def codes(self, x: Tensor) -> Tensor:
        return gaussian(self.nets.encoder(x)).loc

    def abduct(self, x: Tensor) -> Tensor:
        return self.nets.generator.prior.inverse(self.codes(x))

    def predict(self, e: Tensor, do: Mapping[int, Tensor]) -> Tensor:
        prior, n = self.nets.generator.prior, len(self.labels)
        a = prior.matrix()
        y = list(e[:, :n].unbind(1))
        for j in self.order:
            if j in do:
                y[j] = prior.back(do[j][:, None].expand(-1, n))[:, j]
            else:
                y[j] = e[:, j] + torch.stack(y, 1) @ a[:, j]
        return torch.cat([prior.out(torch.stack(y, 1)), e[:, n:]], 1)

    def values(self, z: Tensor) -> Tensor:
        return z[:, : len(self.labels)]

    def picture(self, z: Tensor) -> Tensor:
        return torch.sigmoid(self.nets.generator.decoder(z))

    def noise(self, n: int, rng: Generator) -> Tensor:
        return torch.randn(n, self.dims, generator=rng)


@dataclass(frozen=True, kw_only=True)
class DEAR(ConceptMethod):
    r"""DEAR: an encoder and a generator whose pairs a critic cannot tell apart, with a causal prior and labels.

    .. math:: \epsilon \sim \mathcal{N}(0, 1), \quad F(\epsilon) = c \circ (I - A^\top)^{-1} \epsilon + d, \quad
              D \approx \log \frac{q(x) \, q_E(z \mid x)}{p_F(z) \, p_G(x \mid z)}

    .. math:: \text{critic: } \mathbb{E} \, \mathrm{sp}(-D(x, E(x))) + \mathbb{E} \, \mathrm{sp}(D(G(z), z)), \quad
              \text{encoder: } \mathbb{E} D(x, E(x)) + \lambda \|E(x) - a(u)\|^2, \quad
              \text{generator: } -\mathbb{E} \, w D(G(z), z)

    with sp the softplus, :math:`w = e^D` held and clipped to [.5, 2], :math:`z = F(\epsilon)`, and :math:`a(u)` the
    label scaled to [-1, 1]. The graph's support is given; weights of A are learned with the generator, from 0.
    A[i, j]: i causes j. Mean over the batch, of labels over the rows that have them, which can be few.

    Departures from the reference: squared errors of labels, which the authors' code offers beside its cross-entropy;
    elementwise maps are affine (their `linscm`), not piecewise linear; networks are those of the house.
    """

    graph: tuple[str, ...] = ()  #: edges "cause->effect" that there may be, by the labels' names
    latents: int = 6  #: dimensions of a code, the first of them the concepts
    supervision: float = 5.0  #: lambda, weight of labels
    critic: tuple[int, ...] = (256,)  #: hidden layers of each of the critic's opinions
    net: Architecture | None = None  #: encoder, decoder and critic; none: conv64 for 64x64 images, mlp for others

    # xwshen51/DEAR@7287a8b (config.py, run_pendulum.sh): 1,000 passes, which are 43 steps each
    recipe: ClassVar[Recipe] = Recipe(
        steps=43_000,
        batch=128,
        optimiser=Adam(lr=5e-5, betas=(0.0, 0.999)),
        players={"critic": Adam(lr=1e-4, betas=(0.0, 0.999))},
    )
    reference: ClassVar[Reference] = Reference(
        key="shen2022weakly",
        authors="Shen, Xinwei and Liu, Furui and Dong, Hanze and Lian, Qing and Chen, Zhitang and Zhang, Tong",
        title="Weakly Supervised Disentangled Generative Causal Representation Learning",
        venue="Journal of Machine Learning Research",
        year=2022,
        url="https://jmlr.org/papers/v23/21-0080.html",
    )
    guarantee: ClassVar[Guarantee] = Guarantee(
        "labelled concepts, each up to a map of its own (Shen et al. 2022, theorem 3)",
        (
            "labels are the concepts up to independent noise, and their losses are minimal",
            "the causal prior can be the distribution of concepts: the given support holds the graph",
            "critic, encoder and generator reach the optimum of the game",
        ),
    )
    evidence: ClassVar[tuple[Evidence, ...]] = (Evidence("closed-form", "tests/methods/test_dear.py"),)

    def init(self, spec: Spec) -> Nets:
        names = self.names(spec)
        if self.latents < len(names):
            raise ValueError(
                f"DEAR has a latent for each of {len(names)} labels, got latents={self.latents}. Use {len(names)} or "
                "more."
            )
        net, graph = suited(self.net, spec), graph_of(self.graph, names)
        return Nets(
            encoder=net.encoder(spec.shape, 2 * self.latents),
            generator=Nets(prior=Causes(graph), decoder=net.decoder(self.latents, spec.shape)),
            critic=Critic(net, spec.shape, self.latents, self.critic),
        )

    def represent(self, nets: Any, spec: Spec) -> DEARCode:
        return DEARCode(nets, spec, self.latents, graph_of(self.graph, self.names(spec)))

    def moves(self, nets: Any, x: Tensor, a: Tensor) -> Iterator[Turn]:
        """A step on pictures and anchors (NaN: missing): the critic's turn, the encoder's, the generator's."""

        def pairs() -> tuple[Tensor, Tensor, Tensor, Tensor]:
            q = gaussian(nets.encoder(x))
            z = nets.generator.prior(torch.randn_like(q.loc))
            return q.loc, q.rsample(), torch.sigmoid(nets.generator.decoder(z)), z

        _, e, g, z = pairs()
        encoded, generated = nets.critic(x, e.detach()), nets.critic(g.detach(), z.detach())
        yield Turn("critic", Terms(encoded=softplus(-encoded).mean(), generated=softplus(generated).mean()))
        mean, e, _, _ = pairs()
        off = (mean[:, : a.shape[1]] - a.nan_to_num()).square()
        labels = self.supervision * known_mean(off, ~a.isnan())
        yield Turn("encoder", Terms(score=nets.critic(x, e).mean(), labels=labels))
        _, _, g, z = pairs()
        score = nets.critic(g, z)
        yield Turn("generator", Terms(score=-(score.detach().exp().clamp(*CLIP) * score).mean()))

    def fit(self, data: View, run: Run) -> Representation:
        assert isinstance(data, Labelled)
        check_labels(data)
        check_pictures(data)

        def turns(nets: Any, batch: Labels, t: int) -> Iterator[Turn]:
            yield from self.moves(nets, batch.x, anchored(batch.u, data.labels))

        return self.represent(descend(turns, self.init(data.spec), data, run), data.spec)
