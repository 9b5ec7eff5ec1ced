"""InfoMEC."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import softmax

from tests.metrics.test_metrics import Itself, Plain
from tests.reference.arrays import inputs
from whence.metrics import (
    InfoMEC,
    Unmeasurable,
    evaluate,
    info_mec,
    linear_information,
    mutual_information,
    neighbour_information,
)
from whence.metrics.infomec import discriminant, dominance, explained, kth_distance

GOLDEN = json.loads((Path(__file__).parents[1] / "reference/latent_quantization.json").read_text())["tiny"]


@pytest.fixture(scope="module")
def v() -> np.ndarray:
    rng = np.random.default_rng(0)
    return np.stack([rng.integers(n, size=4_000) for n in (3, 6, 20)], 1)


@pytest.fixture(scope="module")
def noise() -> np.ndarray:
    return np.random.default_rng(1).normal(size=(4_000, 6))


# --- the authors' numbers ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("representation", GOLDEN)
def test_the_authors_numbers(representation):
    z, v, _, _ = inputs("tiny", representation)
    golden = GOLDEN[representation]
    if not golden["discrete"]:  # of discrete codes, the noise that splits ties would decide
        h = mutual_information(v, v).of_factors
        np.testing.assert_allclose(neighbour_information(z, v) / h, np.transpose(golden["nmi"]), atol=1e-9)
    if golden["infom"] == "nan":
        with pytest.raises(Unmeasurable, match="The published InfoMEC divides by 0 here"):
            info_mec(z, v, study=True)
        assert info_mec(z, v) == pytest.approx((0, 0, 0), abs=0.01)
        return
    found = info_mec(z, v, study=True, discrete=golden["discrete"])
    assert found == pytest.approx((golden["infom"], golden["infoe"], golden["infoc"]), abs=1e-6)


def test_noise_looks_modular_in_the_published_estimate_and_not_in_ours():
    rng = np.random.default_rng(0)
    v = rng.integers([3, 6, 10], size=(1_000, 3))
    z = rng.normal(size=(1_000, 8))
    for seed in range(20):  # a draw in which no estimate is 0 throughout
        try:
            published = info_mec(rng.normal(size=z.shape), v, study=True, seed=seed)
            break
        except Unmeasurable:
            continue
    assert published.modularity > 0.3
    assert info_mec(z, v) == pytest.approx((0, 0, 0), abs=1e-3)


# --- anchors ----------------------------------------------------------------------------------------------------------


def test_the_factors_themselves_are_perfect(v):
    assert info_mec(v, v) == pytest.approx((1, 1, 1), abs=0.005)


def test_noise_and_dead_codes_take_no_part(v, noise):
    z = np.column_stack([v, noise, np.full(len(v), 0.1)])
    assert info_mec(z, v) == pytest.approx((1, 1, 1), abs=0.005)
    assert info_mec(noise, v) == pytest.approx((0, 0, 0), abs=0.005)
    assert info_mec(np.ones((len(v), 3)), v) == (0, 0, 0)


def test_a_missing_factor_costs_explicitness_and_compactness(v):
    m, e, c = info_mec(v[:, :2], v)
    assert m == pytest.approx(1, abs=1e-9)
    assert (e, c) == pytest.approx((2 / 3, 2 / 3), abs=0.005)


def test_a_repeated_code_costs_compactness_alone(v):
    m, e, c = info_mec(np.hstack([v, v]), v)
    assert (m, e) == pytest.approx((1, 1), abs=0.005)
    assert c == pytest.approx((1 / 2 - 1 / 6) / (1 - 1 / 6), abs=0.005)


def test_turned_codes_are_explicit_and_neither_modular_nor_compact():
    rng = np.random.default_rng(0)
    v = rng.integers(7, size=(4_000, 2))
    m, e, c = info_mec(v @ np.array([[1, 1], [1, -1]]), v)
    assert e == pytest.approx(1, abs=0.005)
    assert max(m, c) < 0.05


def test_one_code_of_one_factor_is_modular_and_of_two_is_not():
    v = np.random.default_rng(0).integers(5, size=(3_000, 2))
    assert info_mec(v[:, :1], v)[::2] == pytest.approx((1, 1 / 2), abs=1e-9)  # the other factor is in no code
    assert info_mec((5 * v[:, 0] + v[:, 1])[:, None], v, bins=25).modularity == pytest.approx(0, abs=0.01)


def test_dominance_is_how_much_is_in_the_greatest():
    rows = np.array([[3, 0, 0], [1, 1, 1], [0, 0, 0], [2, 1, 1.0]])
    np.testing.assert_allclose(dominance(rows), [1, 0, 0, 0.25], atol=1e-12)
    assert dominance(np.array([[2.0], [0.0]])).tolist() == [1, 0]


@given(seed=st.integers(0, 2**32 - 1), log_scale=st.integers(-20, 20))
@settings(max_examples=6, deadline=None)
def test_order_sign_and_scale_do_not_matter(seed, log_scale):
    rng = np.random.default_rng(seed)
    v = rng.integers(4, size=(480, 3))
    z = v @ rng.normal(size=(3, 4)) + 0.3 * rng.normal(size=(480, 4))
    expected = info_mec(z, v, bins=16)
    assert all(0 <= part <= 1 for part in expected)
    codes, factors = rng.permutation(4), rng.permutation(3)
    assert info_mec(-z[:, codes] * 2.0**log_scale, v[:, factors], bins=16) == pytest.approx(expected, abs=1e-6)


def test_explicitness_is_blind_to_linear_maps(v, noise):
    z = v + 0.3 * noise[:, :3]
    turned = z @ np.random.default_rng(0).normal(size=(3, 3)) + 7
    assert linear_information(turned, v) == pytest.approx(linear_information(z, v), abs=1e-4)


def test_kinds_of_arrays_and_continuous_factors(v, noise):
    z = (v + 0.3 * noise[:, :3]).astype(np.float32)
    assert info_mec(torch.from_numpy(z), torch.from_numpy(v)) == info_mec(z, v)
    assert info_mec(z, v) == pytest.approx(info_mec(z.astype(np.float64), v), abs=1e-6)
    smooth = np.random.default_rng(0).uniform(size=(6_000, 3))
    assert info_mec(smooth, smooth) == pytest.approx((1, 1, 1), abs=0.03)
    assert info_mec(smooth[::-1], smooth) == pytest.approx((0, 0, 0), abs=0.01)


# --- explicitness: what a linear model can tell -----------------------------------------------------------------------


@pytest.mark.parametrize("sigma", [0.3, 1.0])
def test_linear_information_of_a_gaussian_channel_is_what_bayes_rule_tells(sigma):
    rng = np.random.default_rng(0)
    v = rng.integers(5, size=(30_000, 1))
    z = v + sigma * rng.normal(size=v.shape)
    told = softmax(-np.square((z - np.arange(5)) / sigma) / 2, axis=1)[np.arange(len(v)), v[:, 0]]
    assert linear_information(z, v) == pytest.approx(1 + np.log(told).mean() / math.log(5), abs=0.01)


def test_linear_information_is_not_far_from_the_most_likely_linear_model():
    """Skewed noise, which no discriminant is made for."""
    from sklearn.linear_model import LogisticRegression

    rng = np.random.default_rng(0)
    v = rng.integers(4, size=(6_000, 1))
    z = np.column_stack([v[:, 0] + rng.exponential(size=6_000), rng.normal(size=6_000)])
    model = LogisticRegression(C=1e6, max_iter=500).fit(z[:4_000], v[:4_000, 0])
    told = model.predict_proba(z[4_000:])[np.arange(2_000), v[4_000:, 0]]
    best = 1 + np.log(told).mean() / math.log(4)
    assert best - 0.05 < linear_information(z, v) < best + 0.01


def test_what_is_not_linear_is_not_explicit():
    v = np.arange(6_000)[:, None] % 3
    z = np.abs(v - 1) + 0.01 * np.random.default_rng(0).normal(size=v.shape)  # 0 and 2 look the same
    assert linear_information(z, v) == pytest.approx(1 - 2 / 3 * math.log(2) / math.log(3), abs=0.01)


@pytest.mark.parametrize("where", [0, -1])
def test_one_wild_row_to_learn_from_or_to_test_on_changes_little(where, v, noise):
    z = v + 0.05 * noise[:, :3]
    wild = z.copy()
    wild[where] = 1e4
    assert linear_information(wild, v) == pytest.approx(linear_information(z, v), abs=0.02)


def test_values_that_were_not_learnt_cost_no_more_than_ignorance():
    v = np.repeat([0, 1, 2], 100)[:, None]  # the last third holds only what was never seen
    assert linear_information(v, v) == 0
    one = np.zeros(40, int)
    assert 0 <= explained(np.zeros((40, 1)), one, np.zeros((20, 1)), np.ones(20, int)) <= 1


def test_the_discriminant_is_that_of_two_gaussians():
    rng = np.random.default_rng(0)
    y = np.arange(50_000) % 2
    z = np.column_stack([2 * y, y]) + rng.normal(size=(50_000, 2)) @ np.array([[1, 0.5], [0, 1]])
    weight, offset = discriminant(z, y, np.bincount(y))
    covariance = np.array([[1, 0.5], [0.5, 1.25]])
    direction = np.linalg.solve(covariance, [2, 1])
    np.testing.assert_allclose(weight[:, 1] - weight[:, 0], direction, atol=0.05)
    assert offset[1] - offset[0] == pytest.approx(-np.array([2, 1]) @ direction / 2, abs=0.05)


# --- neighbours -------------------------------------------------------------------------------------------------------


def test_neighbours_find_the_information_of_a_gaussian_channel():
    rng = np.random.default_rng(0)
    v = rng.integers(4, size=(8_000, 1))
    z = v + 0.4 * rng.normal(size=v.shape)
    x = np.linspace(-4, 8, 20_001)
    p = (np.exp(-0.5 * ((x[:, None] - np.arange(4)) / 0.4) ** 2) / (0.4 * math.sqrt(2 * math.pi))).mean(1)
    expected = -np.trapezoid(p * np.log(p.clip(1e-300)), x) - 0.5 * math.log(2 * math.pi * math.e * 0.16)
    assert neighbour_information(z, v)[0, 0] == pytest.approx(expected, abs=0.03)


def test_neighbours_agree_with_scikit_learn():
    from sklearn.feature_selection import mutual_info_classif

    rng = np.random.default_rng(0)
    v = rng.integers([3, 8], size=(500, 2))
    z = np.column_stack([v[:, 0] + rng.normal(size=500), 1e3 * v[:, 1] + 900 * rng.normal(size=500)])
    expected = np.stack([mutual_info_classif(z, y, n_neighbors=5, random_state=0) for y in v.T], 1)
    np.testing.assert_allclose(neighbour_information(z, v, neighbours=5), expected, atol=1e-9)


def test_a_value_that_occurs_once_has_no_neighbours_and_is_left_out():
    rng = np.random.default_rng(0)
    v = np.arange(300)[:, None] % 3
    z = v + rng.normal(size=v.shape)
    more = neighbour_information(np.append(z, z.mean()), np.append(v, 99))
    assert more == pytest.approx(neighbour_information(z, v), abs=1e-3)


@given(st.lists(st.integers(-50, 50), min_size=3, max_size=30, unique=True), st.integers(1, 2))
@settings(max_examples=30, deadline=None)
def test_the_distance_to_the_kth_neighbour(numbers, k):
    ranked = np.sort(numbers).astype(float)
    apart = np.sort(np.abs(ranked[:, None] - ranked), axis=1)
    np.testing.assert_array_equal(kth_distance(ranked, k), apart[:, k])


# --- as a metric ------------------------------------------------------------------------------------------------------


def test_a_probe_gives_three_numbers_with_chance_levels_and_intervals():
    found = evaluate(Itself(), Plain(hide=True), metrics=[InfoMEC()], samples=2_000, bootstrap=5)
    assert [r.metric for r in found] == ["info_mec.modularity", "info_mec.explicitness", "info_mec.compactness"]
    assert [r.value for r in found] == pytest.approx([1, 2 / 3, 2 / 3], abs=0.01)
    assert [r.chance for r in found] == pytest.approx([0, 0, 0], abs=0.01)
    assert all(r.interval[1] - r.interval[0] < 0.02 for r in found)


def test_the_published_estimate_is_a_setting_and_the_seed_that_of_the_probe():
    metric = InfoMEC(study=True, discrete=True)
    found = [evaluate(Itself(), Plain(), metrics=[metric], samples=1_000, chance=False) for _ in range(2)]
    assert [r.value for r in found[0]] == [r.value for r in found[1]] == pytest.approx([1, 1, 1], abs=0.02)


@pytest.mark.parametrize("study", [False, True])
def test_refusals(study, v):
    with pytest.raises(Unmeasurable, match="needs two factors"):
        info_mec(v, v[:, 0], study=study)
    with pytest.raises(Unmeasurable, match="factor must vary, and factor 3 has one value"):
        info_mec(v, np.column_stack([v, np.ones(len(v))]), study=study)
