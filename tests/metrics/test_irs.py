"""IRS against disentanglement_lib's numbers, and on codes whose robustness is known."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.reference.arrays import REPRESENTATIONS, inputs
from whence.metrics import irs, robustness
from whence.metrics.irs import Within, spans

GOLDEN = json.loads((Path(__file__).parents[1] / "reference" / "disentanglement_lib.json").read_text())
EVERY = [(of, name) for of in ("tiny", "dsprites") for name in REPRESENTATIONS]
SIZES = (2, 3, 12)


@pytest.fixture(scope="module")
def v() -> np.ndarray:
    rng = np.random.default_rng(0)
    return np.stack([rng.integers(n, size=3_000) for n in SIZES], 1)


@pytest.mark.parametrize(("of", "representation"), EVERY)
def test_in_the_studys_terms_it_is_the_reference(of, representation):
    golden = GOLDEN[of][representation]
    z, v, _, _ = inputs(of, representation)
    found = robustness(z, v, study=True)
    assert found.irs == pytest.approx(golden["irs_20"], abs=1e-9)
    assert irs(z, v, bins=10, study=True) == pytest.approx(golden["irs_10"], abs=1e-9)
    assert irs(z, v, quantile=1.0, study=True) == pytest.approx(golden["irs_20_quantile_1"], abs=1e-9)
    parts, there = golden["irs_20_parts"], found.weights > 0  # the reference leaves dead codes out
    np.testing.assert_allclose(found.matrix[there], parts["IRS_matrix"], atol=1e-9)
    np.testing.assert_allclose(found.weights[there], parts["max_deviations"], rtol=1e-9)
    assert found.matrix[there].argmax(1).tolist() == parts["parents"]


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 40), st.floats(0, 1), st.booleans())
def test_spans_are_ranges_and_in_the_study_s_terms_distances_from_the_mean(seed, n, quantile, study):
    rng = np.random.default_rng(seed)
    column, label = rng.normal(size=n).round(1), rng.integers(5, size=n) * 3
    parts = [column[label == c] for c in np.unique(label)]
    if study:
        expected = [np.quantile(np.abs(p - p.mean()), quantile) for p in parts]
    else:
        expected = [np.quantile(p, 0.5 + quantile / 2) - np.quantile(p, 0.5 - quantile / 2) for p in parts]
    found = spans(column, np.argsort(column), Within.of(label), quantile, study)
    np.testing.assert_allclose(found, expected, atol=1e-12)


def test_the_factors_themselves_are_robust(v):
    assert irs(v, v) == 1
    sizes = np.random.default_rng(0).integers(40, size=(3_000, 2))
    assert irs(sizes, sizes) == 1
    assert irs(sizes, sizes, study=True) < 0.99  # bins of equal width merge its values


def test_codes_that_know_nothing_score_chance(v):
    noise = np.random.default_rng(1).normal(size=(3_000, 4))
    assert irs(noise, v) < 0.06
    assert irs(noise, v, study=True) > 0.2  # its range is that of the greatest deviation


def test_a_uniform_code_with_noise_has_the_robustness_of_theory():
    """Of z = v + e, v = 0 or 1 and e uniform on [0, w]: within a value the spread is w, over all 1 + w."""
    rng = np.random.default_rng(0)
    v, w = rng.integers(2, size=200_000), 0.5
    z = v + w * rng.random(200_000)
    assert irs(z, v, quantile=1.0) == pytest.approx(1 - w / (1 + w), abs=1e-3)


def test_a_mixed_code_is_noticed(v):
    s = (v - v.mean(0)) / v.std(0)
    assert irs(s @ np.linalg.qr(np.random.default_rng(3).normal(size=(3, 3)))[0], v) < 0.7


def test_a_missing_factor_and_a_repeated_code_are_not_noticed(v):
    assert irs(v[:, :2], v) == 1
    assert irs(np.hstack([v, v]), v) == 1


@pytest.mark.parametrize("study", [False, True])
def test_codes_that_do_not_vary_take_no_part(study, v):
    z = v + 0.3 * np.random.default_rng(0).normal(size=v.shape)
    dead = np.hstack([z, np.full((len(v), 2), np.float32(0.1))])
    assert irs(dead, v, study=study) == pytest.approx(irs(z, v, study=study), abs=1e-12)
    assert irs(dead[:, 3:], v, study=study) == 0


def test_codes_that_hardly_vary_take_no_part_and_others_count_the_same(v):
    rng = np.random.default_rng(0)
    faint = np.hstack([v / v.std(0), 0.01 * rng.normal(size=(len(v), 3))])
    assert irs(faint, v) == 1
    assert irs(faint, v, inactive=0.0) == pytest.approx(0.5, abs=0.05)


def test_an_outlier_changes_the_study_s_number_and_not_ours():
    z, v, _, _ = inputs("tiny", "noisy")
    far = z.copy()
    far[0] = 1e6
    assert irs(far, v) == pytest.approx(irs(z, v), abs=0.02)
    assert irs(z, v, study=True) < 0.7
    assert irs(far, v, study=True) > 0.99


@settings(max_examples=15, deadline=None)
@given(st.permutations(range(3)), st.lists(st.sampled_from([-8.0, -1.0, 0.25, 2.0]), min_size=3, max_size=3))
def test_order_sign_and_units_of_codes_change_nothing(order, scale):
    z, v, _, _ = inputs("tiny", "noisy")
    moved = (z * scale)[:, list(order)]
    assert irs(moved, v, inactive=0.0) == pytest.approx(irs(z, v, inactive=0.0), abs=1e-9)


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_it_is_within_bounds(seed):
    rng = np.random.default_rng(seed)
    v = rng.integers(4, size=(60, 2))
    assert 0 <= irs(rng.standard_cauchy(size=(60, 3)) + v[:, :1], v) <= 1


def test_single_precision_tensors_and_repeated_rows_give_the_same():
    z, v, _, _ = inputs("tiny", "noisy")
    assert irs(torch.from_numpy(z).float(), torch.from_numpy(v)) == pytest.approx(irs(z, v), abs=1e-5)
    assert irs(np.repeat(z, 2, 0), np.repeat(v, 2, 0)) == pytest.approx(irs(z, v), abs=0.01)


def test_continuous_factors_are_cut_into_classes_of_equal_frequency():
    v = np.random.default_rng(0).lognormal(sigma=2, size=(4_000, 2))
    assert irs(np.log(v), v) > 0.8
    noise = np.random.default_rng(1).normal(size=(4_000, 2))
    assert irs(noise, v) < 0.1
    assert irs(noise, v, study=True) > 0.6  # most bins of equal width hold a single row, which no other differs from


def test_codes_that_are_not_finite_are_refused(v):
    with pytest.raises(ValueError, match=r"must be finite, got NaN or infinity in 3000 rows. Drop these rows first"):
        irs(v * np.nan, v)
