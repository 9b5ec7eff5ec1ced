"""The figures of a page as files for papers and talks."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from whence import runs, storage
from whence.metrics.metric import Results
from whence.report import drawing
from whence.report.traversals import probe_of, traversals
from whence.representation import Decodes
from whence.runs import Fitted
from whence.worlds import World

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FORMATS = (".png", ".svg", ".pdf")


def save_traversals(fitted: Fitted, path: str | Path, *, world: World | None = None, dpi: int = 200) -> Path:
    """What each code does to one observation, as PNG, SVG or PDF: a row for each code, the most active first.

    The observation is drawn from `world` (by default the run's own).
    """
    if not isinstance(fitted.representation, Decodes):
        raise TypeError(
            f"A traversal needs a representation that decodes, got {type(fitted.representation).__name__}. "
            "Choose a method with a decoder, such as BetaVAE."
        )
    if world is None and "world" in fitted.data:
        world = runs.world_of(fitted.data)
    moved = traversals(fitted.representation, None if world is None else probe_of(fitted.representation, world))
    shape = fitted.spec.shape
    if moved is None or not (drawing.is_picture(shape) or drawing.is_profile(shape)):
        raise ValueError(
            "A traversal needs observations that can be drawn (images, or vectors of 2 to "
            f"{drawing.LONGEST}), and a world to take one from or a prior; got {type(fitted.method).__name__} on shape "
            f"{tuple(shape)}. Pass world=..."
        )
    rows, frames = moved.at.shape
    picture = drawing.is_picture(shape)
    edges: list[Any]
    last: Any = None
    figure = blank(0.9 + 0.62 * frames, (0.62 if picture else 0.8) * rows + 0.35)
    if picture:
        tiles = drawing.pixels(drawing.as_pictures(moved.x, shape))
        tiles = np.repeat(tiles, 3, -1) if tiles.shape[-1] == 1 else tiles
        axes: Any = figure.subplots(rows, frames, squeeze=False, gridspec_kw={"wspace": 0.06, "hspace": 0.06})
        for i, j in np.ndindex(rows, frames):
            axes[i, j].imshow(tiles[i, j], interpolation="nearest")
            axes[i, j].set(xticks=[], yticks=[])
            axes[i, j].spines[:].set_visible(False)
        edges, last = [axes[i, 0] for i in range(rows)], axes[-1]
    else:
        from matplotlib import colormaps

        lines = figure.subplots(rows, 1, squeeze=False, sharex=True)[:, 0]
        for i, ax in enumerate(lines):
            for j in range(frames):
                ax.plot(moved.x[i, j].ravel(), color=colormaps["cividis"](j / (frames - 1)), linewidth=0.8)
            ax.spines[["top", "right"]].set_visible(False)
            ax.tick_params(labelsize=6)
        edges = list(lines)
    for ax, code in zip(edges, moved.codes, strict=True):
        kl = "" if moved.kl is None else f"\n{moved.kl[code]:.2f} nats"
        ax.set_ylabel(f"$z_{{{code}}}${kl}", rotation=0, ha="right", va="center", fontsize=8, labelpad=6)
    if last is not None and moved.prior:
        for j in (0, frames // 2, frames - 1):
            last[j].set_xlabel(f"{round(moved.at[0, j])}".replace("-", "−"), fontsize=8)
    return save(figure, path, dpi)


def save_mutual_information(results: Results, path: str | Path, *, dpi: int = 200) -> Path:
    """How much of each factor each code holds, as PNG, SVG or PDF: a row for each factor, its best code framed."""
    if not results.mutual_information:
        raise ValueError(
            "The figure needs the mutual information of codes and factors, and these results have none (it is not "
            "computed for more than 256 codes). Evaluate a representation with fewer codes."
        )
    share = np.asarray(results.mutual_information).T
    k, d = share.shape
    figure = blank(1.6 + 0.42 * d, 0.8 + 0.42 * k)
    ax: Any = figure.subplots()
    image = ax.imshow(share, cmap="Blues", vmin=0, vmax=1)
    for i, j in np.ndindex(k, d) if d <= 32 else ():
        ink = "white" if share[i, j] > 0.6 else "black"
        ax.text(j, i, f"{share[i, j]:.2f}".lstrip("0"), ha="center", va="center", fontsize=7, color=ink)
    for i, j in enumerate(share.argmax(1)):
        ax.add_patch(frame(j - 0.5, i - 0.5))
    ax.set_xticks(range(d), [f"$z_{{{j}}}$" for j in range(d)], fontsize=8)
    ax.set_yticks(range(k), results.factors, fontsize=8)
    ax.spines[:].set_visible(False)
    ax.tick_params(length=0)
    bar = figure.colorbar(image, ax=ax, fraction=0.03, pad=0.02)
    bar.set_label("share of the factor's entropy", fontsize=8)
    bar.ax.tick_params(labelsize=7, length=2)
    bar.outline.set_visible(False)
    return save(figure, path, dpi)


def frame(x: float, y: float) -> Any:
    from matplotlib.patches import Rectangle

    return Rectangle((x, y), 1, 1, fill=False, edgecolor="#b4451f", linewidth=1.6, clip_on=False)


def blank(width: float, height: float) -> Figure:
    # Not pyplot: it keeps figures alive and may open windows.
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height))


def save(figure: Figure, path: str | Path, dpi: int) -> Path:
    path = Path(path)
    if path.suffix.lower() not in FORMATS:
        raise ValueError(f"A figure is saved as {', '.join(FORMATS)}, got {path.name!r}. Give it one of these endings.")
    file = io.BytesIO()
    # Without a date the same run gives the same bytes.
    undated = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}.get(path.suffix.lower(), {})
    figure.savefig(file, format=path.suffix[1:].lower(), dpi=dpi, bbox_inches="tight", metadata=undated)
    storage.write(path, file.getvalue())
    return path
