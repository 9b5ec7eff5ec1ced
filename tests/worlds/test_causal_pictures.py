"""Pendulum, Flow and Faces: the published geometry, an exact causal model, exact counterfactual pictures."""

from __future__ import annotations

import math
import time

import numpy as np
import pytest
import torch

from tests.worlds import drawn
from whence.check import check_world
from whence.scm import from_edges
from whence.worlds import CelebA, Faces, Flow, Pendulum

WORLDS = [Pendulum(size=64), Pendulum(size=32, noise=0.5), Flow(size=64), Flow(size=32, noise=0.5, jitter=True)]
WORLDS += [
    Faces(),
    Faces(nuisances=True),
    Pendulum(size=32, split="train", truncated=True),
    Flow(size=32, split="test"),
]


@pytest.mark.parametrize("world", WORLDS, ids=str)
def test_keeps_the_promises_of_a_world(world):
    check_world(world)


@pytest.mark.parametrize("size", [64, 96])
def test_pendulum_is_the_published_picture(size, rng):
    v = Pendulum().draw(12, rng=rng)
    x = Pendulum(size=size).observe(v)
    theirs = torch.stack([drawn.pendulum(row, size) for row in v])
    assert (x - theirs).abs().mean() < 0.0012  # matplotlib moves the shadow's ends to whole pixels
    above = slice(0, size * 4 // 5)
    assert (x - theirs)[:, :, above].abs().mean() < 0.0008


@pytest.mark.parametrize("size", [64, 96])
def test_flow_is_the_published_picture(size, rng):
    v = Flow().draw(12, rng=rng)
    x = Flow(size=size).observe(v)
    theirs = torch.stack([drawn.flow(row, size) for row in v])
    # matplotlib moves the water's surface and the cup's openings to whole pixels as well
    assert (x - theirs).abs().mean() < 0.004


def test_published_grids_and_splits():
    for world, many, train, test in ((Pendulum, 7308, 5482, 1826), (Flow, 8100, 6480, 1620)):
        parts = [world(split=part).rows for part in ("all", "train", "test")]
        assert [len(part) for part in parts] == [many, train, test]
        rows = {tuple(row) for row in parts[1].tolist()} | {tuple(row) for row in parts[2].tolist()}
        assert len(rows) == many, "no causes occur in both parts"


@pytest.mark.parametrize("world", [Pendulum, Flow])
def test_no_picture_is_in_both_parts(world):
    """In eight bits. 824 names of files of the published Flow are in both."""
    seen = [
        {hash(part.tobytes()) for part in w.observe(w.everything()).mul_(255).round_().byte().numpy()}
        for w in (world(size=64, split="train"), world(size=64, split="test"))
    ]
    assert not seen[0] & seen[1]


def test_published_label_statistics():
    """Means and deviations measured on the authors' generator, truncated as theirs."""
    v = Pendulum(split="train", truncated=True)
    u = v.labels(v.everything())
    assert u.mean(0).tolist() == pytest.approx([1.5, 103.5, 4.67, 10.04], abs=0.05)
    assert u.std(0).tolist() == pytest.approx([24.25, 25.55, 2.21, 3.44], abs=0.05)
    r = np.corrcoef(u.T.numpy())
    assert [r[0, 3], r[1, 3], r[0, 2], r[1, 2]] == pytest.approx([0.505, 0.857, -0.076, 0.112], abs=0.005)
    w = Flow(split="train", truncated=True)
    u = w.labels(w.everything())
    assert len(u.unique(dim=0)) == 5254, "names of files, which overwrote each other"
    assert u.mean(0).tolist() == pytest.approx([19.5, 2.4, 38.4, 10.0], abs=0.06)
    assert u.amin(0).tolist() == [5, 1, 17, 6]
    assert u.amax(0).tolist() == [34, 5, 65, 14]


def test_labels_are_continuous_unless_truncated(rng):
    for world in (Pendulum(size=16, truncated=True), Pendulum(size=16)):
        u = world.labelled().batch(50, rng).u
        assert (u == u.trunc()).all() == world.truncated


def test_graphs():
    names = Pendulum().scm.names
    assert torch.equal(Pendulum().graph, from_edges([(names[i], names[j]) for i in (0, 1) for j in (2, 3)], names))
    flow = Flow().scm.names
    assert torch.equal(Flow().graph, from_edges([("ball", "water"), ("water", "flow"), ("hole", "flow")], flow))
    faces = Faces().scm.names
    edges = [("gender", "eyes_open"), ("smile", "eyes_open"), ("smile", "mouth_open")]
    assert torch.equal(Faces().graph, from_edges(edges, faces))


def test_pendulum_shadow_is_where_light_falls(rng):
    """The shadow's ends are where the rays through the pivot and through the ball's lower end meet the ground."""
    v = Pendulum().draw(200, rng=rng).double()
    theta, phi = v[:, 0] * math.pi / 200, v[:, 1] * math.pi / 200
    for x, y in ((10.0, 10.5), (10 + 9.5 * theta.sin(), 10.5 - 9.5 * theta.cos())):
        ground = x + (-0.5 - y) / phi.tan()
        end = (v[:, 3] - ground).abs()
        wide = v[:, 2] > 3.001
        assert (end - v[:, 2] / 2)[wide].abs().max() < 1e-4


def test_flow_counterfactual_keeps_what_was_poured(rng):
    world = Flow(noise=0.5)
    v = world.draw(100, rng=rng)
    new = world.counterfactual(v, {"ball": 30.0})
    poured = [t[:, 1] - (t[:, 0] / 30) ** 3 for t in (v, new)]
    assert torch.allclose(*poured, atol=1e-5)
    assert torch.equal(new[:, 3], v[:, 3])
    own = [t[:, 2] - 10 * (2 * 0.98 * t[:, 1] * (t[:, 3] / 3 - 0.5)).sqrt() for t in (v, new)]
    assert torch.allclose(*own, atol=1e-4), "the jet keeps its own noise"
    set_ = world.counterfactual(v, {"flow": 30.0})
    assert torch.equal(set_[:, [0, 1, 3]], v[:, [0, 1, 3]])


@pytest.mark.parametrize(("world", "name"), [(Pendulum(), "shadow_length"), (Pendulum(), "light"), (Faces(), "smile")])
def test_a_counterfactual_picture_changes_where_it_should(world, name, rng):
    v = world.draw(20, rng=rng)
    k = world.position(name)
    new = world.counterfactual(v, {name: world.factors[k].values[1]})
    changed = (world.observe(v) - world.observe(new)).abs().amax((0, 1)) > 0.02
    half = world.size // 2
    if name == "shadow_length":  # only the ground
        assert not changed[: world.size * 3 // 4].any()
    if name == "light":  # the sun and the shadow, not the rod between
        assert changed[: half // 2].any()
        assert changed[half:].any()
    if name == "smile":  # mouth and eyes, not the hair
        assert not changed[: world.size // 4].any()


def test_do_on_a_published_split(rng):
    world = Pendulum(split="test")
    v = world.draw(50, rng=rng, do={"light": 80.0})
    assert (v[:, 1] == 80).all()
    pendulum = v[:, :2].double()
    from whence.worlds.pendulum import position

    assert torch.allclose(v[:, 3].double(), position(pendulum), atol=1e-4)


def test_messages():
    with pytest.raises(ValueError, match="at least 16 pixels"):
        Pendulum(size=4)
    with pytest.raises(ValueError, match="noise is how far effects vary"):
        Flow(noise=-1)
    with pytest.raises(ValueError, match=r"Unknown split 'tran'. Did you mean 'train'"):
        Pendulum(split="tran")
    with pytest.raises(ValueError, match="needs rows of 4 finite values"):
        Pendulum().observe(torch.full((2, 4), torch.nan))
    with pytest.raises(ValueError, match="jets of random length: pass rng"):
        Flow(jitter=True).observe(torch.ones(1, 4))
    with pytest.raises(ValueError, match="point mass and has no density"):
        Pendulum().scm.log_prob(torch.ones(4))
    with pytest.raises(ValueError, match="pass rng"):
        Pendulum(noise=1, split="all").everything()
    with pytest.raises(KeyError, match="Did you mean 'light'"):
        Pendulum().position("ligth")


def test_rendering_is_far_quicker_than_matplotlib(rng):
    """The committed benchmark says how much; here only that it is not lost."""
    world = Pendulum(size=96)
    v = world.draw(512, rng=rng)
    world.observe(v[:64])

    def best(call, n: int) -> float:
        times = []
        for _ in range(3):
            begin = time.process_time()
            call()
            times.append(time.process_time() - begin)
        return min(times) / n

    ours = best(lambda: world.observe(v), 512)
    theirs = best(lambda: [drawn.pendulum(row) for row in v[:5]], 5)
    assert theirs > 20 * ours


# --- CelebA ----------------------------------------------------------------------------------------------------------

ATTRIBUTES = ("5_o_Clock_Shadow", "Male", "Mouth_Slightly_Open", "Narrow_Eyes", "Smiling")


def write_celeba(folder, many: int = 40):
    """A small folder in the published layout, its pictures coloured by their attributes."""
    from PIL import Image

    (folder / "img_align_celeba").mkdir(parents=True)
    rows = np.random.default_rng(0).integers(0, 2, (many, len(ATTRIBUTES)))
    rows[:32] = (np.arange(32)[:, None] >> np.arange(5)) & 1
    lines, parts = [], []
    for i, row in enumerate(rows):
        name = f"{i + 1:06d}.jpg"
        picture = np.zeros((218, 178, 3), np.uint8)
        picture[39:179, 19:159] = 255 * row[[1, 2, 4]]
        Image.fromarray(picture).save(folder / "img_align_celeba" / name, quality=95)
        lines.append(f"{name}  " + " ".join(" 1" if on else "-1" for on in row))
        parts.append(f"{name} {0 if i < 32 else 1 + i % 2}")
    (folder / "list_attr_celeba.txt").write_text("\n".join([str(many), " ".join(ATTRIBUTES), *lines]) + "\n")
    (folder / "list_eval_partition.txt").write_text("\n".join(parts) + "\n")
    return folder


def test_celeba_keeps_the_promises_of_a_world(tmp_path):
    check_world(CelebA(write_celeba(tmp_path / "celeba"), size=32))


def test_celeba_pictures_have_their_attributes(tmp_path, rng):
    world = CelebA(write_celeba(tmp_path / "celeba"), size=32)
    assert [f.name for f in world.factors] == list(world.attributes)
    x, u = world.labelled().batch(64, rng)
    assert x.shape == (64, 3, 32, 32)
    seen = x.mean((2, 3)).round()
    assert torch.equal(seen, u[:, [0, 3, 1]]), "male, mouth open, smiling; the central crop without its border"
    eyes = world.listed.v[:, 2]
    assert eyes.mean() == 0.5
    assert len(CelebA(world.folder, part="all").listed.files) == 40
    assert {len(CelebA(world.folder, part=part).listed.files) for part in ("valid", "test")} == {4}


def test_celeba_says_what_is_wrong(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"img_align_celeba.*is missing.*or use Faces"):
        CelebA(tmp_path).draw(1, rng=torch.Generator())
    folder = write_celeba(tmp_path / "celeba")
    with pytest.raises(ValueError, match=r"Unknown attribute 'Smilling'. Did you mean 'Smiling'"):
        CelebA(folder, attributes=("Smilling",)).draw(1, rng=torch.Generator())
    with pytest.raises(ValueError, match="Unknown part 'trian'"):
        CelebA(folder, part="trian")
    with pytest.raises(ValueError, match="A crop of 200 needs pictures"):
        CelebA(folder, crop=200).observe(torch.zeros(1, 4))
    with pytest.raises(ValueError, match="No picture of this part has Male 1"):
        CelebA(folder, part="valid").observe(torch.tensor([[float(a), float(b), float(c), float(d)] for a in (1, 0) for b in (0, 1) for c in (0, 1) for d in (0, 1)]))  # fmt: skip  # noqa: E501
    (folder / "img_align_celeba" / "000001.jpg").write_bytes(b"no picture")
    with pytest.raises(ValueError, match=r"000001.jpg.* is not a picture that can be read"):
        CelebA(folder, part="all").pictures(torch.tensor([0]))
    text = (folder / "list_attr_celeba.txt").read_text()
    (folder / "list_attr_celeba.txt").write_text("41" + text[2:])
    with pytest.raises(ValueError, match="announces 41 pictures and lists 40"):
        CelebA(folder).draw(1, rng=torch.Generator())
    (folder / "list_attr_celeba.txt").write_text(text)
    (folder / "list_eval_partition.txt").write_text("000001.jpg 7\n")
    with pytest.raises(ValueError, match="not a file's name and 0, 1 or 2"):
        CelebA(folder).draw(1, rng=torch.Generator())
