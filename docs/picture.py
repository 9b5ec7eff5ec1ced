"""The picture of the README from the run of the demo.

python docs/picture.py runs/demo docs/assets/balls.png
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from whence import load
from whence.report.latents import latents
from whence.report.page import environments_of
from whence.report.traversals import probe_of
from whence.runs import world_of

INK, SOFT, ACCENT, PAPER = "#1b1e24", "#5a5f69", "#1f5f8b", "#faf9f6"


def film(x: np.ndarray, gap: int = 4) -> np.ndarray:
    """(F, 3, H, W) -> one picture (H, F * (W + gap), 3)."""
    white = np.pad(x, ((0, 0), (0, 0), (0, 0), (0, gap)), constant_values=1.0)
    return np.clip(np.concatenate(list(white), 2).transpose(1, 2, 0)[:, :-gap], 0, 1)


def main(folder: Path, out: Path) -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    fitted = load(folder)
    probe = probe_of(fitted.representation, world_of(fitted.data))
    found = latents(fitted.representation, probe, environments_of(fitted, ()))
    assert found is not None
    n = len(found.each)
    figure = Figure(figsize=(9.6, 0.92 * n + 0.45), dpi=150, facecolor=PAPER)
    FigureCanvasAgg(figure)
    grid = figure.add_gridspec(
        n, 3, width_ratios=(1.2, 1.0, 8.2), left=0.0, right=0.99, top=0.9, bottom=0.02, wspace=0.08, hspace=0.18
    )
    for row, one in enumerate(found.each):
        cells = [figure.add_subplot(grid[row, k]) for k in range(3)]
        for cell in cells:
            cell.set(xticks=[], yticks=[], facecolor=PAPER)
            for side in cell.spines.values():
                side.set_visible(False)
        cells[0].text(0.5, 0.62, f"$z_{one.number}$", ha="center", va="center", fontsize=17, color=INK)
        told = one.factor if one.correlation is None else f"{one.factor}, |r| = {one.correlation:.2f}"
        cells[0].text(0.5, 0.22, told, ha="center", va="center", fontsize=8, color=SOFT)
        if one.z is not None:
            cells[1].scatter(one.v, one.z, s=1.6, color=ACCENT, linewidths=0, alpha=0.6)
        strip = one.moved if one.done is None else one.done
        cells[2].imshow(film(strip.numpy()), interpolation="nearest")
        if row == 0:
            for cell, title in zip(
                cells, ("latent", "against the truth", "what would be seen, had it been set"), strict=True
            ):
                cell.text(0.5, 1.12, title, ha="center", fontsize=8.5, color=SOFT, transform=cell.transAxes)
    out.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(out, facecolor=PAPER)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
