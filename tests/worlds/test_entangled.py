"""Factors spoiled in known ways."""

from typing import get_args

import pytest
import torch

from whence.worlds import Entangled
from whence.worlds.entangled import How


@pytest.fixture
def rng():
    return torch.Generator().manual_seed(0)


@pytest.mark.parametrize("how", get_args(How))
def test_the_shape_is_that_of_what_is_observed(how, rng):
    world = Entangled(how=how)
    assert world.observe(world.draw(7, rng=rng), rng).shape == (7, *world.shape)


def test_a_rotation_keeps_lengths_and_grows_with_its_amount(rng):
    v = Entangled().draw(500, rng=rng)
    still, some, most = (Entangled(how="rotated", amount=a).observe(v) for a in (0.0, 0.3, 1.0))
    assert torch.allclose(still.norm(dim=1), most.norm(dim=1), atol=1e-4)
    assert 0 < (some - still).norm() < (most - still).norm()
    assert torch.allclose(Entangled(how="merged", amount=0.0).observe(v), still, atol=1e-5)


def test_values_are_standardised(rng):
    world = Entangled(how="squashed", amount=1e-3)
    x = world.observe(world.draw(20_000, rng=rng)) / 2e-3
    assert torch.allclose(x.mean(0), torch.zeros(5), atol=0.03)
    assert torch.allclose(x.std(0), torch.ones(5), atol=0.03)


def test_the_last_factor_is_missing(rng):
    world = Entangled(how="missing")
    v = world.draw(5, rng=rng)
    other = v.clone()
    other[:, -1] = 0.0
    assert torch.equal(world.observe(v), world.observe(other))


def test_noise_needs_a_generator_and_an_unknown_way_is_refused(rng):
    with pytest.raises(ValueError, match=r"noisy has noise of its own: pass rng"):
        Entangled(how="noisy").observe(Entangled().draw(2, rng=rng))
    with pytest.raises(ValueError, match=r"how is one of rotated, merged"):
        Entangled(how="mixed")
