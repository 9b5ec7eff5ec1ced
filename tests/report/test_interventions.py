"""Strips of pictures under interventions, on the page and from the command line."""

from __future__ import annotations

import io

import numpy as np
import pytest
import torch
from PIL import Image

from whence import fit, runs
from whence.cli import main
from whence.descend import Recipe
from whence.methods import VAE, AnchoredVAE, CausalVAE
from whence.metrics import Probe
from whence.nets import MLP
from whence.report import report
from whence.report.interventions import panels, settings_of, strip
from whence.worlds import Pendulum

WORLD = Pendulum(size=16, noise=0.5)
GRAPH = tuple(f"{cause}->shadow_{effect}" for cause in ("pendulum", "light") for effect in ("length", "position"))
TINY = Recipe(steps=4, batch=8, every=2)
NET = MLP(hidden=(16,))


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "anchored"
    fit(AnchoredVAE(graph=GRAPH, net=NET, drawing=NET, hidden=(8,)), WORLD, recipe=TINY, into=folder)
    return folder


def test_panels_hold_the_world_s_own_counterfactuals(run):
    r = runs.load(run).representation
    probe = Probe(r, WORLD)
    x, found = panels(r, probe, frames=3)
    assert [panel.name for panel in found] == list(r.names)
    light = found[1]
    assert light.at == [60.0, 103.5, 147.0]
    v = WORLD.draw(1, rng=probe.generator("reconstruct"))
    assert torch.equal(light.truth[1:2], WORLD.observe(WORLD.counterfactual(v, {"light": 103.5})))
    assert torch.allclose(light.pictures[1:2], r.do(x, {"light": 103.5}), atol=1e-6)
    assert light.error == pytest.approx((light.pictures - light.truth).square().mean().item())


def test_what_has_no_concepts_has_no_panels():
    r = fit(VAE(net=NET), WORLD, recipe=TINY).representation
    assert panels(r, Probe(r, WORLD)) is None
    with pytest.raises(ValueError, match="VAE has no interventions"):
        strip(fit(VAE(net=NET), WORLD, recipe=TINY), {"light": 90.0})


def test_the_page_shows_them(run):
    page = report(run).read_text()
    assert page.count("pictures while") == 4
    assert "shadow_position" in page


def test_a_page_of_concepts_of_several_numbers(tmp_path):
    fit(CausalVAE(graph=GRAPH, net=NET), WORLD, recipe=TINY, into=tmp_path / "run")
    page = report(tmp_path / "run").read_text()
    assert "pictures while light" in page
    assert "Effective mixing" in page


def test_a_strip_has_the_observation_and_every_value(run):
    png = strip(runs.load(run), {"light": (60.0, 147.0), "pendulum": 0.0}, frames=5)
    with Image.open(io.BytesIO(png)) as picture:
        assert picture.size == (6 * 16 + 5 * 3, 16)


def test_from_the_command_line(run, tmp_path, capsys):
    picture = tmp_path / "seen.png"
    x = WORLD.observe(WORLD.draw(1, rng=torch.Generator().manual_seed(3)))[0]
    Image.fromarray((x.permute(1, 2, 0) * 255).byte().numpy()).save(picture)
    out = tmp_path / "strip.png"
    assert main(["do", str(run), "light=60..147", "--of", str(picture), "--frames", "4", "--out", str(out)]) == 0
    with Image.open(out) as found:
        assert found.size == (5 * 16 + 4 * 3, 16)
        seen = np.asarray(found.convert("RGB"))[:, :16]
    assert np.array_equal(seen, np.asarray(Image.open(picture))), "the first picture is the one that was given"
    assert main(["do", str(run)]) == 2
    assert "do needs what to set" in capsys.readouterr().err
    assert main(["do", str(run), "lihgt=90"]) == 2
    assert "Did you mean 'light'" in capsys.readouterr().err
    assert main(["do", str(run), "light=much"]) == 2
    assert "set to a number or a range" in capsys.readouterr().err
    Image.new("RGB", (20, 20)).save(picture)
    assert main(["do", str(run), "light=90", "--of", str(picture)]) == 2
    assert "Scale it to 16 x 16 pixels" in capsys.readouterr().err
    Image.new("L", (16, 16)).save(picture)
    assert main(["do", str(run), "light=90", "--of", str(picture), "--out", str(out)]) == 0, "grey becomes colour"


def test_settings():
    assert settings_of(["a=1..2", "b=-3.5"]) == {"a": (1.0, 2.0), "b": -3.5}
    with pytest.raises(ValueError, match="One concept runs over a range"):
        settings_of(["a=1..2", "b=1..2"])
