"""Groups of codes that share a factor, and the two metrics that live on them, against disentanglement_lib's numbers."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression

from tests.reference.arrays import REPRESENTATIONS, inputs, pair_groups, single_groups
from whence.metrics import beta_vae_metric, factor_vae_metric, groups, logistic, majority_vote
from whence.metrics.beta_vae import named
from whence.metrics.groups import Groups, Units, from_pool, mean_differences, variances

GOLDEN = json.loads((Path(__file__).parents[1] / "reference" / "disentanglement_lib.json").read_text())
EVERY = [(of, name) for of in ("tiny", "dsprites") for name in REPRESENTATIONS]
SIZES = (3, 6, 40)


@pytest.fixture(scope="module")
def v() -> np.ndarray:
    rng = np.random.default_rng(0)
    return np.stack([rng.integers(n, size=6_000) for n in SIZES], 1)


# --- parity -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("threshold", [0, 0.05])
@pytest.mark.parametrize(("of", "representation"), EVERY)
def test_the_majority_vote_on_given_batches_is_that_of_the_reference(of, representation, threshold):
    golden = GOLDEN[of][representation]["factor_vae"]
    z, v, _, _ = inputs(of, representation)
    which, rows = single_groups(v)
    np.testing.assert_allclose(z.var(0, ddof=1), golden["global_variances"], rtol=1e-6, atol=1e-12)
    found = majority_vote(z[rows], which, z.std(0, ddof=1), train=600, inactive=threshold, study=True)
    expected = golden[f"threshold_{threshold}"]
    assert found.voting == pytest.approx(expected["train_accuracy"], abs=1e-9)
    assert found.accuracy == pytest.approx(expected["eval_accuracy"], abs=1e-9)
    if representation not in ("duplicated", "sin_cos"):  # there two codes hold still at once, and rounding chooses
        assert found.votes.tolist() == np.compress(expected["active"], expected["train_votes"], axis=1).tolist()


@pytest.mark.parametrize("precision", [np.float32, np.float64])
def test_between_codes_that_hold_still_both_rounding_decides_as_in_the_reference(precision):
    """The variance of equal numbers is often not quite 0 there, and the least of two such variances gets the vote."""
    rng = np.random.default_rng(0)
    v = rng.integers([2, 3], size=(300, 2))
    z = np.column_stack([0.37 * v[:, 0], 0.1 * v[:, 0] + 0.7, v[:, 1] / 7, np.full(300, 0.1)]).astype(precision)
    which = rng.integers(2, size=90)
    batches = np.stack([z[rng.choice(np.flatnonzero(v[:, k] == v[rng.integers(300), k]), 13)] for k in which])
    whole = z.var(0, ddof=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        least = [int(np.argmin(batch.var(0, ddof=1) / whole)) for batch in batches]
    votes = np.zeros((2, 4), int)
    np.add.at(votes, (which[:60], least[:60]), 1)
    found = majority_vote(batches, which, np.sqrt(whole), train=60, inactive=0, study=True)
    assert found.votes.tolist() == votes.tolist()
    assert found.accuracy == np.mean([votes.argmax(0)[j] == k for j, k in zip(least[60:], which[60:], strict=True)])
    tensors = majority_vote(torch.from_numpy(batches), torch.from_numpy(which), np.sqrt(whole), train=60)
    assert tensors.accuracy == majority_vote(batches, which, np.sqrt(whole), train=60).accuracy


def test_batches_of_another_shape_are_refused():
    with pytest.raises(ValueError, match=r"batches \(M, size, D\).*got \(9, 4, 2\), \(9,\), \(3,\) and train=5"):
        majority_vote(np.zeros((9, 4, 2)), np.zeros(9, int), np.ones(3), train=5)
    with pytest.raises(ValueError, match=r"between 1 and M - 1 batches that vote.*train=9"):
        majority_vote(np.zeros((9, 4, 2)), np.zeros(9, int), np.ones(2), train=9)


@pytest.mark.parametrize(("of", "representation"), EVERY)
def test_the_classifier_of_pairs_is_the_reference_within_the_spread_of_draws(of, representation):
    golden = GOLDEN[of][representation]["beta_vae"]
    z, v, _, _ = inputs(of, representation)
    which, rows = pair_groups(v)
    points = np.abs(z[rows[:, :, 0]] - z[rows[:, :, 1]]).mean(1)
    np.testing.assert_allclose(points.mean(0), golden[0]["feature_mean"], rtol=1e-9)
    accuracies = [draw["eval_accuracy"] for draw in golden]
    spread = max(accuracies) - min(accuracies)
    assert named(points, which, train=1_000, study=True) == pytest.approx(accuracies[0], abs=0.004)
    assert named(points, which, train=1_000) > min(accuracies) - spread - 0.01  # its units cannot make it worse


@pytest.mark.parametrize("representation", ["rotated", "pair45", "random"])
def test_both_metrics_on_groups_of_their_own_agree_with_the_reference(representation):
    golden = GOLDEN["dsprites"][representation]
    z, v, _, _ = inputs("dsprites", representation)
    few = {"train": 2_000, "test": 2_000, "study": True}
    draws = [draw["eval_accuracy"] for draw in golden["beta_vae"]]
    assert beta_vae_metric(z, v, pairs=32, **few) == pytest.approx(np.mean(draws), abs=0.04)
    expected = golden["factor_vae"]["threshold_0"]
    both = (600 * expected["train_accuracy"] + 300 * expected["eval_accuracy"]) / 900
    assert factor_vae_metric(z, v, inactive=0.0, **few) == pytest.approx(both, abs=0.05)


# --- what a group is --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("k", range(3))
def test_a_group_shares_one_factor_and_its_members_are_independent_otherwise(k, v):
    z, rows = from_pool(v, v, np.random.default_rng(0))(k, 600, 40)
    drawn = z[rows]  # (size, groups, K)
    assert (drawn[:, :, k] == drawn[:1, :, k]).all()
    values = np.bincount(drawn[0, :, k], minlength=SIZES[k])
    assert (np.abs(values - 600 / SIZES[k]) < 5 * np.sqrt(600 / SIZES[k])).all()
    for other in set(range(3)) - {k}:
        a, b = drawn[0, :, other], drawn[1, :, other]
        assert abs(np.corrcoef(a, b)[0, 1]) < 0.17  # four standard errors
        assert drawn[:, :, other].var(0, ddof=1).mean() == pytest.approx(v[:, other].var(), rel=0.03)
    assert len(np.unique(rows)) > 0.9 * len(v) * (1 - np.exp(-rows.size / len(v)))


def test_a_continuous_factor_is_shared_by_class():
    v = np.random.default_rng(3).uniform(size=(4_000, 2))
    z, rows = from_pool(v, v, np.random.default_rng(0))(0, 50, 30)
    assert np.ptp(z[rows][:, :, 0], axis=0).max() < 0.06
    assert np.ptp(z[rows][:, :, 1], axis=0).min() > 0.5


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(2, 9), st.integers(1, 20), st.integers(1, 5))
def test_statistics_of_groups_are_those_of_their_members(seed, size, m, d):
    rng = np.random.default_rng(seed)
    z, rows = rng.normal(size=(30, d)), rng.integers(30, size=(size, m))
    np.testing.assert_allclose(variances(Groups(z, rows)), z[rows].var(0, ddof=1), atol=1e-12)
    pairs = rng.integers(30, size=(2, size * m))
    expected = np.abs(z[pairs[0]] - z[pairs[1]]).reshape(size, m, d).mean(0)
    np.testing.assert_allclose(mean_differences(Groups(z, pairs), size), expected, atol=1e-12)


def test_equal_members_have_no_variance_at_all():
    z = np.full((5, 2), 0.1, np.float32) * [[1e6, 1]]
    assert (variances(Groups(z.astype(np.float32), np.arange(5)[:, None])) == 0).all()


def test_units_are_those_of_all_rows_and_of_none_that_do_not_vary(monkeypatch):
    monkeypatch.setattr(groups, "ROWS", 7)
    z = np.random.default_rng(0).normal(size=(50, 3)).astype(np.float32) * [1e-3, 1, 1e5] + [5, 0, -1e6]
    z = np.hstack([z, np.full((50, 1), 0.1, np.float32)])
    unit = Units.of(z)(z)
    np.testing.assert_allclose(unit[:, :3].mean(0), 0, atol=1e-5)
    np.testing.assert_allclose(unit[:, :3].std(0), 1, rtol=1e-5)
    assert (unit[:, 3] == 0).all()


def test_groups_that_do_not_fit_into_memory_at_once_are_taken_in_portions(v, monkeypatch):
    from whence.metrics import beta_vae, factor_vae, sharing

    for module in (beta_vae, factor_vae):
        monkeypatch.setattr(module, "portions", lambda items, each: sharing.portions(items, each, budget=10_000))
    few = {"train": 600, "test": 300}
    assert factor_vae_metric(v, v, **few) == 1
    assert beta_vae_metric(v, v, **few) > 0.99


# --- conventions ------------------------------------------------------------------------------------------------------


def test_in_the_studys_terms_units_decide_and_a_dead_code_wins(v):
    """The two defects that study=True keeps, and the defaults do not have."""
    few = {"train": 900, "test": 600}
    dead = np.hstack([v, np.full((len(v), 1), 1.5)])
    assert factor_vae_metric(dead, v, inactive=0.0, study=True, **few) == pytest.approx(1 / 3, abs=0.08)
    assert factor_vae_metric(dead, v, inactive=0.0, **few) == 1
    small = v * 1e-4
    assert factor_vae_metric(small, v, study=True, **few) == 0
    assert factor_vae_metric(small, v, **few) == 1
    assert beta_vae_metric(small, v, study=True, **few) < 0.6
    assert beta_vae_metric(small, v, **few) > 0.99


def test_single_precision_and_repeated_rows_change_little(v):
    z = v @ np.random.default_rng(0).normal(size=(3, 5))
    twice = np.repeat(np.arange(len(z)), 2)
    for metric in (beta_vae_metric, factor_vae_metric):
        whole = metric(z, v, train=2_000, test=1_000)
        assert metric(z.astype(np.float32), v, train=2_000, test=1_000) == pytest.approx(whole, abs=0.002)
        assert metric(z[twice], v[twice], train=2_000, test=1_000) == pytest.approx(whole, abs=0.05)


# --- logistic regression ----------------------------------------------------------------------------------------------


def test_logistic_regression_is_scikit_learns(monkeypatch):
    rng = np.random.default_rng(0)
    z = rng.normal(size=(2_000, 4))
    y = (z @ rng.normal(size=(4, 6)) + rng.gumbel(size=(2_000, 6))).argmax(1)
    ours, theirs = logistic.logistic(z, y, tolerance=1e-6), LogisticRegression(tol=1e-8, max_iter=1_000).fit(z, y)
    np.testing.assert_allclose(np.exp(ours.log_p(z)), theirs.predict_proba(z), atol=2e-4)
    monkeypatch.setattr(logistic, "NUMBERS", 6 * 300)
    np.testing.assert_allclose(logistic.logistic(z, y, tolerance=1e-6).w, ours.w, atol=2e-3)


def test_predicted_frequencies_of_classes_are_those_seen():
    """The gradient with respect to the intercepts, which carry no penalty."""
    rng = np.random.default_rng(1)
    z, y = rng.normal(size=(500, 3)), rng.integers(4, size=500)
    p = np.exp(logistic.logistic(z, y, tolerance=1e-6).log_p(z))
    np.testing.assert_allclose(p.sum(1), 1)
    np.testing.assert_allclose(p.mean(0), np.bincount(y) / 500, atol=1e-4)
