"""Samples judged by our own reader, and under interventions: a model that is the world is as good as can be."""

from __future__ import annotations

import pytest
import torch

from whence.metrics import InterventionalDiscrepancy, Probe, ReaderFrechet, frechet_distance, reader
from whence.metrics.arrays import Unmeasurable
from whence.representation import Representation
from whence.views import Spec
from whence.worlds import Pendulum, Sprites

WORLD = Pendulum(size=16, noise=0.5)


class Copy(Representation):
    """Samples as the world does, a share of the way to the mean picture; deaf to interventions if told so."""

    def __init__(self, blend: float = 0.0, deaf: bool = False) -> None:
        super().__init__(Spec(WORLD.shape, labels=WORLD.labelled().labels), 4)
        self.register_parameter("weight", torch.nn.Parameter(torch.zeros(1)))
        self.blend, self.deaf = blend, deaf

    def codes(self, x):
        return x.flatten(1)[:, :4]

    def do(self, x, do):
        return x

    def sample(self, n, rng, do=None):
        x = WORLD.observe(WORLD.draw(n, rng=rng, do=None if self.deaf else do))
        return x + self.blend * (x.mean(0) - x)


def measured(metric, model, world=WORLD):
    return metric.measure(Probe(model.frozen(), world, samples=20))


def test_features_are_what_the_last_layer_sees():
    judge = reader(WORLD, 0, 3)
    x = WORLD.observe(WORLD.draw(300, rng=torch.Generator().manual_seed(0)))
    h = judge.features(x)
    last = [m for m in judge.net.modules() if isinstance(m, torch.nn.Linear)][-1]
    told = judge.low + (judge.high - judge.low) * (last(h) + 1) / 2
    assert torch.allclose(told, judge.read(x), atol=1e-4)


def test_the_distance_is_that_of_features_and_the_world_s_own_is_the_floor():
    metric = ReaderFrechet(observations=300, reading=3)
    perfect, dull = measured(metric, Copy()), measured(metric, Copy(0.5))
    assert perfect.value == pytest.approx(perfect.floor, rel=0.5), "both are of two samples of the world"
    assert dull.value > 2 * dull.floor
    assert dull.floor == perfect.floor
    probe = Probe(Copy().frozen(), WORLD, samples=20)
    rng = probe.generator("quality")
    x, other = (WORLD.observe(WORLD.draw(300, rng=rng), rng) for _ in range(2))
    judge = reader(WORLD, 0, 3)
    assert metric.measure(probe).floor == pytest.approx(frechet_distance(judge.features(other), judge.features(x)))


def test_under_interventions_the_world_cannot_be_told_from_itself_and_the_deaf_can():
    metric = InterventionalDiscrepancy(observations=300)
    hears, deaf = measured(metric, Copy()), measured(metric, Copy(deaf=True))
    assert abs(hears.mmd) < 0.01
    assert deaf.mmd > 3 * abs(hears.mmd)
    assert deaf.energy > 3 * abs(hears.energy)


def test_what_cannot_be_judged_is_told():
    for metric in (ReaderFrechet(), InterventionalDiscrepancy()):
        assert metric.suits(WORLD)
        assert not metric.suits(Sprites())

    class Silent(Copy):
        def sample(self, n, rng):
            return super().sample(n, rng)

    with pytest.raises(Unmeasurable, match="does not sample under interventions"):
        measured(InterventionalDiscrepancy(observations=5), Silent())
    with pytest.raises(Unmeasurable, match="not finite"):
        measured(ReaderFrechet(observations=5, reading=1), Copy(float("nan")))
    with pytest.raises(Unmeasurable, match="Sprites has no causal model"):
        measured(InterventionalDiscrepancy(), Copy(), Sprites())
