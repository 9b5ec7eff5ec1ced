"""Flows: splines are monotone and the volume change is that of autograd; densities integrate to one."""

import math

import pytest
import torch
from torch import Generator, nn

from whence.nets.flow import BOUND, Affine, Coupling, Flow, spline


def seeded(seed=0):
    return Generator().manual_seed(seed)


def bent(n, **options):
    """A flow that bends, in float64."""
    flow = Flow(n, **options).double()
    rng = seeded(n)
    with torch.no_grad():
        for name, p in flow.named_parameters():
            if not name.endswith("weight") or p.shape != (n, n):
                p.copy_(0.3 * torch.randn(p.shape, generator=rng, dtype=torch.float64))
    return flow


def jacobian(f, x):
    return torch.func.vmap(torch.func.jacrev(lambda row: f(row[None])[0][0]))(x)


def test_a_spline_of_zeros_is_the_identity():
    x = torch.linspace(-8, 8, 101, dtype=torch.float64)
    y, log = spline(x, torch.zeros(101, 23, dtype=torch.float64))
    assert torch.allclose(y, x, atol=1e-12)
    assert torch.allclose(log, torch.zeros_like(log), atol=1e-12)


def test_a_spline_rises_from_end_to_end_and_its_slope_is_that_of_autograd():
    bins = 2 * torch.randn(23, generator=seeded(1), dtype=torch.float64)
    x = torch.linspace(-BOUND - 1, BOUND + 1, 2_001, dtype=torch.float64, requires_grad=True)
    y, log = spline(x, bins.expand(len(x), -1))
    (slope,) = torch.autograd.grad(y.sum(), x)
    assert (y.diff() > 0).all()
    assert torch.allclose(slope.log(), log, atol=1e-9)
    outside = x.abs() >= BOUND
    assert torch.equal(y[outside], x[outside])
    assert float((y - x).detach().abs().max()) > 0.5  # it does bend


def test_the_inverse_of_a_spline_undoes_it():
    x = 3 * torch.randn(500, generator=seeded(2), dtype=torch.float64)
    bins = torch.randn(500, 23, generator=seeded(3), dtype=torch.float64)
    y, log = spline(x, bins)
    back, minus = spline(y, bins, inverse=True)
    assert torch.allclose(back, x, atol=1e-9)
    assert torch.allclose(minus, -log, atol=1e-8)


@pytest.mark.parametrize("n", [1, 2, 5])
def test_the_volume_change_of_a_flow_is_the_determinant_of_its_jacobian(n):
    flow = bent(n, layers=3, hidden=(8,))
    x = 2 * torch.randn(20, n, generator=seeded(4), dtype=torch.float64)
    z, log = flow(x)
    assert torch.allclose(torch.linalg.slogdet(jacobian(flow, x)).logabsdet, log, atol=1e-8)
    back, minus = flow(z, inverse=True)
    assert torch.allclose(back, x, atol=1e-7)
    assert torch.allclose(minus, -log, atol=1e-7)


def test_a_density_carried_by_a_flow_integrates_to_one():
    flow = bent(2, layers=2, hidden=(8,), bins=4)
    side = torch.linspace(-16, 16, 601, dtype=torch.float64)
    x = torch.cartesian_prod(side, side)
    with torch.no_grad():
        z, log = flow(x)
        density = (log - 0.5 * z.square().sum(1) - math.log(2 * math.pi)).exp()
    assert float(density.sum() * (side[1] - side[0]) ** 2) == pytest.approx(1, abs=1e-3)


def test_a_fresh_flow_is_a_rotation():
    x = torch.randn(30, 4, generator=seeded(5))
    z, log = Flow(4)(x)
    assert torch.allclose(z.norm(dim=1), x.norm(dim=1), atol=1e-4)
    assert log.abs().max() < 1e-4


def test_a_fresh_flow_can_begin_at_any_matrix():
    flow, x = Flow(3), torch.randn(30, 3, generator=seeded(5))
    H = torch.randn(3, 3, generator=seeded(6))
    flow.begin_at(H)
    z, log = flow(x)
    assert torch.allclose(z, x @ H.T, atol=1e-5)
    assert torch.allclose(log, torch.linalg.slogdet(H).logabsdet.expand(30), atol=1e-5)


def test_couplings_keep_what_they_condition_on_and_rotations_mix_it():
    coupling = Coupling(4, 2, (8,), 6)
    nn.init.normal_(coupling.bins[-1].weight)
    x = torch.randn(10, 4, generator=seeded(6))
    y, _ = coupling(x)
    assert torch.equal(y[:, :2], x[:, :2])
    assert not torch.allclose(y[:, 2:], x[:, 2:])
    assert (Affine(4)(x)[0] != x).all()
