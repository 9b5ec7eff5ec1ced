"""CausalVAE, as printed and as released."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits

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
from whence.methods.causal._linear import Attention, Averaged, LinearCode, Masked, Structure, Together
from whence.nets import Architecture, Nets, suited
from whence.representation import Representation
from whence.terms import gaussian
from whence.views import Labelled, Labels, Singles, Spec, View

YANG = Reference(
    key="yang2021causalvae",
    authors="Yang, Mengyue and Liu, Furui and Chen, Zhitang and Shen, Xinwei and Hao, Jianye and Wang, Jun",
    title="CausalVAE: Disentangled Representation Learning via Neural Structural Causal Models",
    venue="IEEE/CVF Conference on Computer Vision and Pattern Recognition",
    year=2021,
    url="https://arxiv.org/abs/2004.08697",
)
ROWS = 512  #: labels in a step of pretraining


class Encoded(NamedTuple):
    """(B, n, width) each."""

    mean: Tensor  #: of q(e|x)
    scale: Tensor
    e: Tensor  #: a draw
    z: Tensor  #: (I - A')^-1 e
    masked: Tensor  #: g(A o z) + e


class CausalVAECode(LinearCode):
    """Means in place of draws."""

    def __init__(self, nets: Any, spec: Spec, method: CausalVAE, known: bool) -> None:
        super().__init__(nets, spec, method.width, known)
        self.method = method

    def encoded(self, x: Tensor) -> tuple[Tensor, Tensor]:
        found = self.method.encoded(self.nets, x, draw=False)
        return found.mean, found.z

    def masked(self, z: Tensor, e: Tensor) -> Tensor:
        return self.method.masked(self.nets, z, e)


@dataclass(frozen=True, kw_only=True)
class CausalVAE(ConceptMethod):
    r"""CausalVAE: latents that cause each other linearly, masks that compute each from its causes, labels as priors.

    .. math:: \epsilon \sim q(\epsilon \mid x), \quad z = (I - A^\top)^{-1} \epsilon, \quad
              z'_i = g_i(A_i \circ z) + \epsilon_i, \quad \hat x = \tfrac{1}{n} \sum_i f_i(z'_i)

    .. math:: -\mathbb{E} \log p(x \mid z') + \alpha \, \mathrm{KL}(q(\epsilon \mid x) \,\|\, \mathcal{N}(0, 1))
              + \beta \, \mathrm{KL}(q(z \mid x) \,\|\, \mathcal{N}(a(u), 1)) + \beta_u \, l_u + \gamma \, l_m
              + \lambda H(A) + \tfrac{c}{2} H(A)^2

    with :math:`a(u)` the label scaled to [-1, 1], :math:`l_u = \|a(u) - g^u(A \circ a(u))\|^2`,
    :math:`l_m = \|z - g(A \circ z)\|^2` and :math:`H(A) = \mathrm{tr}(I + A \circ A / n)^n - n`. Sum over pixels and
    codes, mean over the batch; terms of labels are means over the rows that have the label, summed over labels.

    Departures from the reference: labels are scaled, so that no label outweighs the others; the encoder sees x alone,
    since one that sees labels scores on them trivially; the divergence of z is that of its marginals; concepts that can
    have no cause are left out of l_u and l_m, which would pull them to a constant; the network is that of the house.
    `CausalVAE.released()` has the options of the authors' code: means are decoded and variances are 1, masks of the sum
    of causes, attention over noise, raw labels, z' regressed on labels, a reconstruction that weighs 1/384, fixed
    multipliers and a super-graph of the truth to start from.
    """

    graph: tuple[str, ...] | None = None  #: edges "cause->effect" that there may be; none: all, and A is learned
    certain: bool = True  #: the graph is known; if not, it is a super-graph, and its weights tell which edges there are
    width: int = 4  #: numbers for each concept
    nll: float = 1.0  #: weight of the reconstruction
    alpha: float = 1.0  #: weight of the divergence of noise from its prior
    beta: float = 1.0  #: weight of the divergence of concepts from their labels
    beta_labels: float = 1.0  #: weight of labels as functions of their causes
    gamma: float = 1.0  #: weight of concepts as functions of their causes
    multipliers: tuple[float, float] | None = None  #: lambda and c, held; none: the augmented Lagrangian's
    start: float = 0.0  #: weights of A begin here, or near it; released: 1
    pretraining: int = 0  #: steps on labels alone that learn A first, as in the paper's appendix
    sampled: bool = True  #: draws of q are decoded; released: its mean, and the variance counts as 1
    summed: bool = False  #: masks see the sum of a concept's causes, as released, not each of them
    attention: bool = False  #: noise of all concepts is mixed into each, as released
    regressed: bool = False  #: z' is regressed on labels in place of l_m, as released
    raw: bool = False  #: l_u in the labels' own units, as released
    jitter: float = 0.0  #: variance of what is added to z'; released: 0.001
    separate: bool = True  #: a decoder for each concept, and the mean of their logits; if not, one of all
    net: Architecture | None = None  #: encoder and decoders; none: conv64 for 64x64 images, mlp for anything else

    recipe: ClassVar[Recipe] = Recipe(steps=8_700, batch=64, optimiser=Adam(lr=1e-3))
    reference: ClassVar[Reference] = YANG
    guarantee: ClassVar[Guarantee] = Guarantee(
        "concepts up to a rescaling of each (Yang et al. 2021, theorem 1)",
        (
            "labels of all concepts vary the prior's parameters enough",
            "the decoder is injective and the posterior exact",
            "nothing is promised of the graph, nor of pictures under interventions",
        ),
    )
    evidence: ClassVar[tuple[Evidence, ...]] = (
        Evidence("closed-form", "tests/methods/test_causal_vae.py"),
        Evidence("benchmarked", "benchmarks/causal_mic_tic.md"),
    )

    @classmethod
    def released(cls, graph: tuple[str, ...], **options: Any) -> CausalVAE:
        """The variant of the authors' public code on pictures of 96 pixels; `graph` is its super-graph."""
        # huawei-noah/trustworthyAI@46c3d29 (research/CausalVAE/codebase/models/mask_vae_pendulum.py)
        told: dict[str, Any] = {
            "graph": graph,
            "certain": False,
            "start": 1.0,
            "nll": 1 / 384,
            "alpha": 0.3,
            "multipliers": (3.0, 1.0),
            "sampled": False,
            "summed": True,
            "attention": True,
            "regressed": True,
            "raw": True,
            "jitter": 0.001,
        }
        return cls(**(told | options))

    # --- networks -------------------------------------------------------------------------------------------------

    def support(self, spec: Spec) -> Tensor:
        n = len(self.names(spec))
        if self.graph is None:
            return ~torch.eye(n, dtype=torch.bool)
        return graph_of(self.graph, self.names(spec))

    def init(self, spec: Spec) -> Nets:
        n, net = len(self.names(spec)), suited(self.net, spec)
        if self.separate:
            decoder: nn.Module = Averaged([net.decoder(self.width, spec.shape) for _ in range(n)])
        else:
            decoder = Together(net.decoder(n * self.width, spec.shape))
        return Nets(
            encoder=net.encoder(spec.shape, 2 * n * self.width),
            structure=Structure(self.support(spec), 1.0 if self.known else self.start, self.multipliers),
            masks=Masked(n, self.width, self.summed),
            label_masks=Masked(n, 1, self.summed),
            attention=Attention(self.width) if self.attention else nn.Module(),
            decoder=decoder,
        )

    @property
    def known(self) -> bool:
        return self.graph is not None and self.certain

    def represent(self, nets: Any, spec: Spec) -> CausalVAECode:
        return CausalVAECode(nets, spec, self, self.known)

    # --- the pass -------------------------------------------------------------------------------------------------

    def encoded(self, nets: Any, x: Tensor, draw: bool = True) -> Encoded:
        q = gaussian(nets.encoder(x))
        mean, scale = (t.unflatten(1, (-1, self.width)) for t in (q.loc, q.scale))
        if not self.sampled:
            scale = torch.ones_like(scale)
        e = mean + scale * torch.randn_like(mean) if draw and self.sampled else mean
        z = torch.einsum("ij,bjk->bik", nets.structure.effects(), e)
        return Encoded(mean, scale, e, z, self.masked(nets, z, e))

    def masked(self, nets: Any, z: Tensor, e: Tensor) -> Tensor:
        own = nets.attention(z, e) if self.attention else e
        return nets.masks(nets.structure.matrix(), z) + own

    def terms(self, nets: Any, x: Tensor, u: Tensor | None, labels: Any = ()) -> Terms:
        """The loss on pictures and labels in their own units; without labels the prior of z is N(0, 1)."""
        found = self.encoded(nets, x)
        decoded = found.masked
        if self.jitter:
            decoded = decoded + self.jitter**0.5 * torch.randn_like(decoded)
        logits = nets.decoder(decoded)
        nll = binary_cross_entropy_with_logits(logits, x.to(logits.dtype), reduction="sum") / len(x)
        a = None if u is None else anchored(u, labels)
        graph = nets.structure.matrix()
        can = nets.structure.support.any(0)  # has a cause
        e = Terms(nll=self.nll * nll)
        v = found.scale.square()
        e["noise"] = self.alpha * 0.5 * (found.mean.square() + v - 1 - v.log()).sum((1, 2)).mean()
        c = nets.structure.effects()
        mean = torch.einsum("ij,bjk->bik", c, found.mean)
        spread = torch.einsum("ij,bjk->bik", c.square(), v) if self.sampled else v
        centre = torch.zeros_like(mean[..., 0]) if a is None else self.centre(a, nets.structure.support)
        prior, known = centre.nan_to_num()[:, :, None], ~centre.isnan()
        off = 0.5 * ((mean - prior).square() + spread - 1 - spread.log()).sum(2)
        e["concepts"] = self.beta * known_mean(off, known)
        if self.regressed:
            e["masks"] = self.gamma * known_mean(0.5 * (found.masked - prior).square().sum(2), known)
        else:
            off = (found.z - nets.masks(graph, found.z)).square().sum(2)
            e["masks"] = self.gamma * (off * can).sum(1).mean()
        if a is not None and u is not None:
            e["labels"] = self.beta_labels * self.label_error(nets, u if self.raw else a)
        e["cycles"] = nets.structure.penalty()
        return e

    def centre(self, a: Tensor, support: Tensor) -> Tensor:
        """The prior's mean of every concept, (B, L), from anchors; NaN where it is not known."""
        return a

    def label_error(self, nets: Any, u: Tensor) -> Tensor:
        r""":math:`l_u`, of concepts that can have a cause; as released, of all, and a mean over them."""
        known = ~u.isnan()
        told = nets.label_masks(nets.structure.matrix(), u.nan_to_num()[:, :, None])[:, :, 0]
        off = (u.nan_to_num() - told).square()
        if self.raw:
            return known_mean(off, known) / u.shape[1]
        return known_mean(off, known & nets.structure.support.any(0))

    # --- fitting --------------------------------------------------------------------------------------------------

    def fit(self, data: View, run: Run) -> Representation:
        assert isinstance(data, Labelled)
        check_labels(data)
        check_pictures(data)
        nets: Any = self.init(data.spec)
        if self.pretraining:
            self.pretrain(nets, data, run)

        def turns(nets: Any, batch: Labels, t: int) -> Iterator[Turn]:
            yield Turn("all", self.terms(nets, batch.x, batch.u, data.labels))
            nets.structure.schedule(t)

        descend(turns, nets, data, run)
        nets.structure.told(self.names(data.spec))
        return self.represent(nets, data.spec)

    def pretrain(self, nets: Any, data: Labelled, run: Run) -> None:
        """A from labels alone."""
        labels_alone = replace(data, observe=lambda ticket, rng: torch.zeros(len(ticket), 1))
        recipe = Recipe(steps=self.pretraining, batch=ROWS, optimiser=Adam(lr=5e-3))

        def turns(nets: Any, batch: Labels, t: int) -> Iterator[Turn]:
            u = batch.u if self.raw else anchored(batch.u, data.labels)
            error = self.beta_labels * self.label_error(nets, u)
            yield Turn("all", Terms(labels=error, cycles=nets.structure.penalty()))
            nets.structure.schedule(t)

        descend(turns, nets, labels_alone, replace(run, recipe=recipe), stage="graph")


@dataclass(frozen=True, kw_only=True)
class UnlabelledCausalVAE(CausalVAE):
    r"""CausalVAE without labels: the same layers under a standard normal prior, as a baseline ("CausalVAE-unsup").

    Terms are those of `CausalVAE` with :math:`p(z) = \mathcal{N}(0, 1)` and without :math:`l_u`. Departures from the
    reference: as there. Concepts have numbers in place of names, and any of them may cause any other.
    """

    concepts: int = 4  #: how many

    needs: ClassVar[type[View]] = Singles
    guarantee: ClassVar[Guarantee] = Guarantee.nothing(
        "without labels any rotation of the concepts explains the pictures as well; the graph is not determined."
    )

    def __post_init__(self) -> None:
        if self.graph is not None:
            raise ValueError("Concepts without labels have no names, so no graph can be given. Leave graph out.")
        if self.concepts < 1:
            raise ValueError(f"concepts is at least 1, got {self.concepts}.")

    def names(self, spec: Spec) -> tuple[str, ...]:
        return tuple(f"concept {i + 1}" for i in range(self.concepts))

    def fit(self, data: View, run: Run) -> Representation:
        check_pictures(data)
        nets: Any = self.init(data.spec)

        def turns(nets: Any, batch: Any, t: int) -> Iterator[Turn]:
            yield Turn("all", self.terms(nets, batch.x, None))
            nets.structure.schedule(t)

        descend(turns, nets, data, run)
        nets.structure.told(self.names(data.spec))
        return self.represent(nets, data.spec)
