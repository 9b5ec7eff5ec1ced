"""Pictures for a page: PNG data URIs, and SVG in the page's own colours.

Strokes and fills are classes, not colours, so that one drawing serves light and dark.
"""

from __future__ import annotations

import base64
import io
import math
from collections.abc import Sequence

import numpy as np
from markupsafe import Markup

from whence.report.words import number, short

Array = np.ndarray

GAP = 3  # pixels between the pictures of a sheet
POINTS = 240  # of a curve: more than its pixels say nothing
LONGEST = 512  # values of an observation that is not a picture


def is_picture(shape: Sequence[int]) -> bool:
    """Channels (1 or 3), height and width, or height and width."""
    return (len(shape) == 3 and shape[0] in (1, 3)) or (len(shape) == 2 and min(shape) > 1)


def is_profile(shape: Sequence[int]) -> bool:
    """Something that is not a picture and short enough to draw as a line."""
    return not is_picture(shape) and 1 < math.prod(shape) <= LONGEST


# --- pictures --------------------------------------------------------------------------------------------------------


def pixels(x: Array) -> Array:
    """(..., *shape) in [0, 1] -> (..., H, W, 3 or 1) uint8. Values beyond the range are cut, as a screen does."""
    bytes_ = (np.clip(np.nan_to_num(x), 0, 1) * 255 + 0.5).astype(np.uint8)
    return np.moveaxis(bytes_, -3, -1)


def sheet(x: Array) -> tuple[str, int, int]:
    """(rows, columns, channels, H, W) as one PNG with see-through gaps: its data URI, width and height."""
    from PIL import Image

    tiles = pixels(x)
    r, c, h, w, channels = tiles.shape
    canvas = np.zeros((r * (h + GAP) - GAP, c * (w + GAP) - GAP, channels + 1), np.uint8)
    for i in range(r):
        for j in range(c):
            top, left = i * (h + GAP), j * (w + GAP)
            canvas[top : top + h, left : left + w, :-1] = tiles[i, j]
            canvas[top : top + h, left : left + w, -1] = 255
    file = io.BytesIO()
    Image.fromarray(canvas, "LA" if channels == 1 else "RGBA").save(file, "PNG", optimize=True)
    uri = "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()
    return uri, canvas.shape[1], canvas.shape[0]


def as_pictures(x: Array, shape: Sequence[int]) -> Array:
    """(..., *shape) -> (..., channels, H, W)."""
    return x[..., None, :, :] if len(shape) == 2 else x


# --- lines -----------------------------------------------------------------------------------------------------------


def path(x: Sequence[float], y: Sequence[float]) -> str:
    return "M" + "L".join(f"{a:.1f} {b:.1f}" for a, b in zip(x, y, strict=True))


def profile(rows: Array, classes: Sequence[str], low: float, high: float) -> Markup:
    """Observations (n, P) that are not pictures, as lines over their values; it stretches to the width it is given."""
    w, h = 600, 72
    n = rows.shape[1]
    span = (high - low) or 1.0
    lines = Markup("").join(
        Markup('<path class="{}" d="{}" vector-effect="non-scaling-stroke"/>').format(
            name, path([4 + i / (n - 1) * (w - 8) for i in range(n)], (h - 4 - (row - low) / span * (h - 8)).tolist())
        )
        for row, name in zip(rows, classes, strict=True)
    )
    return Markup(
        '<svg class="profile" viewBox="0 0 {} {}" preserveAspectRatio="none" aria-hidden="true">{}</svg>'
    ).format(w, h, lines)


GRID = Markup(
    '<path class="grid" d="M{0} {1:.1f}H{2}"/><text class="tick" x="{3}" y="{4:.1f}" text-anchor="end">{5}</text>'
)
TICK = Markup('<text class="tick" x="{:.1f}" y="{}" text-anchor="{}">{}</text>')


