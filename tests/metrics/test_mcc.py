"""Correlations and R² of codes that are mixed in known ways, and the matching behind them."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import pearsonr, spearmanr

from whence.metrics import MCC, R2, Probe, Unmeasurable, match, mcc, r2, r2_each
from whence.metrics.maps import Linear, Network
from whence.representation import Representation
from whence.views import Spec
from whence.worlds import Unmixed

K = 3


@pytest.fixture(scope="module")
def v() -> np.ndarray:
    return np.random.default_rng(0).normal(size=(3_000, K))


@pytest.fixture(scope="module")
def noise() -> np.ndarray:
    return np.random.default_rng(1).normal(size=(3_000, 5))


# --- matching ---------------------------------------------------------------------------------------------------------


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 5), st.integers(1, 4), st.booleans())
def test_a_matching_is_the_best_of_all(seed, d, k, spearman):
    rng = np.random.default_rng(seed)
    v = rng.normal(size=(40, k))
    z = v @ rng.normal(size=(k, d)) + rng.normal(size=(40, d))
    of = spearmanr if spearman else pearsonr
    r = np.array([[of(a, b).statistic for b in v.T] for a in z.T])
    if d >= k:
        sums = [sum(abs(r[j, i]) for i, j in enumerate(p)) for p in itertools.permutations(range(d), k)]
    else:
        sums = [sum(abs(r[j, i]) for j, i in enumerate(p)) for p in itertools.permutations(range(k), d)]
    found = match(z, v, spearman=spearman)
    assert found.correlation.sum() == pytest.approx(max(sums))
    there = found.code >= 0
    assert len(set(found.code[there])) == there.sum() == min(d, k)
    np.testing.assert_allclose(found.sign[there] * found.correlation[there], r[found.code[there], there.nonzero()[0]])
    assert (found.correlation[~there] == 0).all()
    assert mcc(z, v, spearman=spearman) == pytest.approx(max(sums) / k)


@settings(max_examples=15, deadline=None)
@given(st.permutations(range(5)), st.lists(st.sampled_from([-1e3, -1.0, 1e-3, 2.0]), min_size=5, max_size=5))
def test_a_matching_finds_order_and_sign(order, scale):
    rng = np.random.default_rng(0)
    v = rng.normal(size=(300, 3))
    z = (np.hstack([v, rng.normal(size=(300, 2))]) * scale)[:, list(order)] + 5
    found = match(z, v)
    assert [order[j] for j in found.code] == [0, 1, 2]
    assert found.sign.tolist() == [math.copysign(1, s) for s in scale[:3]]
    for aligned, column in zip((z[:, found.code] * found.sign).T, v.T, strict=True):
        assert np.corrcoef(aligned, column)[0, 1] == pytest.approx(1)
    assert mcc(z, v) == pytest.approx(1)


def test_codes_that_do_not_vary_match_nothing(v):
    dead = np.full((len(v), 2), np.float32(0.1))
    assert match(np.hstack([dead, v]), v).code.tolist() == [2, 3, 4]
    assert mcc(dead, v) == 0
    assert mcc(np.hstack([dead, v]), v, through=Linear()) == pytest.approx(1)
    assert r2(np.hstack([dead, v]), v) == pytest.approx(1)
    assert r2(dead, v) == pytest.approx(0, abs=0.01)


# --- anchors ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("through", [None, Linear(), Network()], ids=str)
def test_the_factors_themselves_are_a_perfect_code(through, v):
    assert mcc(v, v, through=through) == pytest.approx(1, abs=2e-3)
    if through is not None:
        assert r2(v, v, through=through) == pytest.approx(1, abs=2e-3)


@pytest.mark.parametrize("through", [None, Linear(), Network()], ids=str)
def test_codes_that_know_nothing_score_chance(through, v, noise):
    assert mcc(noise, v, through=through) < 0.08
    if through is not None:
        assert r2(noise, v, through=through) == pytest.approx(0, abs=0.03)


@pytest.mark.parametrize("through", [None, Linear(), Network()], ids=str)
def test_a_missing_factor_is_noticed(through, v):
    assert mcc(v[:, :2], v, through=through) == pytest.approx(2 / 3, abs=0.03)
    if through is not None:
        np.testing.assert_allclose(r2_each(v[:, :2], v, through=through), [1, 1, 0], atol=0.02)


# --- what each map forgives -------------------------------------------------------------------------------------------


def test_scale_is_forgiven_by_strong_monotone_maps_by_ranks_and_mixing_by_a_linear_map(v):
    curved = np.sign(v) * np.abs(v) ** 5
    assert mcc(curved, v) < 0.8
    assert mcc(curved, v, spearman=True) == pytest.approx(1)
    mixed = v @ np.random.default_rng(2).normal(size=(K, K))
    assert mcc(mixed, v) < 0.95
    assert mcc(mixed, v, through=Linear()) == pytest.approx(1)
    assert r2(mixed, v) == pytest.approx(1)


def test_a_nonlinear_mixing_is_forgiven_by_the_network_alone():
    v = np.random.default_rng(0).uniform(-1, 1, size=(6_000, 2))
    point = v @ [1, 1j]
    point = point * np.exp(4j * np.abs(point))  # turned the further the farther out
    turned = np.stack([point.real, point.imag], 1)
    assert r2(turned, v) < 0.5
    assert r2(turned, v, through=Network()) > 0.97
    assert mcc(turned, v, through=Network()) > 0.98


def test_a_noisy_code_has_the_correlation_of_theory():
    """z = v + s e, both normal: correlation 1 / sqrt(1 + s²), and R² its square."""
    rng = np.random.default_rng(0)
    v = rng.normal(size=(60_000, 2))
    z = v + 0.75 * rng.normal(size=v.shape)
    assert mcc(z, v) == pytest.approx(1 / math.sqrt(1 + 0.75**2), abs=0.01)
    assert r2(z, v) == pytest.approx(1 / (1 + 0.75**2), abs=0.01)
    rho = 1 / math.sqrt(1 + 0.75**2)
    assert mcc(z, v, spearman=True) == pytest.approx(6 / math.pi * math.asin(rho / 2), abs=0.01)


def test_a_repeated_code_is_neither_better_nor_worse(v):
    assert mcc(np.hstack([v, v]), v) == pytest.approx(1)
    assert r2(np.hstack([v, v]), v) == pytest.approx(1)


# --- kinds of factors -------------------------------------------------------------------------------------------------


def test_a_circle_is_told_from_its_sine_and_cosine_if_it_is_known_to_be_one():
    v = np.random.default_rng(0).integers(24, size=(3_000, 1))
    z = np.hstack([np.cos(2 * np.pi * v / 24), np.sin(2 * np.pi * v / 24)])
    assert r2(z, v, kinds=["circular"]) == pytest.approx(1)
    assert r2(z, v) < 0.8


def test_categories_are_told_from_their_indicators_in_any_order():
    rng = np.random.default_rng(0)
    v = rng.integers(5, size=3_000)
    z = np.eye(5)[v] @ rng.normal(size=(5, 4))  # any four numbers tell five categories
    assert r2(z, v, kinds=["categorical"]) == pytest.approx(1)
    assert r2(z, np.array([3, 0, 4, 1, 2])[v], kinds=["categorical"]) == pytest.approx(1)


# --- precision, repetition, refusals ----------------------------------------------------------------------------------


def test_single_precision_tensors_and_repeated_rows_give_the_same(v):
    z = v @ np.random.default_rng(2).normal(size=(K, 4)) + 0.5
    twice = np.repeat(np.arange(len(z)), 2)
    for options in ({}, {"spearman": True}, {"through": Linear()}):
        whole = mcc(z, v, **options)
        assert mcc(torch.from_numpy(z).float(), torch.from_numpy(v), **options) == pytest.approx(whole, abs=1e-5)
        assert mcc(z[twice], v[twice], **options) == pytest.approx(whole, abs=1e-6)


def test_the_linear_map_is_least_squares(v):
    rng = np.random.default_rng(3)
    z, y = rng.normal(size=(200, 4)) * [1e-3, 1, 1e4, 1] + 7, rng.normal(size=(200, 2))
    design = np.hstack([z, np.ones((200, 1))])
    expected = design @ np.linalg.lstsq(design, y, rcond=None)[0]
    np.testing.assert_allclose(Linear()(z, y, z), expected, atol=1e-8)
    again = Linear()(np.hstack([z, z]), y, np.hstack([z, z]))
    np.testing.assert_allclose(again, expected, atol=1e-6)


def test_the_network_stays_within_the_values_it_learned(v):
    far = np.vstack([v, 1e4 * np.ones((1, K))])
    told = Network(epochs=3)(v, v[:, :1], far)
    assert told.shape == (len(v) + 1, 1)
    assert v[:, 0].min() <= told.min() <= told.max() <= v[:, 0].max()
    some = Network(epochs=30, rows=500)(v, v, v)
    assert np.square(some - v).mean() < 0.05


def test_a_factor_that_does_not_vary_is_refused(v):
    still = np.column_stack([v[:, 0], np.zeros(len(v))])
    for metric in (match, mcc, r2):
        with pytest.raises(Unmeasurable, match=r"must vary, and factor 1 has one value in the \d000 rows to learn fr"):
            metric(v, still)


# --- through a probe --------------------------------------------------------------------------------------------------


class Itself(Representation):
    def codes(self, x):
        return x


def test_both_metrics_learn_their_maps_once(monkeypatch):
    world = Unmixed()
    probe = Probe(Itself(Spec(world.shape), len(world.factors)), world, samples=1_500)
    calls = []
    fit = Network.__call__
    monkeypatch.setattr(Network, "__call__", lambda *a, **k: calls.append(1) or fit(*a, **k))
    results = [*MCC()(probe, chance=False), *R2()(probe, chance=False)]
    assert [r.metric for r in results] == ["mcc.strong", "mcc.linear", "mcc.nonlinear", "r2.linear", "r2.nonlinear"]
    assert [r.value for r in results] == pytest.approx([1] * 5, abs=0.01)
    assert len(calls) == 2  # for the codes, and for the factors themselves, which give the ceiling
