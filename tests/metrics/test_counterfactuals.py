"""Counterfactual errors: a model that knows the truth has none, one that ignores interventions has all of them."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from whence.metrics import ConceptMIC, Counterfactuals, Probe, counterfactual_effects, reader
from whence.metrics.arrays import Unmeasurable
from whence.representation import Representation
from whence.views import Spec
from whence.worlds import Faces, Pendulum, Sprites

WORLD = Pendulum(size=16, noise=0.5)


class Known(Representation):
    """Keeps the factors of the pictures it was shown, and answers as the world does, or not at all."""

    def __init__(self, world, deaf: bool = False, blur: float = 0.0):
        super().__init__(Spec(world.shape, labels=world.labelled().labels), 4)
        self.world, self.deaf, self.blur = world, deaf, blur
        self.v = None

    def shown(self, v):
        self.v = v
        return self

    def codes(self, x):
        return torch.zeros(len(x), 4)

    def decode(self, z):
        return (self.world.observe(self.v) + self.blur).clamp(0, 2)

    def do(self, x, do):
        v = self.v if self.deaf else self.world.counterfactual(self.v, do)
        return self.world.observe(v) + self.blur


def measured(model, read=None, n=40, world=WORLD):
    rng = torch.Generator().manual_seed(3)
    model.shown(world.draw(n, rng=torch.Generator().manual_seed(3)))
    looked_up = {}

    def exact(x):
        return looked_up["v"]

    names = [factor.name for factor in world.factors]
    found = {}
    for name in names:
        rng = torch.Generator().manual_seed(3)
        original = model.do

        def do(x, how, original=original):
            picture = original(x, how)
            looked_up["v"] = model.v if model.deaf else world.counterfactual(model.v, how)
            return picture

        model.do = do
        found |= counterfactual_effects(model, world, read or exact, concepts=[name], observations=n, rng=rng)
        model.do = original
    return found


def test_the_truth_has_no_error():
    found = measured(Known(WORLD, blur=0.01))
    for effect in found.values():
        assert effect.ratio == pytest.approx(1.0, rel=1e-3), "the blur alone, as in the reconstruction"
        assert effect.hit == pytest.approx(0, abs=1e-6)
        assert effect.others == pytest.approx(0, abs=1e-6)
        assert effect.ssim > 0.99
        assert effect.reader == pytest.approx(0, abs=1e-6)
    assert found["light"].descendants == pytest.approx(0, abs=1e-6)
    assert found["shadow_length"].descendants is None, "nothing follows from it"


def test_a_model_that_ignores_interventions_misses_in_closed_form():
    """The distance of nature's value and one from the inner 90 % of the range: both are uniform, for a cause."""
    found = measured(Known(WORLD, deaf=True, blur=0.01), n=2_000)
    a, b = np.random.default_rng(0).random((2, 200_000))
    expected = np.abs(a - (0.05 + 0.9 * b)).mean()
    assert found["light"].hit == pytest.approx(expected, abs=0.012)
    assert found["light"].others == pytest.approx(0, abs=1e-6)
    assert found["light"].ratio > 20


def test_a_reader_reads_what_nature_does_not_combine():
    machine = reader(WORLD, 0, 150)
    assert machine is reader(WORLD, 0, 150), "trained once"
    v = torch.stack([factor.draw(200, torch.Generator().manual_seed(i)) for i, factor in enumerate(WORLD.factors)], 1)
    told = machine.read(WORLD.observe(v))
    r = [np.corrcoef(told[:, k], v[:, k])[0, 1] for k in range(4)]
    assert min(r[:2]) > 0.9, "shadows are thin, and need longer"


def test_training_a_reader_leaves_the_caller_s_random_state_alone():
    torch.manual_seed(5)
    expected = torch.rand(2)
    torch.manual_seed(5)
    reader(Pendulum(size=16), 1, 3)
    assert torch.equal(torch.rand(2), expected)


def test_as_a_metric_with_every_concept_behind_the_worst():
    class Fixed(Known):
        def decode(self, z):
            return torch.full((len(z), *self.spec.shape), 0.9)

        def do(self, x, do):
            return torch.full_like(x, 0.9)

    metric = Counterfactuals(observations=30, reading=2)
    results = {r.metric: r for r in metric(Probe(Fixed(WORLD).frozen(), WORLD, samples=20))}
    assert [name for name in results if ":" not in name] == list(Counterfactuals.names())
    hits = [results[f"counterfactuals.hit:{factor.name}"].value for factor in WORLD.factors]
    assert results["counterfactuals.hit"].value == pytest.approx(max(hits))
    assert "counterfactuals.descendants:shadow_length" not in results
    assert results["counterfactuals.ratio"].value == pytest.approx(1, abs=0.1)


def test_what_it_cannot_measure_is_told():
    metric = Counterfactuals()
    assert metric.suits(WORLD)
    assert metric.suits(Faces())
    assert not metric.suits(Sprites())
    other = Known(WORLD)
    other.spec = Spec(WORLD.shape)
    (result, *_) = metric(Probe(other.frozen(), WORLD, samples=10))
    assert result.value is None
    assert "No concept of the representation (none) is a factor" in result.note
    rng = torch.Generator()
    with pytest.raises(Unmeasurable, match="has no causal model"):
        counterfactual_effects(other, Sprites(), None, concepts=["x"], observations=2, rng=rng)


def test_mic_of_concepts_is_that_of_each_with_its_own_factor():
    class Named(Known):
        def codes(self, x):
            return torch.zeros(len(x), 4)

        def concepts(self, z):
            return z * 3 + 1

    from whence.metrics.arrays import Codes

    probe = Probe(Named(WORLD).frozen(), WORLD, samples=400)
    v = WORLD.draw(400, rng=torch.Generator().manual_seed(0)).numpy()
    metric = ConceptMIC(samples=400)
    right = metric(probe.like(Codes(v, v)), chance=False)[0].value
    turned = metric(probe.like(Codes(v[:, [1, 0, 2, 3]], v)), chance=False)[0].value
    assert right == pytest.approx(1, abs=0.02)
    assert turned < 0.75
