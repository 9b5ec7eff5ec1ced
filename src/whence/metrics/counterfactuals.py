"""Counterfactual pictures compared with the world's own, and their factors read again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Generator, Tensor, nn

from whence import values
from whence.descend import Adam, Cosine, Recipe, Run, Terms, Turn, descend, mix
from whence.evidence import Evidence, Reference
from whence.metrics.arrays import Unmeasurable
from whence.metrics.metric import Metric, Part, Result
from whence.metrics.probe import Probe
from whence.metrics.ssim import ssim
from whence.nets import MLP, Conv64
from whence.representation import Decodes, Intervenes
from whence.scm import descendants
from whence.views import Labels, Spec
from whence.worlds import World
from whence.worlds.world import Factor

READING = Recipe(steps=1_500, batch=128, optimiser=Adam(lr=2e-3), schedule=Cosine(warmup=50), every=100, ema=0.98)


class Effect(NamedTuple):
    """Of setting one concept; factors in parts of their ranges."""

    ratio: float  #: squared pixel error of the counterfactual, by that of the reconstruction
    hit: float  #: how far the concept is from what it was set to
    descendants: float | None  #: how far its effects are from what they would have been; None: it has none
    others: float | None  #: how far everything else is from what it was; None: there is nothing else
    ssim: float  #: structural similarity of counterfactual pictures
    reader: float  #: how far the concept is, as it is read, from what it was set to in the true pictures


class Reader(nn.Module):
    """Factors from pictures, learned from true ones."""

    def __init__(self, net: nn.Module, low: Tensor, high: Tensor) -> None:
        super().__init__()
        self.net = net
        self.register_buffer("low", low)
        self.register_buffer("high", high)
        self.low: Tensor
        self.high: Tensor

    @torch.no_grad()
    def read(self, x: Tensor) -> Tensor:
        """(N, K), in the factors' own units."""
        a = torch.cat([self.net(part) for part in x.split(256)])
        return self.low + (self.high - self.low) * (a + 1) / 2

    @torch.no_grad()
    def features(self, x: Tensor) -> Tensor:
        """(N, F): what the last linear layer sees."""
        last = [m for m in self.net.modules() if isinstance(m, nn.Linear)][-1]
        seen: list[Tensor] = []

        def look(module: nn.Module, inputs: tuple[Tensor, ...]) -> None:
            seen.append(inputs[0])

        with last.register_forward_pre_hook(look):
            for part in x.split(256):
                self.net(part)
        return torch.cat(seen)


def spans(factors: Sequence[Factor]) -> tuple[Tensor, Tensor]:
    """Low and high of every factor."""
    return tuple(torch.tensor([float(f(factor.values)) for factor in factors]) for f in (min, max))  # type: ignore[return-value]


@lru_cache(maxsize=4)
def reader(world: World, seed: int, steps: int = READING.steps) -> Reader:
    """A regressor of the world's factors, trained on its true pictures of factors that are drawn independently, so
    that it also reads what nature does not combine. Kept, so that it is trained once for each world."""
    low, high = spans(world.factors)
    net = Conv64() if world.shape[1:] == (64, 64) else MLP(hidden=(512, 256))
    view = world.labelled()

    def draw(n: int, rng: Generator) -> Tensor:
        v = torch.stack([factor.draw(n, rng) for factor in world.factors], 1)
        return torch.cat([v, v], 1)

    def turns(nets: Any, batch: Labels, t: int) -> Iterator[Turn]:
        aim = 2 * (batch.u - low) / (high - low) - 1
        yield Turn("net", Terms(error=(nets.net(batch.x) - aim).square().sum(1).mean()))

    with torch.random.fork_rng():
        torch.manual_seed(mix(seed, "reader"))
        nets = Reader(net.encoder(world.shape, len(low)), low, high)
        descend(turns, nets, replace(view, draw_=draw), Run(seed=seed, recipe=replace(READING, steps=steps)))
    return nets.eval().requires_grad_(False)


def counterfactual_effects(
    representation: Any,
    world: World,
    read: Any,
    *,
    concepts: Sequence[str],
    observations: int = 500,
    inner: float = 0.9,
    rng: Generator,
) -> dict[str, Effect]:
    """`Effect` of setting each concept to values from the inner part of its factor's range, observation by observation.

    The truth is `world.counterfactual`, drawn by `world.observe` with the same nuisances; `read` gives the factors of
    pictures, (N, *shape) -> (N, K).
    """
    scm = world.scm
    if scm is None:
        raise Unmeasurable(
            f"{type(world).__name__} has no causal model, so there are no counterfactuals to compare with."
        )
    low, high = spans(world.factors)
    v = world.draw(observations, rng=rng)
    nuisance = int(torch.randint(2**62, (1,), generator=rng))

    def seen(v: Tensor) -> Tensor:
        return world.observe(v, Generator().manual_seed(nuisance))

    x = seen(v)
    own = float((representation.decode(representation.encode(x)) - x).double().square().mean())
    found = {}
    for name in concepts:
        k = world.position(name)
        u = (low + high)[k] / 2 + inner * (high - low)[k] * (torch.rand(observations, generator=rng) - 0.5)
        after = world.counterfactual(v, {k: u})
        truth, picture = seen(after), representation.do(x, {name: u})
        far, least = ((read(shown) - after).abs().mean(0) / (high - low) for shown in (picture, truth))
        effects = list(descendants(world.graph, k))  # type: ignore[arg-type]
        rest = [j for j in range(len(low)) if j != k and j not in effects]
        error = float((picture - truth).double().square().mean())
        found[name] = Effect(
            ratio=error / max(own, 1e-12),
            hit=float(far[k]),
            descendants=float(far[effects].mean()) if effects else None,
            others=float(far[rest].mean()) if rest else None,
            ssim=ssim(truth, picture) if min(world.shape[-2:]) >= 11 else float("nan"),
            reader=float(least[k]),
        )
    return found


