"""The conditional VAE: labels beside the code, and nothing between them. The plain baseline of causal methods."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Generator, Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits

from whence.descend import Adam, Recipe, Run, Terms, Turn, descend
from whence.evidence import Evidence, Guarantee, Reference
from whence.methods.causal._concepts import (
    ConceptCode,
    ConceptMethod,
    anchored,
    check_labels,
    check_pictures,
    known_mean,
)
from whence.nets import Architecture, Nets, mlp, suited
from whence.representation import Representation
from whence.terms import gaussian, kl
from whence.views import Labelled, Labels, Spec, View

FEATURES = 64  #: of a picture, before labels are joined to them


class ConditionalCode(ConceptCode):
    """A code is the labels' anchors, as they are told from the picture, and the means of the other latents."""

    def __init__(self, nets: Any, spec: Spec, latents: int) -> None:
        n = len(spec.labels)
        super().__init__(spec, n + latents, torch.zeros(n, n))
        self.nets = nets

    def abduct(self, x: Tensor) -> Tensor:
        a = self.nets.told(x)
        return torch.cat([a, self.nets.encoder(x, a).chunk(2, 1)[0]], 1)

    def predict(self, e: Tensor, do: Mapping[int, Tensor]) -> Tensor:
        return torch.stack([do.get(j, column) for j, column in enumerate(e.unbind(1))], 1)

    def values(self, z: Tensor) -> Tensor:
        return z[:, : len(self.labels)]

    def picture(self, z: Tensor) -> Tensor:
        return torch.sigmoid(self.nets.decoder(z))

    def noise(self, n: int, rng: Generator) -> Tensor:
        k = len(self.labels)
        return torch.cat([2 * torch.rand(n, k, generator=rng) - 1, torch.randn(n, self.dims - k, generator=rng)], 1)


class Joined(nn.Module):
    """Moments of the other latents from a picture and anchors."""

    def __init__(self, body: nn.Module, labels: int, outputs: int) -> None:
        super().__init__()
        self.body, self.head = body, mlp([FEATURES + labels, FEATURES, outputs], nn.ELU)

    def forward(self, x: Tensor, a: Tensor) -> Tensor:
        return self.head(torch.cat([self.body(x), a], 1))


@dataclass(frozen=True, kw_only=True)
class ConditionalVAE(ConceptMethod):
    r"""Conditional VAE: encoder and decoder see labels beside the picture and the code, and labels cause nothing.

    .. math:: -\mathbb{E}_{q(z \mid x, u)} \log p(x \mid z, u)
              + \beta \, \mathrm{KL}(q(z \mid x, u) \,\|\, \mathcal{N}(0, 1)) + \|t(x) - a(u)\|^2

    Sum over pixels, latents and labels, mean over the batch; of labels over the rows that have them. A do sets a label
    and leaves all else as it was, effects included, since there is no graph: what causal methods must beat.

    Departures from the reference: labels of new pictures are told by a regression t, which is learned beside; it also
    stands in for labels that are missing.
    """

    latents: int = 6  #: dimensions of the code beside labels
    beta: float = 1.0  #: weight of the divergence from the prior
    net: Architecture | None = None  #: encoder and decoder; none: conv64 for 64x64 images, mlp for anything else

    recipe: ClassVar[Recipe] = Recipe(steps=8_700, batch=64, optimiser=Adam(lr=1e-3))
    reference: ClassVar[Reference] = Reference(
        key="sohn2015learning",
        authors="Sohn, Kihyuk and Lee, Honglak and Yan, Xinchen",
        title="Learning Structured Output Representation using Deep Conditional Generative Models",
        venue="Advances in Neural Information Processing Systems",
        year=2015,
        url="https://papers.nips.cc/paper/5775",
    )
    guarantee: ClassVar[Guarantee] = Guarantee.nothing(
        "labels are given and not found, what the code holds beside them is free, and it may hold them as well."
    )
    evidence: ClassVar[tuple[Evidence, ...]] = (Evidence("closed-form", "tests/methods/test_conditional_vae.py"),)

    def __post_init__(self) -> None:
        if self.latents < 1:
            raise ValueError(f"latents is at least 1, got {self.latents}.")

    def init(self, spec: Spec) -> Nets:
        n, net = len(self.names(spec)), suited(self.net, spec)
        return Nets(
            encoder=Joined(net.encoder(spec.shape, FEATURES), n, 2 * self.latents),
            told=net.encoder(spec.shape, n),
            decoder=net.decoder(n + self.latents, spec.shape),
        )

    def represent(self, nets: Any, spec: Spec) -> ConditionalCode:
        return ConditionalCode(nets, spec, self.latents)

    def terms(self, nets: Any, x: Tensor, a: Tensor) -> Terms:
        """The loss on pictures and anchors."""
        known, told = ~a.isnan(), nets.told(x)
        filled = torch.where(known, a.nan_to_num(), told.detach())
        q = gaussian(nets.encoder(x, filled))
        logits = nets.decoder(torch.cat([filled, q.rsample()], 1))
        return Terms(
            nll=binary_cross_entropy_with_logits(logits, x.to(logits.dtype), reduction="sum") / len(x),
            kl=self.beta * kl(q),
            told=known_mean((told - a.nan_to_num()).square(), known),
        )

    def fit(self, data: View, run: Run) -> Representation:
        assert isinstance(data, Labelled)
        check_labels(data)
        check_pictures(data)

        def turns(nets: Any, batch: Labels, t: int) -> Iterator[Turn]:
            yield Turn("all", self.terms(nets, batch.x, anchored(batch.u, data.labels)))

        return self.represent(descend(turns, self.init(data.spec), data, run), data.spec)
