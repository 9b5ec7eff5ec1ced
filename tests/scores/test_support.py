"""The support: its dimensions, gap and coordinates, and that nothing of the size of the data is copied."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Generator, Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from whence.scores import SingleGaussian, Support, base, support


def seeded(seed: int = 0) -> Generator:
    return Generator().manual_seed(seed)


def data(
    n: int = 3, d: int = 8, rows: int = 400, environments: int = 2, noise: float = 0.0, seed: int = 0
) -> tuple[list[Tensor], Tensor]:
    """Samples in n directions of d, with noise in all of them; and the (d, n) matrix that mixes them."""
    rng = seeded(seed)
    G = torch.linalg.qr(torch.randn(d, n, generator=rng, dtype=torch.float64)).Q
    z = torch.randn(1 + environments, rows, n, generator=rng, dtype=torch.float64)
    z[1:, :, 0] *= 0.5
    x = z @ G.T + 5 + noise * torch.randn(1 + environments, rows, d, generator=rng, dtype=torch.float64)
    return list(x), G


class Largest(TorchDispatchMode):
    """The most numbers that any operation newly allocated: views of what was there do not count."""

    def __init__(self) -> None:
        super().__init__()
        self.numbers, self.of = 0, ""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        given = {t.untyped_storage().data_ptr() for t in args if isinstance(t, Tensor)}
        for t in out if isinstance(out, tuple | list) else (out,):
            fresh = isinstance(t, Tensor) and t.untyped_storage().data_ptr() not in given
            if fresh and t.numel() > self.numbers:
                self.numbers, self.of = t.numel(), str(func)
        return out


@settings(max_examples=25, deadline=None)
@given(n=st.integers(1, 6), more=st.integers(0, 9), seed=st.integers(0, 10**6))
def test_without_noise_the_support_is_found_and_its_dimensions_counted(n, more, seed):
    x, G = data(n, n + more, seed=seed)
    for asked in (None, n):
        s = Support.find(x, asked)
        assert (s.n, s.d) == (n, n + more)
        assert torch.allclose(s.basis.T @ s.basis, torch.eye(n).double(), atol=1e-10)
        assert torch.allclose(s.basis @ s.basis.T, G @ G.T, atol=1e-8)
        assert torch.allclose(s.lift(s.project(x[1])), x[1], atol=1e-8)
    assert s.spectrum.n == n
    assert s.spectrum.residual == 0


def test_coordinates_are_orthogonal_and_their_gradients_come_back():
    x, _ = data(seed=2)
    s = Support.find(x, 3)
    u = s.project(x[0])
    assert torch.allclose(u, (x[0] - s.mean) @ s.basis)
    at = u.clone().requires_grad_()
    (expected,) = torch.autograd.grad(s.lift(at).pow(3).sum(), at)
    assert torch.allclose(s.gradient(3 * x[0] ** 2), expected, rtol=1e-6)
    variance = torch.cat([s.project(rows) for rows in x]).var(0)
    assert (variance[:-1] >= variance[1:]).all()


@pytest.mark.parametrize("noise", [0.01, 0.1])
def test_with_noise_the_dimensions_are_read_off_the_gap_and_the_gap_is_shown(noise):
    x, _ = data(3, 12, rows=4_000, noise=noise)
    s = Support.find(x)
    assert s.n == 3
    pooled = (2 * 0.25 + 1) / 3  # the least variance among the three, over the environments together
    assert s.spectrum.gap == pytest.approx((pooled + noise**2) / noise**2, rel=0.2)
    assert f"3 dimensions; eigenvalue 3 is {s.spectrum.gap:.3g} times the next" == str(s.spectrum)
    assert Support.find(x, 5).spectrum.gap < 1.5  # between the noise and itself there is none
    assert torch.equal(Support.find(x, 3).basis, s.basis)


def test_noise_without_a_gap_is_taken_whole():
    x = [torch.randn(500, 6, generator=seeded(e), dtype=torch.float64) for e in range(3)]
    assert Support.find(x).n == 6


def test_sources_of_every_kind_give_the_same_support():
    x, _ = data()
    whole = Support.find(x, 3)
    pieces = Support.find([rows.split(33) for rows in x], 3)
    again = Support.find([lambda rows=rows: iter(rows.split(50)) for rows in x], 3)
    arrays = Support.find([rows.numpy() for rows in x], 3)
    for s in (pieces, again, arrays):
        assert torch.allclose(s.basis, whole.basis, atol=1e-9)
        assert torch.allclose(s.mean, whole.mean, atol=1e-9)
    assert torch.allclose(whole.project(x[0].split(7)), whole.project(x[0]))
    with pytest.raises(TypeError, match=r"Sample 1 can be read only once \(generator\).*Pass a list of chunks"):
        Support.find([x[0], (part for part in x[1].split(9))], 3)


def test_many_dimensions_are_read_by_subspace_iteration(monkeypatch):
    """The same support as from the whole covariance, its residual told."""
    x, _ = data(4, 300, rows=600, noise=0.02)
    exact = Support.find(x, 4)
    monkeypatch.setattr(support, "DENSE", 100)
    sketched = Support.find(x, 4)
    assert 0 < sketched.spectrum.residual < 1e-5
    assert torch.allclose(sketched.basis, exact.basis, atol=1e-4)
    assert torch.allclose(sketched.spectrum.eigenvalues[:4], exact.spectrum.eigenvalues[:4], rtol=1e-6)
    assert Support.find(x).n == 4
    noisy = [torch.randn(400, 300, generator=seeded(e)) for e in range(2)]
    with pytest.raises(ValueError, match=r"leading \d+ eigenvalues .* show no gap.*Pass n"):
        Support.find(noisy)


def test_a_large_mean_costs_no_digits_in_single_precision():
    x, G = data(3, 6, rows=2_000)
    far = [(rows + 1_000).float() for rows in x]
    s = Support.find(far, 3)
    assert torch.allclose(s.basis @ s.basis.T, G @ G.T, atol=1e-3)


def test_constant_columns_are_no_directions():
    x, _ = data(3, 5)
    wide = [torch.cat([rows, torch.full((len(rows), 2), 7.0, dtype=torch.float64)], 1) for rows in x]
    s = Support.find(wide)
    assert s.n == 3
    assert s.basis[5:].abs().max() < 1e-12


@pytest.mark.parametrize(
    ("change", "asked", "message"),
    [
        (lambda x: x, 9, r"n = 9 dimensions needs at least as many observed ones, got d = 8.*more columns"),
        (lambda x: x, 5, r"n = 5 dimensions needs that many directions that vary, got 3 in 1200 rows of 8 columns"),
        (lambda x: [rows[:0] for rows in x], None, "There are no rows"),
        (lambda x: [rows[0] for rows in x], None, r"Rows have shape \(N, d\), got \(8,\).*Flatten"),
        (lambda x: [x[0], torch.cat([x[1], math.nan * x[1][:2]])], None, "NaN or infinity in 2 of 802 rows"),
    ],
)
def test_what_has_no_support_is_refused(change, asked, message):
    with pytest.raises(ValueError, match=message):
        Support.find(change(data()[0]), asked)


def test_another_number_of_columns_is_refused():
    s = Support.find(data()[0], 3)
    with pytest.raises(ValueError, match="of observations of 8 values, got 5"):
        s.project(torch.zeros(4, 5))


def test_nothing_as_large_as_the_data_is_allocated(monkeypatch):
    """Not N x d for the support, and not environments x N x n for moments: all is chunks of bounded size."""
    rows, d, n, environments = 4_000, 50, 3, 5
    x, _ = data(n, d, rows=rows, environments=environments)
    monkeypatch.setattr(support, "CHUNK", 5_000)
    monkeypatch.setattr(base, "BUDGET", 5_000)
    with Largest() as seen:
        s = Support.find(x, n)
    assert seen.numbers <= 5_000, seen.of
    with Largest() as seen:
        u = [s.project(part) for part in x]
    assert seen.numbers <= rows * n, seen.of  # the coordinates themselves
    scores = SingleGaussian().fit(u)
    with Largest() as seen:
        scores.moments(u[0])
        scores.cross_moments(u[0])
    assert seen.numbers <= 5_000, seen.of


def test_arrays_are_not_changed():
    x, _ = data()
    before = [rows.clone() for rows in x]
    Support.find(x, 3).project(x[0])
    SingleGaussian().fit([Support.find(x, 3).project(rows) for rows in x])
    assert all(torch.equal(a, b) for a, b in zip(x, before, strict=True))
    locked = [rows.numpy().copy() for rows in x]
    for rows in locked:
        rows.setflags(write=False)
    assert np.array_equal(Support.find(locked, 3).basis.numpy(), Support.find(x, 3).basis.numpy())
