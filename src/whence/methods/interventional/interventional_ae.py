"""InterventionalAE: an autoencoder, then regressions of the values that interventions set latents to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, NamedTuple

import torch
from torch import Generator, Tensor, nn
from torch.nn.functional import silu

from whence.descend import ALL, Adam, Cosine, Recipe, Run, Terms, Turn, descend
from whence.evidence import Evidence, Guarantee, Reference
from whence.methods._method import Gradient
from whence.methods.score_based._reduction import Reduction
from whence.methods.score_based.fronts import Front
from whence.representation import Representation
from whence.scores.grouped import Grouped
from whence.views import Environments, Spec, View


class RegressedCode(Representation):
    """A regression of each latent on the code of an autoencoder, of unit variance."""

    def __init__(self, spec: Spec, dims: int, method: InterventionalAE) -> None:
        super().__init__(spec, dims)
        self.reduction = Reduction(spec, dims, method.front)
        self.heads = method.heads(dims, dims)
        self.register_buffer("mean", torch.zeros(dims))
        self.register_buffer("scale", torch.ones(dims))

    mean: Tensor
    scale: Tensor

    def raw(self, x: Tensor) -> Tensor:
        y = self.reduction(x)
        return self.heads(y.expand(self.dims, *y.shape))[..., 0].T

    def codes(self, x: Tensor) -> Tensor:
        return (self.raw(x) - self.mean) / self.scale


class Straight(nn.Module):
    """Linear without an intercept, for each latent."""

    def __init__(self, groups: int, inputs: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(groups, inputs, 1))

    def forward(self, y: Tensor) -> Tensor:
        return y @ self.weight


class Values(NamedTuple):
    y: Tensor  #: (n, B, dims)
    value: Tensor  #: (n, B)


@dataclass(frozen=True, kw_only=True)
class Told(View[Values]):
    """Codes of the environments that intervene on each latent, and the values it was set to."""

    y: list[Tensor]
    value: list[Tensor]

    def gather(self, ticket: Tensor, rng: Generator) -> Values:
        at = [(column * len(v)).long() for column, v in zip(ticket.T, self.value, strict=True)]
        return Values(
            torch.stack([y[i] for y, i in zip(self.y, at, strict=True)]),
            torch.stack([v[i] for v, i in zip(self.value, at, strict=True)]),
        )


@dataclass(frozen=True, kw_only=True)
class InterventionalAE(Gradient):
    r"""An autoencoder of observational data; then, for each latent, what it was set to is regressed on the code.

    .. math:: \min_{h, g} \sum_e \mathbb{E}_e \|g(h(x)) - x\|^2, \qquad
              \min_{r_i} \sum_{e \ni i} \mathbb{E}_e\, (r_i(h(x)) - a_e)^2, \qquad z_i = r_i(h(x))

    for the value :math:`a_e` of do in environment e. So targets and values must be told: it is supervised on what was
    intervened on. With one value a latent the regression has a constant to learn, and a head with an intercept learns
    it and nothing else. The paper's table has such a row; here it is refused, unless the head is linear and without an
    intercept.

    Departures from the authors' code (facebookresearch/CausalRepID): the autoencoder is that of the first two stages of
    `GSCALE`, in place of a pretrained residual network with a code of 25 numbers, so that the two are compared on the
    same one. It has as many numbers as there are latents, which the paper's theorem asks for: regressions of few values
    on more are rather classifiers of them. It learns from all environments, theirs from the observational one.
    Regressions are trained side by side, in units of the largest magnitude of the values.
    """

    front: Front | None = None  #: the first stage of the autoencoder; none: as GSCALE has it
    head: Literal["mlp", "linear"] = "mlp"  #: of the regressions: a network, or linear without an intercept
    hidden: int = 100  #: units of a network
    examples: int = 10_000  #: observations of each environment, at most

    recipe: ClassVar[Recipe] = Recipe(steps=2_000, batch=256, optimiser=Adam(lr=2e-3), schedule=Cosine())
    needs: ClassVar[type[View]] = Environments
    design: ClassVar[Mapping[str, Any]] = {"kind": "do", "points": (-1.0, 0.0, 1.0)}
    reference: ClassVar[Reference] = Reference(
        key="ahuja2023interventional",
        authors="Ahuja, Kartik and Mahajan, Divyat and Wang, Yixin and Bengio, Yoshua",
        title="Interventional Causal Representation Learning",
        venue="International Conference on Machine Learning",
        year=2023,
        url="https://arxiv.org/abs/2209.11924",
    )
    guarantee: ClassVar[Guarantee] = Guarantee(
        "each latent that do was set on, up to a shift and scale",
        (
            "the mixing is an injective polynomial",
            "targets and values of do are told, at least one for each latent",
            "the autoencoder loses nothing",
        ),
    )
    evidence: ClassVar[tuple[Evidence, ...]] = (
        Evidence("closed-form", "tests/methods/test_interventional.py"),
        Evidence("benchmarked", "benchmarks/gscale_images.md"),
    )

    def __post_init__(self) -> None:
        if self.head not in ("mlp", "linear"):
            raise ValueError(f"The head is 'mlp' or 'linear', got {self.head!r}.")

    def heads(self, n: int, dims: int) -> nn.Module:
        return Straight(n, dims) if self.head == "linear" else Grouped(n, [dims, self.hidden, 1], silu, first=1.0)

    def init(self, spec: Spec) -> nn.Module:
        return self.skeleton(spec).heads

    def represent(self, nets: nn.Module, spec: Spec) -> RegressedCode:
        code = self.skeleton(spec)
        code.heads = nets
        return code

    def skeleton(self, spec: Spec) -> RegressedCode:
        return RegressedCode(spec, spec.latents or max(spec.environments, 1), self)

    def turns(self, nets: Any, batch: Values, t: int) -> Iterator[Turn]:
        error = (nets(batch.y)[..., 0] - batch.value).square()
        yield Turn(ALL, Terms(regression=error.mean(1).sum()))

    def fit(self, data: View, run: Run) -> Representation:
        if not isinstance(data, Environments):
            raise TypeError(f"InterventionalAE needs Environments, got {type(data).__name__}.")
        each = self.told(data)
        code = self.skeleton(data.spec._replace(latents=len(each)))
        code.to(run.device)
        u = code.reduction.learn(data, self.examples, run)
        y, value = [], []
        for own in each.values():
            parts = {e: u[e] for e in own}
            largest = max(abs(a) for a in own.values()) or 1.0
            y.append(torch.cat(list(parts.values())))
            value.append(torch.cat([p.new_full((len(p),), own[e] / largest) for e, p in parts.items()]))
        view = Told(
            shape=(code.dims,),
            draw_=lambda n, rng: torch.rand(n, len(each), generator=rng),
            observe=lambda ticket, rng: ticket,
            y=y,
            value=value,
        )
        descend(self.turns, code.heads, view, inner := replace(run), stage="train")
        run.stopped_at = inner.stopped_at
        with torch.no_grad():
            z = code.heads(u[0].expand(code.dims, *u[0].shape))[..., 0].T
            code.mean, code.scale = z.mean(0), z.std(0).clamp_min(1e-12)
        return code

    def told(self, data: Environments) -> dict[int, dict[int, float]]:
        """Of each latent its environments and their values."""
        found: dict[int, dict[int, float]] = {}
        for e, (name, env) in enumerate(zip(data.names, data.told, strict=True), 1):
            if env.kind != "do" or env.value is None or env.targets is None or len(env.targets) != 1:
                raise ValueError(
                    f"InterventionalAE regresses the values that do sets single latents to, so every environment tells "
                    f"its target and its value, got neither or one of them for {name}. Use "
                    "world.environments(kind='do', points=(...))."
                )
            found.setdefault(min(env.targets), {})[e] = env.value
        few = [str(i) for i, own in sorted(found.items()) if len(set(own.values())) < 2]
        if few and self.head == "mlp":
            raise ValueError(
                f"A regression of one value has a constant to learn, got one value of latents {', '.join(few)}. Set "
                "them to two values or more, or use head='linear', which has no intercept."
            )
        return dict(sorted(found.items()))
