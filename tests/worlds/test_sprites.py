"""Sprites is dSprites, computed: the same factors, the same grid, and pictures that obey geometry."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Generator

from whence import Sprites
from whence.worlds.sprites import FACTORS, SIZE, TRAVEL, quantise, render
from whence.worlds.world import Grid

WORLD = Sprites()


def at(shape=1, scale=1.0, orientation=0.0, x=0.5, y=0.5) -> torch.Tensor:
    return torch.tensor([[shape, scale, orientation, x, y]], dtype=torch.float32)


def grid_values(index: torch.Tensor) -> torch.Tensor:
    return torch.stack([torch.tensor(f.values)[index[:, k]] for k, f in enumerate(FACTORS)], 1)


def picture(**factors) -> torch.Tensor:
    return WORLD.observe(at(**factors))[0, 0]


# --- the factors are those of dSprites --------------------------------------------------------------------------------


def test_factors_have_the_order_sizes_and_ranges_of_dsprites():
    assert [(f.name, f.size) for f in WORLD.factors] == [
        ("shape", 3),
        ("scale", 6),
        ("orientation", 40),
        ("x", 32),
        ("y", 32),
    ]
    assert len(WORLD.grid) == 737_280
    shape, scale, orientation, x, y = (f.values for f in WORLD.factors)
    assert shape == (1, 2, 3)
    assert scale == pytest.approx([0.5, 0.6, 0.7, 0.8, 0.9, 1.0])
    assert orientation == pytest.approx([k * 2 * math.pi / 39 for k in range(40)], abs=1e-6)
    assert x == y == pytest.approx([k / 31 for k in range(32)])
    assert [f.kind for f in WORLD.factors] == ["categorical", "ordinal", "circular", "ordinal", "ordinal"]


def test_drawn_factors_are_uniform_and_independent(rng):
    labels = WORLD.labels(WORLD.draw(20_000, rng=rng))
    for k, factor in enumerate(WORLD.factors):
        counts = torch.bincount(labels[:, k], minlength=factor.size)
        expected = 20_000 / factor.size
        assert ((counts - expected).square() / expected).sum() < factor.size + 5 * (2 * factor.size) ** 0.5
    off = np.corrcoef(labels.T.numpy()) - np.eye(5)
    assert np.abs(off).max() < 5 / 20_000**0.5


# --- geometry ---------------------------------------------------------------------------------------------------------


def test_a_stamp_is_the_picture_that_would_be_rendered(rng):
    v = WORLD.draw(300, rng=rng)
    difference = WORLD.stamped(WORLD.index(v)).int() - quantise(render(v)).int()
    assert difference.abs().max() <= 1
    assert WORLD.observe(v).shape == (300, 1, 64, 64)


def test_values_between_the_grids_are_rendered_and_approach_it():
    near, on = picture(x=0.5 + 1e-4), picture(x=0.5)
    assert not torch.equal(picture(x=0.516), picture(x=0.484))
    assert (near - on).abs().max() < 0.02
    exactly = WORLD.factors[3].values[16]
    assert torch.allclose(picture(x=exactly + 1e-4), picture(x=exactly), atol=0.02)


def test_pictures_lie_in_the_unit_interval_and_are_white_on_black(rng):
    x = WORLD.observe(WORLD.draw(200, rng=rng))
    assert x.min() == 0
    assert x.max() == 1
    soft = ((x > 0) & (x < 1)).float().mean()
    assert soft < 0.05  # only edges are grey


def test_no_sprite_ever_touches_the_border():
    index = torch.cartesian_prod(torch.arange(3), torch.tensor([5]), torch.arange(40), *[torch.tensor([0, 31])] * 2)
    x = WORLD.stamped(index)
    assert x[:, [0, -1], :].max() == 0
    assert x[:, :, [0, -1]].max() == 0


@pytest.mark.parametrize("shape", [1, 2, 3])
def test_the_area_grows_with_the_square_of_the_scale(shape):
    area = torch.stack([picture(shape=shape, scale=s).sum() for s in FACTORS[1].values])
    ratio = area / torch.tensor(FACTORS[1].values) ** 2
    assert (ratio / ratio[-1] - 1).abs().max() < 0.02


def test_areas_are_those_of_the_formulas():
    assert picture(shape=1).sum().item() == pytest.approx(2 * 14**2, rel=0.01)
    assert picture(shape=2).sum().item() == pytest.approx(math.pi * 14 * 7, rel=0.01)
    heart = 2 * math.pi / 2 * (math.sqrt(2) / 4) ** 2 + 0.5  # two half discs on a square of diagonal one
    assert picture(shape=3).sum().item() == pytest.approx(heart * (1.586 * 14) ** 2, rel=0.01)


def test_a_step_in_position_moves_the_sprite_by_one_pixel(rng):
    index = WORLD.index(WORLD.draw(100, rng=rng))
    index[:, 3:] = index[:, 3:].clamp(max=30)
    for column, axis in ((3, 2), (4, 1)):
        moved = index.clone()
        moved[:, column] += 1
        assert torch.equal(WORLD.stamped(moved), WORLD.stamped(index).roll(1, axis))


def test_x_goes_right_and_y_goes_down_and_the_centre_is_where_it_says():
    grid = torch.arange(SIZE) + 0.5
    for x, y in ((0.0, 0.0), (1.0, 0.0), (0.0, 1.0)):
        p = picture(shape=1, x=x, y=y)
        assert (p.sum(0) @ grid / p.sum()).item() == pytest.approx(16.5 + TRAVEL * x, abs=0.01)
        assert (p.sum(1) @ grid / p.sum()).item() == pytest.approx(16.5 + TRAVEL * y, abs=0.01)


@pytest.mark.parametrize("shape", [1, 2, 3])
def test_orientation_is_circular_and_both_ends_are_on_the_grid(shape):
    first, last = picture(shape=shape, orientation=0.0), picture(shape=shape, orientation=FACTORS[2].values[-1])
    assert (first - last).abs().max() <= 1 / 255 + 1e-6


def test_a_square_looks_the_same_after_a_quarter_turn_an_ellipse_after_half_a_heart_after_a_whole():
    def turned(shape, angle):
        return (picture(shape=shape, orientation=0.4) - picture(shape=shape, orientation=0.4 + angle)).abs().max()

    quarter = math.pi / 2
    assert turned(1, quarter) < 0.02
    assert turned(2, quarter) > 0.9
    assert turned(2, 2 * quarter) < 0.02
    assert turned(3, 2 * quarter) > 0.9
    assert turned(3, 4 * quarter) < 0.02


def test_turning_keeps_the_area():
    for shape in (1, 2, 3):
        areas = torch.stack([picture(shape=shape, orientation=o).sum() for o in FACTORS[2].values])
        assert (areas / areas.mean() - 1).abs().max() < 0.01


def test_an_upright_heart_is_mirror_symmetric_and_has_its_tip_below():
    p = picture(shape=3)
    rows = p.sum(1).nonzero().flatten()
    columns = p.sum(0).nonzero().flatten()
    box = p[:, columns[0] : columns[-1] + 1]
    middle = (columns[0] + columns[-1] + 1).item() / 2
    assert middle == pytest.approx(32.0, abs=0.51)
    assert (box - box.flip(1)).abs().max() < 0.02
    assert p[rows[-1] - 1].sum() < p[rows[0] + 1].sum()


# --- the whole grid ---------------------------------------------------------------------------------------------------


def test_the_grid_numbers_the_last_factor_fastest_as_the_published_file_does():
    number = torch.tensor([0, 1, 31, 32, 737_279])
    index = WORLD.grid.unravel(number)
    assert index.tolist() == [[0, 0, 0, 0, 0], [0, 0, 0, 0, 1], [0, 0, 0, 0, 31], [0, 0, 0, 1, 0], [2, 5, 39, 31, 31]]
    assert torch.equal(WORLD.grid.number(index), number)
    assert Grid((2, 3, 4)).strides == (12, 4, 1)


@pytest.fixture
def few_stamps(monkeypatch):
    """A world of the first shape and scale only: 40 stamps instead of 720."""
    monkeypatch.setattr(Sprites, "grid", Grid((1, 1, 40, 32, 32)))
    world = Sprites()
    world.__dict__["windows"] = WORLD.windows[:40]
    return world


def test_images_are_in_the_order_of_the_grid(few_stamps, rng):
    images = few_stamps.images()
    assert images.shape == (40 * 1024, 64, 64)
    assert images.dtype == torch.uint8
    number = torch.randint(len(images), (200,), generator=rng)
    assert torch.equal(images[number], WORLD.stamped(few_stamps.grid.unravel(number)))


@pytest.mark.slow
def test_bits_are_all_images_in_order_cut_at_one_half(rng):
    bits = WORLD.bits()
    assert bits.shape == (737_280, 512)
    number = torch.randint(len(bits), (500,), generator=rng)
    expected = WORLD.stamped(WORLD.grid.unravel(number)).flatten(1) > 127
    assert (np.unpackbits(bits[number].numpy(), axis=1) == expected.numpy()).all()


def test_the_whole_world_takes_a_few_megabytes():
    assert WORLD.windows.shape == (720, 32, 32, 64, 64)
    assert WORLD.windows.untyped_storage().nbytes() == 720 * 95 * 95


# --- variants ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def pictures(tmp_path):
    from PIL import Image

    noise = np.random.default_rng(0)
    for number, size in enumerate(((100, 80), (64, 64), (30, 40), (600, 300))):
        Image.fromarray(noise.integers(0, 256, (*size, 3), np.uint8)).save(tmp_path / f"{number}.png")
    (tmp_path / "readme.txt").write_text("not a picture")
    return tmp_path


@pytest.mark.parametrize("name", ["colour", "noise", "backgrounds"])
def test_variants_stay_in_the_unit_interval_and_depend_on_the_generator_alone(name, pictures):
    world = Sprites(**{name: {"colour": True, "noise": 1.0, "backgrounds": pictures}[name]})
    v = world.draw(20, rng=Generator().manual_seed(0))
    x = world.observe(v, Generator().manual_seed(1))
    assert x.shape == (20, *world.shape)
    assert x.min() >= 0
    assert x.max() <= 1
    assert torch.equal(x, world.observe(v, Generator().manual_seed(1)))
    assert not torch.equal(x, world.observe(v, Generator().manual_seed(2)))
    with pytest.raises(ValueError, match=r"random nuisances: pass rng=torch.Generator\(\) to observe"):
        world.observe(v)


def test_a_coloured_sprite_has_one_bright_colour_on_black(rng):
    x = Sprites(colour=True).observe(at().repeat(50, 1), rng)
    mask = picture() == 1
    paint = x[:, :, mask]
    assert (paint == paint[:, :, :1]).all()
    assert paint.min() >= 0.5
    assert paint.std(0).min() > 0.1
    assert x[:, :, picture() == 0].max() == 0


def test_noise_lies_behind_the_sprite_up_to_its_brightness(rng):
    x = Sprites(noise=0.3).observe(at().repeat(20, 1), rng)[:, 0]
    assert (x[:, picture() == 1] == 1).all()
    behind = x[:, picture() == 0]
    assert 0.29 < behind.max() <= 0.3
    assert behind.mean().item() == pytest.approx(0.15, abs=0.005)


def test_inside_the_sprite_the_background_is_inverted(pictures, rng):
    x = Sprites(backgrounds=pictures).dress(torch.stack([torch.zeros(1, 64, 64), torch.ones(1, 64, 64)]), rng)
    again = Generator().manual_seed(0)
    world = Sprites(backgrounds=pictures)
    behind = (world.crops(2, again) + torch.rand(2, 3, 1, 1, generator=again)) / 2
    torch.testing.assert_close(x[0], behind[0])
    torch.testing.assert_close(x[1], 1 - behind[1])


def test_background_pictures_are_kept_at_a_useful_size(pictures):
    world = Sprites(backgrounds=pictures)
    assert len(world.pictures) == 4
    for p in world.pictures:
        assert 64 <= min(p.shape[1:]) <= 256


def test_variants_that_make_no_sense_are_refused(tmp_path, rng):
    with pytest.raises(ValueError, match=r"noise is the brightness of the background, between 0 and 1, got 2"):
        Sprites(noise=2)
    with pytest.raises(ValueError, match=r"backgrounds replace colour and noise"):
        Sprites(backgrounds=tmp_path, colour=True)
    with pytest.raises(FileNotFoundError, match=r"backgrounds needs a folder with PNG"):
        Sprites(backgrounds=tmp_path).observe(at(), rng)


# --- refusals and views -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("v", "message"),
    [
        (at(shape=4), r"shape is 1 \(square\), 2 \(ellipse\) or 3 \(heart\), got 4"),
        (at(shape=0), r"shape is 1 \(square\)"),
        (at(scale=0.0), r"scale is above 0, got 0"),
        (at(x=math.nan), r"rows of 5 finite values \(shape, scale"),
        (torch.zeros(3, 4), r"rows of 5 finite values .* got shape \(3, 4\)"),
    ],
)
def test_factor_values_that_cannot_be_drawn_are_refused(v, message):
    with pytest.raises(ValueError, match=message):
        WORLD.observe(v)


def test_float64_factors_are_as_good():
    assert torch.equal(WORLD.observe(at().double()), WORLD.observe(at()))
    assert torch.equal(WORLD.index(at().double()), WORLD.index(at()))


def test_setting_a_factor_from_outside_leaves_the_others_as_they_were():
    def draw(**do):
        return WORLD.draw(50, rng=Generator().manual_seed(0), do=do)

    assert (draw(shape=2.0)[:, 0] == 2).all()
    assert torch.equal(draw(shape=2.0)[:, 1:], draw()[:, 1:])
    x = torch.linspace(0, 1, 50)
    assert torch.equal(draw(x=x)[:, 3], x)


def test_an_unknown_factor_suggests_the_nearest(rng):
    with pytest.raises(KeyError, match=r"Unknown factor 'orientaton'. Did you mean 'orientation'"):
        WORLD.draw(1, rng=rng, do={"orientaton": 0.0})
    with pytest.raises(IndexError, match=r"Factors are numbered 0 to 4, got 5"):
        WORLD.position(5)


@pytest.mark.parametrize("changing", [1, 2, 5])
def test_pairs_share_all_but_so_many_factors(changing, rng):
    ticket = WORLD.pairs(changing=changing).draw(4000, rng)
    v, v_ = ticket.chunk(2, dim=1)
    differ = v != v_
    assert differ.sum(1).max() == changing
    by_chance = 1 - torch.tensor([1 / f.size for f in FACTORS])  # changed factors may coincide
    assert torch.allclose(differ.float().mean(0), changing / 5 * by_chance, atol=0.05)


def test_pairs_change_between_one_and_all_but_one_factors_if_not_told(rng):
    v, v_ = WORLD.pairs().draw(4000, rng).chunk(2, dim=1)
    assert set((v != v_).sum(1).tolist()) == {0, 1, 2, 3, 4}


def test_a_pair_is_two_observations_of_its_factors(rng):
    view = WORLD.pairs(changing=1)
    ticket = view.draw(5, rng)
    pair = view.gather(ticket, rng)
    assert torch.equal(pair.x, WORLD.observe(ticket[:, :5]))
    assert torch.equal(pair.x_, WORLD.observe(ticket[:, 5:]))


@pytest.mark.parametrize("changing", [0, 6])
def test_pairs_cannot_change_more_factors_than_there_are(changing):
    with pytest.raises(ValueError, match=rf"change between 1 and 5 factors, got changing={changing}"):
        WORLD.pairs(changing=changing)


def test_views_say_where_they_come_from():
    assert WORLD.singles().origin == {"world": {"type": "Sprites", "colour": False, "noise": 0.0, "backgrounds": None},
                                      "view": "singles"}  # fmt: skip
    assert WORLD.pairs(changing=2).origin["changing"] == 2
