"""SAP against disentanglement_lib's numbers, thresholds against exhaustive search, and codes whose gaps are known."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.reference.arrays import REPRESENTATIONS, inputs
from whence.metrics import Unmeasurable, sap, sap_scores
from whence.metrics.sap import intervals

GOLDEN = json.loads((Path(__file__).parents[1] / "reference" / "disentanglement_lib.json").read_text())
EVERY = [(of, name) for of in ("tiny", "dsprites") for name in REPRESENTATIONS]
BOTH = pytest.mark.parametrize("continuous", [False, True])
SIZES = (2, 3, 12)


def rows(of: str, representation: str):
    i = inputs(of, representation)
    return np.concatenate([i.z, i.z_test]), np.concatenate([i.v, i.v_test])


@pytest.fixture(scope="module")
def v() -> np.ndarray:
    rng = np.random.default_rng(0)
    return np.stack([rng.integers(n, size=3_000) for n in SIZES], 1)


@pytest.fixture(scope="module")
def noise() -> np.ndarray:
    return np.random.default_rng(1).normal(size=(3_000, 4))


# --- parity -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("of", "representation"), EVERY)
def test_the_continuous_score_in_the_studys_terms_is_the_reference(of, representation):
    golden = GOLDEN[of][representation]
    z, v, _, _ = inputs(of, representation)
    scores = sap_scores(z, v, continuous=True, study=True)
    np.testing.assert_allclose(scores, golden["sap_continuous_matrix"], atol=1e-9)
    assert sap(z, v, continuous=True, study=True) == pytest.approx(golden["sap_continuous"], abs=1e-9)


@pytest.mark.parametrize("representation", REPRESENTATIONS)
def test_the_discrete_score_in_the_studys_terms_is_the_reference(representation):
    golden = GOLDEN["tiny"][representation]
    z, v = rows("tiny", representation)
    np.testing.assert_allclose(sap_scores(z, v, study=True), golden["sap_discrete_matrix"], atol=0.004)
    assert sap(z, v, study=True) == pytest.approx(golden["sap_discrete"]["mean"], abs=0.004)


def test_the_gap_of_given_scores_is_the_reference():
    from tests.reference.arrays import small_matrices
    from whence.metrics.sap import gap

    for name, matrix in small_matrices().items():
        golden = GOLDEN["given_matrices"][name]["sap_gap"]
        if not isinstance(golden, str):
            assert gap(matrix) == pytest.approx(golden, abs=1e-9)


# --- thresholds -------------------------------------------------------------------------------------------------------


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(2, 4), st.integers(1, 7))
def test_thresholds_are_the_best_there_are(seed, c, b):
    """Against every way to cut the bins into intervals, one a class, classes in the order of their means."""
    share = np.random.default_rng(seed).dirichlet(np.full(b, 0.5), size=c)
    order = np.argsort(share @ np.arange(b), kind="stable")
    best = max(
        sum(share[order[i], edges[i] : edges[i + 1]].sum() for i in range(c))
        for edges in ((0, *inner, b) for inner in itertools.combinations_with_replacement(range(b + 1), c - 1))
    )
    says = intervals(share[None])[0]
    assert share[says, np.arange(b)].sum() == pytest.approx(best)
    rank = np.argsort(order)[says]
    assert (np.diff(rank) >= 0).all()


def test_one_threshold_between_two_gaussians_has_the_accuracy_of_theory():
    from scipy.stats import norm

    rng = np.random.default_rng(0)
    v = (rng.random(60_000) < 0.2).astype(int)  # balanced accuracy does not care
    z = rng.normal(size=60_000) - 2 * v
    assert sap(z, v) == pytest.approx(2 * norm.cdf(1) - 1, abs=0.02)


def test_an_outlier_destroys_nothing(v):
    z = v.astype(float)
    z[0] = 1e6
    assert sap(z, v) == pytest.approx(sap(v, v), abs=0.01)


# --- anchors ----------------------------------------------------------------------------------------------------------


@BOTH
def test_the_factors_themselves_are_a_perfect_code(continuous, v):
    assert sap(v, v, continuous=continuous) == pytest.approx(1, abs=0.03)


def test_the_study_s_machine_does_not_see_that_a_code_of_many_values_is_perfect():
    assert GOLDEN["dsprites"]["identity"]["sap_discrete"]["mean"] < 0.25
    z, v = rows("dsprites", "identity")
    assert sap(z, v) > 0.98


@BOTH
def test_codes_that_know_nothing_score_chance(continuous, v, noise):
    assert sap(noise, v, continuous=continuous) < 0.04
    assert (sap_scores(noise, v, continuous=continuous) < 0.08).all()


@BOTH
def test_a_code_that_is_repeated_has_no_gap(continuous, v):
    assert sap(np.hstack([v, v]), v, continuous=continuous) == pytest.approx(0, abs=1e-12)


@BOTH
def test_a_missing_factor_is_noticed(continuous, v):
    assert sap(v[:, :2], v, continuous=continuous) == pytest.approx(2 / 3, abs=0.04)


@BOTH
def test_a_single_code_has_its_whole_score_as_gap(continuous, v):
    assert sap(v[:, 0], v[:, 0], continuous=continuous) == pytest.approx(1)


# --- dead codes -------------------------------------------------------------------------------------------------------


@BOTH
def test_codes_that_do_not_vary_count_nothing(continuous, v):
    dead = np.full((len(v), 1), np.float32(0.1))
    assert sap(np.hstack([v, dead]), v, continuous=continuous) == sap(v, v, continuous=continuous)
    assert (sap_scores(np.hstack([v, dead]), v, continuous=continuous)[-1] == 0).all()
    assert sap(dead, v, continuous=continuous) == 0


@BOTH
def test_codes_that_hardly_vary_count_nothing_if_so_wished(continuous, v):
    faint = np.hstack([v, 1e-3 * v])
    assert sap(faint, v, continuous=continuous) == pytest.approx(0, abs=1e-12)
    assert sap(faint, v, continuous=continuous, inactive=0.05) == pytest.approx(1, abs=0.03)


# --- invariances ------------------------------------------------------------------------------------------------------


@settings(max_examples=10, deadline=None)
@given(st.permutations(range(3)), st.lists(st.sampled_from([-1e4, -1.0, 1e-4, 2.0]), min_size=3, max_size=3))
def test_order_sign_and_units_of_codes_change_nothing(order, scale):
    z, v = rows("tiny", "noisy")
    for continuous in (False, True):
        whole = sap(z, v, continuous=continuous)
        assert sap((z * scale)[:, list(order)] + 3, v, continuous=continuous) == pytest.approx(whole, abs=0.01)


def test_units_change_the_study_s_number():
    """Its defect: .123, .173 and .238 for the same code times .01, 1 and 100 on the sizes of dSprites."""
    z, v = rows("tiny", "noisy")
    small, large = sap(0.01 * z, v, study=True), sap(100 * z, v, study=True)
    assert abs(small - large) > 0.05


def test_a_monotone_map_changes_no_threshold(v):
    z = v + 0.0
    assert sap(np.exp(z), v) == sap(z, v)


@BOTH
def test_single_precision_tensors_and_repeated_rows_give_the_same(continuous):
    z, v = rows("tiny", "noisy")
    whole = sap(z, v, continuous=continuous)
    single = sap(torch.from_numpy(z).float(), torch.from_numpy(v), continuous=continuous)
    assert single == pytest.approx(whole, abs=1e-5)
    assert sap(np.repeat(z, 2, 0), np.repeat(v, 2, 0), continuous=continuous) == pytest.approx(whole, abs=0.01)


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_it_is_within_bounds(seed):
    rng = np.random.default_rng(seed)
    z, v = rng.normal(size=(90, 3)), rng.integers(3, size=(90, 2))
    for options in ({}, {"continuous": True}):
        assert 0 <= sap(z + v[:, :1], v, **options) <= 1


def test_continuous_factors_are_cut_into_classes_or_correlated():
    v = np.random.default_rng(0).uniform(size=(3_000, 2))
    assert sap(v, v, continuous=True) > 0.99
    assert sap(v, v) > 0.85
    assert sap(v[::-1], v) < 0.03


@BOTH
def test_a_factor_that_does_not_vary_is_refused(continuous, v):
    with pytest.raises(Unmeasurable, match=r"must vary, and factor 1 has one value in the \d000 rows to learn from"):
        sap(v, np.column_stack([v[:, 0], np.zeros(len(v))]), continuous=continuous)
