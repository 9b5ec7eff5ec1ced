"""The reader of the published file, on small files in its format."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from whence import DSprites, Sprites, fit
from whence.methods import PCA
from whence.worlds.dsprites import ROWS

SIZES = (1, 3, 2, 4, 2, 2)  # colour, shape, scale, orientation, x, y


def contents(sizes: tuple[int, ...] = SIZES, side: int = 16) -> dict[str, np.ndarray]:
    """The arrays of the published file, for a smaller grid and random pictures."""
    classes = np.stack(np.unravel_index(np.arange(np.prod(sizes)), sizes), 1)
    columns = [np.ones(1), np.arange(1, 4), *(np.linspace(0.5, 1, n) for n in sizes[2:])]
    values = np.stack([column[classes[:, k]] for k, column in enumerate(columns)], 1)
    imgs = np.random.default_rng(0).integers(0, 2, (len(classes), side, side)).astype(np.uint8)
    metadata = np.array({"title": "dSprites dataset", "latents_sizes": np.array(sizes)}, dtype=object)
    return {"metadata": metadata, "imgs": imgs, "latents_classes": classes, "latents_values": values}


def write_dsprites(path: Path) -> Path:
    """A small file in the published format."""
    np.savez_compressed(path, **contents())
    return path


@pytest.fixture
def file(tmp_path) -> Path:
    return write_dsprites(tmp_path / "dsprites.npz")


def test_every_picture_comes_back_pixel_for_pixel(file):
    world, published = DSprites(file), contents()
    v = torch.from_numpy(published["latents_values"][:, 1:]).float()
    assert world.shape == (1, 16, 16)
    assert torch.equal(world.observe(v)[:, 0], torch.from_numpy(published["imgs"]).float())


def test_labels_are_the_published_classes_and_values_the_published_values(file):
    world, published = DSprites(file), contents()
    v = torch.from_numpy(published["latents_values"][:, 1:]).float()
    assert (world.labels(v).numpy() == published["latents_classes"][:, 1:]).all()
    assert [(f.name, f.size) for f in world.factors] == list(
        zip(("shape", "scale", "orientation", "x", "y"), SIZES[1:], strict=True)
    )
    assert world.factors[1].values == (0.5, 1.0)
    assert [f.kind for f in world.factors] == [f.kind for f in Sprites().factors]


def test_a_file_of_more_rows_than_are_read_at_once(tmp_path):
    data = contents((1, 3, 2, 40, 5, 5), side=8)
    assert len(data["imgs"]) > ROWS
    np.savez_compressed(tmp_path / "large.npz", **data)
    world = DSprites(tmp_path / "large.npz")
    v = torch.from_numpy(data["latents_values"][-50:, 1:]).float()
    assert torch.equal(world.observe(v)[:, 0], torch.from_numpy(data["imgs"][-50:]).float())


def test_one_bit_a_pixel_is_kept(file):
    assert DSprites(file).recorded.bits.shape == (96, 16 * 16 // 8)


def test_methods_learn_from_it(file):
    assert fit(PCA(latents=2, examples=100), DSprites(file)).representation.encode(torch.zeros(3, 1, 16, 16)).shape == (
        3,
        2,
    )


def test_a_missing_file_names_the_file_and_the_twin(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"nowhere.npz' is not a file. .*or use Sprites, the procedural twin"):
        _ = DSprites(tmp_path / "nowhere.npz").factors


@pytest.mark.parametrize("share", [0.0, 0.3, 0.9, 0.999])
def test_a_truncated_file_is_refused(share, file):
    data = file.read_bytes()
    file.write_bytes(data[: int(len(data) * share)])
    with pytest.raises(ValueError, match=r"dsprites.npz' is not a whole dSprites file: .*Get dsprites_ndarray_co1sh3"):
        _ = DSprites(file).factors


def test_a_damaged_file_is_refused_wherever_it_is_damaged(file):
    whole, rng = file.read_bytes(), np.random.default_rng(0)
    start = whole.index(b"imgs.npy")
    for place in rng.integers(start + 40, start + 1500, 20):
        file.write_bytes(whole[:place] + bytes([whole[place] ^ 255]) + whole[place + 1 :])
        with pytest.raises(ValueError, match=r"is not a whole dSprites file"):
            _ = DSprites(file).factors


def test_what_is_not_an_archive_is_refused(tmp_path):
    (tmp_path / "page.npz").write_text("<html>404: not found</html>")
    with pytest.raises(ValueError, match=r"page.npz' is not a whole dSprites file: File is not a zip file"):
        _ = DSprites(tmp_path / "page.npz").factors


def other_archive(data):
    return {"x": data["imgs"]}


def without_labels(data):
    return {k: v for k, v in data.items() if k != "latents_classes"}


def shuffled(data):
    return {**data, "latents_classes": data["latents_classes"][::-1]}


def of_other_lengths(data):
    return {**data, "imgs": data["imgs"][:-1]}


def of_floats(data):
    return {**data, "imgs": data["imgs"].astype(np.float32)}


def with_five_columns(data):
    return {**data, "latents_values": data["latents_values"][:, 1:], "latents_classes": data["latents_classes"][:, 1:]}


def pickled(data):
    return {**data, "latents_values": np.array([{"a": 1}], dtype=object)}


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (other_archive, r"the array 'imgs' is missing, it has \['x'\]"),
        (without_labels, "the array 'latents_classes' is missing"),
        (shuffled, "not a complete grid of one colour in the published order"),
        (of_other_lengths, r"imgs has shape \(95, 16, 16\) and type uint8 for 96 rows of latents"),
        (of_floats, "type float32"),
        (with_five_columns, r"not \(N, 6\) both"),
        (pickled, "Object arrays cannot be loaded"),
    ],
)
def test_another_archive_is_refused_with_the_reason(change, reason, tmp_path):
    np.savez_compressed(tmp_path / "other.npz", **change(contents()))
    with pytest.raises(ValueError, match=rf"is not a whole dSprites file: .*{reason}"):
        _ = DSprites(tmp_path / "other.npz").factors
