"""The discrepancy of two samples as a loss: its definition, a feature map, a closed form, and its gradient."""

from __future__ import annotations

import math
from importlib import import_module

import pytest
import torch

from whence.terms import RBF, InverseMultiquadratic, Kernel, Polynomial, mmd

KERNELS = [RBF(bandwidth=1.3), InverseMultiquadratic(scale=6.0), Polynomial(degree=3, offset=0.5)]


@pytest.fixture
def samples(rng):
    x = torch.randn(12, 3, generator=rng, dtype=torch.float64)
    return x, 0.5 + 1.5 * torch.randn(9, 3, generator=rng, dtype=torch.float64)


def test_the_base_cannot_be_built():
    with pytest.raises(TypeError, match="abstract"):
        Kernel()  # type: ignore[abstract]


def test_kernels_are_their_formulas(samples):
    x, y = samples
    for a, row in zip(x, range(len(x)), strict=True):
        for b, column in zip(y, range(len(y)), strict=True):
            d = float(((a - b) ** 2).sum())
            expected = [
                math.exp(-d / (2 * 1.3**2)),
                sum(s * 6.0 / (s * 6.0 + d) for s in (0.1, 0.2, 0.5, 1, 2, 5, 10)),
                (float(a @ b) + 0.5) ** 3,
            ]
            assert [float(k(x, y)[row, column]) for k in KERNELS] == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: type(k).__name__)
def test_unbiased_is_over_different_rows_and_biased_over_all(kernel, samples, monkeypatch):
    x, y = samples
    xx, yy, xy = kernel(x, x), kernel(y, y), kernel(x, y)
    n, m = len(x), len(y)
    u = (xx.sum() - xx.trace()) / (n * (n - 1)) + (yy.sum() - yy.trace()) / (m * (m - 1)) - 2 * xy.mean()
    v = xx.mean() + yy.mean() - 2 * xy.mean()
    for block in (1024, 5):
        monkeypatch.setattr(import_module("whence.terms.mmd"), "BLOCK", block)
        torch.testing.assert_close(mmd(x, y, kernel), u)
        torch.testing.assert_close(mmd(x, y, kernel, unbiased=False), v)


def test_a_polynomial_kernel_is_the_distance_of_mean_features(samples):
    r"""(<x, y> + c)^2 = <f(x), f(y)> with f all products of two entries of (x, sqrt c)."""
    c = 0.7

    def features(a):
        a = torch.cat([a, torch.full((len(a), 1), math.sqrt(c), dtype=a.dtype)], 1)
        return (a[:, :, None] * a[:, None, :]).flatten(1)

    x, y = samples
    expected = (features(x).mean(0) - features(y).mean(0)).square().sum()
    torch.testing.assert_close(mmd(x, y, Polynomial(degree=2, offset=c), unbiased=False), expected)


def test_gaussians_have_the_discrepancy_of_the_closed_form():
    """The mean Gaussian kernel of two Gaussians is a Gaussian density; the error is that of 4,000 draws."""
    torch.manual_seed(0)
    d, h, shift = 2, 1.0, 0.8
    x, y = torch.randn(4000, d, dtype=torch.float64), torch.randn(4000, d, dtype=torch.float64) + shift

    def mean_kernel(apart):
        return (h * h / (h * h + 2)) ** (d / 2) * math.exp(-(apart**2) * d / (2 * (h * h + 2)))

    assert float(mmd(x, y, RBF(bandwidth=h))) == pytest.approx(2 * mean_kernel(0) - 2 * mean_kernel(shift), abs=0.01)


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: type(k).__name__)
def test_the_gradient_is_that_of_finite_differences(kernel, samples):
    x, y = (s[:5].clone().requires_grad_() for s in samples)
    for unbiased in (True, False):
        assert torch.autograd.gradcheck(lambda a, b, u=unbiased: mmd(a, b, kernel, unbiased=u), (x, y))


def test_the_unbiased_one_is_zero_on_average_for_one_distribution():
    torch.manual_seed(0)
    kernel = InverseMultiquadratic(scale=4.0)
    found = torch.stack([mmd(*torch.randn(2, 16, 2, dtype=torch.float64), kernel) for _ in range(400)])
    assert abs(found.mean()) < 4 * found.std() / 20
    assert 0.2 < (found < 0).double().mean() < 0.8


def test_a_sample_of_one_is_refused():
    with pytest.raises(ValueError, match=r"at least two rows in each.*got shapes \(1, 2\) and \(4, 2\)"):
        mmd(torch.zeros(1, 2), torch.zeros(4, 2), RBF())
