"""Factors and views of any world."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from whence import Sprites
from whence.views import View
from whence.worlds.world import Factor, Grid, World


def test_the_base_cannot_be_built():
    with pytest.raises(TypeError, match=r"abstract"):
        World()  # type: ignore[abstract]


@given(st.lists(st.integers(1, 6), min_size=1, max_size=4), st.data())
def test_the_grids_numbering_is_a_bijection(sizes, data):
    grid = Grid(tuple(sizes))
    number = torch.arange(len(grid))
    index = grid.unravel(number)
    assert torch.equal(grid.number(index), number)
    assert (index < torch.tensor(sizes)).all()


def test_values_are_indexed_by_the_nearest_on_the_grid():
    factor = Factor("a", "ordinal", (0.0, 1.0, 3.0))
    assert factor.index(torch.tensor([-5.0, 0.4, 0.6, 1.9, 2.1, 9.0])).tolist() == [0, 0, 1, 1, 2, 2]
    assert Factor("b", "ordinal", (2.0,)).index(torch.tensor([0.0, 5.0])).tolist() == [0, 0]


def test_a_continuous_factor_is_uniform_over_its_range_and_has_no_grid(rng):
    factor = Factor("c", "continuous", (-1.0, 3.0))
    v = factor.draw(10_000, rng)
    assert factor.size is None
    assert -1 <= v.min() < -0.99
    assert 2.99 < v.max() <= 3
    with pytest.raises(TypeError, match=r"Factor 'c' is continuous and has no grid to index. Bin its values first"):
        factor.index(v)


def test_a_view_that_a_world_does_not_offer_is_refused():
    with pytest.raises(TypeError, match=r"Sprites offers Singles, Pairs, Groups, Labelled, not View"):
        Sprites().view(View)
