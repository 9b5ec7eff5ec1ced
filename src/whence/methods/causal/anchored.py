"""CausalVAE and CausalWAE changed so that interventions work: concepts anchored at labels, pictures of parts."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch import Generator, Tensor, nn
from torch.distributions import Normal

from whence.descend import Adam, Cosine, Recipe, Run, Terms, Turn, descend
from whence.evidence import Evidence, Guarantee, Reference
from whence.methods.causal._composed import Mechanisms, Parts, parts_of, tellers
from whence.methods.causal._concepts import (
    ConceptCode,
    ConceptMethod,
    anchored,
    check_labels,
    check_pictures,
    graph_of,
    known_mean,
)
from whence.methods.causal.causal_vae import YANG
from whence.methods.causal.causal_wae import ROH
from whence.nets import MLP, Architecture, Nets, suited
from whence.representation import Representation
from whence.terms import InverseMultiquadratic, gaussian, hsic, kl_pairwise, mmd
from whence.views import Labelled, Labels, Spec, View

EXAMPLES = 8192  #: labels from which the noise of concepts is learned
PICTURES, FEWEST = 2_000, 100  #: looked at to divide places among parts; with fewer labelled ones, parts share all
ROWS = 512  #: labels in a step of the mechanisms'


class AnchoredCode(ConceptCode):
    """A code is the concepts' anchors, one number each."""

    def __init__(self, spec: Spec, graph: Tensor, encoder: nn.Module, parts: Parts, mechanisms: Mechanisms) -> None:
        super().__init__(spec, len(graph), graph)
        self.encoder, self.parts, self.mechanisms = encoder, parts, mechanisms

    def codes(self, x: Tensor) -> Tensor:
        return self.encoder(x)[:, : self.dims].float()

    def abduct(self, x: Tensor) -> Tensor:
        return self.mechanisms.abduct(self.codes(x))

    def predict(self, e: Tensor, do: Mapping[int, Tensor]) -> Tensor:
        return self.mechanisms.predict(e, do)

    def values(self, z: Tensor) -> Tensor:
        return z

    def picture(self, z: Tensor) -> Tensor:
        return self.parts.mean(self.parts(z).product)

    def noise(self, n: int, rng: Generator) -> Tensor:
        return self.mechanisms.noise(n, rng)


