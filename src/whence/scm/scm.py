"""Structural causal models: sample, density, score, intervention, counterfactual."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Generator, Tensor
from torch.distributions import Normal

from whence import values
from whence.scm import graph as graphs
from whence.scm.interventions import Do, intervention
from whence.scm.mechanisms import Additive, Linear, Mechanism, Point, Random, RandomLinear


class LinearGaussian(NamedTuple):
    r""":math:`z_j = \sum_i W_{ij} z_i + m_j + e_j`, :math:`e_j \sim \mathcal N(0, \omega_j)`."""

    weights: Tensor  #: W, (n, n)
    shifts: Tensor  #: m, (n,)
    variances: Tensor  #: omega, (n,)

    @property
    def mean(self) -> Tensor:
        return torch.linalg.solve(torch.eye(len(self.shifts)).to(self.weights) - self.weights.T, self.shifts)

    @property
    def precision(self) -> Tensor:
        r""":math:`\Theta = (I - W)\, \Omega^{-1} (I - W)^\top`."""
        b = torch.eye(len(self.shifts)).to(self.weights) - self.weights
        return b / self.variances @ b.T

    @property
    def covariance(self) -> Tensor:
        c = torch.linalg.inv(torch.eye(len(self.shifts)).to(self.weights) - self.weights)
        return c.T * self.variances @ c


@dataclass(frozen=True, eq=False)
class SCM:
    """A graph, A[i, j]: i causes j, with a mechanism for every node, which sees its parents in ascending order.

    Values have shape (..., n). Samples are float64 unless told otherwise; densities follow the dtype of z.
    """

    graph: Tensor  #: (n, n) bool
    mechanisms: tuple[Mechanism, ...]
    names: tuple[str, ...]
    dtype: torch.dtype = torch.float64

    def __post_init__(self) -> None:
        n = len(self.graph)
        if len(self.mechanisms) != n or len(self.names) != n:
            raise ValueError(
                f"An SCM needs a mechanism and a name for each of its {n} nodes, got {len(self.mechanisms)} and "
                f"{len(self.names)}."
            )
        if len(set(self.names)) < n:
            raise ValueError(f"Nodes have different names, got {', '.join(self.names)}.")
        graphs.from_matrix(self.graph, self.names)

    @classmethod
    def of(
        cls,
        graph: Any,
        mechanisms: Sequence[Mechanism] | Mapping[str, Mechanism],
        names: Sequence[str] | None = None,
        dtype: torch.dtype = torch.float64,
    ) -> SCM:
        """From a matrix or a networkx.DiGraph, and mechanisms in order or by name."""
        if not isinstance(graph, Tensor | np.ndarray | Sequence):
            graph, found = graphs.from_networkx(graph)
            names = names or found
        a = graphs.from_matrix(graph, names)
        names = tuple(names or (f"z{i}" for i in range(len(a))))
        if isinstance(mechanisms, Mapping):
            for name in mechanisms:
                if name not in names:
                    raise ValueError(values.unknown("node", name, names))
            if missing := [name for name in names if name not in mechanisms]:
                raise ValueError(f"Every node needs a mechanism, there is none for {', '.join(missing)}.")
            mechanisms = [mechanisms[name] for name in names]
        return cls(a, tuple(mechanisms), names, dtype)

    @classmethod
    def random(
        cls,
        graph: Tensor | np.ndarray,
        mechanisms: Random | None = None,
        *,
        names: Sequence[str] | None = None,
        rng: Generator,
    ) -> SCM:
        """Random mechanisms on a graph, linear ones by default."""
        a = graphs.from_matrix(graph, names)
        family = mechanisms or RandomLinear()
        return cls.of(a, [family.draw(int(k), rng) for k in a.sum(0).tolist()], names)

    @classmethod
    def from_networkx(cls, graph: Any) -> SCM:
        """From a networkx.DiGraph whose nodes have the attribute "mechanism"."""
        if missing := [str(node) for node, about in graph.nodes(data=True) if "mechanism" not in about]:
            raise ValueError(f"Every node needs the attribute 'mechanism', there is none on {', '.join(missing)}.")
        return cls.of(graph, {str(node): about["mechanism"] for node, about in graph.nodes(data=True)})

    def to_networkx(self) -> Any:
        """A networkx.DiGraph of named nodes with their mechanisms."""
        graph = graphs.to_networkx(self.graph, self.names)
        for name, mechanism in zip(self.names, self.mechanisms, strict=True):
            graph.nodes[name]["mechanism"] = mechanism
        return graph

    def __len__(self) -> int:
        return len(self.names)

    @cached_property
    def order(self) -> tuple[int, ...]:
        return graphs.topological_order(self.graph, self.names)

    @cached_property
    def parents(self) -> tuple[tuple[int, ...], ...]:
        return tuple(graphs.parents(self.graph, j) for j in range(len(self)))

    def position(self, name: str | int) -> int:
        """A node's number, by its name (the nearest name is suggested) or number."""
        if isinstance(name, str):
            if name not in self.names:
                raise KeyError(values.unknown("node", name, self.names))
            return self.names.index(name)
        if not 0 <= name < len(self):
            raise IndexError(f"Nodes are numbered 0 to {len(self) - 1}, got {name}.")
        return int(name)

    def checked(self, z: Tensor) -> Tensor:
        if z.ndim < 1 or z.shape[-1] != len(self) or not z.is_floating_point():
            raise ValueError(
                f"This model has {len(self)} nodes ({', '.join(self.names)}): values are floats of shape "
                f"(..., {len(self)}), got {z.dtype} of {tuple(z.shape)}."
            )
        return z

    # --- interventions -------------------------------------------------------------------------------------------

    def acted(self, do: Do | None) -> dict[int, Mechanism]:
        """The mechanisms that `do` replaces, by node."""
        found: dict[int, Mechanism] = {}
        for name, how in (do or {}).items():
            i = self.position(name)
            if i in found:
                raise ValueError(f"Node {self.names[i]!r} is given twice, by name and by number.")
            found[i] = intervention(how).on(self.mechanisms[i])
        return found

    def do(self, do: Do | None) -> SCM:
        """The model after an intervention: mechanisms replaced, and edges cut where the parents have no effect."""
        acted = self.acted(do)
        if not acted:
            return self
        graph = self.graph.clone()
        for i, mechanism in acted.items():
            if mechanism.is_root:
                graph[:, i] = False
        return SCM(graph, tuple(acted.get(i, m) for i, m in enumerate(self.mechanisms)), self.names, self.dtype)

    # --- samples -------------------------------------------------------------------------------------------------

    def sample(self, n: int, *, do: Do | None = None, rng: Generator) -> Tensor:
        """(n, nodes). A generator in the same state gives the same noise under every `do`: samples are paired."""
        return self.do(do)._sample((n,), rng)

    def _sample(self, shape: tuple[int, ...], rng: Generator) -> Tensor:
        z = torch.empty(*shape, len(self), dtype=self.dtype)
        for j, own in self._streams(rng):
            u = self.mechanisms[j].draw(shape, own).to(z)
            z[..., j] = self.mechanisms[j].predict(u, z[..., self.parents[j]])
        return z

    def _streams(self, rng: Generator) -> list[tuple[int, Generator]]:
        """In causal order, every node with a generator of its own: what one node draws does not move another's."""
        seeds = torch.randint(2**63 - 1, (len(self),), generator=rng).tolist()
        return [(j, Generator().manual_seed(seeds[j])) for j in self.order]

    def sample_environments(self, n: int, dos: Sequence[Do | None], *, rng: Generator) -> Tensor:
        """n samples in each environment, (environments, n, nodes), independent, in one pass over the nodes: what no
        intervention touches is computed for all environments at once."""
        acted = [self.acted(do) for do in dos]
        z = torch.empty(len(dos), n, len(self), dtype=self.dtype)
        for j, own in self._streams(rng):
            changed = {e: mechanisms[j] for e, mechanisms in enumerate(acted) if j in mechanisms}
            same = [e for e in range(len(dos)) if e not in changed]
            if not changed:
                u = self.mechanisms[j].draw((len(dos), n), own).to(z)
                z[..., j] = self.mechanisms[j].predict(u, z[..., self.parents[j]])
                continue
            if same:
                u = self.mechanisms[j].draw((len(same), n), own).to(z)
                z[same, :, j] = self.mechanisms[j].predict(u, z[..., self.parents[j]][same])
            for e, mechanism in changed.items():
                z[e, :, j] = mechanism.predict(mechanism.draw((n,), own).to(z), z[e][:, self.parents[j]])
        return z

    # --- densities -----------------------------------------------------------------------------------------------

    def log_prob(self, z: Tensor, *, do: Do | None = None) -> Tensor:
        r""":math:`\log p(z) = \sum_j \log p(z_j \mid z_{pa(j)})`, (..., nodes) -> (...)."""
        model, z = self.do(do), self.checked(z)
        return torch.stack([model.conditional(z, j) for j in range(len(self))]).sum(0)

    def conditional(self, z: Tensor, j: int) -> Tensor:
        r""":math:`\log p(z_j \mid z_{pa(j)})`."""
        if isinstance(self.mechanisms[j], Point):
            raise ValueError(
                f"do({self.names[j]} = value) is a point mass and has no density. For densities and scores use a hard "
                f"intervention with noise, such as do={{{self.names[j]!r}: Normal(value, 0.1)}} or Hard(variance=0.25)."
            )
        return self.mechanisms[j].log_prob(z[..., j], z[..., self.parents[j]])

    def score(self, z: Tensor, *, do: Do | None = None) -> Tensor:
        r""":math:`\nabla_z \log p(z)`, exact, by automatic differentiation."""
        model = self.do(do)
        return self._gradient(z, lambda at: model.log_prob(at))

    def score_difference(self, z: Tensor, do: Do, base: Do | None = None) -> Tensor:
        r""":math:`\nabla_z \log p_{do}(z) - \nabla_z \log p_{base}(z)`, `base` being nothing done.

        Only the mechanisms that differ are differentiated, so that zeros are exact.
        """
        one, two = self.do(do), self.do(base)
        differ = [j for j in range(len(self)) if one.mechanisms[j] is not two.mechanisms[j]]
        if not differ:
            return torch.zeros_like(self.checked(z))
        return self._gradient(z, lambda at: sum(one.conditional(at, j) - two.conditional(at, j) for j in differ))

    def _gradient(self, z: Tensor, of: Any) -> Tensor:
        with torch.enable_grad():
            at = self.checked(z).detach().requires_grad_()
            value = of(at)
            if not torch.isfinite(value).all():
                bad = int((~torch.isfinite(value)).sum())
                raise ValueError(
                    f"A score exists where the density is positive: {bad} of {value.numel()} points lie outside of "
                    "the support, or are not finite. Leave them out."
                )
            if not value.requires_grad:  # a density that is flat
                return torch.zeros_like(at)
            return torch.autograd.grad(value.sum(), at)[0]

    # --- counterfactuals -----------------------------------------------------------------------------------------

    def abduct(self, z: Tensor) -> Tensor:
        """The noise behind values, both (..., nodes)."""
        z = self.checked(z)
        return torch.stack([m.abduct(z[..., j], z[..., self.parents[j]]) for j, m in enumerate(self.mechanisms)], -1)

    def predict(self, u: Tensor) -> Tensor:
        """The values that noise makes; the inverse of `abduct`."""
        z = torch.empty_like(self.checked(u))
        for j in self.order:
            z[..., j] = self.mechanisms[j].predict(u[..., j], z[..., self.parents[j]])
        return z

    def counterfactual(self, z: Tensor, do: Do, *, rng: Generator | None = None) -> Tensor:
        """What z would have been: abduct the noise, act, predict. What the intervention does not reach stays as it was.

        An intervention that brings noise of its own (a distribution in place of the node's) has no counterfactual
        value but a distribution of them: pass `rng` to draw one.
        """
        z, acted = self.checked(z), self.acted(do)
        new, out, touched = self.do(do), z.clone(), set[int]()
        for j in self.order:
            if j not in acted and not touched & set(self.parents[j]):
                continue
            touched.add(j)
            old, mechanism = self.mechanisms[j], new.mechanisms[j]
            if isinstance(mechanism, Point):
                u = out.new_zeros(z.shape[:-1])
            elif mechanism.exogenous is old.exogenous:
                u = old.abduct(z[..., j], z[..., self.parents[j]])
            elif rng is None:
                raise ValueError(
                    f"The intervention on {self.names[j]!r} brings noise of its own, so its counterfactual is not one "
                    "value. Pass rng=torch.Generator() to draw one, or use do, Hard or Soft, which keep the noise."
                )
            else:
                u = mechanism.draw(tuple(z.shape[:-1]), rng).to(z)
            out[..., j] = mechanism.predict(u, out[..., new.parents[j]])
        return out

    # --- closed forms --------------------------------------------------------------------------------------------

    @cached_property
    def gaussian(self) -> LinearGaussian | None:
        """Weights, mean, covariance and precision, if every mechanism is linear with normal noise; else None."""
        n = len(self)
        weights, shifts, variances = (torch.zeros(s, dtype=torch.float64) for s in ((n, n), (n,), (n,)))
        for j, m in enumerate(self.mechanisms):
            if type(m) is not Additive or type(m.noise) is not Normal:
                return None
            if not m.is_root:
                if not isinstance(m.link, Linear):
                    return None
                weights[list(self.parents[j]), j] = m.gain * m.link.weights.double()
            shifts[j], variances[j] = m.shift + m.scale * float(m.noise.loc), m.variance
        return LinearGaussian(weights, shifts, variances)
