"""Intervals from redrawn rows: do they hold the value they are of as often as they say?"""

import numpy as np
import pytest

from tests.metrics.test_metrics import Itself, Plain
from whence import fit, values
from whence.methods import PCA
from whence.metrics import JEMMIG, MIG, SSIM, GaussianTotalCorrelation, Probe, Reconstruction, ScaleMixing
from whence.metrics.arrays import Codes
from whence.worlds import Sprites

ROWS, TRIALS = 500, 40


def sample(seed: int) -> Probe:
    """Codes that mix their factors a little, with noise."""
    rng = np.random.default_rng(seed)
    v = rng.integers([3, 5, 8], size=(ROWS, 3))
    z = (v - v.mean(0)) / v.std(0) @ np.array([[1, 0, 0], [0.3, 1, 0], [0, 0.3, 1]]) + 0.5 * rng.normal(size=(ROWS, 3))
    return Probe(Itself(), Plain(), samples=ROWS, seed=seed).like(Codes(z, v))


@pytest.mark.parametrize(
    "metric",
    [MIG(), JEMMIG(), ScaleMixing(), GaussianTotalCorrelation()],
    ids=lambda metric: values.name_of(type(metric)),
)
def test_intervals_hold_the_mean_over_samples_about_as_often_as_they_say(metric):
    """Of 40 intervals of 95 %, 38 on average; fewer than 32 has a probability of 0.0008. And they say something: they
    are not wider than three times the spread of the values."""
    expected = np.mean([metric.numbers(sample(1_000 + seed))[0] for seed in range(100)])
    found = [metric(sample(seed), chance=False, bootstrap=40)[0] for seed in range(TRIALS)]
    low, high = np.array([result.interval for result in found]).T
    assert ((low <= expected) & (expected <= high)).sum() >= 32
    assert np.mean(high - low) < 3 * 2 * np.std([result.value for result in found])


@pytest.mark.parametrize("kind", [Reconstruction, SSIM])
def test_a_metric_with_observations_of_its_own_draws_them_again(kind):
    """The interval holds what many observations give, and narrows with their number."""
    model = fit(PCA(latents=4, examples=256), Sprites(), seed=0).representation

    def result(n: int):
        return kind(observations=n)(Probe(model, Sprites(), samples=50), chance=False, bootstrap=20)[0]

    few, many = result(16), result(256)
    assert few.interval[0] < many.value < few.interval[1]
    assert np.diff(many.interval) < 0.6 * np.diff(few.interval)