@dataclass(frozen=True, kw_only=True)
class Anchored(ConceptMethod):
    """What the two anchored methods share: mechanisms learned from labels, and pictures composed of parts."""

    graph: tuple[str, ...] = ()  #: the causal graph, edges "cause->effect" by the labels' names
    parts: tuple[str, ...] | None = None  #: concepts drawn together, "a+b"; none: roots apart, effects by their causes
    anchor: float = 0.01  #: deviation of a concept around its label, in halves of the label's range
    ink: float = 0.1  #: price of what parts draw, summed over pixels, fading to 0 over the run
    taught: bool = True  #: parts draw labels where these are known; if not, what the encoder reads of pictures
    apart: bool = True  #: every place of the picture is drawn by the one part that tells it best; if not, by all
    light: bool = True  #: parts darken a light ground; if not, they light up a dark one
    octaves: int = 4  #: sines and cosines of concepts that parts see
    hidden: tuple[int, ...] = (64, 64)  #: of each mechanism
    net: Architecture | None = None  #: encoder; none: conv64 for 64x64 images, else mlp
    drawing: Architecture = MLP(hidden=(128, 256))  #: decoder of each part

    recipe: ClassVar[Recipe] = Recipe(
        steps=800, batch=64, optimiser=Adam(lr=3e-3), schedule=Cosine(warmup=20), every=50
    )

    def __post_init__(self) -> None:
        if not self.anchor > 0:
            raise ValueError(f"anchor is a standard deviation, above 0, got {self.anchor}.")

    @property
    @abstractmethod
    def moments(self) -> int:
        """How many numbers the encoder gives for each concept."""

    def init(self, spec: Spec) -> Nets:
        if len(spec.shape) != 3:
            raise ValueError(
                f"Pictures are composed of parts, and these observations have shape {tuple(spec.shape)}. Use CausalVAE "
                "for vectors."
            )
        names = self.names(spec)
        graph, net = graph_of(self.graph, names), suited(self.net, spec)
        parts = parts_of(self.parts, graph, names)
        return Nets(
            encoder=net.encoder(spec.shape, self.moments * len(names)),
            parts=Parts(self.drawing, spec.shape, parts, self.light, self.octaves),
            mechanisms=Mechanisms(graph, names, self.hidden),
        )

    def represent(self, nets: Any, spec: Spec) -> AnchoredCode:
        graph = graph_of(self.graph, self.names(spec))
        return AnchoredCode(spec, graph, nets.encoder, nets.parts, nets.mechanisms)

    def fit(self, data: View, run: Run) -> Representation:
        assert isinstance(data, Labelled)
        check_labels(data)
        check_pictures(data)
        nets: Any = self.init(data.spec)
        if self.graph:
            self.learn_mechanisms(nets, data, run)
        u = data.label(data.draw(EXAMPLES, Generator().manual_seed(run.seed)))
        nets.mechanisms.learn_noise(anchored(u, data.labels).to(run.device))
        if self.apart:
            self.divide(nets.parts, data, run)

        def turns(nets: Any, batch: Labels, t: int) -> Iterator[Turn]:
            a = anchored(batch.u, data.labels)
            yield Turn("all", self.picture_terms(nets, batch.x, a, self.ink * (1 - t / run.recipe.steps)))

        return self.represent(descend(turns, nets, data, run), data.spec)

    def learn_mechanisms(self, nets: Any, data: Labelled, run: Run) -> None:
        """The effects' links, by least squares on labels alone: no picture is looked at."""
        labels_alone = replace(data, observe=lambda ticket, rng: torch.zeros(len(ticket), 1))
        recipe = Recipe(steps=2 * run.recipe.steps, batch=ROWS, optimiser=Adam(lr=5e-3), schedule=Cosine())

        def turns(nets: Any, batch: Labels, t: int) -> Iterator[Turn]:
            a = anchored(batch.u, data.labels)
            error = nets.mechanisms.abduct(a.nan_to_num()).square()[:, nets.mechanisms.effects]
            known = nets.mechanisms.known(a)[:, nets.mechanisms.effects]
            yield Turn("mechanisms", Terms(error=known_mean(error, known)))

        descend(turns, nets, labels_alone, replace(run, recipe=recipe), stage="mechanisms")

    def divide(self, parts: Parts, data: Labelled, run: Run) -> None:
        """Places among parts, by what a few pictures with all their labels show."""
        batch = data.take(PICTURES, Generator().manual_seed(run.seed))
        a = anchored(batch.u, data.labels)
        known = ~a.isnan().any(1)
        if known.sum() >= FEWEST:
            parts.places.copy_(tellers(batch.x[known].float(), a[known], parts.parts)[:, None])

    @abstractmethod
    def picture_terms(self, nets: Any, x: Tensor, a: Tensor, ink: float = 0.0) -> Terms:
        """The loss on pictures and anchors (NaN: missing), at this price of ink."""

    def shown(self, read: Tensor, a: Tensor) -> Tensor:
        """The codes that parts draw: around anchors where they are known, else those that the encoder gave."""
        if not self.taught:
            return read
        return torch.where(a.isnan(), read, a.nan_to_num() + self.anchor * torch.randn_like(read))


GIVEN = (
    "the labels and the causal graph, which are given, are right",
    "effects have additive noise, or none",
    "nothing is proved of pictures under interventions: the study causal_interventions measures them",
)


