"""The maximal and the total information coefficient."""

import itertools
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.metrics.test_metrics import Itself, Plain
from tests.reference.arrays import inputs
from whence.metrics import MIC, Unmeasurable, characteristic_matrix, coefficients, evaluate, mic, tic
from whence.metrics.mic import equal_parts, matched, middles

GOLDEN = json.loads((Path(__file__).parents[1] / "reference/minepy.json").read_text())["pairs"]


def sine() -> tuple[np.ndarray, np.ndarray]:
    x = np.linspace(0, 1, 1000)
    return x, np.sin(10 * np.pi * x) + x


@pytest.mark.parametrize("golden", GOLDEN, ids=lambda g: f"{g.get('representation', 'sine')}-{g.get('rows', 1000)}")
def test_minepys_numbers(golden):
    x, y = sine()
    if "representation" in golden:
        z, v, _, _ = inputs("dsprites", golden["representation"])
        x, y = z[: golden["rows"], golden["code"]], v[: golden["rows"], golden["factor"]]
    options = {"alpha": golden["alpha"], "c": golden["c"]}
    assert mic(x, y, **options) == pytest.approx(golden["mic"], abs=1e-9)
    assert tic(x, y, **options) == pytest.approx(golden["tic"], abs=1e-8)
    assert tic(x, y, normalised=True, **options) == pytest.approx(golden["tic_norm"], abs=1e-9)


def test_the_example_of_the_literature():
    assert mic(*sine()) == pytest.approx(1.0, abs=1e-12)
    assert tic(*sine()) == pytest.approx(67.661, abs=5e-4)
    assert tic(*sine(), normalised=True) == pytest.approx(0.45717, abs=5e-6)


SHAPES = {
    "line": lambda x: -3 * x + 1,
    "parabola": lambda x: (x - 0.5) ** 2,
    "cubic": lambda x: (x - 0.2) * (x - 0.5) * (x - 0.9),
    "exponential": lambda x: np.exp(8 * x),
    "step": lambda x: x > 0.5,
    "two waves": lambda x: np.cos(4 * np.pi * x),
}


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES.keys())
def test_functions_without_noise_are_found_in_any_shape(shape):
    x = np.random.default_rng(0).uniform(size=1_000)
    assert mic(x, shape(x)) == pytest.approx(1.0, abs=0.02)


def test_a_circle_is_found_and_noise_hides_it():
    rng = np.random.default_rng(0)
    turn = rng.uniform(0, 2 * np.pi, size=800)
    found = [mic(np.cos(turn) + s * rng.normal(size=800), np.sin(turn) + s * rng.normal(size=800)) for s in (0, 0.2, 1)]
    assert found[0] > 0.6
    assert found[0] > found[1] > found[2]


def test_independent_variables_are_near_nothing_and_nearer_with_more_of_them():
    rng = np.random.default_rng(0)
    found = [mic(rng.normal(size=n), rng.normal(size=n)) for n in (100, 400, 1_600)]
    assert found[0] > found[1] > found[2]
    assert found[2] < 0.13


@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=15, deadline=None)
def test_both_are_symmetric_bounded_and_blind_to_monotone_maps(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 300))
    x = rng.normal(size=n) if seed % 2 else rng.integers(5, size=n).astype(float)
    y = np.round(x + rng.normal(size=n), int(rng.integers(3)))
    m = characteristic_matrix(x, y)
    assert all(0 <= share <= 1 + 1e-12 for share in m.values())
    back = characteristic_matrix(y, x)
    assert set(m) == set(back)
    assert all(back[b, a] == pytest.approx(share, abs=1e-12) for (a, b), share in m.items())
    assert characteristic_matrix(np.arctan(x), 2 * y + 1) == m
    rows = rng.permutation(n)
    assert characteristic_matrix(x[rows], y[rows]) == pytest.approx(m, abs=1e-12)


def test_the_dynamic_programme_finds_the_best_of_all_grids():
    """Of all cuts of one variable, with the other in two or three parts of equal counts, tried one by one."""
    rng = np.random.default_rng(0)
    n = 24
    x, y = np.arange(n), rng.normal(size=n)

    def share(columns, rows):
        joint = np.zeros((3, 3))
        np.add.at(joint, (columns, rows), 1 / n)
        p, q = joint.sum(1, keepdims=True), joint.sum(0, keepdims=True)
        seen = joint > 0
        return (joint[seen] * np.log(joint[seen] / (p * q)[seen])).sum() / np.log(2)

    def best(free, equal, cuts):
        """Of all ways to cut the one variable, with the other in parts of equal counts."""
        rank = free.argsort().argsort()
        ways = itertools.combinations(range(1, n), cuts)
        return max(share(sum((rank >= at).astype(int) for at in way), equal) for way in ways)

    def equally(variable, parts):
        return variable.argsort().argsort() * parts // n

    m = characteristic_matrix(x, y, alpha=0.62, c=100)  # up to 7 cells
    assert set(m) == {(2, 2), (2, 3), (3, 2)}
    assert m[2, 2] == pytest.approx(max(best(x, equally(y, 2), 1), best(y, equally(x, 2), 1)))
    assert m[3, 2] == pytest.approx(max(best(x, equally(y, 2), 2), best(y, equally(x, 3), 1)))
    assert m[2, 3] == pytest.approx(max(best(y, equally(x, 2), 2), best(x, equally(y, 3), 1)))


