"""Explicitness against disentanglement_lib's numbers, and on codes whose areas are known."""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm
from sklearn.metrics import roc_auc_score

from tests.reference.arrays import REPRESENTATIONS, inputs
from whence.metrics import Unmeasurable, auroc, explicitness, explicitness_each
from whence.metrics.logistic import logistic

GOLDEN = json.loads((Path(__file__).parents[1] / "reference" / "disentanglement_lib.json").read_text())
SIZES = (2, 3, 12)
module = import_module("whence.metrics.explicitness")


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

MEASURED = [
    (of, name)
    for of in ("tiny", "dsprites")
    for name in REPRESENTATIONS
    if "crash" not in GOLDEN[of][name]["explicitness"] and (of == "tiny" or name in ("rotated", "noisy", "random"))
]


@pytest.mark.parametrize(("of", "representation"), MEASURED)
def test_in_the_studys_terms_it_is_the_reference(of, representation):
    golden = GOLDEN[of][representation]["explicitness_per_factor"]["test"]
    np.testing.assert_allclose(explicitness_each(*rows(of, representation), study=True), golden, atol=1e-6)


@pytest.mark.parametrize(("of", "representation"), MEASURED)
def test_it_is_the_reference_on_a_scale_from_chance_to_best(of, representation):
    golden = np.array(GOLDEN[of][representation]["explicitness_per_factor"]["test"])
    np.testing.assert_allclose(explicitness_each(*rows(of, representation)), 2 * golden - 1, atol=5e-4)


@pytest.mark.parametrize("study", [False, True])
def test_a_code_that_does_not_vary_ends_the_reference_and_changes_nothing_here(study):
    assert "crash" in GOLDEN["tiny"]["constant_dim"]["explicitness"]
    z, v = rows("tiny", "noisy")
    dead = np.hstack([z, np.full((len(z), 1), 0.1)])
    assert explicitness(dead, v, study=study) == pytest.approx(explicitness(z, v, study=study), abs=1e-4)


# --- the area ---------------------------------------------------------------------------------------------------------


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(2, 40), st.integers(1, 5))
def test_the_area_by_ranks_is_that_under_the_curve(seed, n, c):
    rng = np.random.default_rng(seed)
    scores, truth = rng.integers(6, size=(n, c)), rng.integers(2, size=(n, c)) == 1  # with ties
    for j, found in enumerate(auroc(scores, truth)):
        both = len(np.unique(truth[:, j])) == 2
        assert found == pytest.approx(roc_auc_score(truth[:, j], scores[:, j]) if both else 0.5)


def test_two_gaussians_have_the_area_of_theory():
    """Equal spreads, means d apart: the area is Phi(d / sqrt 2)."""
    rng = np.random.default_rng(0)
    v = rng.integers(2, size=60_000)
    z = rng.normal(size=(60_000, 1)) + 1.3 * v[:, None]
    assert explicitness(z, v, study=True) == pytest.approx(norm.cdf(1.3 / np.sqrt(2)), abs=0.01)


@pytest.mark.parametrize("numbers", [7, 600, 5_000])
def test_portions_of_rows_and_classes_change_nothing(numbers, monkeypatch):
    z, v = rows("tiny", "noisy")
    whole = explicitness_each(z, v)
    monkeypatch.setattr(module, "NUMBERS", numbers)
    np.testing.assert_allclose(explicitness_each(z, v), whole, atol=1e-9)


def test_of_many_rows_some_are_learned_from_and_all_others_are_tested(monkeypatch):
    """So its time grows with the rows only as a sort does; the value is that of all rows, up to what few rows miss."""
    rng = np.random.default_rng(0)
    v = rng.integers(6, size=12_000)
    z = np.column_stack([v + rng.normal(size=12_000), rng.normal(size=12_000)])
    whole, fitted = explicitness(z, v), []
    monkeypatch.setattr(module, "ROWS", 2_000)
    monkeypatch.setattr(module, "logistic", lambda x, y: fitted.append(x.shape) or logistic(x, y))
    assert explicitness(z, v) == pytest.approx(whole, abs=0.01)
    assert fitted == [(2_000, 2)]


