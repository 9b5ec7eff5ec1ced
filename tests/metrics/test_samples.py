"""Discrepancies of two samples: feature maps written out, closed forms of Gaussians, and what blocks may not change."""

from __future__ import annotations

import itertools
import math
from importlib import import_module

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.distributions import Normal

from whence.metrics import (
    RBF,
    Distance,
    InverseMultiquadratic,
    Polynomial,
    PriorDiscrepancy,
    Probe,
    SampleDiscrepancy,
    Unmeasurable,
    energy_distance,
    evaluate,
    frechet_distance,
    median_distance,
    mmd,
)
from whence.representation import Representation
from whence.views import Spec
from whence.worlds import Unmixed

MMD = import_module("whence.terms.mmd")
KERNELS = [RBF(bandwidth=1.5), InverseMultiquadratic(scale=6.0), Polynomial(degree=2), Distance()]


def normal(n: int, d: int, seed: int, shift: float = 0.0, scale: float = 1.0) -> np.ndarray:
    return np.random.default_rng(seed).normal(shift, scale, (n, d))


def plainly(x: np.ndarray, y: np.ndarray, k, unbiased: bool) -> float:
    """The definition, pair by pair."""
    n, m = len(x), len(y)
    xx = [k(a, b) for (i, a), (j, b) in itertools.product(enumerate(x), repeat=2) if i != j or not unbiased]
    yy = [k(a, b) for (i, a), (j, b) in itertools.product(enumerate(y), repeat=2) if i != j or not unbiased]
    xy = [k(a, b) for a in x for b in y]
    less = 1 if unbiased else 0
    return sum(xx) / (n * (n - less)) + sum(yy) / (m * (m - less)) - 2 * sum(xy) / (n * m)


FORMULAS = [
    lambda a, b: math.exp(-((a - b) ** 2).sum() / (2 * 1.5**2)),
    lambda a, b: sum(s * 6.0 / (s * 6.0 + ((a - b) ** 2).sum()) for s in (0.1, 0.2, 0.5, 1, 2, 5, 10)),
    lambda a, b: (a @ b + 1) ** 2,
    lambda a, b: -math.sqrt(((a - b) ** 2).sum()),
]


@pytest.mark.parametrize("unbiased", [True, False])
@pytest.mark.parametrize(
    ("kernel", "formula"), list(zip(KERNELS, FORMULAS, strict=True)), ids=lambda v: type(v).__name__
)
def test_it_is_its_definition_also_in_blocks(kernel, formula, unbiased, monkeypatch):
    x, y = normal(13, 3, 0), normal(9, 3, 1, 0.5)
    expected = plainly(x, y, formula, unbiased)
    near = 1e-8 if isinstance(kernel, Distance) else 1e-12  # the root of what rounding leaves of a row and itself
    assert mmd(x, y, kernel=kernel, unbiased=unbiased) == pytest.approx(expected, abs=near)
    monkeypatch.setattr(MMD, "BLOCK", 4)
    assert mmd(x, y, kernel=kernel, unbiased=unbiased) == pytest.approx(expected, abs=near)


def test_a_polynomial_kernel_compares_the_mean_of_all_monomials():
    r"""(<x, y> + c)^2 = <f(x), f(y)> with f all products of two entries of (x, sqrt c)."""
    x, y, c = normal(40, 3, 0), normal(30, 3, 1, 0.3), 0.7

    def features(a):
        a = np.column_stack([a, np.full(len(a), math.sqrt(c))])
        return (a[:, :, None] * a[:, None, :]).reshape(len(a), -1)

    expected = np.square(features(x).mean(0) - features(y).mean(0)).sum()
    assert mmd(x, y, kernel=Polynomial(degree=2, offset=c), unbiased=False) == pytest.approx(expected, rel=1e-10)


def test_a_polynomial_kernel_sees_moments_up_to_its_order_and_no_others():
    x = np.array([[-1.0], [1.0]] * 4)
    y = np.array([[-math.sqrt(2)], [0.0], [0.0], [math.sqrt(2)]])  # the same mean and variance
    assert mmd(x, y, kernel=Polynomial(degree=2), unbiased=False) == pytest.approx(0, abs=1e-12)
    assert mmd(x, y, kernel=Polynomial(degree=4), unbiased=False) > 0.1


