"""Reconstructions: cross-entropies in closed form, and structural similarity beside its definition."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.distributions import Bernoulli, kl_divergence

from whence import Pixels, Recipe, Sprites, fit
from whence.methods import PCA, BetaVAE
from whence.metrics import (
    SSIM,
    BernoulliCrossEntropy,
    Probe,
    Reconstruction,
    Unmeasurable,
    bernoulli_cross_entropy,
    evaluate,
    ssim,
)
from whence.nets import MLP
from whence.representation import Representation
from whence.worlds import Unmixed


@pytest.fixture(scope="module")
def images() -> np.ndarray:
    return np.random.default_rng(0).random((6, 3, 16, 20))


# --- cross-entropy ---------------------------------------------------------------------------------------------------


def test_a_binary_image_that_is_decoded_rightly_costs_nothing_and_wrongly_much():
    x = (np.random.default_rng(0).random((7, 1, 8, 8)) < 0.3).astype(float)
    assert bernoulli_cross_entropy(x, x).total == pytest.approx(0, abs=64 * 2**-23)
    assert bernoulli_cross_entropy(x, 1 - x).total == pytest.approx(64 * 24 * math.log(2), rel=1e-6)
    assert bernoulli_cross_entropy(x, np.full_like(x, 0.5)).total == pytest.approx(64 * math.log(2))


def test_it_is_the_sum_over_values_of_entropy_and_divergence(images):
    p = torch.rand(6, 3, 16, 20, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    x = torch.from_numpy(images)
    total, excess = bernoulli_cross_entropy(x, p)
    divergence = kl_divergence(Bernoulli(x), Bernoulli(p)).sum((1, 2, 3)).mean()
    entropy = Bernoulli(x).entropy().sum((1, 2, 3)).mean()
    assert excess == pytest.approx(divergence.item(), rel=1e-9)
    assert total == pytest.approx((divergence + entropy).item(), rel=1e-9)


def test_grey_pixels_cannot_cost_less_than_their_entropy(images):
    total, excess = bernoulli_cross_entropy(images, images)
    assert excess == pytest.approx(0, abs=1e-9)
    assert total == pytest.approx(Bernoulli(torch.from_numpy(images)).entropy().sum().item() / 6)


def test_it_is_the_loss_that_bernoulli_decoders_descend(images):
    from whence.terms import Bernoulli as Likelihood

    out = torch.randn(images.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    x = torch.from_numpy(images)
    expected = Likelihood().nll(out, x).item()
    assert bernoulli_cross_entropy(x, Likelihood().mean(out)).total == pytest.approx(expected, rel=1e-9)


def test_values_that_are_no_probabilities_are_refused_with_the_reason():
    x = np.full((2, 3), 0.5)
    with pytest.raises(Unmeasurable, match=r"needs observations between 0 and 1, got 0.5 to 3. Use the mean squared"):
        bernoulli_cross_entropy(x + np.array([0, 0, 2.5]), x)
    with pytest.raises(Unmeasurable, match=r"needs decoded observations between 0 and 1, got -0.1 to 0.5"):
        bernoulli_cross_entropy(x, x - np.array([0, 0.6, 0]))
    assert bernoulli_cross_entropy(x, x + 1e-8).total == pytest.approx(3 * math.log(2))


def test_bytes_are_taken_as_shares_and_precision_does_not_matter(images):
    b = (images * 255).astype(np.uint8)
    assert bernoulli_cross_entropy(b, images).total == pytest.approx(
        bernoulli_cross_entropy(b / 255.0, images).total, rel=1e-6
    )
    assert ssim(b, b[::-1].copy()) == pytest.approx(ssim(b / 255.0, b[::-1] / 255.0), abs=1e-6)
    single = images.astype(np.float32)
    assert ssim(single, single[::-1].copy()) == pytest.approx(ssim(images, images[::-1].copy()), abs=1e-6)


# --- structural similarity -------------------------------------------------------------------------------------------


def by_definition(x: np.ndarray, y: np.ndarray, span: float = 1.0) -> float:
    """One channel, window by window, with the weights written out."""
    at = np.arange(11) - 5
    w = np.exp(-(at[:, None] ** 2 + at**2) / (2 * 1.5**2))
    w /= w.sum()
    found = []
    for i in range(x.shape[0] - 10):
        for j in range(x.shape[1] - 10):
            a, b = x[i : i + 11, j : j + 11], y[i : i + 11, j : j + 11]
            m, n = (w * a).sum(), (w * b).sum()
            s, t, r = (w * (a - m) ** 2).sum(), (w * (b - n) ** 2).sum(), (w * (a - m) * (b - n)).sum()
            c, d = (0.01 * span) ** 2, (0.03 * span) ** 2
            found.append((2 * m * n + c) * (2 * r + d) / ((m * m + n * n + c) * (s + t + d)))
    return float(np.mean(found))


def test_it_is_its_definition_averaged_over_channels_and_images(images):
    y = 0.6 * images + 0.4 * images[::-1]
    expected = np.mean([by_definition(a, b) for p, q in zip(images, y, strict=True) for a, b in zip(p, q, strict=True)])
    assert ssim(images, y) == pytest.approx(expected, abs=1e-12)
    assert ssim(images * 255, y * 255, span=255) == pytest.approx(expected, abs=1e-12)


def test_identical_images_are_similar_to_1(images):
    assert ssim(images, images) == pytest.approx(1, abs=1e-12)
    assert ssim(np.zeros_like(images), np.zeros_like(images)) == pytest.approx(1)


@pytest.mark.parametrize(("a", "b"), [(0.2, 0.5), (0.0, 1.0), (0.7, 0.7)])
def test_flat_images_differ_by_their_brightness_alone(a, b):
    shape = (2, 1, 12, 13)
    assert ssim(np.full(shape, a), np.full(shape, b)) == pytest.approx((2 * a * b + 1e-4) / (a * a + b * b + 1e-4))


def test_a_constant_shift_changes_brightness_and_not_pattern(images):
    from scipy.ndimage import correlate1d

    w = np.exp(-((np.arange(11) - 5) ** 2) / 4.5)
    m = correlate1d(correlate1d(images, w / w.sum(), axis=2), w / w.sum(), axis=3)[:, :, 5:-5, 5:-5]
    n = m + 0.2
    expected = ((2 * m * n + 1e-4) / (m * m + n * n + 1e-4)).mean()
    assert ssim(images, images + 0.2) == pytest.approx(expected, abs=1e-12)


def test_a_pattern_turned_into_its_negative_is_opposite():
    x = 0.5 + 0.4 * np.where(np.indices((20, 20)).sum(0) % 2, 1, -1)[None, None]
    assert ssim(x, 1 - x) == pytest.approx(-1, abs=0.01)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 1000))
def test_it_is_symmetric_bounded_and_the_same_for_mirrored_pairs(seed):
    rng = np.random.default_rng(seed)
    x, y = rng.random((2, 3, 1, 14, 12))
    value = ssim(x, y)
    assert -1 <= value < 1
    assert ssim(y, x) == pytest.approx(value)
    assert ssim(x[..., ::-1].copy(), y[..., ::-1].copy()) == pytest.approx(value)
    assert ssim(np.tile(x, (2, 1, 1, 1)), np.tile(y, (2, 1, 1, 1))) == pytest.approx(value)


def test_what_is_no_image_is_refused(images):
    with pytest.raises(Unmeasurable, match=r"of at least 11 pixels a side, got \(6, 3, 10, 20\)"):
        ssim(images[:, :, :10], images[:, :, :10])
    with pytest.raises(Unmeasurable, match=r"needs images \(N, channels, height, width\)"):
        ssim(images[0], images[0])
    for measure in (ssim, bernoulli_cross_entropy):
        with pytest.raises(ValueError, match=r"have the same shape and are not empty, got \(6, 3, 16, 20\) and \(5"):
            measure(images, images[:5])
        with pytest.raises(Unmeasurable, match="Observations are finite, got 1 values that are not"):
            measure(images, np.where(np.arange(images.size).reshape(images.shape) == 7, np.nan, images))


# --- on a representation ---------------------------------------------------------------------------------------------


def measured(representation, world, **options):
    metrics = [Reconstruction(observations=200), BernoulliCrossEntropy(observations=200), SSIM(observations=200)]
    return evaluate(representation, world, metrics=metrics, samples=200, **options)


def test_pixels_are_best_and_beat_chance():
    found = measured(fit(Pixels(), Sprites()), Sprites())
    names = ["reconstruction", "bernoulli_cross_entropy", "bernoulli_cross_entropy.excess", "ssim"]
    assert [r.metric for r in found] == names
    assert found["reconstruction"].value == 0
    assert found["bernoulli_cross_entropy.excess"].value == pytest.approx(0, abs=4096 * 2**-23)
    assert found["ssim"].value == pytest.approx(1)
    for r in found:
        assert (r.value - r.chance) * (1 if r.higher_is_better else -1) > 0


def test_an_observation_is_decoded_once_for_all_metrics():
    @dataclass
    class Count:
        times: int = 0

    class Counting(Representation):
        def __init__(self) -> None:
            super().__init__(Unmixed().singles().spec, 5)
            self.count = Count()

        def codes(self, x):
            return x

        def decode(self, z):
            self.count.times += 1
            return z

    representation = Counting()
    measured(representation, Unmixed(), chance=False)
    assert representation.count.times == 1


def test_what_cannot_be_measured_says_why():
    vectors = measured(fit(Pixels(), Unmixed()), Unmixed())
    assert vectors["reconstruction"].value == 0
    assert "needs observations between 0 and 1" in vectors["bernoulli_cross_entropy"].note
    assert "needs images" in vectors["ssim"].note
    linear = measured(fit(PCA(latents=4, examples=200), Sprites()), Sprites(), chance=False)
    assert "needs decoded observations between 0 and 1" in linear["bernoulli_cross_entropy"].note
    assert 0 < linear["ssim"].value < 1


def test_a_decoder_of_probabilities_is_measured():
    fitted = fit(BetaVAE(latents=2, net=MLP(hidden=(8,))), Sprites(), recipe=Recipe(steps=2, batch=8))
    probe = Probe(fitted.representation, Sprites(), samples=100)
    total, excess = BernoulliCrossEntropy(observations=100).measure(probe)
    assert 0 < excess <= total
    assert total == pytest.approx(4096 * math.log(2), rel=0.1)  # hardly trained: every pixel near one half
