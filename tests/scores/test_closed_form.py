"""Gaussian scores, oracles and moments against closed forms and autograd, in float64."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Generator, Tensor

from tests.scores.worlds import Known, bent, error, gaussian
from whence import Mixed
from whence.scores import CrossFit, Oracle, SingleGaussian, Support, base


def seeded(seed: int = 0) -> Generator:
    return Generator().manual_seed(seed)


def drawn(n: int, environments: int, seed: int) -> tuple[Known, Tensor, Tensor]:
    """A Gaussian in each environment, of another mean and covariance."""
    rng = seeded(seed)
    mean = torch.randn(1 + environments, n, generator=rng, dtype=torch.float64)
    root = torch.randn(1 + environments, n, n, generator=rng, dtype=torch.float64) / n**0.5
    cov = root @ root.mT + 0.2 * torch.eye(n, dtype=torch.float64)
    return gaussian(mean, cov), mean, cov


def with_moments(mean: Tensor, cov: Tensor, rows: int, rng: Generator) -> Tensor:
    """Rows whose sample mean and covariance are these, exactly."""
    x = torch.randn(rows, len(mean), generator=rng, dtype=torch.float64)
    x = x - x.mean(0)
    white = torch.linalg.inv(torch.linalg.cholesky(x.T @ x / rows))
    return x @ white.T @ torch.linalg.cholesky(cov).T + mean


# --- Gaussians -------------------------------------------------------------------------------------------------------


@settings(max_examples=20, deadline=None)
@given(n=st.integers(1, 6), environments=st.integers(1, 4), seed=st.integers(0, 10**6))
def test_gaussian_scores_are_those_of_the_samples_moments(n, environments, seed):
    world, mean, cov = drawn(n, environments, seed)
    x = [with_moments(m, c, 50, seeded(seed)) for m, c in zip(mean, cov, strict=True)]
    scores = SingleGaussian().fit(x)
    at = 3 * torch.randn(40, n, generator=seeded(1), dtype=torch.float64)
    assert torch.allclose(scores.differences(at), world.differences(at), rtol=1e-7, atol=1e-7)
    for e in range(1 + environments):
        assert torch.allclose(scores.score(at, e), world.score(at, e), rtol=1e-7, atol=1e-7)
    assert torch.allclose(scores.differences(at)[-1], scores.score(at, 0) - scores.score(at, environments), atol=1e-9)


def test_gaussian_scores_are_finite_differences_of_the_log_density():
    world, mean, cov = drawn(3, 2, 0)
    x = [with_moments(m, c, 30, seeded(1)) for m, c in zip(mean, cov, strict=True)]
    scores, at, h = SingleGaussian().fit(x), torch.randn(9, 3, generator=seeded(2), dtype=torch.float64), 1e-5
    for j, step in enumerate(h * torch.eye(3, dtype=torch.float64)):
        ratio = [world.log_prob(0, z) - world.log_prob(2, z) for z in (at + step, at - step)]
        assert torch.allclose(scores.differences(at)[1, :, j], (ratio[0] - ratio[1]) / (2 * h), rtol=1e-6, atol=1e-7)


def test_gaussian_moments_have_a_closed_form():
    """For d = S x - c and x of mean m and covariance C: E d d' = S C S + (S m - c)(S m - c)'."""
    _, mean, cov = drawn(4, 3, 5)
    x = [with_moments(m, c, 60, seeded(1)) for m, c in zip(mean, cov, strict=True)]
    scores, theta = SingleGaussian().fit(x), torch.linalg.inv(cov)
    S = theta[1:] - theta[0]
    c = torch.einsum("eij,ej->ei", theta[1:], mean[1:]) - theta[0] @ mean[0]
    shift = S @ mean[0] - c
    expected = torch.einsum("eij,jk,fkl->efil", S, cov[0], S) + torch.einsum("ei,fj->efij", shift, shift)
    assert torch.allclose(scores.cross_moments(x[0]), expected, rtol=1e-6, atol=1e-8)
    assert torch.allclose(scores.moments(x[0]), expected[range(3), range(3)], rtol=1e-6, atol=1e-8)
    assert torch.allclose(scores.means(x[0]), shift, rtol=1e-6, atol=1e-8)


@settings(max_examples=10, deadline=None)
@given(n=st.integers(1, 5), seed=st.integers(0, 10**6))
def test_a_change_of_coordinates_changes_scores_by_its_inverse_transposed(n, seed):
    """x -> A x + b: whatever the units or the direction of the columns, the same scores."""
    world, *_ = drawn(n, 2, seed)
    x = world.samples(200, seeded(seed))
    turns = torch.linalg.qr(torch.randn(2, n, n, generator=seeded(seed), dtype=torch.float64)).Q
    A = turns[0] * torch.logspace(-2, 2, n, dtype=torch.float64) @ turns[1]
    b = 10 * torch.ones(n, dtype=torch.float64)
    one, two = SingleGaussian().fit(x), SingleGaussian().fit([rows @ A.T + b for rows in x])
    there = two.differences(x[0] @ A.T + b) @ A
    assert error(there, one.differences(x[0])) < 1e-6


def test_moments_of_a_stream_are_those_of_the_whole():
    world, *_ = drawn(3, 3, 7)
    x = world.samples(1_000, seeded())
    scores = SingleGaussian().fit(x)
    d = scores.differences(x[0])
    by_hand = torch.einsum("ebi,fbj->efij", d, d) / 1_000
    for points in (x[0], x[0].split(77), (part for part in x[0].split(500)), x[0].numpy()):
        assert torch.allclose(scores.cross_moments(points), by_hand, rtol=1e-10)
    for points in (x[0], x[0].split(77)):
        assert torch.allclose(scores.moments(points), by_hand[range(3), range(3)], rtol=1e-10)
        assert torch.allclose(scores.means(points), d.mean(1), rtol=1e-10)


def test_evaluation_in_small_chunks_changes_nothing(monkeypatch):
    x = bent().samples(300, seeded())
    scores = SingleGaussian().fit(x)
    whole = scores.differences(x[0]), scores.score(x[0], 1), scores.moments(x[0])
    monkeypatch.setattr(base, "BUDGET", 40)
    assert scores.rows < 20
    chunked = scores.differences(x[0]), scores.score(x[0], 1), scores.moments(x[0])
    for a, b in zip(whole, chunked, strict=True):
        assert torch.allclose(a, b, rtol=1e-12)


def test_what_is_returned_has_the_points_dtype_and_moments_are_float64():
    x = [rows.float() for rows in bent().samples(200, seeded())]
    scores = SingleGaussian().fit(x)
    assert scores.differences(x[0]).dtype == scores.score(x[0], 0).dtype == torch.float32
    assert scores.moments(x[0]).dtype == torch.float64
    assert scores.differences(x[0].double()).dtype == torch.float64
    assert scores.differences(x[0].numpy()).shape == (2, 200, 2)


def test_wrong_points_are_refused():
    scores = SingleGaussian().fit(bent().samples(100, seeded()))
    with pytest.raises(ValueError, match=r"points of shape \(N, 2\) in floats, got \(3, 5\).*Project observations"):
        scores.differences(torch.zeros(3, 5))
    with pytest.raises(ValueError, match=r"got \(3, 2\) of torch.int64"):
        scores.differences(torch.zeros(3, 2, dtype=torch.long))
    with pytest.raises(ValueError, match="NaN or infinity in 1 of 3 rows"):
        scores.score(torch.tensor([[0.0, 1.0], [float("nan"), 0.0], [1.0, 1.0]]), 0)
    with pytest.raises(IndexError, match=r"environments 0 \(observational\) to 2, got 3"):
        scores.score(torch.zeros(3, 2), 3)
    with pytest.raises(ValueError, match="at least one point, got none"):
        scores.moments([])


# --- oracles ---------------------------------------------------------------------------------------------------------


def test_an_oracle_tells_what_it_was_told_and_says_so():
    world = bent()
    x = world.samples(50, seeded())
    oracle = Oracle(world.differences, score=world.score)
    scores = oracle.fit(x)
    assert oracle.truth
    assert scores.truth
    assert not SingleGaussian().truth
    assert not SingleGaussian().fit(x).truth
    assert torch.equal(scores.differences(x[0]), world.differences(x[0]))
    assert torch.equal(scores.score(x[0], 2), world.score(x[0], 2))
    d = world.differences(x[0])
    assert torch.allclose(scores.cross_moments(x[0]), torch.einsum("ebi,fbj->efij", d, d) / 50)
    with pytest.raises(TypeError, match=r"told differences only. Pass Oracle\(differences, score="):
        Oracle(world.differences).fit(x).score(x[0], 0)
    with pytest.raises(ValueError, match="An oracle makes no errors for folds to cancel"):
        CrossFit(estimator=oracle)


def test_an_oracle_of_observations_is_asked_in_their_support():
    """The gradient along the basis: for x = lift(u) the true score difference of u."""
    world = Mixed(nodes=3, dims=8, density=1.0, model_seed=1)
    truth = world.score_differences()
    z = [world.scm.sample(400, do=do, rng=seeded(e)) for e, do in enumerate([None, *truth.dos])]
    x = [world.observe(rows) for rows in z]
    support = Support.find(x, 3)
    u = [support.project(rows) for rows in x]
    scores = Oracle(truth).within(support).fit(u)
    assert scores.truth
    G = support.basis.T @ world.mixing_matrix  # u = G z + c, so the density of u has the score G^-T s(z)
    expected = truth.latent(z[0]) @ torch.linalg.inv(G)
    assert torch.allclose(scores.differences(u[0]), expected, rtol=1e-8, atol=1e-8)
    assert (
        error(SingleGaussian().within(support).fit(u).differences(u[0]), expected) < 0.5
    )  # the same object, from samples


def test_an_oracle_of_the_wrong_shape_is_refused():
    x = bent().samples(20, seeded())
    with pytest.raises(ValueError, match=r"shape \(environments, points, dims\) = \(2, 20, 2\), got \(1, 20, 2\)"):
        Oracle(lambda x: x[None]).fit(x).differences(x[0])
