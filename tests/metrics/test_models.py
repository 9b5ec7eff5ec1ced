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
from whence.metrics import (
    cross_evaluation,
    lasso_similarity,
    model_centrality,
    spearman_similarity,
    udr,
)
from whence.metrics.models import lasso, relative_strength
from whence.representation import Representation
from whence.views import Spec

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


# --- cross-evaluation and centrality ---------------------------------------------------------------------------------

D = 4


class Linear(Representation):
    """z = x W, and back by the transpose of an orthogonal W."""

    def __init__(self, w: np.ndarray) -> None:
        super().__init__(Spec((D,)), w.shape[1])
        self.register_buffer("w", torch.as_tensor(w, dtype=torch.float32))

    def codes(self, x):
        return x @ self.w

    def decode(self, z):
        return z @ self.w.T


FEW = {"samples": 3000, "train": 500, "test": 500, "size": 50}
ALIKE = [np.eye(D), -np.eye(D)[:, [2, 0, 3, 1]], np.eye(D)[:, ::-1].copy()]


def test_models_of_the_same_codes_know_each_other_and_turned_ones_do_not():
    half = np.array([[1, 1], [1, -1]]) / np.sqrt(2)  # a turn by 45 degrees, of two pairs of codes or of all four
    models = [Linear(w) for w in (*ALIKE, np.kron(np.eye(2), half), np.kron(half, half))]
    b = cross_evaluation(models, **FEW)
    assert b[:3, :3] == pytest.approx(np.ones((3, 3)))
    assert b.diagonal() == pytest.approx(np.ones(5))
    strangers = np.concatenate([b[:3, 3:].ravel(), b[3:, :3].ravel(), [b[3, 4], b[4, 3]]])
    assert strangers.max() < 0.75
    central = model_centrality(b)
    assert set(central.argsort()[-3:]) == {0, 1, 2}
    assert cross_evaluation(models[:2], **FEW) == pytest.approx(cross_evaluation(models[:2], **FEW))


def test_a_code_that_is_ignored_counts_against_everyone():
    half = Linear(np.eye(D))
    half.decode = lambda z: torch.cat([z[:, :2], torch.zeros_like(z[:, 2:])], 1)
    b = cross_evaluation([half, Linear(np.eye(D))], **FEW)
    assert b[:, 1] == pytest.approx([1, 1])
    assert (b[:, 0] < 0.85).all()


def test_an_encoder_that_knows_nothing_is_at_chance():
    class Deaf(Linear):
        def codes(self, x):
            return torch.randn(len(x), D, generator=torch.Generator().manual_seed(len(x)))

    b = cross_evaluation([Deaf(np.eye(D)), Linear(np.eye(D))], **FEW)
    assert b[0, 1] == pytest.approx(1 / D, abs=4 * np.sqrt(3 / 16 / 500))


def test_models_without_decoders_or_of_other_observations_are_refused():
    class Blind(Representation):
        def __init__(self) -> None:
            super().__init__(Spec((D,)), D)

        def codes(self, x):
            return x

    one = Linear(np.eye(D))
    with pytest.raises(TypeError, match="on what they decode, and Blind cannot"):
        cross_evaluation([one, Blind()])
    other = Linear(np.eye(D))
    other.spec = Spec((3,))
    with pytest.raises(ValueError, match=r"observations of one shape, two or more of them, got \(4,\), \(3,\)"):
        cross_evaluation([one, other])
    with pytest.raises(ValueError, match=r"two or more of them, got \(4,\)\."):
        cross_evaluation([one])
    with pytest.raises(ValueError, match="needs two levels or more"):
        cross_evaluation([one, one], levels=1)


def test_centrality_by_hand():
    b = np.array([[0.1, 0.8, 0.4], [0.6, 0.2, 0.5], [0.2, 0.1, 0.9]])
    assert model_centrality(b) == pytest.approx([(0.7 + 0.3) / 2, (0.7 + 0.3) / 2, (0.3 + 0.3) / 2])
    assert model_centrality(b + np.diag([5, 6, 7])) == pytest.approx(model_centrality(b))
    assert model_centrality(torch.from_numpy(b.T)) == pytest.approx(model_centrality(b))
    for wrong in (b[:2], np.ones((1, 1)), b * np.nan):
        with pytest.raises(ValueError, match="needs a finite square matrix of two models or more"):
            model_centrality(wrong)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_the_order_of_models_does_not_matter_to_centrality(seed):
    rng = np.random.default_rng(seed)
    b, place = rng.random((6, 6)), rng.permutation(6)
    assert model_centrality(b[np.ix_(place, place)]) == pytest.approx(model_centrality(b)[place])
    assert model_centrality(b).mean() == pytest.approx(b[~np.eye(6, dtype=bool)].mean())
