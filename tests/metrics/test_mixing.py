"""Effective mixing: exact for linear maps, and its errors by hand and beside the authors' formula."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.metrics.caused import Caused, Graphed, N
from whence.metrics import (
    ParentMixing,
    Probe,
    ScaleMixing,
    Unmeasurable,
    effective_mixing,
    evaluate,
    mixing_error,
    scale_mixing,
    with_ancestors,
    with_parents,
    with_surrounding,
)
from whence.metrics.mixing import normalised
from whence.scm.graph import random_graph
from whence.worlds import Unmixed

A = Caused().graph.numpy()  # a -> b, a -> c, b -> c, c -> d, b -> e


@pytest.fixture(scope="module")
def v() -> np.ndarray:
    return Caused().draw(4000, rng=torch.Generator().manual_seed(0)).double().numpy()


def authors(m: np.ndarray, allowed: np.ndarray) -> tuple[float, float]:
    """The quantities of acarturk-e/score-based-crl@abb5a09 (LSCALE-I/l_scale_i_test.py), in words: rows of unit length
    and of positive diagonal; 2-norm of what is not allowed; entries there of at least .05, over how many there are."""
    unit = m * (np.sign(np.diagonal(m)) / np.sqrt((m**2).sum(1)))[:, None]
    many = m.size - allowed.sum()
    norm = np.sqrt(np.linalg.eigvalsh((unit * ~allowed).T @ (unit * ~allowed)).max())
    return norm, ((abs(unit) >= 0.05) & ~allowed).sum() / many


# --- the matrix ------------------------------------------------------------------------------------------------------


def test_the_mixing_of_a_linear_encoder_is_encoder_times_mixing(v):
    rng = np.random.default_rng(0)
    g, h = rng.normal(size=(20, N)), rng.normal(size=(7, 20))
    z = (v @ g.T) @ h.T + 3.0
    assert effective_mixing(z, v) == pytest.approx(h @ g, abs=1e-10)
    assert effective_mixing(z, v, standardise=True) == pytest.approx((h @ g) * v.std(0), abs=1e-10)
    assert effective_mixing(z, v + 100.0) == pytest.approx(h @ g, abs=1e-8)


def test_noise_in_the_codes_is_averaged_out_and_not_seen(v):
    z = v + 0.5 * np.random.default_rng(1).normal(size=v.shape)
    assert effective_mixing(z, v) == pytest.approx(np.eye(N), abs=0.06)
    assert scale_mixing(z, v).norm < 0.06


def test_single_precision_and_tensors_agree(v):
    z = v @ np.random.default_rng(2).normal(size=(N, N))
    single = effective_mixing(torch.from_numpy(z).float(), torch.from_numpy(v).float())
    assert single == pytest.approx(effective_mixing(z, v), abs=1e-5)


def test_rows_repeated_change_nothing(v):
    z = v @ np.random.default_rng(2).normal(size=(N, N))
    assert effective_mixing(np.tile(z, (2, 1)), np.tile(v, (2, 1))) == pytest.approx(effective_mixing(z, v))


def test_factors_that_do_not_determine_a_mixing_are_refused(v):
    with pytest.raises(Unmeasurable, match=r"factor 1 has one value. Leave it out"):
        effective_mixing(v, np.column_stack([v[:, 0], np.full(len(v), 0.1)]))
    with pytest.raises(Unmeasurable, match=r"no factor may be a linear combination of others"):
        effective_mixing(v, np.column_stack([v, v[:, 0] - 2 * v[:, 1]]))
    with pytest.raises(Unmeasurable, match=r"more rows than factors, got 4"):
        effective_mixing(v[:4], v[:4])
    with pytest.raises(ValueError, match=r"with the same N"):
        effective_mixing(v[1:], v)


# --- what is allowed -------------------------------------------------------------------------------------------------


def names(mask: np.ndarray) -> list[str]:
    return ["".join("abcde"[j] for j in np.flatnonzero(row)) for row in mask]


def test_what_is_allowed_by_hand():
    assert names(with_parents(A)) == ["a", "ab", "abc", "cd", "be"]
    assert names(with_ancestors(A)) == ["a", "ab", "abc", "abcd", "abe"]
    # d and e have no effects, so all their causes surround them; b's effect e is none of a, c's effect d none of a, b
    assert names(with_surrounding(A)) == ["a", "b", "c", "cd", "be"]
    assert names(with_surrounding(torch.tensor([[0, 1, 1], [0, 0, 1], [0, 0, 0]]))) == ["a", "ab", "abc"]


@pytest.mark.parametrize("seed", range(10))
def test_what_is_allowed_grows_from_surrounding_parents_to_parents_to_ancestors(seed):
    a = random_graph(7, probability=0.4, shuffle=True, rng=torch.Generator().manual_seed(seed))
    few, some, many = with_surrounding(a), with_parents(a), with_ancestors(a)
    assert (few <= some).all()
    assert (some <= many).all()
    m = np.random.default_rng(seed).random((7, 7))  # without signs, which could cancel in a norm
    assert mixing_error(m, many).norm <= mixing_error(m, some).norm <= mixing_error(m, few).norm
    assert mixing_error(m, few).norm <= mixing_error(m).norm
    children = [set(np.flatnonzero(row)) for row in a.numpy()]
    for i in range(7):
        expected = {i} | {j for j in range(7) if a[j, i] and children[i] <= children[j]}
        assert set(np.flatnonzero(few[i])) == expected


# --- the error -------------------------------------------------------------------------------------------------------


def test_the_error_by_hand():
    m = np.array([[3.0, 4.0], [0.0, -2.0]])  # rows of length 5 and 2
    assert mixing_error(m) == (pytest.approx(0.8), 0.5)
    assert mixing_error(m, [[1, 1], [0, 1]]) == (0.0, 0.0)
    assert mixing_error(m, np.ones((2, 2))) == (0.0, 0.0)
    assert mixing_error(m, small=0.9) == (pytest.approx(0.8), 0.0)
    assert normalised(m) == pytest.approx(np.array([[0.6, 0.8], [0.0, 1.0]]))


@pytest.mark.parametrize("seed", range(10))
def test_the_error_is_that_of_the_authors(seed):
    rng = np.random.default_rng(seed)
    m = rng.normal(size=(N, N)) * (rng.random((N, N)) < 0.6) + np.diag(rng.choice([-2, 2], N))
    for allowed in (np.eye(N, dtype=bool), with_parents(A), with_surrounding(A)):
        norm, share = mixing_error(m, allowed)
        expected = authors(m, allowed)
        assert norm == pytest.approx(expected[0], abs=1e-12)
        assert share == pytest.approx(expected[1], abs=1e-12)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_order_sign_and_scale_of_codes_do_not_matter_once_matched(seed):
    rng = np.random.default_rng(seed)
    m = rng.normal(size=(N, N))
    scale = rng.choice([-1, 1], N) * 10.0 ** rng.uniform(-6, 6, N)
    moved = (m * scale[:, None])[rng.permutation(N)]
    one, two = mixing_error(m, with_parents(A), matched=True), mixing_error(moved, with_parents(A), matched=True)
    assert two == pytest.approx(one, abs=1e-12)
    assert 0 <= one.norm <= np.sqrt(N)
    assert 0 <= one.share <= 1


def test_rows_too_many_are_left_out_if_matched():
    m = np.vstack([np.zeros(3), np.ones(3), np.eye(3)[[2, 0, 1]] * [[-5], [1], [2]]])
    assert mixing_error(m, matched=True) == (0, 0)
    with pytest.raises(Unmeasurable, match=r"got 5 codes and 3 factors. Keep as many codes as factors, or use matched"):
        mixing_error(m)
    with pytest.raises(Unmeasurable, match=r"got 3 codes and 5 factors. Learn with more latents"):
        mixing_error(m.T, matched=True)


def test_a_code_that_holds_nothing_is_an_error_and_not_a_perfect_row(v):
    z = v.copy()
    z[:, 2] = 0.3
    for matched in (False, True):
        with pytest.raises(Unmeasurable, match=r"stands for factor 2 is 0: its code does not depend on any"):
            mixing_error(effective_mixing(z, v), matched=matched)
    z[:, 2] = 1e-3 * np.random.default_rng(0).normal(size=len(v))
    assert mixing_error(effective_mixing(z, v)).norm > 0.3


def test_a_mask_of_another_shape_and_a_matrix_that_is_not_finite_are_refused():
    with pytest.raises(ValueError, match=r"has the mixing's shape \(2, 2\), got \(3, 3\)"):
        mixing_error(np.eye(2), np.eye(3))
    with pytest.raises(ValueError, match=r"is a finite matrix \(codes, factors\), got shape \(2, 2\)"):
        mixing_error(np.full((2, 2), np.nan))


# --- on a representation ---------------------------------------------------------------------------------------------

METRICS = [ScaleMixing(), ParentMixing()]


@pytest.mark.parametrize("order", [[0, 1, 2, 3, 4], [4, 2, 0, 3, 1]])
def test_codes_that_are_the_factors_are_best_and_beat_chance(order):
    found = evaluate(Graphed(-3 * np.eye(N)[:, order], A), Caused(), metrics=METRICS, samples=3000)
    assert [r.metric for r in found] == ["scale_mixing", "scale_mixing.share", "parent_mixing", "parent_mixing.share"]
    assert [r.value for r in found] == pytest.approx([0, 0, 0, 0], abs=1e-6)
    assert all(r.chance > 0.3 for r in found)


def test_parents_in_a_code_are_forgiven_by_one_and_not_by_the_other():
    m = np.eye(N) + 0.5 * A.T * np.eye(N)[:, [0, 1, 2, 3, 4]].sum(0)
    found = evaluate(Graphed(m.T, A), Caused(), metrics=METRICS, samples=2000, chance=False)
    assert found["parent_mixing"].value == pytest.approx(0, abs=1e-5)
    assert found["scale_mixing"].value == pytest.approx(mixing_error(m).norm, abs=1e-5)
    assert found["scale_mixing.share"].value == pytest.approx(A.sum() / 20)


def test_a_missing_factor_is_noticed():
    result = evaluate(Graphed(np.eye(N)[:, :4], A), Caused(), metrics=[ScaleMixing()], samples=500)[0]
    assert result.value is None
    assert "got 4 codes and 5 factors" in result.note
    twice = evaluate(Graphed(np.eye(N)[:, [0, 1, 2, 3, 3]], A), Caused(), metrics=[ScaleMixing()], samples=500)[0]
    assert twice.value == pytest.approx(1, abs=1e-5)


def test_parents_need_a_graph_and_scale_does_not():
    from whence.check import Identity

    probe = Probe(Identity(Unmixed().singles().spec, 5).frozen(), Unmixed(), samples=400)
    assert ParentMixing()(probe)[0].note == "needs a world with a graph, which Unmixed has not"
    assert ScaleMixing()(probe)[0].value == pytest.approx(0, abs=1e-6)
    assert not ScaleMixing().suits(Unmixed())
