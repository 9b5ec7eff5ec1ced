"""Shrunk pictures have the causes of the large ones, and their brightness."""

from __future__ import annotations

import pytest
import torch

from whence.check import check_world
from whence.worlds import Mixed, Shrunk, Sprites


def test_each_pixel_is_the_mean_of_a_square():
    rng = torch.Generator().manual_seed(0)
    v = Sprites().draw(5, rng=rng)
    x, small = Sprites().observe(v), Shrunk(factor=8).observe(v)
    assert small.shape == (5, 1, 8, 8)
    torch.testing.assert_close(small[2, 0, 3, 4], x[2, 0, 24:32, 32:40].mean())
    torch.testing.assert_close(small.mean((1, 2, 3)), x.mean((1, 2, 3)))


def test_it_keeps_the_promises_of_a_world():
    check_world(Shrunk())
    check_world(Shrunk(of=Sprites(noise=0.5), factor=2))


@pytest.mark.parametrize(("of", "factor"), [(Sprites(), 5), (Sprites(), 0), (Mixed(), 2)])
def test_sides_are_divided(of, factor):
    with pytest.raises(ValueError, match=rf"that divides their sides, got factor={factor}"):
        Shrunk(of=of, factor=factor)
