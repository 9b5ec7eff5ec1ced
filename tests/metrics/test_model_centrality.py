"""Models as each other's worlds, where it is known who knows whom."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from whence.metrics import cross_evaluation, model_centrality
from whence.representation import Representation
from whence.views import Spec

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