def test_gaussians_have_the_discrepancy_of_the_closed_form():
    """E k of two Gaussians under a Gaussian kernel is a Gaussian density: no sampling is left but ours."""
    n, d, h, shift = 4000, 2, 1.0, 0.8

    def mean_kernel(apart: float, variance: float) -> float:
        total = h * h + variance
        return (h * h / total) ** (d / 2) * math.exp(-(apart**2) * d / (2 * total))

    expected = 2 * mean_kernel(0, 2) - 2 * mean_kernel(shift, 2)
    x, y = normal(n, d, 0), normal(n, d, 1, shift)
    assert mmd(x, y, kernel=RBF(bandwidth=h)) == pytest.approx(expected, abs=0.01)
    assert mmd(x, y, kernel=RBF(bandwidth=h), unbiased=False) == pytest.approx(expected, abs=0.01)


@pytest.mark.parametrize("kernel", [None, *KERNELS[:2], Distance()])
def test_unbiased_is_zero_on_average_and_biased_is_not(kernel):
    found = np.array(
        [
            [mmd(normal(20, 2, 2 * s), normal(20, 2, 2 * s + 1), kernel=kernel, unbiased=u) for u in (True, False)]
            for s in range(200)
        ]
    )
    error = found.std(0) / math.sqrt(len(found))
    assert abs(found[:, 0].mean()) < 4 * error[0]
    assert found[:, 1].mean() > 10 * error[1]
    assert (found[:, 1] > 0).all()


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_order_shift_and_turns_do_not_matter_and_units_only_to_the_energy(seed):
    rng = np.random.default_rng(seed)
    x, y = rng.normal(size=(30, 4)), rng.normal(0.3, 2, size=(25, 4))
    q = np.linalg.qr(rng.normal(size=(4, 4)))[0]
    a, b = 3 * x[rng.permutation(30)] @ q + 7, 3 * y @ q + 7
    assert mmd(a, b) == pytest.approx(mmd(x, y), abs=1e-10)
    assert energy_distance(a, b) == pytest.approx(3 * energy_distance(x, y), abs=1e-9)
    assert frechet_distance(a, b) == pytest.approx(9 * frechet_distance(x, y), rel=1e-8)
    assert mmd(y, x) == pytest.approx(mmd(x, y))
    assert mmd(x, x, unbiased=False) == pytest.approx(0, abs=1e-14)
    assert frechet_distance(x, x) == pytest.approx(0, abs=1e-8)


def test_energy_distance_on_a_line_is_that_of_scipy_squared():
    from scipy.stats import energy_distance as scipy_s

    x, y = normal(200, 1, 0), normal(150, 1, 1, 0.4, 2)
    assert energy_distance(x, y, unbiased=False) == pytest.approx(scipy_s(x[:, 0], y[:, 0]) ** 2, rel=1e-9)
    assert energy_distance(x[:, 0], y[:, 0]) == energy_distance(x, y)


def test_duplicated_rows_are_at_no_distance():
    x = np.repeat(normal(10, 3, 0), 3, axis=0) + 1e6
    assert energy_distance(x, x, unbiased=False) == pytest.approx(0, abs=1e-4)
    assert mmd(x, x, unbiased=False, kernel=RBF()) == pytest.approx(0, abs=1e-9)


def test_single_precision_tensors_and_images_agree():
    x, y = normal(60, 12, 0), normal(50, 12, 1, 0.2)
    for f in (mmd, energy_distance, frechet_distance):
        single = f(torch.from_numpy(x).float().reshape(60, 3, 2, 2), torch.from_numpy(y).float().reshape(50, 3, 2, 2))
        assert single == pytest.approx(f(x, y), rel=1e-4, abs=1e-6)


def test_the_median_distance_is_that_of_all_pairs_of_few_rows():
    x, y = normal(30, 3, 0), normal(20, 3, 1, 1.0)
    pooled = np.vstack([x, y])
    expected = np.median([np.linalg.norm(a - b) for a, b in itertools.combinations(pooled, 2)])
    assert median_distance(x, y) == pytest.approx(expected, rel=0.01)  # of an even number: the lower one
    with pytest.raises(Unmeasurable, match="More than half of the pooled rows are equal"):
        mmd(np.zeros((9, 2)), np.zeros((9, 2)))


def test_memory_is_that_of_blocks(monkeypatch):
    largest = []

    class Watching(RBF):
        def __call__(self, x, y):
            largest.append(len(x) * len(y))
            return super().__call__(x, y)

    mmd(normal(5000, 2, 0), normal(3000, 2, 1), kernel=Watching())
    assert max(largest) <= MMD.BLOCK**2


