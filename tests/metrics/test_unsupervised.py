"""Metrics of codes alone."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
import scipy.linalg
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.metrics.test_metrics import Itself, Plain
from tests.reference.arrays import REPRESENTATIONS, SETS, inputs
from whence.metrics import (
    CodeInformation,
    GaussianTotalCorrelation,
    GaussianWassersteinCorrelation,
    Unmeasurable,
    code_information,
    evaluate,
    gaussian_total_correlation,
    gaussian_wasserstein_correlation,
    mutual_information,
)

GOLDEN = json.loads((Path(__file__).parents[1] / "reference/disentanglement_lib.json").read_text())
ALL = {
    "total": gaussian_total_correlation,
    "wasserstein": gaussian_wasserstein_correlation,
    "normalised": lambda z: gaussian_wasserstein_correlation(z, normalised=True),
    "information": code_information,
}
EACH = pytest.mark.parametrize("metric", ALL.values(), ids=ALL.keys())


@pytest.fixture(scope="module")
def noise() -> np.ndarray:
    return np.random.default_rng(0).normal(size=(4_000, 4))


@pytest.mark.parametrize("of", SETS)
@pytest.mark.parametrize("representation", REPRESENTATIONS)
def test_the_studys_numbers(representation, of):
    z = inputs(of, representation).z
    golden = GOLDEN[of][representation]
    total = golden["gaussian_total_correlation"]
    if not isinstance(total, str):
        assert gaussian_total_correlation(z) == pytest.approx(total, abs=1e-9)
    exact = {"abs": 1e-9, "rel": 1e-5 if isinstance(total, str) else 1e-9}  # singular: 6 digits are given
    wasserstein = golden["gaussian_wasserstein_correlation"]
    assert gaussian_wasserstein_correlation(z) == pytest.approx(wasserstein, **exact)
    relative = golden["gaussian_wasserstein_correlation_norm"]
    assert gaussian_wasserstein_correlation(z, normalised=True) == pytest.approx(relative, **exact)
    for bins in (10, 20):
        expected = golden[f"mutual_info_score_{bins}"]
        assert code_information(z, bins=bins, study=True) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("representation", ["identity", "rotated", "duplicated", "constant_dim"])
def test_in_the_studys_terms_defects_are_kept_and_nan_is_refused(representation):
    z, golden = inputs("tiny", representation).z, GOLDEN["tiny"][representation]
    wasserstein = golden["gaussian_wasserstein_correlation"]
    assert gaussian_wasserstein_correlation(z, study=True) == pytest.approx(wasserstein, abs=1e-9, rel=1e-5)  # 6 digits
    relative = golden["gaussian_wasserstein_correlation_norm"]
    assert gaussian_wasserstein_correlation(z, normalised=True, study=True) == pytest.approx(
        relative, abs=1e-9, rel=1e-5
    )
    total = golden["gaussian_total_correlation"]
    if representation == "constant_dim":
        assert total.endswith("gives nan")
        with pytest.raises(Unmeasurable, match=r"it is NaN if a code does not vary. Leave these codes out"):
            gaussian_total_correlation(z, study=True)
    elif representation == "duplicated":  # infinite, or as far from it as rounding says
        assert gaussian_total_correlation(z, study=True) > 50
    else:
        assert gaussian_total_correlation(z, study=True) == pytest.approx(total, abs=1e-9)


def correlated(rho: float, n: int = 100_000) -> np.ndarray:
    x = np.random.default_rng(0).normal(size=(n, 2))
    x = (x - x.mean(0)) @ np.linalg.inv(np.linalg.cholesky(np.cov(x, rowvar=False))).T  # exactly white
    return x @ np.linalg.cholesky(np.array([[1, rho], [rho, 1]])).T


@pytest.mark.parametrize("rho", [0.0, 0.5, -0.9])
def test_closed_forms_of_two_gaussian_codes(rho):
    z = correlated(rho)
    total = -0.5 * math.log(1 - rho**2)
    assert gaussian_total_correlation(z) == pytest.approx(total, abs=1e-9)
    distance = 4 - 2 * (math.sqrt(1 + rho) + math.sqrt(1 - rho))
    assert gaussian_wasserstein_correlation(z) == pytest.approx(distance, abs=1e-9)
    assert gaussian_wasserstein_correlation(z, normalised=True) == pytest.approx(distance / 2, abs=1e-9)
    assert code_information(z, bins=40) == pytest.approx(total, abs=0.03)  # of Gaussians, the same; bins lose some


def test_the_wasserstein_distance_is_that_between_the_two_gaussians():
    c = np.cov(np.random.default_rng(0).normal(size=(4, 50)) * [[1], [2], [3], [0.1]])
    d = np.diag(np.diag(c))
    cross = np.real(scipy.linalg.sqrtm(scipy.linalg.sqrtm(d) @ c @ scipy.linalg.sqrtm(d)))
    z = np.linalg.cholesky(c)
    rows = np.vstack([z.T, -z.T]) * math.sqrt(7 / 2)  # 8 rows with exactly this covariance
    assert gaussian_wasserstein_correlation(rows) == pytest.approx(np.trace(c + d - 2 * cross))


@EACH
def test_independent_codes_are_near_nothing(metric, noise):
    assert 0 <= metric(noise) < 0.01


def test_the_bias_of_histograms_is_taken_out(noise):
    rough = code_information(noise[:1_000], study=True)
    assert rough > 0.1
    assert code_information(noise[:1_000]) < rough / 2


@EACH
def test_a_code_that_does_not_vary_changes_nothing(metric, noise):
    z = noise @ np.random.default_rng(1).normal(size=(4, 4))
    dead = np.column_stack([z, np.full(len(z), 0.1)])
    assert metric(dead) == pytest.approx(metric(z), rel=1e-9)


def test_a_repeated_code_is_an_infinite_total_correlation_and_finite_otherwise(noise):
    twice = np.hstack([noise, 3 * noise[:, :1] - 1])
    with pytest.raises(Unmeasurable, match="total correlation of these 5 codes is infinite: a linear combination"):
        gaussian_total_correlation(twice)
    assert gaussian_wasserstein_correlation(twice) > 0.5
    assert code_information(twice) == pytest.approx(math.log(20) / 10, abs=0.02)  # one pair of ten shares all its bins
    with pytest.raises(Unmeasurable, match="is infinite"):
        gaussian_total_correlation(noise[:3])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_sum_of_codes_is_found_in_any_precision(dtype, noise):
    z = (1e3 * noise).astype(dtype)
    with pytest.raises(Unmeasurable, match="is infinite"):
        gaussian_total_correlation(np.column_stack([z, z[:, 0] + z[:, 1]]))
    close = np.column_stack([z[:, 1:], z[:, 1] + 1e-3 * z[:, 0]])
    assert gaussian_total_correlation(close) == pytest.approx(math.log(1e3), abs=0.1)


@EACH
@given(seed=st.integers(0, 2**32 - 1), log_scale=st.integers(-30, 30))
@settings(max_examples=10, deadline=None)
def test_order_and_sign_do_not_matter_and_units_only_to_the_wasserstein_distance(metric, seed, log_scale):
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(320, 4)) @ rng.normal(size=(4, 4))
    expected, scale = metric(z), 2.0**log_scale
    changed = metric(-z[:, rng.permutation(4)] * scale + 5 * scale)
    squared = scale**2 if metric is gaussian_wasserstein_correlation else 1
    bins = 0.05 if metric is code_information else 1e-7
    assert changed / squared == pytest.approx(expected, rel=bins, abs=1e-9 + bins / 10)
    if metric is gaussian_total_correlation:
        assert metric(z * rng.uniform(0.1, 10, 4)) == pytest.approx(expected, rel=1e-6, abs=1e-9)


def test_information_between_codes_is_that_of_mutual_information(noise):
    z = noise @ np.random.default_rng(1).normal(size=(4, 4))
    cells = np.searchsorted(np.quantile(z[:, 0], np.arange(1, 16) / 16, method="inverted_cdf"), z[:, 0])
    pair = mutual_information(z[:, 1], cells, bins=16, unbiased=True).mutual[0, 0]
    assert code_information(z[:, :2], bins=16) == pytest.approx(pair)


def test_kinds_of_arrays_and_repeated_rows(noise):
    z = (noise @ np.random.default_rng(1).normal(size=(4, 4))).astype(np.float32)
    for metric in ALL.values():
        assert metric(torch.from_numpy(z)) == metric(z)
        assert metric(z) == pytest.approx(metric(z.astype(np.float64)), rel=1e-6)
        assert metric(np.vstack([z, z])) == pytest.approx(
            metric(z), rel=1e-3, abs=0.03 if metric is code_information else 0
        )


@EACH
def test_codes_that_are_all_dead_are_refused(metric):
    with pytest.raises(Unmeasurable, match="No code varies"):
        metric(np.ones((50, 3)))


def test_one_code_depends_on_no_other(noise):
    assert gaussian_total_correlation(noise[:, 0]) == pytest.approx(0, abs=1e-12)
    assert gaussian_wasserstein_correlation(noise[:, 0]) == pytest.approx(0, abs=1e-12)
    with pytest.raises(Unmeasurable, match="needs two codes that vary, got 1"):
        code_information(np.column_stack([noise[:, 0], np.ones(len(noise))]))


def test_as_metrics_they_have_no_chance_level_and_fall_to_nothing():
    metrics = [GaussianTotalCorrelation(), GaussianWassersteinCorrelation(), CodeInformation()]
    found = evaluate(Itself(), Plain(), metrics=metrics, samples=2_000, bootstrap=5)
    assert [r.metric for r in found] == [
        "gaussian_total_correlation",
        "gaussian_wasserstein_correlation",
        "gaussian_wasserstein_correlation.normalised",
        "code_information",
    ]
    assert [r.value for r in found] == pytest.approx([0] * 4, abs=0.01)
    assert all(r.chance is None and r.ceiling is None and not r.higher_is_better for r in found)
