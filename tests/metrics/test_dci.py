"""DCI against disentanglement_lib's numbers, scikit-learn's trees, and codes whose importances are known."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.ensemble import GradientBoostingClassifier, GradientBoostingRegressor

from tests.reference.arrays import REPRESENTATIONS, inputs, small_matrices
from whence import Sprites
from whence.metrics import DCI, Boosting, Forest, Lasso, Probe, Unmeasurable, dci, dci_from
from whence.metrics.boosting import Learned, cuts
from whence.metrics.dci import importances
from whence.metrics.targets import kinds_of, target
from whence.representation import Representation
from whence.views import Spec
from whence.worlds import Unmixed

GOLDEN = json.loads((Path(__file__).parents[1] / "reference" / "disentanglement_lib.json").read_text())
SIZES = (2, 3, 12)
FEW = Boosting(rounds=30)


def rows(representation: str, of: str = "tiny"):
    i = inputs(of, representation)
    return np.concatenate([i.z, i.z_test]), np.concatenate([i.v, i.v_test])


@pytest.fixture(scope="module")
def v() -> np.ndarray:
    rng = np.random.default_rng(0)
    return np.stack([rng.integers(n, size=1_500) for n in SIZES], 1)


@pytest.fixture(scope="module")
def noise() -> np.ndarray:
    return np.random.default_rng(1).normal(size=(1_500, 3))


# --- parity -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [n for n, m in small_matrices().items() if min(m.shape) > 1])
def test_dci_from_a_matrix_is_that_of_the_reference(name):
    """disentanglement_lib@86a644d (dci.py), on matrices with dead codes, dead factors and nothing at all."""
    golden = GOLDEN["given_matrices"][name]
    found = dci_from(small_matrices()[name])
    assert found.disentanglement == pytest.approx(golden["disentanglement"], abs=1e-8)
    assert found.completeness == pytest.approx(golden["completeness"], abs=1e-8)
    np.testing.assert_allclose(found.of_codes, golden["disentanglement_per_code"], atol=1e-8)
    np.testing.assert_allclose(found.of_factors, golden["completeness_per_factor"], atol=1e-8)


@pytest.mark.parametrize("representation", ["rotated", "noisy"])
def test_exact_boosting_is_the_reference_within_the_spread_of_its_seeds(representation):
    golden = GOLDEN["tiny"][representation]["dci_gbt"]
    found = dci(*rows(representation), study=True)
    for value, name in zip(found, ("disentanglement", "completeness", "informativeness_test"), strict=True):
        low, high = golden[name]["min"], golden[name]["max"]
        assert low - 0.003 <= value <= high + 0.003


@pytest.mark.parametrize("representation", sorted(set(REPRESENTATIONS) - {"noisy", "rotated"}))
def test_the_fast_booster_comes_close_to_the_reference(representation):
    golden = GOLDEN["tiny"][representation]["dci_gbt"]
    found = dci(*rows(representation), importance=Boosting(), study=True)
    for value, name in zip(found, ("disentanglement", "completeness", "informativeness_test"), strict=True):
        assert value == pytest.approx(golden[name]["mean"], abs=0.015)


@pytest.mark.parametrize("classify", [True, False])
def test_with_as_many_bins_as_values_the_fast_booster_grows_scikit_learns_trees(classify):
    rng = np.random.default_rng(0)
    z = np.stack([rng.permutation(40)[rng.integers(40, size=600)] for _ in range(4)], 1).astype(float)
    y = np.digitize(z[:, 0] + 0.5 * z[:, 1] + 6 * rng.normal(size=600), [15, 30, 40])
    targets = y if classify else z[:, :1] / 20 + 0.02 * z[:, 1:2] + rng.normal(size=(600, 1))  # no ties
    kind = GradientBoostingClassifier if classify else GradientBoostingRegressor
    model = kind(n_estimators=20, random_state=0).fit(z[:400], targets[:400].ravel())
    found = Boosting(rounds=20)(z[:400], targets[:400], z[:400])
    np.testing.assert_allclose(found.importance / found.importance.sum(), model.feature_importances_, atol=0.004)
    if classify:
        assert (found.predicted == model.predict(z[:400])).mean() > 0.95  # few nodes have two best splits
    else:
        np.testing.assert_allclose(found.predicted[:, 0], model.predict(z[:400]), atol=1e-4)


# --- anchors ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("learner", [Boosting(), Forest()], ids=lambda x: type(x).__name__)
def test_the_factors_themselves_are_a_perfect_code(learner, v):
    assert dci(v, v, importance=learner) == pytest.approx((1, 1, 1), abs=0.03)


def test_the_factors_themselves_are_a_perfect_code_to_a_linear_learner_of_quantities(v):
    assert dci(v, v, importance=Lasso(), kinds=["ordinal"] * 3) == pytest.approx((1, 1, 1), abs=0.01)


def test_codes_that_know_nothing_score_chance(v, noise):
    d, c, i = dci(noise, v)
    assert d < 0.05
    assert c < 0.05
    assert i < 0.05


def test_a_mixed_code_is_noticed(v):
    s = (v - v.mean(0)) / v.std(0)
    turned = s @ np.linalg.qr(np.random.default_rng(3).normal(size=(3, 3)))[0]
    d, c, i = dci(turned, v)
    assert max(d, c) < 0.8
    assert i > 0.9


def test_a_missing_factor_lowers_informativeness_alone(v):
    whole, missing = dci(v, v), dci(v[:, :2], v)
    assert missing.informativeness == pytest.approx(2 / 3, abs=0.02)
    assert whole.informativeness == pytest.approx(1, abs=0.01)
    r = importances(v[:, :2], v).matrix
    np.testing.assert_allclose(r[:, :2], np.eye(2), atol=0.01)  # the codes of the others are as good as before


def test_a_code_that_is_repeated_shares_its_importance(v):
    d, c, i = dci(np.hstack([v, v]), v)
    assert (d, i) == pytest.approx((1, 1), abs=0.01)
    assert c == pytest.approx(1 - math.log(2) / math.log(6), abs=0.03)


def test_dead_codes_change_nothing(v):
    r = importances(np.hstack([v, np.full((len(v), 2), 1.5)]), v)
    np.testing.assert_allclose(r.matrix[3:], 0, atol=1e-12)
    np.testing.assert_allclose(r.matrix[:3], np.eye(3), atol=0.01)


def test_codes_that_are_all_dead_are_worth_nothing(v):
    assert dci(np.zeros((len(v), 3)), v) == pytest.approx((0, 0, 0), abs=1e-9)


# --- invariances ------------------------------------------------------------------------------------------------------


@settings(max_examples=6, deadline=None)
@given(st.permutations(range(4)), st.lists(st.sampled_from([-3.0, -1.0, 0.01, 7.0]), min_size=4, max_size=4))
def test_order_sign_and_units_of_codes_change_nothing(order, scale):
    z, v = rows("noisy")
    z = np.hstack([z, z[:, :1] + z[:, 1:2]])
    assert dci((z * scale)[:, list(order)], v, importance=FEW) == pytest.approx(dci(z, v, importance=FEW), abs=0.02)


def test_a_monotone_map_of_codes_of_few_values_changes_nothing(v):
    z = v + 20.0 * (np.random.default_rng(0).integers(2, size=v.shape) == 0)
    assert dci(np.exp(z / 10), v) == pytest.approx(dci(z, v), abs=0.005)


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(2, 6), st.integers(2, 6), st.floats(1e-3, 1e6))
def test_concentration_is_within_bounds_and_knows_no_scale(seed, d, k, scale):
    r = np.random.default_rng(seed).exponential(size=(d, k)) ** 4
    found = dci_from(r)
    assert 0 <= found.disentanglement <= 1
    assert 0 <= found.completeness <= 1
    assert dci_from(r * scale)[:2] == pytest.approx(found[:2])
    turned = dci_from(r.T)
    assert (turned.completeness, turned.disentanglement) == pytest.approx(found[:2])


def test_single_precision_tensors_and_repeated_rows_give_the_same():
    z, v = rows("vae_like")
    whole = dci(z, v, importance=FEW)
    assert dci(torch.from_numpy(z).float(), torch.from_numpy(v), importance=FEW) == pytest.approx(whole, abs=0.01)
    assert dci(z, v, importance=FEW) == whole
    twice = np.repeat(np.arange(len(z)), 2)
    assert dci(z[twice], v[twice], importance=FEW) == pytest.approx(whole, abs=0.02)


# --- factors of every kind --------------------------------------------------------------------------------------------


def test_continuous_factors_are_regressed():
    v = np.random.default_rng(0).uniform(size=(3_000, 3))
    assert dci(v**3, v) == pytest.approx((1, 1, 1), abs=0.02)
    assert dci(v[::-1], v).informativeness < 0.03


def test_a_circular_factor_is_told_across_its_seam():
    v = np.random.default_rng(0).integers(40, size=(3_000, 2))
    angle = 2 * np.pi * (v + 20) / 40
    z = np.hstack([np.cos(angle), np.sin(angle)])
    circular = dci(z, v, kinds=["circular", "circular"])
    assert circular.informativeness > 0.99
    assert circular.disentanglement > 0.98
    angle = 2 * np.pi * v[:, 0] / 40
    whole = target(v[:, 0], "circular")
    for column, wave in zip(whole.T, (np.cos(angle), np.sin(angle)), strict=True):
        assert np.corrcoef(column, wave)[0, 1] == pytest.approx(1)


def test_kinds_are_guessed_from_the_number_of_values():
    v = np.stack([np.arange(40) % n for n in (2, 10, 11, 40)], 1)
    assert kinds_of(v) == ("categorical", "categorical", "ordinal", "ordinal")
    with pytest.raises(ValueError, match=r"kinds names one of categorical, ordinal, circular, continuous for each of"):
        kinds_of(v, ["ordinal", "number", "ordinal", "ordinal"])


def test_a_class_that_is_not_among_the_rows_to_learn_from_is_a_mistake(v):
    w = v.copy()
    w[1_200:, 1] = 7
    learned, tested = 1_000, 500
    told = importances(w, w, study=True).informativeness
    assert told[[0, 2]] == pytest.approx(1, abs=0.01)
    assert told[1] == pytest.approx(200 / tested)
    assert learned + tested == len(w)


# --- learners ---------------------------------------------------------------------------------------------------------


def test_lasso_finds_the_coefficients_times_the_spread():
    rng = np.random.default_rng(0)
    z = rng.normal(size=(6_000, 3)) * [1, 10, 0.1]
    v = np.stack([2 * z[:, 0] + 0.3 * z[:, 1], 5 * z[:, 2]], 1)
    r = importances(z, v, importance=Lasso()).matrix
    np.testing.assert_allclose(r, [[0.4, 0], [0.6, 0], [0, 1]], atol=0.02)


def test_a_function_may_say_what_is_important(v):
    def first(z, y, z_test, seed=0):
        told = np.full(len(z_test), np.bincount(y).argmax()) if y.ndim == 1 else np.zeros((len(z_test), y.shape[1]))
        return Learned(np.eye(z.shape[1])[0], told)

    d, c, i = dci(v, v, importance=first)
    assert (d, c) == pytest.approx((0, 1))  # one code for three factors: not disentangled, but each factor has its code
    assert i == pytest.approx(0, abs=0.01)


def test_importances_below_zero_are_refused(v):
    def wrong(z, y, z_test, seed=0):
        return Learned(-np.ones(z.shape[1]), np.zeros(len(z_test), int))

    with pytest.raises(ValueError, match=r"finite and not negative, got \[-1. -1. -1.\] for factor 0. Take magnitudes"):
        dci(v, v, importance=wrong)
    with pytest.raises(ValueError, match=r"finite and not negative. Take magnitudes, or clip at 0"):
        dci_from([[0.5, np.nan], [1, 1]])


def test_more_rows_than_asked_for_are_drawn_from():
    v = np.random.default_rng(0).integers(5, size=(9_000, 2))
    assert dci(v, v, importance=Boosting(rounds=40, rate=0.3, rows=300)) == pytest.approx((1, 1, 1), abs=0.01)


def test_an_edge_lies_in_the_widest_gap_of_its_share_of_the_rows():
    rng = np.random.default_rng(0)
    clusters = np.concatenate([c + 0.01 * rng.normal(size=n) for c, n in ((0, 333), (1, 321), (5, 346))])
    edges = cuts(clusters, 16)
    assert ((edges > 0.1) & (edges < 0.9)).any()
    assert ((edges > 1.1) & (edges < 4.9)).any()
    assert len(edges) == 15
    np.testing.assert_allclose(cuts(np.array([3.0, 1, 2, 2]), 16), [1.5, 2.5])
    assert len(cuts(np.ones(100), 16)) == 0


# --- what cannot be measured ------------------------------------------------------------------------------------------


def test_shares_of_one_code_or_one_factor_are_refused(v):
    with pytest.raises(Unmeasurable, match=r"two or more codes and two or more factors, got 1 and 3"):
        dci(v[:, :1], v)
    with pytest.raises(Unmeasurable, match=r"two or more codes and two or more factors, got 3 and 1"):
        dci(v, v[:, :1])


def test_a_factor_that_does_not_vary_is_refused(v):
    with pytest.raises(Unmeasurable, match=r"must vary, and factor 1 has one value in the 1000 rows to learn from"):
        dci(v, np.column_stack([v[:, 0], np.zeros(len(v))]))
    with pytest.raises(Unmeasurable, match=r"has one value in the 500 rows to test on. Leave it out, or give more"):
        dci(v, np.column_stack([v[:, 0], np.arange(len(v)) * (np.arange(len(v)) < 1_000)]), study=True)


# --- through a probe --------------------------------------------------------------------------------------------------


class Itself(Representation):
    def codes(self, x):
        return x


def test_a_probe_tells_the_learner_what_each_factor_is():
    world = Unmixed(of=Sprites())
    probe = Probe(Itself(Spec(world.shape), len(world.factors)), world, samples=1_500)
    results = DCI()(probe)
    assert [r.metric for r in results] == ["dci.disentanglement", "dci.completeness", "dci.informativeness"]
    assert [r.value for r in results] == pytest.approx([1, 1, 1], abs=0.02)
    assert max(r.chance for r in results) < 0.15