@pytest.mark.filterwarnings("ignore:lbfgs failed to converge", "ignore:divide by zero")
def test_codes_that_depend_on_each_other_are_fitted_better_than_by_scikit_learn_in_as_many_steps():
    from sklearn.linear_model import LogisticRegression

    rng = np.random.default_rng(0)
    y = rng.integers(12, size=2_000)
    x = np.column_stack([y / 3, rng.normal(size=(2_000, 5))]) @ rng.normal(size=(6, 40))
    x += 0.5 * rng.normal(size=x.shape)
    x = ((x - x.mean(0)) / x.std(0)).astype(np.float32)
    near, far = LogisticRegression(max_iter=60).fit(x, y), LogisticRegression(tol=1e-8, max_iter=5_000).fit(x, y)
    found = logistic(x, y, steps=60)

    def loss(log_p: np.ndarray, w: np.ndarray) -> float:
        return float(np.square(w).sum() / 2 - log_p[np.arange(len(y)), y].sum()) / len(y)

    usual, best = (loss(model.predict_log_proba(x), model.coef_) for model in (near, far))
    mine = loss(found.log_p(x), found.w)
    assert best - 1e-6 <= mine
    assert mine - best < 0.5 * (usual - best)


# --- anchors and invariances ------------------------------------------------------------------------------------------


def test_the_factors_themselves_are_explicit(v):
    assert explicitness(v, v) > 0.98
    assert explicitness(np.eye(12)[v[:, 2]], v[:, 2]) == pytest.approx(1, abs=1e-6)


def test_codes_that_know_nothing_score_chance(v, noise):
    assert explicitness(noise, v) == pytest.approx(0, abs=0.05)
    assert explicitness(noise, v, study=True) == pytest.approx(0.5, abs=0.025)
    assert explicitness(np.ones((len(v), 2)), v) == pytest.approx(0, abs=1e-9)


def test_a_missing_factor_is_noticed(v):
    assert explicitness_each(v[:, :2], v)[2] == pytest.approx(0, abs=0.05)
    assert explicitness(v[:, :2], v) < 0.7


@settings(max_examples=8, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_an_invertible_linear_map_changes_little(seed):
    """It sees what is there, not where: neither mixing nor repetition matters, save for the weak penalty."""
    z, v = rows("tiny", "noisy")
    rng = np.random.default_rng(seed)
    q = np.linalg.qr(rng.normal(size=(3, 3)))[0] * rng.choice([0.01, 1, -30], size=3)
    assert explicitness(z @ q + 5, v) == pytest.approx(explicitness(z, v), abs=0.01)


@settings(max_examples=8, deadline=None)
@given(st.permutations(range(3)), st.lists(st.sampled_from([-1e3, -1.0, 1e-3, 2.0]), min_size=3, max_size=3))
def test_order_sign_and_units_of_codes_change_nothing(order, scale):
    z, v = rows("tiny", "noisy")
    assert explicitness((z * scale)[:, list(order)], v) == pytest.approx(explicitness(z, v), abs=1e-4)


def test_single_precision_tensors_and_repeated_rows_give_the_same():
    z, v = rows("tiny", "noisy")
    whole = explicitness(z, v)
    assert explicitness(torch.from_numpy(z).float(), torch.from_numpy(v)) == pytest.approx(whole, abs=1e-4)
    assert explicitness(np.repeat(z, 2, 0), np.repeat(v, 2, 0)) == pytest.approx(whole, abs=1e-3)


def test_continuous_factors_are_cut_into_classes():
    v = np.random.default_rng(0).uniform(size=(3_000, 2))
    assert explicitness(v, v) > 0.8
    assert explicitness(v[::-1], v) == pytest.approx(0, abs=0.05)


# --- values that are missing on one side ------------------------------------------------------------------------------


def test_a_value_that_no_test_row_has_is_left_out(v):
    w = v[:, 2].copy()
    w[2_000:][w[2_000:] == 11] = 5
    assert explicitness(np.eye(12)[w], w) == pytest.approx(1)


def test_a_value_that_was_never_learned_scores_chance():
    rng = np.random.default_rng(0)
    v = rng.integers(3, size=3_000)
    late = v.copy()
    late[:2_000][late[:2_000] == 2] = 1
    z = np.eye(3)[late]
    assert explicitness(z, late) == pytest.approx(2 / 3, abs=0.02)  # two of three values are found exactly


def test_a_factor_that_does_not_vary_is_refused(v):
    with pytest.raises(Unmeasurable, match=r"factor 1 has one value in the 2000 rows to learn from. Leave it out"):
        explicitness(v, np.column_stack([v[:, 0], np.zeros(len(v))]))
    with pytest.raises(ValueError, match=r"must be finite, got NaN or infinity in 1 rows"):
        explicitness(np.where(np.arange(len(v))[:, None] == 7, np.inf, v), v)