def test_what_are_no_two_samples_is_refused():
    for f in (mmd, energy_distance, frechet_distance):
        with pytest.raises(ValueError, match=r"rows of one shape, got \(5, 2\) and \(5, 3\)"):
            f(np.ones((5, 2)), np.ones((5, 3)))
        with pytest.raises(ValueError, match=r"at least two rows each, and rows of one shape, got \(1, 2\)"):
            f(np.ones((1, 2)), np.ones((5, 2)))
        with pytest.raises(ValueError, match=r"got NaN or infinity in 1 rows. Drop these rows first"):
            f(np.array([[1.0], [np.inf]]), np.ones((5, 1)))


# --- Gaussian moments ------------------------------------------------------------------------------------------------


def moments(mean: np.ndarray, cov: np.ndarray, n: int = 50) -> np.ndarray:
    """A sample with exactly these moments."""
    d = len(mean)
    z = normal(n, d, 3)
    z = (z - z.mean(0)) @ np.linalg.inv(np.linalg.cholesky(np.cov(z.T))).T
    return z @ np.linalg.cholesky(cov).T + mean


def test_the_distance_of_gaussians_by_hand():
    one = moments(np.zeros(2), np.diag([1.0, 4.0]))
    two = moments(np.array([3.0, 0.0]), np.diag([9.0, 1.0]))
    assert frechet_distance(one, two) == pytest.approx(9 + (1 - 3) ** 2 + (2 - 1) ** 2)
    assert frechet_distance(one[:, 0], two[:, 0]) == pytest.approx(9 + (1 - 3) ** 2)


def test_the_distance_of_gaussians_that_do_not_commute_is_that_of_the_matrix_root():
    from scipy.linalg import sqrtm

    rng = np.random.default_rng(0)
    p, q = (a @ a.T + np.eye(4) for a in rng.normal(size=(2, 4, 4)))
    m = rng.normal(size=4)
    expected = m @ m + np.trace(p + q - 2 * sqrtm(p @ q).real)
    assert frechet_distance(moments(np.zeros(4), p), moments(m, q)) == pytest.approx(expected, rel=1e-9)


def test_fewer_rows_than_features_are_a_degenerate_gaussian_and_no_error():
    x = normal(5, 20, 0)
    assert frechet_distance(x, x) == pytest.approx(0, abs=1e-6)
    assert frechet_distance(x, x + 1) == pytest.approx(20, abs=1e-5)


# --- on a representation ---------------------------------------------------------------------------------------------


class Model(Representation):
    """Samples factors that are `shift` too large; its posterior has the given mean and scale."""

    def __init__(self, shift: float = 0.0, mean: float = 0.0, scale: float = 1.0) -> None:
        super().__init__(Spec(Unmixed().shape), 5)
        self.register_parameter("weight", torch.nn.Parameter(torch.zeros(1)))
        self.shift, self.mean, self.scale = shift, mean, scale

    def codes(self, x):
        return x

    def sample(self, n, rng):
        return Unmixed().observe(Unmixed().draw(n, rng=rng)) + self.shift

    def posterior(self, x):
        return Normal(torch.full((len(x), 5), self.mean), self.scale)


METRICS = [SampleDiscrepancy(), PriorDiscrepancy()]


def test_a_perfect_model_cannot_be_told_apart_and_a_shifted_one_can():
    perfect, shifted = (evaluate(Model(s, s), Unmixed(), metrics=METRICS, samples=10) for s in (0.0, 1.0))
    names = ["sample_discrepancy.mmd", "sample_discrepancy.energy", "prior_discrepancy.mmd", "prior_discrepancy.energy"]
    assert [r.metric for r in perfect] == names
    for one, other in zip(perfect, shifted, strict=True):
        assert one.chance is None
        assert abs(one.value) < 0.01
        assert other.value > 0.1


def test_a_collapsed_posterior_is_the_prior_and_a_narrow_one_is_not():
    collapsed, narrow = (PriorDiscrepancy().measure(Probe(Model(scale=s), Unmixed(), samples=10)) for s in (1.0, 0.1))
    assert abs(collapsed.energy) < 0.01 < narrow.energy


def test_a_model_that_samples_what_is_not_finite_is_not_measured():
    result = evaluate(Model(math.nan), Unmixed(), metrics=[SampleDiscrepancy()], samples=10)[0]
    assert result.note == "The model's sample has values that are not finite, so nothing is near to it."


def test_one_seed_gives_one_number_and_another_seed_another():
    def found(seed):
        return [r.value for r in evaluate(Model(), Unmixed(), metrics=METRICS, samples=10, seed=seed)]

    assert found(0) == found(0) != found(1)
