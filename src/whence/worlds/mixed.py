"""Mixed: a random structural causal model seen through a random injective map."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Generator, Tensor

from whence.evidence import Reference
from whence.scm import SCM, Random, RandomLinear, random_graph
from whence.worlds.design import Design
from whence.worlds.mixing import LinearMap, LinearMixing, Map, Mixing
from whence.worlds.world import Factor, World

SAMPLE = 10_000  # latents that the scale of maps and the range of factors are taken from


class Model(NamedTuple):
    scm: SCM
    map: Map
    reach: Tensor  #: (2, n)


@dataclass(frozen=True)
class Mixed(World):
    """Latents of a random causal model, seen through a random injective map; numbers, no pictures."""

    nodes: int = 5  #: latents, n
    dims: int = 100  #: of an observation, d, at least n
    density: float = 0.5  #: probability of each edge
    degree: float | None = None  #: edges a node on average, instead of density
    shuffle: bool = False  #: the causal order of nodes is random, not 0, 1, ...
    mechanism: Random = field(default_factory=RandomLinear)  #: how nodes depend on their causes
    mixing: Mixing = field(default_factory=LinearMixing)  #: how observations come from latents
    model_seed: int = 0  #: of the graph, its mechanisms and the map: another seed is another world

    reference: ClassVar[Reference | None] = Reference(
        key="varici2025score",
        authors='Var{\\i}c{\\i}, Burak and Acart{\\"u}rk, Emre and Shanmugam, Karthikeyan and Kumar, Abhishek '
        "and Tajer, Ali",
        title="Score-based Causal Representation Learning: Linear and General Transformations",
        venue="Journal of Machine Learning Research",
        year=2025,
        url="https://arxiv.org/abs/2402.00849",
    )

    def __post_init__(self) -> None:
        if self.nodes < 1 or self.dims < self.nodes:
            raise ValueError(
                f"An injective map needs at least as many observed dimensions as latents, and one latent, got "
                f"dims={self.dims} and nodes={self.nodes}."
            )

    @cached_property
    def model(self) -> Model:
        """Everything that is drawn once, from seeds of its own each."""
        seeds = torch.randint(2**62, (4,), generator=Generator().manual_seed(self.model_seed)).tolist()
        edges, mechanisms, sample, mixing = (Generator().manual_seed(seed) for seed in seeds)
        asked = {"probability": self.density} if self.degree is None else {"degree": self.degree}
        graph = random_graph(self.nodes, **asked, shuffle=self.shuffle, rng=edges)
        scm = SCM.random(graph, self.mechanism, rng=mechanisms)
        z = scm.sample(SAMPLE, rng=sample)
        low, high = z.amin(0), z.amax(0)
        wider = 0.25 * (high - low)
        return Model(scm, self.mixing.draw(z, self.dims, mixing), torch.stack([low - wider, high + wider]))

    @property
    def scm(self) -> SCM:
        return self.model.scm

    @property
    def map(self) -> Map:
        """x = g(z), with its inverse and Jacobian."""
        return self.model.map

    @property
    def mixing_matrix(self) -> Tensor | None:
        """G of x = G z, (d, n) in float64; None if the map is not linear."""
        return self.map.G if isinstance(self.map, LinearMap) else None

    @cached_property
    def lost(self) -> float:
        """Share of latents that observations in single precision do not give back to a hundredth of their deviation.
        Maps are injective; rounding is not, where tanh saturates or a polynomial folds nearly flat."""
        z = self.scm.sample(1_000, rng=Generator().manual_seed(self.model_seed))
        back = self.map.inverse(self.observe(z.float()).double())
        return float(((back - z).abs() > 0.01 * z.std(0)).double().mean())

    @property
    def factors(self) -> tuple[Factor, ...]:
        """The latents; their ranges are those of a sample, widened by half."""
        reach = self.model.reach.T.tolist()
        return tuple(
            Factor(name, "continuous", (low, high)) for name, (low, high) in zip(self.scm.names, reach, strict=True)
        )

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.dims,)

    def observe(self, v: Tensor, rng: Generator | None = None) -> Tensor:
        if v.ndim != 2 or v.shape[1] != self.nodes:
            raise ValueError(f"Mixed needs rows of {self.nodes} latents, got shape {tuple(v.shape)}.")
        return self.map(v)

    def score_differences(self, **design: Any) -> ScoreDifferences:
        """The truth that score-based methods estimate, for `scores.Oracle`: same arguments as `environments`."""
        return ScoreDifferences(self, Design(**design))


@dataclass(frozen=True)
class ScoreDifferences:
    r""":math:`d_e = \nabla \log p - \nabla \log p_e` of each environment e, at observations or at latents, exact."""

    world: Mixed  #: whose model and map are known
    design: Design = field(default_factory=Design)  #: which interventions its environments have

    @cached_property
    def dos(self) -> list[dict[str | int, Any]]:
        return list(self.design.dos(self.world.scm))

    def __call__(self, x: Tensor) -> Tensor:
        r"""(B, d) -> (environments, B, d): :math:`(J^+)^\top` times the differences at the latents."""
        z = self.world.map.inverse(x.double())
        return self.world.map.push(z, self.latent(z), x.dtype)

    def latent(self, z: Tensor) -> Tensor:
        """(B, n) -> (environments, B, n)."""
        return -torch.stack([self.world.scm.score_difference(z, do) for do in self.dos])
