"""Acyclicity is 0 for graphs without cycles alone; effects are those of a linear system, near a singular one too."""

from __future__ import annotations

import pytest
import torch

from whence.scm import is_acyclic, random_graph
from whence.terms import acyclicity, effects
from whence.terms.acyclicity import invertible, paths


def weights(n: int, seed: int, shuffle: bool = True) -> torch.Tensor:
    rng = torch.Generator().manual_seed(seed)
    graph = random_graph(n, probability=0.6, shuffle=shuffle, rng=rng)
    return graph * torch.randn(n, n, generator=rng, dtype=torch.float64)


def test_it_is_zero_exactly_for_graphs_without_cycles():
    for seed in range(10):
        a = weights(5, seed)
        assert float(acyclicity(a)) == pytest.approx(0, abs=1e-12)
        full = torch.randn(5, 5, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
        assert not is_acyclic(full != 0)
        assert float(acyclicity(full)) > 0


def test_a_cycle_of_two_in_closed_form():
    """tr (I + c/2 [[0, p], [q, 0]])^2 - 2 = c^2 p q / 2, with p and q the squares."""
    a = torch.tensor([[0.0, 0.7], [-1.3, 0.0]], dtype=torch.float64)
    assert float(acyclicity(a, c=1.5)) == pytest.approx(1.5**2 / 2 * 0.49 * 1.69, rel=1e-12)


def test_its_gradient_is_zero_where_it_is_met_and_right_elsewhere():
    a = weights(4, 0).requires_grad_()
    assert torch.autograd.grad(acyclicity(a), a)[0].abs().max() == 0
    full = torch.randn(4, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).requires_grad_()
    assert torch.autograd.gradcheck(acyclicity, full)


def test_effects_solve_the_system():
    a, e = weights(5, 3), torch.randn(7, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    z = e @ effects(a).T
    assert torch.allclose(z, z @ a + e)
    assert torch.allclose(effects(a), paths(a))


def test_effects_of_a_cycle_near_singularity_stay_finite():
    a = torch.tensor([[0.0, 1.0], [1.0, 0.0]], dtype=torch.float64)
    assert not invertible(a)
    assert effects(a).tolist() == [[1, 1], [1, 1]]
    half = 0.5 * a
    assert invertible(half)
    assert torch.allclose(effects(half), torch.linalg.inv(torch.eye(2, dtype=torch.float64) - half.T))
