"""Rankings of models by how they agree: beside disentanglement_lib, and where the right order is known."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.reference.arrays import inputs
from whence.metrics import lasso_similarity, spearman_similarity, udr
from whence.metrics.udr import lasso, relative_strength

GOLDEN = json.loads((Path(__file__).parent.parent / "reference" / "udr.json").read_text())["results"]
MODELS = ("identity", "rotated", "pair45", "noisy", "random")
SIMILARITY = {"lasso": lasso_similarity, "spearman": spearman_similarity}


def turned(d: int, seed: int) -> np.ndarray:
    return np.linalg.qr(np.random.default_rng(seed).normal(size=(d, d)))[0]


@pytest.fixture(scope="module")
def v() -> np.ndarray:
    return np.random.default_rng(0).normal(size=(3000, 4))


# --- unsupervised disentanglement ranking ----------------------------------------------------------------------------


@pytest.mark.parametrize("case", GOLDEN)
def test_with_the_studys_average_it_is_that_of_disentanglement_lib(case):
    of, _, similarity = case.split()
    codes = [inputs(of, name).z for name in MODELS]
    found = udr(codes, kl=GOLDEN[case]["kl"], similarity=SIMILARITY[similarity], study=True)
    assert found.models == pytest.approx(np.array(GOLDEN[case]["models"]), abs=1e-6)
    assert found.pairs == pytest.approx(np.array(GOLDEN[case]["pairs"]), abs=1e-6)


@pytest.mark.parametrize("similarity", SIMILARITY.values())
def test_models_that_agree_up_to_order_sign_and_scale_are_best_and_rotated_ones_are_not(similarity, v):
    models = [v, -3 * v[:, [2, 0, 3, 1]], v[:, ::-1] * [1, 10, 100, -1], v @ turned(4, 1), v @ turned(4, 2)]
    found = udr(models, similarity=similarity)
    assert (found.models[:3] > 1.2 * found.models[3:].max()).all()
    if similarity is spearman_similarity:
        assert found.pairs[:3, :3].max() == pytest.approx(0.97, abs=0.04)  # independent columns correlate a little
    else:
        agreed = found.pairs[:3, :3][~np.eye(3, dtype=bool)]
        assert agreed == pytest.approx(np.full(6, 0.9), abs=1e-6)  # a weight of 1, shrunk by alpha


@pytest.mark.parametrize("similarity", SIMILARITY.values())
def test_models_that_know_nothing_of_each_other_have_nothing(similarity):
    noise = np.random.default_rng(1).normal(size=(4, 3000, 4))
    assert udr(noise, similarity=similarity).models.max() < 0.03


@pytest.mark.parametrize("similarity", SIMILARITY.values())
def test_a_pair_is_the_formula_of_the_paper(similarity, v):
    a, b = v[:, :3] + 0.1 * v[:, 1:], v[:, [1, 0]] + 0.3 * v[:, 2:]
    found = udr([a, b], similarity=similarity)
    r = similarity([a, b])[:3, 3:]
    by_column = [max(r[:, k]) ** 2 / sum(r[:, k]) for k in range(2)]
    by_row = [max(r[k]) ** 2 / sum(r[k]) for k in range(3)]
    assert found.pairs[0, 1] == pytest.approx((sum(by_column) + sum(by_row)) / 5)
    assert found.models[1] == found.pairs[0, 1]
    study = udr([a, b], similarity=similarity, study=True).pairs[0, 1]
    assert study == pytest.approx((sum(by_column) / 2 + sum(by_row) / 3) / 2)


def test_dimensions_that_say_nothing_are_left_out_by_their_divergence_or_because_they_are_constant(v):
    noise = np.random.default_rng(2).normal(size=v.shape)
    other = v[:, [1, 0, 3, 2]]
    with_noise, with_constant = np.hstack([other, noise]), np.hstack([other, 0 * noise + 3])
    clean = udr([v, other]).models
    assert udr([v, with_noise], kl=[np.ones(4), [1, 1, 1, 1, 0.01, 0.005, 0, 0]]).models == pytest.approx(clean)
    assert udr([v, with_constant]).models == pytest.approx(clean)
    assert (udr([v, with_noise]).models < clean).all()


def test_a_model_without_informative_dimensions_has_nothing(v):
    found = udr([v, v, v], kl=[np.ones(4), np.ones(4), np.zeros(4)])
    assert found.models[2] == 0
    assert udr([v, v, np.zeros_like(v)]).models[2] == 0
    assert relative_strength(np.zeros((3, 3))) == 0
    assert relative_strength(np.zeros((3, 0))) == 0


def test_rank_correlations_forgive_what_is_monotone_and_weights_do_not(v):
    bent = np.exp(v[:, ::-1])
    assert udr([v, bent], similarity=spearman_similarity).models == pytest.approx(
        udr([v, v], similarity=spearman_similarity).models
    )
    assert udr([v, bent]).models.max() < udr([v, v]).models.min() - 0.1


def test_the_lasso_is_that_of_scikit_learn_at_its_end():
    from sklearn.linear_model import Lasso

    rng = np.random.default_rng(0)
    x = rng.normal(size=(400, 6)) @ rng.normal(size=(6, 6))
    y = x @ rng.normal(size=(6, 3)) + rng.normal(size=(400, 3))
    x, y = ((a - a.mean(0)) / a.std(0) for a in (x, y))
    for alpha in (0.01, 0.1, 0.5):
        expected = Lasso(alpha=alpha, tol=1e-12, max_iter=100_000).fit(x, y).coef_.T
        assert lasso(x.T @ x / 400, x.T @ y / 400, alpha, 10_000) == pytest.approx(expected, abs=1e-7)
    with pytest.raises(ArithmeticError, match="has not settled after 2 sweeps"):
        lasso(x.T @ x / 400, x.T @ y / 400, 0.01, 2)


def test_duplicated_dimensions_are_an_answer_and_not_an_error(v):
    found = udr([np.hstack([v, v]), v[:, ::-1]]).models
    assert np.isfinite(found).all()
    assert (found < udr([v, v[:, ::-1]]).models).all()


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_order_and_sign_do_not_matter_and_results_are_bounded(seed):
    rng = np.random.default_rng(seed)
    base = rng.normal(size=(200, 5))
    models = [base @ rng.normal(size=(5, d)) for d in (3, 4, 5)]
    moved = [z[:, rng.permutation(z.shape[1])] * rng.choice([-2, 2]) + 1 for z in models]
    for similarity in SIMILARITY.values():
        found = udr(models, similarity=similarity)
        assert udr(moved, similarity=similarity).models == pytest.approx(found.models, abs=1e-6)
        assert (found.pairs >= 0).all()
        assert (udr([z[::-1].copy() for z in models], similarity=similarity).models) == pytest.approx(found.models)
    assert (udr(models, similarity=spearman_similarity).pairs <= 1).all()


def test_tensors_and_single_precision_agree(v):
    models = [v, v @ turned(4, 1), v @ turned(4, 2)]
    single = udr([torch.from_numpy(z).float() for z in models])
    assert single.models == pytest.approx(udr(models).models, abs=1e-5)


def test_what_cannot_be_compared_is_refused(v):
    with pytest.raises(ValueError, match=r"two models or more, got shapes \(3000, 4\)\."):
        udr([v])
    with pytest.raises(ValueError, match=r"of the same N observations, .* got shapes \(3000, 4\), \(2999, 4\)"):
        udr([v, v[1:]])
    with pytest.raises(ValueError, match=r"got NaN or infinity from model 1. Leave it out"):
        udr([v, np.where(v > 3, np.nan, v)])
    with pytest.raises(ValueError, match=r"a divergence for each code of each model: \[4, 4\], got \[4, 3\]"):
        udr([v, v], kl=[np.ones(4), np.ones(3)])
