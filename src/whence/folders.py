"""1. Folders of pictures with a label for each: recorded environments, or those of somebody else's simulator."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

import numpy as np

from whence import values

LABELS = "environments.csv"  #: a line for each picture
PICTURES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp", ".ppm", ".pgm")
ABOUT = ("targets", "kind", "group")  #: columns that may tell something of an environment, the same in all its lines

Fitting = Literal["crop", "stretch"]
Mode = Literal["RGB", "L"]


class Told(NamedTuple):
    """What the file of labels says of an environment; None: nothing."""

    targets: tuple[int, ...] | None = None
    kind: str | None = None
    group: int | None = None


@dataclass(frozen=True)
class Labelled:
    """The pictures of a folder by environment, in the order of the file of labels; nothing of them is read."""

    folder: Path
    files: Mapping[str, tuple[str, ...]]  #: of each environment, relative to the folder
    told: Mapping[str, Told] = field(default_factory=dict)
    labels: Path | None = None  #: None: folders are the labels

    def absent(self) -> list[str]:
        """Files that have a label and are not there."""
        return [name for names in self.files.values() for name in names if not (self.folder / name).is_file()]

    def unlabelled(self) -> list[str]:
        """Pictures that are there and have no label."""
        known = {name for names in self.files.values() for name in names}
        return [name for name in pictures_in(self.folder) if name not in known]


def pictures_in(folder: Path) -> list[str]:
    """Every picture below a folder, relative to it."""
    found = (p.relative_to(folder) for p in folder.rglob("*") if p.suffix.lower() in PICTURES)
    return sorted(p.as_posix() for p in found if not any(part.startswith(".") for part in p.parts))


def read_labels(folder: Path, environment: str = "environment", labels: str = LABELS) -> Labelled:
    """The lines of `environments.csv`: columns file, environment, and if somebody knows targets ("0" or "0;2"), kind
    ("do", "hard" or "soft") and group. Without such a file, the folder's folders are its environments."""
    if not folder.is_dir():
        raise FileNotFoundError(f"There is no folder {str(folder)!r}. Give one that holds pictures and {labels}.")
    path = folder / labels
    if not path.is_file():
        by_folder: dict[str, list[str]] = {}
        for name in pictures_in(folder):
            by_folder.setdefault(name.partition("/")[0], []).append(name)
        if labels != LABELS or len(by_folder) < 2 or any("/" not in names[0] for names in by_folder.values()):
            raise FileNotFoundError(
                f"{str(folder)!r} has no {labels}. Write one with a line for each picture and the columns file and "
                f"{environment}, or put the pictures of each environment into a folder of its own."
            )
        return Labelled(folder, {label: tuple(names) for label, names in by_folder.items()})
    try:
        with open(path, newline="", encoding="utf-8-sig") as file:
            rows = csv.reader(file)
            header = [name.strip() for name in next(rows, [])]
            lines = [(rows.line_num, row) for row in rows if any(cell.strip() for cell in row)]
    except UnicodeDecodeError:
        raise ValueError(f"{str(path)!r} is not text in UTF-8. Save it as CSV, in UTF-8.") from None
    for name in ("file", environment):
        if name not in header:
            raise ValueError(f"{str(path)!r}: {values.unknown('column', name, header)}")
    if not lines:
        raise ValueError(f"{str(path)!r} has a header and no lines. It has a line for each picture.")
    files: dict[str, list[str]] = {}
    told: dict[str, Told] = {}
    seen: set[str] = set()
    for number, row in lines:
        if len(row) != len(header):
            raise ValueError(f"{str(path)!r} has {len(header)} columns, but a line of {len(row)}: line {number}.")
        cells = {name: cell.strip() for name, cell in zip(header, row, strict=True)}
        name, label = Path(cells["file"]).as_posix(), cells[environment]
        if not label or not cells["file"]:
            raise ValueError(f"{str(path)!r} has no {environment if cells['file'] else 'file'} in line {number}.")
        if Path(name).is_absolute() or ".." in Path(name).parts:
            raise ValueError(f"{str(path)!r} names a file outside of the folder in line {number}: {name!r}.")
        if name in seen:
            raise ValueError(f"{str(path)!r} has two lines for {name!r}, the second in line {number}. Keep one.")
        seen.add(name)
        files.setdefault(label, []).append(name)
        about = told_of(cells, path, number)
        if told.setdefault(label, about) != about:
            raise ValueError(
                f"{str(path)!r} says different things of environment {label!r}: line {number} differs in one of "
                f"{', '.join(ABOUT)}. They are the same in all lines of an environment."
            )
    return Labelled(folder, {label: tuple(names) for label, names in files.items()}, told, path)


