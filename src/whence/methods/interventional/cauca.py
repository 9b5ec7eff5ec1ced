"""CauCA: a flow to latents whose graph and intervention targets are known, by the likelihood of all environments."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Generator, Tensor, nn

from whence.descend import Adam, Cosine, Recipe, Run, Terms, descend
from whence.evidence import Evidence, Guarantee, Reference
from whence.methods._method import Gradient
from whence.methods.causal._concepts import graph_of
from whence.methods.score_based._maps import Bent, set_linear
from whence.methods.score_based._reduction import Reduction
from whence.methods.score_based.fronts import Front
from whence.nets import Flow, Nets
from whence.representation import Representation, as_given
from whence.views import Environments, Spec, View


class CausalBase(nn.Module):
    r"""The density of latents in every environment, :math:`\prod_i p_e(z_i \mid z_{pa(i)})`.

    Each mechanism is Gaussian, with a mean and a deviation that depend on the causes: in any way, through a network and
    a linear map beside it. An environment replaces the mechanism of its target; if hard, by one without causes.
    """

    def __init__(self, graph: Tensor, environments: int, hidden: int) -> None:
        super().__init__()
        n = len(graph)
        self.natural = Bent(n, n, 2, (hidden,))  # of each latent: mean and log deviation
        self.replaced = Bent(environments, n, 2, (hidden,))  # of each environment's target
        for bent in (self.natural, self.replaced):
            set_linear(bent, torch.zeros(n, 2))
        self.register_buffer("graph", graph.float())
        self.register_buffer("targets", torch.arange(environments) % n)
        self.register_buffer("hard", torch.ones(environments, dtype=torch.bool))

    graph: Tensor
    targets: Tensor  #: (E,)
    hard: Tensor  #: (E,)

    def forward(self, z: Tensor) -> Tensor:
        """Log-densities (1 + E, B) of latents (1 + E, B, n), the observational environment being the first."""
        e, b, n = z.shape
        causes = z.flatten(0, 1) * self.graph.T[:, None]  # (n, (1 + E) B, n)
        each = gaussian(z.flatten(0, 1).T, self.natural(causes)).view(n, e, b)
        keep = self.graph.T[self.targets] * ~self.hard[: len(self.targets), None]
        own = z[1:].gather(2, self.targets[:, None, None].expand(-1, b, 1))[..., 0]
        hit = torch.arange(1, e, device=z.device)
        new = gaussian(own, self.replaced(z[1:] * keep[:, None])) if e > 1 else own
        return each.index_put((self.targets, hit), new).sum(0) if e > 1 else each.sum(0)

    def observational(self, z: Tensor) -> Tensor:
        """(B, n) -> (B,)."""
        return gaussian(z.T, self.natural(z * self.graph.T[:, None])).sum(0)


def gaussian(x: Tensor, parameters: Tensor) -> Tensor:
    """Log-density of x (...) for means and log deviations (..., 2)."""
    mean, log = parameters.unbind(-1)
    return -0.5 * ((x - mean) * (-log).exp()).square() - log - 0.5 * math.log(2 * math.pi)


class CausalFlow(Representation):
    """Latents, in the order of their numbers as targets, with the graph that was told."""

    def __init__(self, spec: Spec, dims: int, reduction: Reduction, flow: Flow, base: CausalBase) -> None:
        super().__init__(spec, dims)
        self.reduction, self.flow, self.base = reduction, flow, base

    def codes(self, x: Tensor) -> Tensor:
        return self.flow(self.reduction(x))[0]

    @as_given
    def decode(self, z: Tensor) -> Tensor:
        return self.reduction.back(self.flow(z, inverse=True)[0])

    def log_prob(self, x: Tensor) -> Tensor:
        """Of what x is reduced to, in the observational environment, (B,)."""
        z, log = self.flow(self.reduction(x))
        return self.base.observational(z) + log

    @property
    def graph(self) -> Tensor:
        """A[i, j]: one if i causes j, as told."""
        return self.base.graph


def directions(u: Sequence[Tensor], targets: Sequence[int]) -> Tensor:
    """Rows of unit variance, (n, n), for the likelihood to begin at, which has other maxima: along each, precisions of
    the environments of its target differ most. Two hard ones differ along their target alone, if all is linear and
    Gaussian; one and the observational environment, along its causes too."""
    precision = [torch.linalg.inv(torch.cov(rows.T.double()).view(rows.shape[1], -1)) for rows in u]
    rows = []
    for t in sorted(set(targets)):
        own = [precision[e] for e, target in enumerate(targets, 1) if target == t]
        own = own if len(own) > 1 else [precision[0], *own]
        value, vector = max(
            (torch.linalg.eigh(a - b) for k, a in enumerate(own) for b in own[:k]), key=lambda s: s[0].abs().amax()
        )
        rows.append(vector[:, value.abs().argmax()])
    H = torch.stack(rows)
    if float(torch.linalg.cond(H)) > 1e4:
        H = torch.eye(len(H)).to(H)
    spread = torch.einsum("ki,ij,kj->k", H, torch.linalg.inv(precision[0]), H).sqrt()
    return (H / spread[:, None]).to(u[0])


class Coordinates(NamedTuple):
    u: Tensor  #: (1 + E, B, n)


@dataclass(frozen=True, kw_only=True)
class Resident(View[Coordinates]):
    """Rows of every environment, drawn with replacement."""

    blocks: list[Tensor]

    def gather(self, ticket: Tensor, rng: Generator) -> Coordinates:
        columns = zip(self.blocks, ticket.T, strict=True)
        return Coordinates(torch.stack([rows[(column * len(rows)).long()] for rows, column in columns]))


@dataclass(frozen=True, kw_only=True)
class CauCA(Gradient):
    r"""Causal component analysis: the causal graph and the targets of interventions are known, the mixing is not.

    .. math:: \max_{f, p} \sum_e \mathbb{E}_e \Bigl[ \sum_{i \ne t_e} \log p_i(z_i \mid z_{pa(i)})
              + \log \tilde p_e(z_{t_e} \mid \cdot) + \log |\det J_f(x)| \Bigr], \qquad z = f(x)

    for a normalising flow f: couplings of rational-quadratic splines with matrices between. Environment e replaces the
    mechanism of its target :math:`t_e`, by one without causes if it is hard. A graph without edges makes it independent
    component analysis with interventions.

    A flow keeps the number of dimensions, so observations of more than there are latents are first reduced, without a
    thought of causes, as in the first two stages of `GSCALE`: principal components, which is all where the mixing is
    linear, and then an autoencoder that begins at coordinates without folds.

    Departures from the authors' code (akekic/causal-component-analysis): mechanisms are Gaussian with a mean and a
    deviation that are networks of the causes, where the code has linear Gaussian ones or flows; four layers in place of
    twelve; the reduction.
    """

    graph: tuple[str, ...] | None = None  #: all edges "0->1", by the numbers that targets have; (): there are none
    front: Front | None = None  #: the first stage of the reduction; none: as GSCALE has it
    layers: int = 4  #: couplings of the flow
    hidden: tuple[int, ...] = (64, 64)  #: of the networks of the couplings
    bins: int = 8  #: of the splines
    mechanism: int = 32  #: hidden units of each mechanism
    examples: int = 10_000  #: observations of each environment, at most

    recipe: ClassVar[Recipe] = Recipe(
        steps=2_000, batch=64, optimiser=Adam(lr=5e-3), schedule=Cosine(warmup=50), clip=10.0
    )
    needs: ClassVar[type[View]] = Environments
    design: ClassVar[Mapping[str, Any]] = {"kind": "hard"}
    reference: ClassVar[Reference] = Reference(
        key="liang2023causal",
        authors="Liang, Wendong and Keki{\\'c}, Armin and von K{\\\"u}gelgen, Julius and Buchholz, Simon and Besserve, "
        'Michel and Gresele, Luigi and Sch{\\"o}lkopf, Bernhard',
        title="Causal Component Analysis",
        venue="Advances in Neural Information Processing Systems",
        year=2023,
        url="https://arxiv.org/abs/2305.17225",
    )
    guarantee: ClassVar[Guarantee] = Guarantee(
        "each latent up to an invertible map of its own where interventions are hard, and up to a map of itself and "
        "its ancestors where they are soft",
        (
            "the causal graph and the targets of interventions are told, and right",
            "one intervention on each latent, on it alone, that changes its density everywhere",
            "the mixing is smooth and invertible",
            "the flow and the mechanisms can represent the truth, and the likelihood is maximised",
        ),
    )
    evidence: ClassVar[tuple[Evidence, ...]] = (
        Evidence("closed-form", "tests/methods/test_cauca.py"),
        Evidence("benchmarked", "benchmarks/gscale_mlp.md"),
    )

    def __post_init__(self) -> None:
        if min(self.layers, self.bins - 1, self.mechanism, self.examples) < 1:
            raise ValueError(
                f"layers, mechanism and examples are at least 1 and bins 2, got {self.layers}, {self.mechanism}, "
                f"{self.examples} and {self.bins}."
            )

    def init(self, spec: Spec) -> nn.Module:
        n = spec.latents or max(spec.environments, 1)
        graph = graph_of(self.graph or (), [str(i) for i in range(n)])
        return Nets(
            flow=Flow(n, self.layers, self.hidden, self.bins),
            base=CausalBase(graph, spec.environments, self.mechanism),
        )

    def represent(self, nets: Any, spec: Spec) -> CausalFlow:
        n = len(nets.base.graph)
        return CausalFlow(spec, n, Reduction(spec, n, self.front), nets.flow, nets.base)

    def loss(self, nets: Any, batch: Coordinates, t: int) -> Terms:
        """Minus the log-likelihood, a mean over the batch, summed over environments."""
        z, log = nets.flow(batch.u.flatten(0, 1))
        each = nets.base(z.view_as(batch.u))
        return Terms(base=-each.mean(1).sum(), volume=-log.view(each.shape).mean(1).sum())

    def fit(self, data: View, run: Run) -> Representation:
        if not isinstance(data, Environments):
            raise TypeError(f"CauCA needs Environments, got {type(data).__name__}.")
        targets = self.targets_of(data)
        n = max(targets) + 1
        nets = self.init(data.spec._replace(latents=n)).to(run.device)
        base = nets.get_submodule("base")
        base.targets.copy_(torch.tensor(targets))  # type: ignore[operator]
        base.hard.copy_(torch.tensor([env.kind == "hard" for env in data.told]))  # type: ignore[operator]
        code = self.represent(nets, data.spec._replace(latents=n)).to(run.device)
        blocks = code.reduction.learn(data, self.examples, run)
        view = Resident(
            shape=(n,),
            draw_=lambda many, rng: torch.rand(many, len(blocks), generator=rng),
            observe=lambda ticket, rng: ticket,
            blocks=blocks,
        )
        nets.get_submodule("flow").begin_at(directions(blocks, targets).to(run.device))  # type: ignore[operator]
        descend(self.turns, nets, view, run)
        return code

    def targets_of(self, data: Environments) -> Sequence[int]:
        """The target of each environment; what is not told or cannot be is refused."""
        if self.graph is None:
            raise ValueError(
                "CauCA needs the causal graph of the latents, got graph=None. Tell all edges, such as "
                'graph=("0->1", "0->2"), or graph=() if there are none; GSCALE learns the graph.'
            )
        found: list[int] = []
        for name, env in zip(data.names, data.told, strict=True):
            if env.targets is None or len(env.targets) != 1:
                got = "none" if env.targets is None else f"{len(env.targets)} targets"
                raise ValueError(
                    f"CauCA needs to be told the one latent that each environment intervenes on, got {got} for {name}. "
                    "Give targets=[0, 1, ...], or use GSCALE, which finds them."
                )
            if env.kind == "do":
                raise ValueError(
                    f"CauCA needs interventions with noise, and the view says that {name} is a do, which has no "
                    "density. Use kind='hard', or InterventionalAE for do."
                )
            found += env.targets
        if missing := sorted(set(range(max(found) + 1)) - set(found)):
            raise ValueError(
                f"CauCA needs an intervention on each latent, got none on {', '.join(map(str, missing))} of "
                f"{max(found) + 1}. Add environments, or number the latents that are intervened on from 0."
            )
        return found
