"""Panels of latents where the map from latents to pictures is known."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
import torch

from whence.report import drawing
from whence.report.latents import FRAMES, codes_of, difference_maps, latents
from whence.report.page import Signs, identified, signs
from whence.report.traversals import probe_of
from whence.representation import Representation
from whence.views import Spec
from whence.worlds import Balls

WORLD = Balls(balls=1, side=32, radius=3.0, model_seed=3)
VIEW = WORLD.environments(kind="hard", per_node=2, scale=(0.1, 6.0))
BOX = 0.1


class Quality(NamedTuple):
    lost: float = 0.25  #: of everything

    @property
    def failed(self) -> str:
        return "it lost a quarter" if self.lost > 0.2 else ""


class Truth(Representation):
    """Codes are the positions themselves, y first: found at the centre of gravity; the decoder is the renderer."""

    graph = torch.zeros(2, 2)
    quality = Quality()
    identified = (True, False)

    def __init__(self) -> None:
        super().__init__(Spec(WORLD.shape, environments=4), 2)

    def codes(self, x):
        ink, pixel = 1 - x[:, 1], torch.arange(32) + 0.5
        x_, y_ = ((ink.sum(axis) * pixel).sum(1) / ink.sum((1, 2)) for axis in (1, 2))
        return (torch.stack([y_, x_], 1) - 3) / 26 * 2 * BOX - BOX

    def decode(self, z):
        return WORLD.observe(z.flip(1))

    def do(self, x, do):
        z = self.codes(x)
        for i, how in do.items():
            z[:, i] = how(z[:, i])
        return self.decode(z)


def test_latents_are_shown_beside_their_factors_moved_and_set():
    r = Truth()
    found = latents(r, probe_of(r, WORLD), VIEW)
    assert [one.factor for one in found.each] == ["y1", "x1"]
    for one in found.each:
        assert one.correlation == pytest.approx(1, abs=1e-3)
        assert one.moved.shape == (FRAMES, *WORLD.shape)
        assert torch.allclose(one.moved, one.done, atol=0.02)  # nothing causes anything: to set is to move
        assert np.allclose(r.codes(one.done)[:, one.number], one.at, atol=2e-3)


def test_an_intervention_is_seen_at_the_edges_that_a_move_along_its_latent_changes():
    r = Truth()
    x = WORLD.observe(torch.tensor([[0.02, -0.03]]))
    maps = dict(difference_maps(r, x, VIEW, codes_of(r, VIEW)))
    assert set(maps) == set(VIEW.names)
    root = WORLD.scm.names[int((WORLD.graph.sum(0) == 0).nonzero()[0])]
    column, row = (((0.02 + BOX) / (2 * BOX) * 26 + 3), ((-0.03 + BOX) / (2 * BOX) * 26 + 3))
    for name, picture in maps.items():
        ink = np.clip(picture[0] - picture[2], 0, None)  # redness: how much of the mark is there
        i, j = np.meshgrid(np.arange(32) + 0.5 - row, np.arange(32) + 0.5 - column, indexing="ij")
        spread = (ink * i**2).sum() / ink.sum(), (ink * j**2).sum() / ink.sum()  # down, across
        assert max(spread) < 16, name  # near the ball
        if name == f"{root} (×0.1)":  # the others change scores along causes too, or too little where this picture is
            along, across = spread if root == "y1" else spread[::-1]
            assert along > 1.5 * across


def test_without_a_world_the_data_serve_and_without_both_nothing_does():
    r = Truth()
    found = latents(r, None, VIEW)
    assert found.each[0].factor is None
    assert found.each[0].z is None
    assert len(found.maps) == 4
    assert latents(r, None, None) is None
    probe = probe_of(r, WORLD)
    assert latents(r, probe, None).maps == ()


def test_values_set_by_do_have_no_maps():
    do = WORLD.environments(kind="do", points=(0.05,))
    assert latents(Truth(), None, do).maps == ()


def test_a_run_tells_its_signs_and_what_is_identified():
    found = signs(Truth())
    assert isinstance(found, Signs)
    assert found.failed == "it lost a quarter"
    assert (found.each[0].name, found.each[0].value, found.each[0].meaning) == ("lost", 0.25, "of everything")
    assert identified(Truth()) == "Of this run's latents it covers z0, and not the others."


def test_a_scatter_has_a_dot_for_each_pair():
    drawn = drawing.scatter(np.arange(5.0), np.arange(5.0) ** 2, ("<true>", "z0"))
    assert drawn.count("h0") == 5
    assert "&lt;true&gt;" in drawn


def test_stages_and_their_seconds_are_kept_with_the_run(tmp_path):
    from whence import GSCALE, fit, load
    from whence.descend import Recipe
    from whence.report.page import Report
    from whence.scm import RandomQuadratic
    from whence.worlds import Mixed

    world = Mixed(nodes=2, dims=4, mechanism=RandomQuadratic())
    view = world.environments(kind="hard", per_node=2, scale=(0.25, 4.0))
    fitted = fit(GSCALE(examples=300), view, recipe=Recipe(steps=3, batch=16), into=tmp_path / "run")
    assert set(fitted.stages) == set(fitted.curves)
    assert 0 < sum(fitted.stages.values()) < fitted.seconds
    again = load(tmp_path / "run")
    assert again.stages == pytest.approx(dict(fitted.stages), abs=1e-3)
    page = Report.of(tmp_path / "run")
    assert sum(share for _, share, _ in page.timings) == pytest.approx(1)
    assert page.signs.each[0].meaning
    assert "What this run says of itself" in page.html()
