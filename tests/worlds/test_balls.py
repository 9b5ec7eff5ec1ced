"""Balls: pictures that follow geometry, and gradients that follow the pictures."""

from __future__ import annotations

import colorsys
import json
import math
import time

import pytest
import torch
from torch import Generator

from tests.worlds import drawn
from whence import values
from whence.check import run_checks, world_checks
from whence.runs import KNOWN
from whence.scm import RandomBoxedQuadratic, RandomMLP
from whence.worlds import Balls, Design

WORLD = Balls()
ONE = Balls(balls=1)


def seeded(n: int = 0) -> Generator:
    return Generator().manual_seed(n)


@pytest.mark.parametrize(
    "world",
    [Balls(), Balls(balls=3, apart=True), Balls(mechanism=RandomMLP(), stepped=True)],
    ids=["plain", "apart", "squashed and stepped"],
)
def test_it_keeps_the_promises_of_a_world(world):
    run_checks(world_checks(world))


# --- pictures ---------------------------------------------------------------------------------------------------------


def test_a_ball_covers_its_area_with_its_colour_on_white():
    x = ONE.observe(torch.zeros(1, 2))[0]
    assert torch.allclose(x[:, 32, 32], torch.tensor(colorsys.hsv_to_rgb(0, 0.9, 0.9)), atol=0.01)
    assert (x[:, :20] > 0.999).all()
    ink = float((1 - x[1]).sum() / (1 - 0.09))
    assert ink == pytest.approx(math.pi * 25, rel=0.02)


def test_positions_are_the_centres_of_gravity_x_to_the_right_and_y_down():
    v = torch.tensor([[-0.1, -0.1], [0.1, -0.1], [-0.1, 0.1], [0.03, 0.07]])
    ink = 1 - ONE.observe(v)[:, 1]
    pixel = torch.arange(64) + 0.5
    x, y = ((ink.sum(axis) * pixel).sum(1) / ink.sum((1, 2)) for axis in (1, 2))
    centre = 5 + (v + 0.1) / 0.2 * 54
    assert torch.allclose(torch.stack([x, y], 1), centre, atol=0.3)


def test_later_balls_are_on_top_and_hues_are_equally_spaced():
    x = Balls(balls=3).observe(torch.zeros(1, 6))[0, :, 32, 32]
    assert torch.allclose(x, torch.tensor(colorsys.hsv_to_rgb(2 / 3, 0.9, 0.9)), atol=0.01)


def test_balls_that_keep_apart_hide_nothing(rng):
    world = Balls(balls=3, apart=True)
    ink = (1 - world.smooth(world.centres(world.draw(300, rng=rng)))).prod(1)
    assert torch.allclose((1 - ink).sum((1, 2)), torch.full((300,), 3 * math.pi * 25), rtol=0.03)
    hidden = Balls(balls=3)
    some = (1 - hidden.smooth(hidden.centres(hidden.draw(300, rng=rng)))).prod(1)
    assert (1 - some).sum((1, 2)).min() < 2.5 * math.pi * 25


@pytest.mark.parametrize("mechanism", [RandomBoxedQuadratic(), RandomMLP()], ids=["boxed quadratic", "squashed"])
def test_balls_of_any_causal_model_stay_in_the_picture(mechanism, rng):
    world = Balls(mechanism=mechanism)
    c = world.centres(world.draw(5_000, rng=rng))
    assert c.min() >= 5
    assert c.max() <= 59
    assert world.graph.sum() == 6


def test_no_picture_makes_an_empty_batch():
    assert WORLD.observe(torch.zeros(0, 4)).shape == (0, 3, 64, 64)


def test_drawing_is_far_quicker_than_matplotlib():
    """benchmarks/gscale_speed.md says how many a second; here only that it is not lost, on a machine of any speed."""
    v = WORLD.draw(100, rng=seeded())

    def best(call, n: int) -> float:
        times = []
        for _ in range(5):
            begin = time.process_time()
            call()
            times.append(time.process_time() - begin)
        return min(times) / n

    ours = best(lambda: WORLD.observe(v), 100)
    colours = [tuple(colour) for colour in WORLD.colours.tolist()]
    centres = [list(zip(row.tolist(), colours, strict=True)) for row in WORLD.centres(v[:4])]
    theirs = best(lambda: [drawn.balls(row) for row in centres], 4)
    assert theirs > 20 * ours


# --- gradients --------------------------------------------------------------------------------------------------------


