"""The linear causal layer and the masks behind it: what CausalVAE and CausalWAE share. A[i, j]: i causes j."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Generator, Tensor, nn

from whence.methods.causal._concepts import ConceptCode
from whence.nets import mlp
from whence.scm import is_acyclic, topological_order
from whence.terms import acyclicity, effects
from whence.terms.acyclicity import invertible
from whence.views import Label, Spec

EDGE = 0.3  #: weights above it are taken as edges, as in the literature on learned graphs (Zheng et al. 2018)
PERIOD = 50  #: steps between two updates of the multiplier
FALL, RAISE, STRICTEST = 0.25, 10.0, 1e8  #: unless the constraint fell to this part, its penalty is raised so much


class Structure(nn.Module):
    r"""The weights A of a linear causal model among n concepts, and an augmented Lagrangian that keeps out cycles.

    .. math:: \lambda H(A) + \tfrac{c}{2} H(A)^2, \qquad \lambda \leftarrow \lambda + c H

    with the penalty c raised tenfold as long as H does not fall to a quarter, and the free constant of H such that
    weights of `EDGE` count as 1: a cycle of four weights of one half is otherwise not seen. Multipliers that are held
    have the constant 1, as released. Weights outside of `support`, and those of a concept on itself, are 0. Where
    I - A' comes near to a singular matrix on the way, `effects` takes its paths and the step is counted.
    """

    def __init__(self, support: Tensor, start: float, fixed: tuple[float, float] | None) -> None:
        super().__init__()
        n = len(support)
        self.fixed = fixed
        self.register_buffer("support", support & ~torch.eye(n, dtype=torch.bool))
        self.weights = nn.Parameter(torch.full((n, n), start) + 0.1 * (1 - start) * torch.randn(n, n))
        lambda_, c = fixed or (0.0, 1.0)
        self.register_buffer("lagrangian", torch.tensor([lambda_, c, torch.inf, 0.0]))  # last H, singular steps
        self.support: Tensor
        self.lagrangian: Tensor

    def matrix(self) -> Tensor:
        return self.weights * self.support

    def effects(self) -> Tensor:
        return effects(self.matrix())

    def cycles(self) -> Tensor:
        """H(A)."""
        return acyclicity(self.matrix(), c=1.0 if self.fixed else EDGE**-2)

    def penalty(self) -> Tensor:
        h = self.cycles()
        return self.lagrangian[0] * h + self.lagrangian[1] / 2 * h.square()

    @torch.no_grad()
    def schedule(self, t: int) -> None:
        """After step t: the multiplier follows the constraint; singular matrices are counted."""
        self.lagrangian[3] += 0.0 if invertible(self.matrix()) else 1.0
        if self.fixed is not None or (t + 1) % PERIOD:
            return
        h = self.cycles()
        self.lagrangian[0] += self.lagrangian[1] * h
        if h > FALL * self.lagrangian[2] and h > 1e-6:
            self.lagrangian[1] = min(RAISE * float(self.lagrangian[1]), STRICTEST)
        self.lagrangian[2] = h

    @torch.no_grad()
    def confidence(self) -> Tensor:
        """From 0 to 1; one half for a weight of `EDGE`."""
        size = self.matrix().abs()
        return size / (size + EDGE)

    @torch.no_grad()
    def acyclic(self) -> Tensor:
        """The matrix without the weakest weights of its cycles: the strongest are taken first, as far as they go."""
        a = self.matrix()
        if is_acyclic(a != 0):
            return a
        keep = torch.zeros_like(a, dtype=torch.bool)
        for place in a.abs().flatten().argsort(descending=True).tolist():
            i, j = divmod(place, len(a))
            if a[i, j] == 0:
                break
            keep[i, j] = True
            if not is_acyclic(keep):
                keep[i, j] = False
        return a * keep

    def told(self, names: Sequence[str]) -> None:
        """Say what went wrong on the way, once."""
        if steps := int(self.lagrangian[3]):
            warnings.warn(
                f"In {steps} steps I - A' was near to a singular matrix, and the effects of paths were summed instead. "
                "A given graph (graph=...) cannot become singular.",
                stacklevel=5,
            )
        strong = self.matrix().abs() > EDGE
        if not is_acyclic(strong):
            lost = (strong & (self.acyclic() == 0)).nonzero().tolist()
            left = ", ".join(f"{names[i]}->{names[j]}" for i, j in lost)
            warnings.warn(
                f"The learned graph has cycles. Interventions leave out its weakest edges: {left}. Train longer, or "
                "give the graph.",
                stacklevel=5,
            )


class Masked(nn.Module):
    r"""Each concept of its causes, :math:`g_i(A_i \circ z)`, or, as released, of their sum :math:`g_i(A_i^\top z)`."""

    def __init__(self, n: int, width: int, summed: bool, hidden: int = 32) -> None:
        super().__init__()
        self.summed = summed
        self.links = nn.ModuleList(mlp([width * (1 if summed else n), hidden, width], nn.ELU) for _ in range(n))

    def forward(self, a: Tensor, z: Tensor) -> Tensor:
        """A (n, n) and z (B, n, width) -> (B, n, width)."""
        if self.summed:
            inputs = torch.einsum("ij,bik->bjk", a, z)
            return torch.stack([g(inputs[:, j]) for j, g in enumerate(self.links)], 1)
        return torch.stack([g((a[:, j, None] * z).flatten(1)) for j, g in enumerate(self.links)], 1)


class Attention(nn.Module):
    r"""As released: :math:`\mathrm{softmax}(\sigma(z M \epsilon^\top)) \, \epsilon`, normalised over the concepts that
    ask and not over those that answer, so that every concept's noise reaches every concept."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.M = nn.Parameter(torch.randn(width, width))

    def forward(self, z: Tensor, e: Tensor) -> Tensor:
        return torch.softmax(torch.sigmoid(z @ self.M @ e.mT), dim=1) @ e