def told_of(cells: Mapping[str, str], path: Path, number: int) -> Told:
    targets, group = cells.get("targets", ""), cells.get("group", "")
    try:
        return Told(
            tuple(sorted(int(t) for t in targets.replace(";", " ").split())) if targets else None,
            cells.get("kind") or None,
            int(group) if group else None,
        )
    except ValueError:
        raise ValueError(
            f"{str(path)!r}, line {number}: targets are numbers of latents with semicolons between, such as 0;2, and a "
            f"group is a number, got targets {targets!r} and group {group!r}."
        ) from None


def read_pictures(
    folder: Path, names: Sequence[str], *, size: int | None = None, fit: Fitting = "crop", mode: Mode = "RGB"
) -> np.ndarray:
    """(N, channels, H, W) uint8, all of one size: their own, or `size` pixels a side, after the shorter side is scaled
    to it and the middle is cut out (`crop`), or both sides are scaled to it (`stretch`)."""
    for option, got, known in (("fit", fit, Fitting), ("mode", mode, Mode)):
        if got not in get_args(known):
            raise ValueError(values.unknown(option, str(got), get_args(known)))
    if size is not None and size < 1:
        raise ValueError(f"size is the side of a picture in pixels, at least 1, got {size}.")
    out: np.ndarray | None = None
    for i, name in enumerate(names):
        pixels = np.asarray(scaled(opened(folder / name, mode), size, fit))
        pixels = pixels[None] if pixels.ndim == 2 else pixels.transpose(2, 0, 1)
        if out is None:
            out = np.empty((len(names), *pixels.shape), np.uint8)
        if pixels.shape != out.shape[1:]:
            first, this = (f"{shape[2]} x {shape[1]}" for shape in (out.shape[1:], pixels.shape))
            raise ValueError(
                f"Pictures need to be of one size, got {first} in {names[0]!r} and {this} in {name!r}. Ask for a size, "
                "such as size=64, to have all scaled and cut to it."
            )
        out[i] = pixels
    return np.empty((0, 3, 1, 1), np.uint8) if out is None else out


def opened(path: Path, mode: Mode) -> Any:
    """A picture in 8 bits, what is see-through on white."""
    from PIL import Image, UnidentifiedImageError

    try:
        with Image.open(path) as file:
            file.load()
            picture: Any = file.convert("RGBA") if file.mode in ("P", "PA", "LA") else file.copy()
    except FileNotFoundError:
        raise FileNotFoundError(f"There is no file {str(path)!r}, but it has a label.") from None
    except (OSError, SyntaxError, ValueError, UnidentifiedImageError, Image.DecompressionBombError):
        raise ValueError(f"{str(path)!r} is no picture that can be read. Replace it, or take out its line.") from None
    if picture.mode in ("F", "I") or picture.mode.startswith("I;"):
        raise ValueError(f"{str(path)!r} has more than 8 bits a pixel (mode {picture.mode}). Convert it to 8 bits.")
    if picture.mode == "RGBA":
        ground = Image.new("RGBA", picture.size, "white")
        picture = Image.alpha_composite(ground, picture)
    return picture.convert(mode)


def scaled(picture: Any, size: int | None, fit: Fitting) -> Any:
    from PIL import Image

    w, h = picture.size
    if size is None or (w, h) == (size, size):
        return picture
    if fit == "stretch":
        return picture.resize((size, size), Image.Resampling.BOX if min(w, h) >= size else Image.Resampling.BILINEAR)
    side = min(w, h)
    left, top = (w - side) / 2, (h - side) / 2
    how = Image.Resampling.BOX if side >= size else Image.Resampling.BILINEAR
    return picture.resize((size, size), how, box=(left, top, left + side, top + side))
