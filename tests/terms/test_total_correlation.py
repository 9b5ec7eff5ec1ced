"""Permuted codes are samples of the product of marginals."""

from __future__ import annotations

import torch

from whence.terms import permute_dims


def test_permuting_keeps_every_marginal_exactly():
    torch.manual_seed(0)
    z = torch.randn(100, 4)
    assert torch.equal(permute_dims(z).sort(0).values, z.sort(0).values)


def test_permuting_makes_columns_independent():
    torch.manual_seed(0)
    z = torch.randn(20_000, 1).repeat(1, 3)
    off = torch.corrcoef(permute_dims(z).T) - torch.eye(3)
    assert off.abs().max() < 5 / 20_000**0.5


def test_permuting_moves_columns_apart_and_changes_no_input():
    torch.manual_seed(0)
    z = torch.arange(50.0)[:, None].repeat(1, 2)
    before = z.clone()
    permuted = permute_dims(z)
    assert not torch.equal(permuted[:, 0], permuted[:, 1])
    assert torch.equal(z, before)