def curve(steps: Sequence[int], values: Sequence[float], label: str) -> Markup:
    """One term over the steps, on an axis of its own; a faint band holds what averaging hides."""
    w, h, left, right, top, bottom = 340, 170, 46, 14, 12, 26
    log = logarithmic(values)
    t, mean, least, most = thin(np.asarray(steps, float), np.asarray(values, float))
    low, high = float(least.min()), float(most.max())
    ticks = log_ticks(low, high) if log else linear_ticks(low, high)
    bounds = (min(low, ticks[0]), max(high, ticks[-1])) if not log else (low, high)
    y0, y1 = (math.log(b) if log else b for b in bounds)
    if y1 - y0 < 1e-12:
        y0, y1 = y0 - 0.5 * (abs(y0) or 1), y1 + 0.5 * (abs(y1) or 1)
    end = float(t[-1])

    def across(a: Array) -> list[float]:
        return (left + a / (end or 1) * (w - left - right)).tolist()

    def up(a: Array) -> list[float]:
        return (top + (y1 - (np.log(a) if log else a)) / (y1 - y0) * (h - top - bottom)).tolist()

    parts = [
        GRID.format(left, height, w - right, left - 8, height + 3.5, short(tick))
        for tick, height in zip(ticks, up(np.asarray(ticks)), strict=True)
    ]
    for tick, place, anchor in (
        (0.0, left, "start"),
        (end / 2, (left + w - right) / 2, "middle"),
        (end, w - right, "end"),
    ):
        if anchor != "middle" or end >= 10:
            parts.append(TICK.format(place, h - 7, anchor, short(tick)))
    x, y = across(t), up(mean)
    if (most > least).any():
        outline = path(x + x[::-1], up(most) + up(least)[::-1])
        parts.append(Markup('<path class="band" d="{}Z"/>').format(outline))
    if len(x) > 1:
        parts.append(Markup('<path class="line" d="{}"/>').format(path(x, y)))
    parts.append(Markup('<circle class="end" cx="{:.1f}" cy="{:.1f}" r="3"/>').format(x[-1], y[-1]))
    told = f"{label}: {number(values[0])} at step {steps[0]:,}, {number(values[-1])} at step {steps[-1]:,}"
    return Markup('<svg class="curve" viewBox="0 0 {} {}" role="img" aria-label="{}">{}</svg>').format(
        w, h, told, Markup("").join(parts)
    )


def logarithmic(values: Sequence[float]) -> bool:
    """Whether a term shrinks or grows so much that a linear axis would show only its first steps."""
    return len(values) > 2 and min(values) > 0 and max(values) / min(values) > 8


def thin(t: Array, y: Array) -> tuple[Array, Array, Array, Array]:
    """At most `POINTS` points: each one's last step, and the mean, least and most of its values."""
    parts = min(POINTS, len(t))
    groups = np.array_split(np.arange(len(t)), parts)
    return (
        np.array([t[g[-1]] for g in groups]),
        np.array([y[g].mean() for g in groups]),
        np.array([y[g].min() for g in groups]),
        np.array([y[g].max() for g in groups]),
    )


def linear_ticks(low: float, high: float, most: int = 4) -> list[float]:
    """Round numbers around a range.

    >>> linear_ticks(0.13, 0.87), linear_ticks(5, 5)
    ([0.0, 0.5, 1.0], [5])
    """
    if high - low < 1e-9 * max(abs(low), abs(high), 1e-9):
        return [low]
    unit = 10 ** math.floor(math.log10((high - low) / most))
    step = next(unit * m for m in (1, 2, 5, 10, 20) if (high - low) / (unit * m) <= most - 1)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [round(i * step, 12) for i in range(first, last + 1)]


