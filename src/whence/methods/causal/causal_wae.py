"""CausalWAE: CausalVAE's layers in a Wasserstein autoencoder."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from whence.descend import Adam, Recipe, Run, Terms, Turn, descend
from whence.evidence import Evidence, Guarantee, Reference
from whence.methods.causal._concepts import (
    ConceptMethod,
    anchored,
    check_labels,
    check_pictures,
    graph_of,
    known_mean,
)
from whence.methods.causal._linear import LinearCode, Masked, Structure
from whence.nets import Architecture, Nets, mlp, suited
from whence.representation import Representation
from whence.terms import InverseMultiquadratic, hsic, mmd
from whence.views import Labelled, Labels, Spec, View

ROH = Reference(
    key="roh2022causalwae",
    authors="Roh, Yohan and Lee, Hyunjong and Jung, Seungpil",
    title="Causal Representation Learning via WAE",
    venue="project report, Seoul National University",
    year=2022,
)
FEATURES = 64  #: of a picture, before labels are joined to them
INJECTIVE = (nn.LeakyReLU, nn.ELU, nn.Sigmoid, nn.Tanh, nn.Softplus, nn.Identity, nn.Unflatten, nn.Flatten)


def injective(net: nn.Module, tolerance: float = 1e-5) -> str:
    """Why a network of layers is not one-to-one; empty if it is: no layer is narrower than what it is given, every
    matrix has full rank, and every activation is strictly monotone."""
    for layer in net.modules():
        if isinstance(layer, nn.Linear):
            if layer.out_features < layer.in_features:
                return f"a layer goes from {layer.in_features} numbers to {layer.out_features}"
            s = torch.linalg.svdvals(layer.weight.detach())
            if s[-1] <= tolerance * s[0]:
                return f"a layer of {layer.in_features} numbers has a matrix of smaller rank"
        elif not isinstance(layer, (nn.Sequential, *INJECTIVE)):
            return f"{type(layer).__name__} maps different inputs to one output"
    return ""


class Wide(NamedTuple):
    """(B, n, width) each."""

    f: Tensor  #: noise, as the encoder sees it
    z1: Tensor  #: what causes see
    z2: Tensor  #: what is decoded


class Encoder(nn.Module):
    """Noise from a picture, and from anchors if it sees them."""

    def __init__(self, net: Architecture, spec: Spec, n: int, width: int, sees: bool) -> None:
        super().__init__()
        self.width, self.sees = width, sees
        self.body = net.encoder(spec.shape, FEATURES)
        self.head = mlp([FEATURES + n * sees, FEATURES, n * width], nn.ELU)

    def forward(self, x: Tensor, a: Tensor) -> Tensor:
        h = self.body(x)
        return self.head(torch.cat([h, a], 1) if self.sees else h).unflatten(1, (-1, self.width))


class CausalWAECode(LinearCode):
    """Labels are told from the picture where the encoder needs them."""

    def __init__(self, nets: Any, spec: Spec, method: CausalWAE, known: bool) -> None:
        super().__init__(nets, spec, method.width, known)
        self.method = method

    def encoded(self, x: Tensor) -> tuple[Tensor, Tensor]:
        found = self.method.encoded(self.nets, x, self.nets.told(x))
        return found.f, found.z1

    def masked(self, z: Tensor, e: Tensor) -> Tensor:
        return self.nets.masks(self.nets.structure.matrix(), z) + e


@dataclass(frozen=True, kw_only=True)
class CausalWAE(ConceptMethod):
    r"""CausalWAE: noise encoded to be normal and independent of labels, decoded through CausalVAE's causal layers.

    .. math:: z_1 = (I - A^\top)^{-1} f(x, u) + a(u), \quad z_2 = g_2(A \circ z_1) + f(x, u), \quad \hat x = g_3(z_2)

    .. math:: \|x - \hat x\|^2 + \lambda_1 \mathcal{D}(f \,\|\, \mathcal{N}(0, 1)) + \lambda_2 \mathcal{H}(f, u)
              + \beta_u \, l_u + \gamma \|z_1 - z_2\|^2 + \lambda H(A) + \tfrac{c}{2} H(A)^2

    :math:`\mathcal{D}` is a maximum mean discrepancy (or a critic's), :math:`\mathcal{H}` the Hilbert-Schmidt
    criterion; or one discrepancy of (f, u) from the product of a normal and the labels' distribution stands for both.
    Sum over pixels, mean over the batch. The report's equation (8) lets causes see labels alone, :math:`z_1 = a(u)`:
    `form="eq8"`. Where the graph is known, :math:`z_1` and :math:`z_2` of concepts without causes are not compared.

    Departures from the reference: it has no code, and leaves open what keeps A acyclic and near to labels: the terms of
    CausalVAE are kept for that. Its free :math:`g_1(u)` is the scaled label, since any other could permute concepts.
    Labels that the encoder needs are told from the picture by a regression when there are none; equation (8) bounds
    the Wasserstein distance of (x, u) from above and is not equal to it. The decoder's layers never narrow and are
    checked to be injective.
    """

    graph: tuple[str, ...] | None = None  #: edges "cause->effect" that there may be; none: all, and A is learned
    certain: bool = True  #: the graph is known; if not, it is a super-graph, and its weights tell which edges there are
    form: Literal["full", "eq8"] = "full"  #: causes see noise and labels, or labels alone
    sees_labels: bool = True  #: the encoder sees labels beside the picture
    match: Literal["mmd", "critic", "joint"] = "mmd"  #: how noise is made normal; joint: and independent, in one term
    width: int = 4  #: numbers for each concept
    distance: float = 100.0  #: lambda 1, weight of noise that is not normal
    dependence: float = 1_000.0  #: lambda 2, weight of noise that depends on labels
    beta_labels: float = 1.0  #: weight of labels as functions of their causes
    gamma: float = 1.0  #: weight of the two forms of concepts being one
    multipliers: tuple[float, float] | None = None  #: lambda and c of cycles, held; none: the augmented Lagrangian's
    start: float = 0.0  #: weights of A begin here, or near it
    decoder: tuple[int, ...] = (64, 256)  #: hidden layers of the decoder, none narrower than the one before
    critic: tuple[int, ...] = (256, 256)  #: hidden layers of the critic
    net: Architecture | None = None  #: encoder; none: conv64 for 64x64 images, mlp for anything else

    recipe: ClassVar[Recipe] = Recipe(steps=8_700, batch=64, optimiser=Adam(lr=1e-3))
    reference: ClassVar[Reference] = ROH
    guarantee: ClassVar[Guarantee] = Guarantee.nothing(
        "the report bounds a distance of distributions and does not ask which latents reach it; nothing in the "
        "objective ties what is decoded of a concept without causes to its label."
    )
    evidence: ClassVar[tuple[Evidence, ...]] = (Evidence("closed-form", "tests/methods/test_causal_wae.py"),)

    @property
    def known(self) -> bool:
        return self.graph is not None and self.certain

    def init(self, spec: Spec) -> Nets:
        names = self.names(spec)
        n, net = len(names), suited(self.net, spec)
        support = ~torch.eye(n, dtype=torch.bool) if self.graph is None else graph_of(self.graph, names)
        pixels = math.prod(spec.shape)
        decoder = mlp([n * self.width, *self.decoder, pixels], lambda: nn.LeakyReLU(0.2))
        if why := injective(decoder):
            raise ValueError(
                f"CausalWAE needs an injective decoder, and {why}. Give hidden layers that never narrow, from "
                f"{n * self.width} to {pixels} numbers: decoder={(4 * n * self.width, 16 * n * self.width)}."
            )
        own = Nets(
            encoder=Encoder(net, spec, n, self.width, self.sees_labels),
            told=net.encoder(spec.shape, n),
            structure=Structure(support, 1.0 if self.known else self.start, self.multipliers),
            masks=Masked(n, self.width, summed=False),
            label_masks=Masked(n, 1, summed=False),
            decoder=nn.Sequential(nn.Flatten(), decoder, nn.Unflatten(1, spec.shape)),
        )
        critic = mlp([n * self.width, *self.critic, 1], lambda: nn.LeakyReLU(0.2))
        return Nets(autoencoder=own, critic=critic if self.match == "critic" else nn.Module())

    def represent(self, nets: Any, spec: Spec) -> CausalWAECode:
        return CausalWAECode(nets.autoencoder, spec, self, self.known)

    def encoded(self, nets: Any, x: Tensor, a: Tensor) -> Wide:
        """From pictures and anchors that are all known."""
        f = nets.encoder(x, a)
        graph = nets.structure.matrix()
        z1 = a[:, :, None].expand_as(f)
        if self.form == "full":
            z1 = z1 + torch.einsum("ij,bjk->bik", nets.structure.effects(), f)
        return Wide(f, z1, nets.masks(graph, z1) + f)

    def terms(self, both: Any, x: Tensor, u: Tensor, labels: Sequence[Any]) -> tuple[Tensor, Terms]:
        """Noise (B, n * width), and the loss of the autoencoder on pictures and labels in their own units."""
        nets, a = both.autoencoder, anchored(u, labels)
        known = ~a.isnan()
        told = nets.told(x)
        filled = torch.where(known, a.nan_to_num(), told.detach())
        found = self.encoded(nets, x, filled)
        f = found.f.flatten(1)
        out = torch.sigmoid(nets.decoder(found.z2))
        terms = Terms(cost=(out - x).square().sum() / len(x))
        if self.match == "joint":
            # both halves of a row count alike in its distance: codes have variance 1 each, anchors 1/3
            weight = (3 * f.shape[1] / filled.shape[1]) ** 0.5
            pairs = torch.cat([f, weight * filled], 1)
            apart = torch.cat([torch.randn_like(f), weight * filled[torch.randperm(len(x))]], 1)
            kernel = InverseMultiquadratic(scale=4.0 * f.shape[1])
            terms["distance"] = self.distance * mmd(pairs, apart, kernel)
        elif self.match == "critic":
            terms["distance"] = self.distance * softplus(-both.critic(f)).mean()
        else:
            kernel = InverseMultiquadratic(scale=2.0 * f.shape[1])
            terms["distance"] = self.distance * mmd(f, torch.randn_like(f), kernel)
        if self.match != "joint":
            terms["dependence"] = self.dependence * hsic(f, filled)
        can = nets.structure.support.any(0)
        graph = nets.structure.matrix()
        guess = nets.label_masks(graph, a.nan_to_num()[:, :, None])[:, :, 0]
        terms["labels"] = self.beta_labels * known_mean((a.nan_to_num() - guess).square(), known & can)
        terms["masks"] = self.gamma * ((found.z1 - found.z2).square().sum(2) * can).sum(1).mean()
        terms["told"] = known_mean((a.nan_to_num() - told).square(), known)
        terms["cycles"] = nets.structure.penalty()
        return f, terms

    def fit(self, data: View, run: Run) -> Representation:
        assert isinstance(data, Labelled)
        check_labels(data)
        check_pictures(data)
        nets: Any = self.init(data.spec)

        def turns(nets: Any, batch: Labels, t: int) -> Iterator[Turn]:
            f, terms = self.terms(nets, batch.x, batch.u, data.labels)
            yield Turn("autoencoder", terms)
            if self.match == "critic":
                normal, encoded = nets.critic(torch.randn_like(f)), nets.critic(f)
                yield Turn("critic", Terms(normal=softplus(-normal).mean(), encoded=softplus(encoded).mean()))
            nets.autoencoder.structure.schedule(t)

        descend(turns, nets, data, run)
        nets.autoencoder.structure.told(self.names(data.spec))
        if why := injective(nets.autoencoder.decoder):
            warnings.warn(f"The decoder was injective when learning began and is not any more: {why}.", stacklevel=3)
        return self.represent(nets, data.spec)
