"""Reader of the published dSprites file (dsprites_ndarray_co1sh3sc6or40x32y32_64x64.npz)."""

from __future__ import annotations

import zipfile
import zlib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import ClassVar, NamedTuple

import numpy as np
import torch
from torch import Generator, Tensor

from whence.evidence import Reference
from whence.worlds.world import Factor, Grid, Kind, World

DSPRITES = Reference(
    key="matthey2017dsprites",
    authors="Matthey, Loic and Higgins, Irina and Hassabis, Demis and Lerchner, Alexander",
    title="dSprites: Disentanglement testing Sprites dataset",
    venue="Data set",
    year=2017,
    url="https://github.com/deepmind/dsprites-dataset",
)

#: Names and kinds of the file's columns after the first, which is the colour and has one value.
COLUMNS: tuple[tuple[str, Kind], ...] = (
    ("shape", "categorical"),
    ("scale", "ordinal"),
    ("orientation", "circular"),
    ("x", "ordinal"),
    ("y", "ordinal"),
)
ROWS = 4096  # images read from the compressed file at once


class Recorded(NamedTuple):
    factors: tuple[Factor, ...]
    bits: Tensor  #: (N, H * W / 8) uint8, eight pixels a byte
    side: tuple[int, int]


@dataclass(frozen=True)
class DSprites(World):
    """The published dSprites images, from their file.

    Kept bit-packed in memory: 377 MB for all 737,280.
    """

    path: Path  #: the .npz file, with arrays imgs, latents_values and latents_classes

    reference: ClassVar[Reference | None] = DSPRITES

    @cached_property
    def recorded(self) -> Recorded:
        return read(Path(self.path))

    @property
    def factors(self) -> tuple[Factor, ...]:
        return self.recorded.factors

    @property
    def shape(self) -> tuple[int, ...]:
        return (1, *self.recorded.side)

    @property
    def grid(self) -> Grid:
        return Grid(tuple(len(factor.values) for factor in self.factors))

    def observe(self, v: Tensor, rng: Generator | None = None) -> Tensor:
        """Recorded images only: values between the grid's are taken to the nearest."""
        rows = self.recorded.bits[self.grid.number(self.index(v))]
        bits = rows[:, :, None] >> torch.arange(7, -1, -1, dtype=torch.uint8) & 1
        return bits.view(len(v), *self.shape).to(torch.float32)


def wrong(path: Path, what: str) -> ValueError:
    return ValueError(
        f"{str(path)!r} is not a whole dSprites file: {what}. Get dsprites_ndarray_co1sh3sc6or40x32y32_64x64.npz again "
        "from the deepmind/dsprites-dataset repository."
    )


def read(path: Path) -> Recorded:
    """Factors and packed images of a file in the published format, of any grid size. Reads the images in slices, so
    the 3 GB of the unpacked array are never in memory; the pickled `metadata` is not touched."""
    if not path.is_file():
        raise FileNotFoundError(
            f"DSprites needs the published .npz file, and {str(path)!r} is not a file. "
            "Give its path (--world.path FILE), or use Sprites, the procedural twin."
        )
    try:
        with zipfile.ZipFile(path) as archive:
            names = {name.removesuffix(".npy") for name in archive.namelist()}
            if missing := {"imgs", "latents_values", "latents_classes"} - names:
                raise wrong(path, f"the array {sorted(missing)[0]!r} is missing, it has {sorted(names)}")
            values, classes = (array(archive, name) for name in ("latents_values", "latents_classes"))
            if values.ndim != 2 or values.shape[1] != 6 or values.shape != classes.shape:
                raise wrong(path, f"latents have shapes {values.shape} and {classes.shape}, not (N, 6) both")
            sizes = tuple(int(n) for n in classes.max(0) + 1)
            grid = np.stack(np.unravel_index(np.arange(len(classes)), sizes), 1)
            if not np.array_equal(classes, grid) or sizes[0] != 1:
                raise wrong(path, "latents_classes is not a complete grid of one colour in the published order")
            factors = tuple(
                Factor(name, kind, tuple(float(values[classes[:, k] == c, k][0]) for c in range(sizes[k])))
                for k, (name, kind) in enumerate(COLUMNS, start=1)
            )
            bits, side = images(archive, path, len(values))
    except (zipfile.BadZipFile, zlib.error, EOFError, KeyError, ValueError, OSError) as error:
        if "is not a whole dSprites file" in str(error):
            raise
        raise wrong(path, str(error) or type(error).__name__) from error
    return Recorded(factors, bits, side)


def array(archive: zipfile.ZipFile, name: str) -> np.ndarray:
    with archive.open(f"{name}.npy") as file:
        return np.lib.format.read_array(file, allow_pickle=False)


def images(archive: zipfile.ZipFile, path: Path, rows: int) -> tuple[Tensor, tuple[int, int]]:
    with archive.open("imgs.npy") as file:
        version = np.lib.format.read_magic(file)
        header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, fortran, dtype = header(file)
        if len(shape) != 3 or shape[0] != rows or dtype != np.uint8 or fortran or shape[1] * shape[2] % 8:
            raise wrong(path, f"imgs has shape {shape} and type {dtype} for {rows} rows of latents")
        pixels = shape[1] * shape[2]
        packed = np.empty((rows, pixels // 8), np.uint8)
        for start in range(0, rows, ROWS):
            stop = min(start + ROWS, rows)
            data = file.read((stop - start) * pixels)
            if len(data) < (stop - start) * pixels:
                raise wrong(path, "imgs ends early")
            packed[start:stop] = np.packbits(np.frombuffer(data, np.uint8).reshape(-1, pixels) > 0, axis=1)
    return torch.from_numpy(packed), (shape[1], shape[2])
