"""Loss-capacity curves whose areas are known, and what families of probes owe."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from whence.metrics import Unmeasurable, code_size, ease_of_use, loss_capacity
from whence.metrics.dci_es import Curve, Features, Forests, Networks, Told, explicit

FAMILIES = [Features(), Forests(depths=(1, 4, 12), trees=5), Networks(widths=(1, 8, 64), epochs=15)]
EACH = pytest.mark.parametrize("probes", FAMILIES, ids=lambda p: type(p).__name__)


@pytest.fixture(scope="module")
def v() -> np.ndarray:
    return np.random.default_rng(0).uniform(-1, 1, size=(2_400, 3))


@pytest.fixture(scope="module")
def noise() -> np.ndarray:
    return np.random.default_rng(1).normal(size=(2_400, 4))


# --- the area ---------------------------------------------------------------------------------------------------------


def test_the_area_of_curves_by_hand():
    capacity = np.array([0.0, 1, 3])
    at_once, line, never = [0, 0, 0], [1, 2 / 3, 0], [1, 1, 1]
    curve = Curve(capacity, np.array([at_once, line, never], float).T)
    np.testing.assert_allclose(explicit(curve), [1, 0.5, 0])
    np.testing.assert_allclose(explicit(curve, study=True), [1, 0, 1])  # as published: never is as good as at once
    partly = Curve(capacity, np.array([[1, 0.4, 0.4]]).T)
    np.testing.assert_allclose(explicit(partly), [1 - (0.7 + 0.8) / 3])
    np.testing.assert_allclose(explicit(partly, study=True), [1 - 2 * 0.3 / 3])


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(2, 8), st.floats(0.1, 50), st.floats(-9, 9))
def test_explicitness_is_within_bounds_and_knows_no_unit_of_capacity(seed, p, scale, shift):
    rng = np.random.default_rng(seed)
    loss = np.minimum.accumulate(rng.random((p, 4)), axis=0)
    curve = Curve(np.cumsum(rng.uniform(0.1, 1, p)), loss)
    found = explicit(curve)
    assert ((found >= 0) & (found <= 1)).all()
    assert (explicit(curve, study=True) >= -1).all()
    np.testing.assert_allclose(explicit(Curve(scale * curve.capacity + shift, loss)), found)
    assert (explicit(Curve(curve.capacity, loss**2)) >= found).all()  # less loss, more ease


# --- anchors ----------------------------------------------------------------------------------------------------------


def test_quantities_that_are_codes_themselves_are_easiest(v):
    assert ease_of_use(v, v) == pytest.approx(1, abs=1e-3)


@EACH
def test_codes_that_know_nothing_score_chance(probes, v, noise):
    assert ease_of_use(noise, v, probes=probes) == pytest.approx(0, abs=0.02)
    assert ease_of_use(noise, v, probes=probes, study=True) > 0.95  # the published number cannot tell


@EACH
def test_mixing_makes_codes_harder_to_use_and_a_missing_factor_harder_still(probes, v):
    """Curves are hard for sums and rotations for trees."""
    waved = np.hstack([np.sin(3 * v), v**2])
    turned = v @ np.linalg.qr(np.random.default_rng(3).normal(size=(3, 3)))[0]
    mixed = turned if isinstance(probes, Forests) else waved
    easy, hard, missing = (ease_of_use(z, v, probes=probes) for z in (v, mixed, v[:, :2]))
    assert easy > hard + 0.02
    assert hard > missing + 0.02


@EACH
def test_loss_falls_with_capacity(probes, v):
    capacity, loss = loss_capacity(np.sin(3 * v), v, probes=probes)
    assert (np.diff(capacity) > 0).all()
    assert (np.diff(loss, axis=0) <= 0).all()
    assert loss[-1].max() < loss[0].min()
    assert loss.max() <= 1


def test_categories_and_circles_are_told_by_indicators_and_angles():
    rng = np.random.default_rng(0)
    v = np.stack([rng.integers(4, size=2_400), rng.integers(24, size=2_400)], 1)
    z = np.hstack([np.eye(4)[v[:, 0]], np.cos(v[:, 1:] * np.pi / 12), np.sin(v[:, 1:] * np.pi / 12)])
    assert ease_of_use(z, v, kinds=["categorical", "circular"]) == pytest.approx(1, abs=1e-3)
    assert ease_of_use(z, v, kinds=["categorical", "ordinal"]) < 0.95


# --- invariances ------------------------------------------------------------------------------------------------------


@settings(max_examples=6, deadline=None)
@given(st.permutations(range(4)), st.lists(st.sampled_from([-1e3, -1.0, 1e-3, 2.0]), min_size=4, max_size=4))
def test_order_sign_and_units_of_codes_change_little(order, scale):
    rng = np.random.default_rng(0)
    v = rng.uniform(-1, 1, size=(900, 2))
    z = np.hstack([np.sin(2 * v), v**2 + 0.1 * rng.normal(size=v.shape)])
    assert ease_of_use((z * scale)[:, list(order)] + 1, v) == pytest.approx(ease_of_use(z, v), abs=0.03)


def test_codes_that_do_not_vary_single_precision_and_repeated_rows_change_little(v):
    z = np.sin(2 * v)
    whole = ease_of_use(z, v)
    assert ease_of_use(torch.from_numpy(z).float(), torch.from_numpy(v)) == pytest.approx(whole, abs=1e-3)
    assert ease_of_use(z[np.repeat(np.arange(len(z)), 2)], np.repeat(v, 2, 0)) == pytest.approx(whole, abs=0.02)
    dead = np.full((len(z), 1), np.float32(0.1))
    assert ease_of_use(np.hstack([z, dead]), v) == pytest.approx(whole, abs=0.05)
    assert ease_of_use(z, v, probes=Features(rows=800)) == pytest.approx(whole, abs=0.02)


# --- size, refusals ---------------------------------------------------------------------------------------------------


def test_size_is_the_share_of_factors_among_codes(v):
    assert code_size(v, v) == 1
    assert code_size(np.hstack([v, v]), v) == 0.5
    assert code_size(v[:, :1], v) == 1


def test_what_is_no_family_of_probes_is_refused(v):
    def one(z, y, z_test, seed=0):
        return [Told(3.0, np.zeros((len(z_test), y.shape[1])))]

    with pytest.raises(ValueError, match=r"two or more probes of growing capacity, got \[3.0\]"):
        ease_of_use(v, v, probes=one)


def test_a_factor_that_does_not_vary_is_refused(v):
    with pytest.raises(Unmeasurable, match=r"must vary, and factor 1 has one value in the 1600 rows to learn from"):
        ease_of_use(v, np.column_stack([v[:, 0], np.zeros(len(v))]))