def log_ticks(low: float, high: float) -> list[float]:
    """Powers of ten in a range, and three times them where they are few.

    >>> log_ticks(2, 400), log_ticks(1, 1e6)
    ([3.0, 10.0, 30.0, 100.0, 300.0], [1.0, 100.0, 10000.0, 1000000.0])
    """
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    tens = [10.0**p for p in powers if low <= 10.0**p <= high]
    if len(tens) < 3:
        return [tick for p in powers for tick in (10.0**p, 3 * 10.0**p) if low <= tick <= high] or [low, high]
    return tens[:: 1 + (len(tens) - 1) // 4]


def scatter(x: Array, y: Array, names: tuple[str, str]) -> Markup:
    """One number against another, each over its own range."""
    w, left, right, top, bottom = 220, 26, 8, 8, 26

    def placed(a: Array, start: float, end: float) -> list[float]:
        low, high = float(a.min()), float(a.max())
        return (start + (a - low) / ((high - low) or 1) * (end - start)).tolist()

    across, up = placed(x, left + 6, w - right - 6), placed(y, w - bottom - 6, top + 6)
    dots = "".join(f"M{a:.1f} {b:.1f}h0" for a, b in zip(across, up, strict=True))
    frame = Markup('<path class="grid" fill="none" d="M{0} {1}V{2}H{3}"/>').format(left, top, w - bottom, w - right)
    labels = Markup(
        '<text class="tick" x="{0}" y="{1}" text-anchor="middle">{2}</text>'
        '<text class="tick" transform="translate({3} {4}) rotate(-90)" text-anchor="middle">{5}</text>'
    ).format((left + w - right) / 2, w - 8, names[0], 14, (top + w - bottom) / 2, names[1])
    return Markup(
        '<svg class="scatter" viewBox="0 0 {0} {0}" role="img" aria-label="{1} against {2}">{3}'
        '<path class="dots" d="{4}"/>{5}</svg>'
    ).format(w, names[1], names[0], frame, dots, labels)


# --- graphs ----------------------------------------------------------------------------------------------------------

EDGE = 0.5  #: confidences above it are drawn as edges, the others that are seen at all as doubts
DOUBT = 0.05


def graph(names: Sequence[str], confidence: Array) -> Markup:
    """Latents on a circle, causes before effects clockwise from the top; a stroke is as wide as its confidence."""
    n = len(names)
    size, r, dot = 420, 150, 24
    order = causal_order(confidence > EDGE)
    angle = {i: 2 * math.pi * place / n - math.pi / 2 for place, i in enumerate(order)}
    at = {i: (size / 2 + r * math.cos(a), size / 2 + r * math.sin(a)) for i, a in angle.items()}
    parts = []
    for i in range(n):
        for j in range(n):
            c = float(confidence[i, j])
            if i == j or c < DOUBT:
                continue
            (x0, y0), (x1, y1) = at[i], at[j]
            long = math.hypot(x1 - x0, y1 - y0)
            bend = 0.12 * long
            mx, my = (x0 + x1) / 2 + bend * (y1 - y0) / long, (y0 + y1) / 2 - bend * (x1 - x0) / long
            ends = [towards(at[i], (mx, my), dot + 2), towards(at[j], (mx, my), dot + 9)]
            parts.append(
                Markup(
                    '<path class="edge{}" d="M{:.1f} {:.1f}Q{:.1f} {:.1f} {:.1f} {:.1f}" stroke-width="{:.1f}" '
                ).format("" if c > EDGE else " doubt", *ends[0], mx, my, *ends[1], 0.8 + 2.2 * c)
                + Markup('marker-end="url(#arrow)"><title>{} causes {}: confidence {:.2f}</title></path>').format(
                    names[i], names[j], c
                )
            )
    for i, name in enumerate(names):
        x, y = at[i]
        parts.append(Markup('<circle class="node" cx="{:.1f}" cy="{:.1f}" r="{}"/>').format(x, y, dot))
        parts.append(
            Markup('<text class="node" x="{:.1f}" y="{:.1f}" text-anchor="middle">{}</text>').format(x, y + 5, name)
        )
    told = "; ".join(
        f"{names[i]} causes {names[j]}" for i in range(n) for j in range(n) if i != j and confidence[i, j] > EDGE
    )
    arrow = Markup(
        '<defs><marker id="arrow" viewBox="0 0 8 8" refX="2" refY="4" markerWidth="9" markerHeight="9" '
        'markerUnits="userSpaceOnUse" orient="auto"><path class="head" d="M0 0 8 4 0 8z"/></marker></defs>'
    )
    return Markup(
        '<svg class="graph" viewBox="0 0 {0} {0}" role="img" aria-label="Causal graph: {1}">{2}{3}</svg>'
    ).format(size, told or "no edges", arrow, Markup("").join(parts))


def causal_order(edges: Array) -> list[int]:
    """Causes first, as far as there are no cycles."""
    left, order = set(range(len(edges))), []
    while left:
        free = [j for j in sorted(left) if not any(edges[i, j] for i in left if i != j)] or [min(left)]
        order.append(free[0])
        left.remove(free[0])
    return order


def towards(start: tuple[float, float], end: tuple[float, float], by: float) -> tuple[float, float]:
    long = math.hypot(end[0] - start[0], end[1] - start[1]) or 1.0
    return start[0] + by * (end[0] - start[0]) / long, start[1] + by * (end[1] - start[1]) / long
