"""What a model samples, nature's way and under interventions, beside what the world shows. The judge is our own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Generator, Tensor

from whence.evidence import Evidence, Reference
from whence.metrics.arrays import Unmeasurable
from whence.metrics.counterfactuals import READING, learned_of, reader, spans
from whence.metrics.energy import energy_distance
from whence.metrics.metric import Metric, Part
from whence.metrics.mmd import mmd
from whence.metrics.probe import Probe
from whence.metrics.samples import Discrepancy, SampleDiscrepancy, frechet_distance
from whence.representation import Intervenes, Samples
from whence.worlds import World


class Quality(NamedTuple):
    value: float
    floor: float


@dataclass(frozen=True, kw_only=True)
class ReaderFrechet(Metric):
    """Quality of samples: the Fréchet distance in the features of our own reader. It is like the FID and is not it.

    The features are the last hidden layer of a network that was trained to read a world's factors off its true pictures
    (`metrics.reader`, one for each world), where the FID has those of Inception, which has never seen such pictures. So
    numbers compare between models of one world, sample size and `reading`, and with no published FID. `floor` is the
    distance of two samples of the world itself: what a perfect model has at this sample size.

    Misses: everything but means and covariances of features, what the reader need not look at, and a model that
    repeats its training data.
    """

    observations: int = 1_000  #: of the world, and as many samples of the model
    reading: int = READING.steps  #: steps of the reader's training

    parts: ClassVar[tuple[Part, ...]] = (
        Part("value", 0.0, higher_is_better=False),
        Part("floor", 0.0, higher_is_better=False),
    )
    asks: ClassVar[tuple[type, ...]] = (Samples,)
    compares: ClassVar[bool] = False
    resamples = False
    reference: ClassVar[Reference] = Reference(
        key="heusel2017gans",
        authors="Heusel, Martin and Ramsauer, Hubert and Unterthiner, Thomas and Nessler, Bernhard and "
        "Hochreiter, Sepp",
        title="GANs Trained by a Two Time-Scale Update Rule Converge to a Local Nash Equilibrium",
        venue="Advances in Neural Information Processing Systems",
        year=2017,
        url="https://arxiv.org/abs/1706.08500",
    )
    evidence: ClassVar[tuple[Evidence, ...]] = (Evidence("closed-form", "tests/metrics/test_quality.py"),)

    def suits(self, world: World) -> bool:
        return world.scm is not None and len(world.shape) == 3

    def measure(self, probe: Probe) -> Quality:
        world, model = probe.world, probe.representation
        assert isinstance(model, Samples), "asks Samples"
        if len(world.shape) != 3:
            raise Unmeasurable("The quality of samples is judged on pictures, and this world has none.")
        rng = probe.generator("quality")
        x, other = (world.observe(world.draw(self.observations, rng=rng), rng) for _ in range(2))
        with torch.no_grad():
            sampled = model.sample(self.observations, rng).cpu()
        if not torch.isfinite(sampled).all():
            raise Unmeasurable("The model's sample has values that are not finite, so no distance can be taken.")
        judge = reader(world, 0, self.reading)
        features = judge.features(x)
        return Quality(
            frechet_distance(judge.features(sampled), features), frechet_distance(judge.features(other), features)
        )


@dataclass(frozen=True, kw_only=True)
class InterventionalDiscrepancy(Metric):
    """Discrepancy of samples under interventions: does the model sample what the world shows if a cause is set?

    Every concept that was learned by name is set to values over its factor's range, in the model and in the world, each
    with noise of its own; pixels of both samples are compared as in `SampleDiscrepancy`, unbiased. The two numbers are
    means over concepts.

    Misses: on raw pixels what is small in a picture; whether single pictures are the right counterfactuals, for which
    see `Counterfactuals`.
    """

    observations: int = 300  #: for each concept, of the world and of the model
    inner: float = 0.9  #: part of a factor's range that concepts are set to

    parts: ClassVar[tuple[Part, ...]] = tuple(Part(name, 0.0, higher_is_better=False) for name in Discrepancy._fields)
    asks: ClassVar[tuple[type, ...]] = (Samples, Intervenes)
    compares: ClassVar[bool] = False
    resamples = False
    reference: ClassVar[Reference] = SampleDiscrepancy.reference
    evidence: ClassVar[tuple[Evidence, ...]] = (Evidence("closed-form", "tests/metrics/test_quality.py"),)

    def suits(self, world: World) -> bool:
        return world.scm is not None and len(world.shape) == 3

    def measure(self, probe: Probe) -> Discrepancy:
        world, model, n = probe.world, probe.representation, self.observations
        if world.scm is None:
            raise Unmeasurable(f"{type(world).__name__} has no causal model, so nothing can be set in it.")
        rng, (low, high) = probe.generator("interventional"), spans(world.factors)
        found = []
        for name in learned_of(world, model.spec):
            k = world.position(name)
            u = (low + high)[k] / 2 + self.inner * (high - low)[k] * (torch.rand(n, generator=rng) - 0.5)
            x = world.observe(world.draw(n, rng=rng, do={k: u}), rng)
            sampled = acted(model, n, rng, {name: u})
            found.append((mmd(sampled, x), energy_distance(sampled, x)))
        return Discrepancy(*(sum(numbers) / len(found) for numbers in zip(*found, strict=True)))


def acted(model: Any, n: int, rng: Generator, do: Any) -> Tensor:
    """Samples under an intervention, from models that can: not all that sample and intervene do both at once."""
    with torch.no_grad():
        try:
            return model.sample(n, rng, do).cpu()
        except TypeError as error:
            raise Unmeasurable("The model does not sample under interventions: sample(n, rng, do).") from error