@given(counts=st.lists(st.integers(1, 9), min_size=1, max_size=30), parts=st.integers(1, 12))
@settings(max_examples=60, deadline=None)
def test_equal_parts_are_made_of_whole_values_and_each_is_as_near_its_share_as_can_be(counts, parts):
    edges = np.concatenate([[0], np.cumsum(counts)])
    chosen = equal_parts(edges, middles(edges), parts)
    assert chosen[0] == 0
    assert chosen[-1] == edges[-1]
    assert set(chosen) <= set(edges)
    assert 1 <= len(chosen) - 1 <= min(parts, len(counts))
    for done, (begin, end) in enumerate(itertools.pairwise(chosen[:-1])):
        share = (edges[-1] - begin) / (parts - done)
        assert abs(end - begin - share) <= np.abs(edges[edges > begin] - begin - share).min() + 1e-9


def test_a_constant_tells_nothing():
    x = np.random.default_rng(0).normal(size=200)
    assert mic(x, np.ones(200)) == mic(np.ones(200), x) == pytest.approx(0, abs=1e-9)
    assert tic(np.ones(200), np.ones(200)) == 0


def test_single_precision_does_not_matter():
    x, y = (a.astype(np.float32) for a in sine())
    assert mic(x, y) == mic(x.astype(np.float64), y.astype(np.float64))


# --- codes and factors ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def v() -> np.ndarray:
    rng = np.random.default_rng(0)
    return np.stack([rng.integers(n, size=3_000) for n in (3, 6, 10)], 1)


def test_the_table_is_of_each_code_and_factor_on_drawn_rows(v):
    z = np.column_stack([np.sin(v[:, 2]), -v[:, 0]])
    found = coefficients(z, v, samples=400, seed=3)
    rows = np.random.default_rng(3).permutation(3_000)[:400]
    for j in range(2):
        for k in range(3):
            assert found.mic[j, k] == mic(z[rows, j], v[rows, k])
            assert found.tic[j, k] == pytest.approx(tic(z[rows, j], v[rows, k], normalised=True))


def test_each_factor_has_its_own_code_in_the_best_matching():
    table = np.array([[0.9, 0.8, 0.1], [0.7, 0.1, 0.1]])
    assert matched(table) == pytest.approx((0.8 + 0.7) / 3)
    assert matched(table[:, :2], aligned=True) == pytest.approx((0.9 + 0.1) / 2)
    with pytest.raises(Unmeasurable, match="as many as factors, code k for factor k; got 2 codes and 3 factors"):
        matched(table, aligned=True)


def test_perfect_codes_are_best_in_any_order_and_dealt_ones_far_from_it():
    metrics = [MIC(samples=500), MIC(samples=500, aligned=True)]
    perfect, aligned = (m(probe) for m, probe in zip(metrics, [probe_of()] * 2, strict=True))
    assert [r.metric for r in perfect] == ["mic", "mic.total"]
    assert [r.value for r in perfect] == pytest.approx([1, 1], abs=0.03)
    assert [r.value for r in aligned] == [r.value for r in perfect]
    assert all(r.chance < 0.25 and r.ceiling == r.value for r in perfect)


def probe_of():
    from whence.metrics import Probe

    return Probe(Itself(), Plain(), samples=1_000)


def test_a_missing_factor_is_noticed_and_a_turned_pair_of_codes_too(v):
    found = coefficients(v[:, :2], v, samples=500)
    assert matched(found.mic) == pytest.approx(2 / 3, abs=0.03)
    pair = np.random.default_rng(0).integers(12, size=(1_000, 2))
    turned = pair @ np.array([[1, 1], [1, -1]])
    assert matched(coefficients(turned, pair, samples=500).mic) < 0.6


def test_refusals(v):
    with pytest.raises(Unmeasurable, match=r"factor must vary, and factor 3 has one value in 100 rows. Leave it out"):
        coefficients(v, np.column_stack([v, np.ones(3_000)]), samples=100)
    with pytest.raises(ValueError, match=r"alpha lies in \(0, 1\] and c is positive, got alpha=1.5 and c=15"):
        mic(v[:, 0], v[:, 1], alpha=1.5)
    with pytest.raises(ValueError, match=r"one number a row each, got shapes \(3000, 3\) and \(3000, 1\)"):
        mic(v, v[:, 0])
    with pytest.raises(ValueError, match="with the same N"):
        mic(v[:, 0], v[:-1, 1])
    found = evaluate(Itself(), Plain(hide=True), metrics=[MIC(samples=300)], samples=300)
    assert found["mic"].value == pytest.approx(2 / 3, abs=0.06)