@dataclass(frozen=True, kw_only=True)
class Counterfactuals(Metric):
    """Interventions on each concept, compared picture by picture with what would have been.

    Every concept that was learned by name is set to values over its factor's range. `ratio` is the squared pixel error
    by the reconstruction's own. The picture's factors are read by a regressor that was trained on true pictures: how
    far is the concept from what it was set to (`hit`), are its effects from what they would have been (`descendants`),
    and is everything else from what it was (`others`), in parts of the factors' ranges. Each is the worst concept's.
    `reader` is what the regressor misses of the concept in the true pictures, below which no `hit` can be expected: a
    shadow that leaves the picture, say, does not show its length.

    Misses: a model that reconstructs nothing well has a small ratio: see `ssim`, and the reconstruction error. Single
    concepts are listed behind the worst ones, as `counterfactuals.hit:light`.
    """

    observations: int = 500  #: for each concept
    inner: float = 0.9  #: part of a factor's range that concepts are set to
    reading: int = READING.steps  #: steps of the regressor's training

    parts: ClassVar[tuple[Part, ...]] = (
        Part("ratio", 1.0, higher_is_better=False),
        Part("hit", 0.0, higher_is_better=False),
        Part("descendants", 0.0, higher_is_better=False),
        Part("others", 0.0, higher_is_better=False),
        Part("ssim"),
        Part("reader", 0.0, higher_is_better=False),
    )
    asks: ClassVar[tuple[type, ...]] = (Decodes, Intervenes)
    compares: ClassVar[bool] = False
    resamples = False
    reference: ClassVar[Reference] = Reference(
        key="pearl2009causality",
        authors="Pearl, Judea",
        title="Causality: Models, Reasoning and Inference",
        venue="Cambridge University Press, 2nd edition, section 7.1",
        year=2009,
        url="https://doi.org/10.1017/CBO9780511803161",
    )
    evidence: ClassVar[tuple[Evidence, ...]] = (Evidence("closed-form", "tests/metrics/test_counterfactuals.py"),)

    def suits(self, world: World) -> bool:
        return world.scm is not None and len(world.shape) == 3

    def effects(self, probe: Probe) -> dict[str, Effect]:
        """Of every concept."""

        def measured() -> dict[str, Effect]:
            world, spec = probe.world, probe.representation.spec
            concepts = learned_of(world, spec)
            machine = reader(world, 0, self.reading)  # one judge for all that are compared
            return counterfactual_effects(
                probe.representation,
                world,
                machine.read,
                concepts=concepts,
                observations=self.observations,
                inner=self.inner,
                rng=probe.generator("counterfactuals"),
            )

        return probe.once(("counterfactuals", self), measured)

    def measure(self, probe: Probe) -> tuple[float, ...]:
        if not self.suits(probe.world):
            raise Unmeasurable("Counterfactuals need a world of pictures with a causal model, such as Pendulum.")
        found = self.effects(probe)
        worst = []
        for name in Effect._fields:
            each = [number for effect in found.values() if (number := getattr(effect, name)) is not None]
            worst.append((min if name == "ssim" else max)(each, default=0.0))
        return tuple(worst)

    def __call__(self, probe: Probe, *, chance: bool = True, bootstrap: int = 0) -> tuple[Result, ...]:
        """The worst concept of each part, and behind them every concept's own number."""
        results = super().__call__(probe, chance=chance, bootstrap=bootstrap)
        if any(result.value is None for result in results):
            return results
        parts = {part.name: (part, result) for part, result in zip(self.parts, results, strict=True)}
        single = [
            replace(parts[name][1], metric=f"counterfactuals.{name}:{concept}", value=number)
            for concept, effect in self.effects(probe).items()
            for name, number in effect._asdict().items()
            if number is not None
        ]
        return (*results, *single)


def learned_of(world: World, spec: Spec) -> list[str]:
    """The concepts that were learned by name and are factors of the world."""
    factors = [factor.name for factor in world.factors]
    found = [label.name for label in spec.labels if label.name in factors]
    if not found:
        known = ", ".join(label.name for label in spec.labels) or "none"
        raise Unmeasurable(
            f"No concept of the representation ({known}) is a factor of this world ({', '.join(factors)}): nothing can "
            f"be set. {values.unknown('factor', spec.labels[0].name, factors) if spec.labels else ''}"
        )
    return found