def test_gradients_are_finite_differences(rng):
    v = WORLD.draw(4, rng=rng).double().requires_grad_()
    assert torch.autograd.gradcheck(lambda a: WORLD.observe(a)[:, :, ::12, ::12], (v,), eps=1e-6, atol=1e-5)


def test_pictures_are_the_same_with_gradients_and_without_forwards_and_backwards(rng):
    world = Balls(balls=3)
    v = world.draw(30, rng=rng).double()  # two chunks
    x = world.observe(v)
    assert torch.equal(x, world.observe(v.clone().requires_grad_()).detach())
    weight = torch.randn(x.shape, generator=rng, dtype=x.dtype)
    along = torch.randn(v.shape, generator=rng, dtype=v.dtype)
    x_, forwards = torch.func.jvp(world.observe, (v,), (along,))
    backwards = torch.func.grad(lambda a: (weight * world.observe(a)).sum())(v)
    assert torch.allclose(x, x_)
    assert torch.allclose((weight * forwards).sum(), (along * backwards).sum())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_gradients_are_finite_everywhere(dtype):
    v = torch.tensor([[-0.1, -0.1, 0.1, 0.1], [0.0, 0.0, 0.0, 0.0]], dtype=dtype).requires_grad_()
    (g,) = torch.autograd.grad(WORLD.observe(v).square().sum(), v)
    assert torch.isfinite(g).all()


def test_stepped_pictures_do_not_change_for_small_moves():
    world = Balls(stepped=True)
    v = torch.full((1, 4), 0.003)
    assert torch.equal(world.observe(v), world.observe(v + 1e-4))
    assert not torch.equal(WORLD.observe(v), WORLD.observe(v + 1e-4))
    assert set(world.observe(v)[0, 0].unique().tolist()) <= {1.0, *world.colours[:, 0].tolist()}


def test_true_score_differences_of_pictures_are_those_of_positions(rng):
    truth = WORLD.score_differences(per_node=2, scale=(0.25, 4.0))
    v = WORLD.draw(6, rng=rng).double()
    d = truth.pictures(v)
    assert d.shape == (8, 6, 3, 64, 64)
    for j in range(4):
        tangent = torch.eye(4, dtype=torch.float64)[j].expand_as(v)
        along = torch.func.jvp(WORLD.observe, (v,), (tangent,))[1]
        assert torch.allclose((d * along).flatten(2).sum(2), truth.latent(v)[..., j], atol=1e-6)


def test_two_hard_interventions_on_a_node_differ_in_it_alone(rng):
    d = WORLD.score_differences(per_node=2, scale=(0.25, 4.0)).latent(WORLD.draw(50, rng=rng).double())
    for i in range(4):
        apart = (d[i] - d[4 + i]).abs().mean(0)
        assert apart[i] > 1
        assert apart.sum() - apart[i] < 1e-9


# --- environments -----------------------------------------------------------------------------------------------------


def test_do_sets_a_position_and_tells_it():
    view = WORLD.environments(kind="do", points=(-0.05, 0.05))
    assert [e.value for e in view.told] == [-0.05] * 4 + [0.05] * 4
    assert view.names[:2] == ("x1 (=-0.05)", "y1 (=-0.05)")
    ticket = view.draw(20, seeded())
    assert (ticket[:, 6, 1] == 0.05).all()
    assert ticket[:, 0, 1].unique().numel() > 1
    assert WORLD.environments(kind="do", points=(0.0,), targets="unknown").told[0].value is None


def test_a_do_without_points_is_refused():
    with pytest.raises(ValueError, match="needs points"):
        Design(kind="do")
    with pytest.raises(ValueError, match="needs points"):
        Design(points=(0.1,))
    with pytest.raises(ValueError, match="an environment for each point"):
        Design(kind="do", points=(0.1,), per_node=2)


def test_it_can_be_recorded_with_its_truth():
    truth = Balls(mechanism=RandomBoxedQuadratic()).score_differences(per_node=2)
    assert values.build(json.loads(json.dumps(values.describe(truth))), KNOWN) == truth


@pytest.mark.parametrize("wrong", [{"balls": 0}, {"balls": 7, "apart": True}, {"radius": 0.0}])
def test_impossible_pictures_are_refused(wrong):
    with pytest.raises(ValueError, match="room to move"):
        Balls(**wrong)


def test_rows_of_another_length_are_refused():
    with pytest.raises(ValueError, match="rows of 4 positions"):
        WORLD.observe(torch.zeros(2, 3))