class Averaged(nn.Module):
    """A decoder for each concept; the mean of what they give."""

    def __init__(self, decoders: Sequence[nn.Module]) -> None:
        super().__init__()
        self.decoders = nn.ModuleList(decoders)

    def forward(self, z: Tensor) -> Tensor:
        """(B, n, width) -> (B, *shape)."""
        return torch.stack([decode(part) for decode, part in zip(self.decoders, z.unbind(1), strict=True)]).mean(0)


class Together(nn.Module):
    """One decoder of all concepts."""

    def __init__(self, decoder: nn.Module) -> None:
        super().__init__()
        self.decoder = decoder

    def forward(self, z: Tensor) -> Tensor:
        return self.decoder(z.flatten(1))


class LinearCode(ConceptCode):
    """A code is what is decoded: `width` numbers for each concept, concept by concept.

    A do sets all numbers of a concept to its anchor, recomputes the linear layer's descendants in causal order with
    their noise kept, and then the masks.
    """

    def __init__(self, nets: Any, spec: Spec, width: int, known: bool) -> None:
        n = len(nets.structure.support)
        super().__init__(spec, n * width, nets.structure.support)
        self.nets, self.width, self.known = nets, width, known

    @property
    def labels(self) -> tuple[Label, ...]:
        n = self.dims // self.width
        return self.spec.labels or tuple(Label(f"concept {i + 1}", -1.0, 1.0) for i in range(n))

    @property
    def graph(self) -> Tensor:
        """What was given, or the confidence in each learned weight; above one half it is an edge."""
        return self.nets.structure.support.float() if self.known else self.nets.structure.confidence()

    def encoded(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Observations -> exogenous codes and endogenous ones, (B, n, width) each."""
        raise NotImplementedError

    def abduct(self, x: Tensor) -> Tensor:
        return self.split(*self.encoded(x))

    def split(self, e: Tensor, z: Tensor) -> Tensor:
        """(2, B, n, width) side by side: what masks add, and what each concept has beside its causes."""
        a = self.nets.structure.acyclic()
        return torch.stack([e, z - torch.einsum("ij,bik->bjk", a, z)], 1)

    def predict(self, e: Tensor, do: Mapping[int, Tensor]) -> Tensor:
        noise, own = e.unbind(1)
        a = self.nets.structure.acyclic()
        z = list(own.unbind(1))
        for j in topological_order(a != 0, self.names):
            if j in do:
                z[j] = do[j][:, None].expand_as(z[j])
            else:
                z[j] = own[:, j] + torch.einsum("i,bik->bk", a[:, j], torch.stack(z, 1))
        whole = torch.stack(z, 1)
        decoded = list(self.masked(whole, noise).unbind(1))
        for j, anchor in do.items():
            decoded[j] = anchor[:, None].expand_as(decoded[j])
        return torch.stack(decoded, 1).flatten(1)

    def masked(self, z: Tensor, e: Tensor) -> Tensor:
        """Endogenous codes and exogenous ones -> what is decoded."""
        raise NotImplementedError

    def values(self, z: Tensor) -> Tensor:
        return z.unflatten(1, (-1, self.width)).mean(2)

    def picture(self, z: Tensor) -> Tensor:
        return torch.sigmoid(self.nets.decoder(z.unflatten(1, (-1, self.width))))

    def noise(self, n: int, rng: Generator) -> Tensor:
        e = torch.randn(n, self.dims // self.width, self.width, generator=rng).to(self.confidence.device)
        return self.split(e, torch.einsum("ij,bjk->bik", self.nets.structure.effects(), e))
