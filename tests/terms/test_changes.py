"""Objectives of score differences: zero at the truth, and what changes them."""

import pytest
import torch
from torch import Generator

from whence.terms.changes import axis_distance, leak, mean_changes


def drawn(p=3, n=3, seed=0):
    return torch.rand(p, n, generator=Generator().manual_seed(seed), dtype=torch.float64) + 0.1


def test_mean_changes_are_means_of_magnitudes():
    d = torch.tensor([[[1.0, -2.0], [-3.0, 4.0]]])
    assert mean_changes(d).tolist() == [[2.0, 3.0]]


def test_differences_along_the_axes_leak_nothing_whatever_their_size():
    D = torch.diag(torch.tensor([0.01, 1.0, 50.0]))
    assert leak(D, torch.tensor([1.0, 3.0, 0.2])) == 0
    assert axis_distance(torch.eye(3)) == 0
    assert axis_distance(D) == pytest.approx(0.99 + 49)


def test_the_leak_does_not_change_with_units_and_the_published_distance_does():
    D, spread, units = drawn(), drawn(1)[0], torch.tensor([0.1, 2.0, 7.0]).double()
    before = leak(D, spread)
    assert leak(D / units, spread * units) == pytest.approx(float(before))  # of a latent
    assert leak(D * units[:, None], spread) == pytest.approx(float(before))  # strength of an intervention
    assert axis_distance(D / units) != pytest.approx(float(axis_distance(D)))


def test_the_leak_is_the_mean_ratio_of_its_formula():
    D, spread = drawn(2, 3), drawn(1)[0]
    parts = [D[i, k] * spread[k] / (D[i, i] * spread[i]) for i in range(2) for k in range(3) if i != k]
    assert leak(D, spread) == pytest.approx(float(sum(parts)) / len(parts))
