"""Independence: the definition, a closed form, and what gradients do to dependence."""

from __future__ import annotations

import pytest
import torch

from whence.terms import RBF, Polynomial, hsic
from whence.terms.hsic import median


def normal(n: int, d: int, seed: int) -> torch.Tensor:
    return torch.randn(n, d, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_it_is_its_definition():
    x, y = normal(15, 2, 0), normal(15, 3, 1)
    one, two = RBF(bandwidth=1.5), RBF(bandwidth=0.7)
    h = torch.eye(15, dtype=torch.float64) - 1 / 15
    expected = torch.trace(one(x, x) @ h @ two(y, y) @ h) / 14**2
    assert float(hsic(x, y, one, two)) == pytest.approx(float(expected), rel=1e-12)


def test_with_linear_kernels_it_is_the_squared_covariance():
    x, y = normal(40, 1, 0), normal(40, 1, 1)
    y = y + 0.5 * x
    linear = Polynomial(degree=1, offset=0.0)
    covariance = float(torch.cov(torch.cat([x, y], 1).T)[0, 1])
    assert float(hsic(x, y, linear, linear)) == pytest.approx(covariance**2, rel=1e-10)


def test_it_sees_dependence_that_covariance_does_not():
    x = normal(300, 1, 0)
    chance = [float(hsic(x, normal(300, 1, seed))) for seed in range(1, 20)]
    assert float(hsic(x, x.square())) > 5 * max(chance)


def test_of_independent_variables_it_falls_like_one_over_n():
    def mean(n: int) -> float:
        return sum(float(hsic(normal(n, 1, s), normal(n, 1, 1000 + s))) for s in range(100)) / 100

    assert mean(200) == pytest.approx(mean(50) / 4, rel=0.25)


def test_descending_it_makes_variables_independent():
    u = normal(200, 1, 0)
    noise = normal(200, 1, 1)
    slope = torch.tensor(1.0, dtype=torch.float64, requires_grad=True)
    value = hsic(noise + slope * u, u)
    (gradient,) = torch.autograd.grad(value, slope)
    assert gradient > 0


def test_the_bandwidth_is_the_median_distance_and_is_not_moved():
    x = torch.tensor([[0.0], [1.0], [3.0]], dtype=torch.float64, requires_grad=True)
    kernel = median(x)
    assert kernel == RBF(bandwidth=2.0)
    assert median(torch.zeros(4, 2)) == RBF(bandwidth=1.0)


def test_what_is_not_paired_is_refused():
    with pytest.raises(ValueError, match=r"at least two paired rows, .* got shapes \(3, 1\) and \(4, 1\)"):
        hsic(torch.zeros(3, 1), torch.zeros(4, 1))
