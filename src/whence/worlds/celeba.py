"""Reader of the published CelebA folder: aligned photographs of faces with 40 attributes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import ClassVar, Literal, NamedTuple

import numpy as np
import torch
from torch import Generator, Tensor

from whence import values
from whence.evidence import Reference
from whence.worlds.world import Do, Factor, World

PARTS = {"train": 0, "valid": 1, "test": 2}
FILES = ("img_align_celeba", "list_attr_celeba.txt", "list_eval_partition.txt")


class Listed(NamedTuple):
    files: tuple[str, ...]
    v: Tensor  #: (N, K) 0 or 1
    cells: dict[int, Tensor]  #: pictures by their attributes, read as a binary number


@dataclass(frozen=True)
class CelebA(World):
    """Photographs of faces with attributes, from the published folder.

    Attributes are 0 or 1, and a picture is one of those that have them, at random: what else is in a photograph is not
    recorded. Nothing is known of what a face would have been, so there are no counterfactuals to compare with; `Faces`
    has them. Pictures are decoded when first asked for and then kept, 12 kB each at 64 pixels.
    """

    folder: Path  #: with img_align_celeba/, list_attr_celeba.txt and list_eval_partition.txt
    attributes: tuple[str, ...] = ("Male", "Smiling", "Not_Narrow_Eyes", "Mouth_Slightly_Open")  #: Not_ turns one round
    part: Literal["train", "valid", "test", "all"] = "train"  #: of the published partition
    crop: int = 140  #: side of the central square that is kept, 140 as in Wasserstein autoencoders, 148 in others
    size: int = 64  #: pixels a side after that

    reference: ClassVar[Reference | None] = Reference(
        key="liu2015faceattributes",
        authors="Liu, Ziwei and Luo, Ping and Wang, Xiaogang and Tang, Xiaoou",
        title="Deep Learning Face Attributes in the Wild",
        venue="International Conference on Computer Vision",
        year=2015,
        url="https://mmlab.ie.cuhk.edu.hk/projects/CelebA.html",
    )

    def __post_init__(self) -> None:
        if self.part not in (*PARTS, "all"):
            raise ValueError(values.unknown("part", str(self.part), (*PARTS, "all")))
        if self.crop < 1 or self.size < 1:
            raise ValueError(f"crop and size are sides in pixels, at least 1, got {self.crop} and {self.size}.")

    @cached_property
    def listed(self) -> Listed:
        return read(Path(self.folder), tuple(self.attributes), self.part)

    @property
    def factors(self) -> tuple[Factor, ...]:
        return tuple(Factor(name, "categorical", (0.0, 1.0)) for name in self.attributes)

    @property
    def shape(self) -> tuple[int, ...]:
        return (3, self.size, self.size)

    def draw(self, n: int, *, rng: Generator, do: Do | None = None) -> Tensor:
        """Attributes as often as they occur together."""
        v = self.listed.v[torch.randint(len(self.listed.v), (n,), generator=rng)].clone()
        for name, value in (do or {}).items():
            v[:, self.position(name)] = torch.as_tensor(value, dtype=v.dtype)
        return v

    def observe(self, v: Tensor, rng: Generator | None = None) -> Tensor:
        """A picture with these attributes; without rng the first one."""
        cells = self.listed.cells
        asked = number(self.index(v)).tolist()
        for row, cell in zip(v.tolist(), asked, strict=True):
            if cell not in cells:
                told = ", ".join(f"{name} {x:g}" for name, x in zip(self.attributes, row, strict=True))
                raise ValueError(f"No picture of this part has {told}. Take more pictures (part='all') or attributes.")
        u = torch.rand(len(v), generator=rng, dtype=torch.float64) if rng is not None else torch.zeros(len(v))
        rows = [int(cells[cell][int(at * len(cells[cell]))]) for cell, at in zip(asked, u.tolist(), strict=True)]
        return self.pictures(torch.tensor(rows, dtype=torch.long)).float().div_(255)

    def pictures(self, rows: Tensor) -> Tensor:
        """(B, 3, size, size) uint8: decoded, cropped at the centre and scaled, once."""
        from PIL import Image

        store, there = self.kept
        for row in rows[~there[rows]].unique().tolist():
            path = Path(self.folder) / FILES[0] / self.listed.files[row]
            try:
                with Image.open(path) as opened:
                    picture = opened.convert("RGB")
            except (OSError, ValueError) as error:
                raise ValueError(f"{str(path)!r} is not a picture that can be read: {error}. Get it again.") from error
            w, h = picture.size
            if min(w, h) < self.crop:
                raise ValueError(
                    f"A crop of {self.crop} needs pictures of at least as many pixels, {path.name} has {w} x {h}. "
                    "Use the aligned pictures (178 x 218), or a smaller crop."
                )
            left, top = (w - self.crop) // 2, (h - self.crop) // 2
            box = (left, top, left + self.crop, top + self.crop)
            small = picture.resize((self.size, self.size), Image.Resampling.BICUBIC, box=box)
            store[row] = torch.from_numpy(np.array(small)).permute(2, 0, 1)
            there[row] = True
        return store[rows]

    @cached_property
    def kept(self) -> tuple[Tensor, Tensor]:
        n = len(self.listed.files)
        return torch.empty(n, *self.shape, dtype=torch.uint8), torch.zeros(n, dtype=torch.bool)


def number(index: Tensor) -> Tensor:
    """Rows of 0 and 1 as binary numbers."""
    return (index.long() * 2 ** torch.arange(index.shape[1])).sum(1)


def wrong(path: Path, what: str) -> ValueError:
    return ValueError(
        f"{str(path)!r} is not as published: {what}. Get it again from the CelebA page (Align&Cropped Images, "
        "Anno and Eval folders)."
    )


def read(folder: Path, attributes: tuple[str, ...], part: str) -> Listed:
    """The lists, checked; pictures are not opened."""
    for name in FILES:
        if not (folder / name).exists():
            raise FileNotFoundError(
                f"CelebA needs {', '.join(FILES)} in one folder, and {str(folder / name)!r} is missing. Give the "
                "folder that has them (--world.folder FOLDER), or use Faces, the procedural twin."
            )
    path = folder / FILES[1]
    lines = path.read_text().splitlines()
    if len(lines) < 3 or not lines[0].strip().isdigit():
        raise wrong(path, "its first line is not the number of pictures, followed by a line of names")
    many, names, rows = int(lines[0]), lines[1].split(), [line.split() for line in lines[2:] if line.strip()]
    if len(rows) != many:
        raise wrong(path, f"it announces {many:,} pictures and lists {len(rows):,}")
    columns = []
    for attribute in attributes:
        plain = attribute.removeprefix("Not_")
        if plain not in names:
            raise ValueError(values.unknown("attribute", attribute, [*names, *(f"Not_{name}" for name in names)]))
        columns.append((names.index(plain) + 1, attribute != plain))
    try:
        v = torch.tensor([[(float(row[k]) > 0) != turned for k, turned in columns] for row in rows]).float()
    except (IndexError, ValueError) as error:
        raise wrong(path, f"a line has no {len(names)} numbers behind the file's name ({error})") from error
    path = folder / FILES[2]
    pairs = [line.split() for line in path.read_text().splitlines() if line.strip()]
    if any(len(pair) != 2 or pair[1] not in ("0", "1", "2") for pair in pairs):
        raise wrong(path, "a line is not a file's name and 0, 1 or 2")
    of = {name: int(which) for name, which in pairs}
    files = [row[0] for row in rows]
    if lost := next((name for name in files if name not in of), None):
        raise wrong(path, f"it does not say to which part {lost} belongs")
    keep = [i for i, name in enumerate(files) if part == "all" or of[name] == PARTS[part]]
    if not keep:
        raise wrong(path, f"no picture belongs to the part {part!r}")
    v = v[keep]
    cell = number(v)
    cells = {c: (cell == c).nonzero()[:, 0] for c in cell.unique().tolist()}
    return Listed(tuple(files[i] for i in keep), v, cells)