@dataclass(frozen=True, kw_only=True)
class AnchoredVAE(Anchored):
    r"""CausalVAE changed so that interventions work: latents anchored at labels, a picture composed of parts.

    .. math:: -\mathbb{E}_{z \sim \mathcal{N}(a(u), s^2)} \log p(x \mid z)
              + \mathrm{KL}(\mathcal{N}(a(u), s^2) \,\|\, q(z \mid x)) + \iota \sum_g \sum_i (1 - \hat x_{g,i}), \qquad
              \hat x = \prod_g \hat x_g(z_g)

    with :math:`a(u)` the label scaled to [-1, 1], s the anchor's deviation, :math:`\iota` falling to 0 over the run,
    and mechanisms :math:`a_j = g_j(a_{pa(j)}) + e_j` learned from labels. Sum over pixels and concepts, mean over the
    batch. A label that is missing is drawn from :math:`q(z \mid x)`, whose mean is then free. A do encodes, abducts e,
    sets concepts, recomputes their effects in causal order, and decodes.

    Departures from the reference, and why: (1) one latent a concept and no channel beside it, because whatever is free
    of labels carries the picture, and the decoder then does not look at concepts; (2) where a label is known the
    posterior given both is the anchor, so parts learn from labels, and the encoder is fitted to anchors by the other
    divergence (`taught=False`: parts draw what the encoder reads, under :math:`\mathrm{KL}(q \,\|\, p)`); (3) curved
    mechanisms in causal order in place of :math:`(I - A^\top)^{-1}` and a mask layer, as effects such as the length
    of a shadow are not linear in their causes; (4) a product of pictures in place of a mean of logits, so that concepts
    can be combined as they never were; (5) every place of the picture belongs to the part whose concepts tell it best
    among a few labelled pictures, because a cause's part otherwise draws the effects that it predicts: parts that
    overlap need `apart=False`; (6) the graph is given, and so are the parts. The study `causal_changes` takes them back
    one at a time.

    Within a part nothing is composed: a jet that is set to reach where no water ever threw it from its hole is
    extrapolated by a network, and not well.
    """

    reference: ClassVar[Reference] = YANG
    guarantee: ClassVar[Guarantee] = Guarantee("concepts as labelled, and the mechanism of each effect", GIVEN)
    evidence: ClassVar[tuple[Evidence, ...]] = (Evidence("closed-form", "tests/methods/test_anchored.py"),)

    @property
    def moments(self) -> int:
        return 2

    def picture_terms(self, nets: Any, x: Tensor, a: Tensor, ink: float = 0.0) -> Terms:
        q = gaussian(nets.encoder(x))
        known = ~a.isnan()
        p = Normal(torch.where(known, a, q.loc), torch.full_like(a, self.anchor))
        drawn = nets.parts(self.shown(q.rsample(), a))
        kl = kl_pairwise(p, q) if self.taught else kl_pairwise(q, p)
        return Terms(
            nll=nets.parts.cross_entropy(drawn.product, x),
            kl=kl.sum(1).mean(),
            ink=ink * drawn.ink,
        )


@dataclass(frozen=True, kw_only=True)
class AnchoredWAE(Anchored):
    r"""CausalWAE changed so that interventions work: noise is what a concept differs from its label by.

    .. math:: \|x - \hat x(a(u) + s \eta)\|^2 / 2 \sigma^2 + \lambda_1 \mathrm{MMD}(f, \mathcal{N}(0, 1))
              + \lambda_2 \mathrm{HSIC}(f, u)

    .. math:: \tfrac{\nu}{2 s^2} \|h(x) - a(u)\|^2 + \iota \sum_g \sum_i (1 - \hat x_{g,i})

    with codes :math:`z = h(x) + s \eta`, :math:`\eta` normal, noise :math:`f = (z - a(u)) / s`, and the picture
    :math:`\hat x = \prod_g \hat x_g(z_g)` of anchors where labels are known and of codes where not. Both penalties on
    f vanish exactly where h(x) is the scaled label. Sum over pixels and concepts, mean over the batch; rows in which a
    label is missing are left out of the penalties.

    Departures from the reference, and why: those of `AnchoredVAE`, for the same reasons; as printed, a concept without
    causes is decoded from noise alone and its label never reaches the picture, so here the concept itself is decoded.
    The encoder sees x alone and is random, which Wasserstein autoencoders allow, and a squared error keeps codes near
    labels from the first step on, where discrepancies of far samples have no gradient.
    """

    distance: float = 10.0  #: lambda 1, weight of noise that is not normal
    dependence: float = 100.0  #: lambda 2, weight of noise that depends on labels
    nearness: float = 1.0  #: nu, weight of the distance of codes from labels
    scale: float = 0.1  #: sigma, deviation of pixels

    reference: ClassVar[Reference] = ROH
    guarantee: ClassVar[Guarantee] = Guarantee("concepts as labelled, and the mechanism of each effect", GIVEN)
    evidence: ClassVar[tuple[Evidence, ...]] = (Evidence("closed-form", "tests/methods/test_anchored.py"),)

    @property
    def moments(self) -> int:
        return 1

    def picture_terms(self, nets: Any, x: Tensor, a: Tensor, ink: float = 0.0) -> Terms:
        h = nets.encoder(x).float()
        z = h + self.anchor * torch.randn_like(h)
        drawn = nets.parts(self.shown(z, a))
        known = ~a.isnan()
        filled = a.nan_to_num()
        whole = known.all(1)
        f = (z - filled)[whole] / self.anchor
        distance = dependence = h.new_zeros(())
        if len(f) > 1:
            distance = mmd(f, torch.randn_like(f), InverseMultiquadratic(scale=2.0 * f.shape[1]))
            dependence = hsic(f, filled[whole])
        return Terms(
            cost=(nets.parts.mean(drawn.product) - x).square().sum() / (2 * self.scale**2 * len(x)),
            distance=self.distance * distance,
            dependence=self.dependence * dependence,
            nearness=self.nearness * known_mean((h - filled).square(), known) / (2 * self.anchor**2),
            ink=ink * drawn.ink,
        )
