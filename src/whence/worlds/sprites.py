"""Sprites: a procedural twin of dSprites. White shapes on black, 64x64, anti-aliased.

The factors are those of dSprites in the same order with the same values: shape (square, ellipse, heart), scale,
orientation, x, y; 3 x 6 x 40 x 32 x 32 = 737,280 images. As there, orientation 0 and 2 pi are both on the grid.

Neighbouring positions lie one pixel apart, so the whole world is 720 stamps and a strided window over each: a batch
of grid images is one gather of bytes. Values off the grid are rendered from signed distances; both roads give the
same picture (tested).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import ClassVar

import torch
from torch import Generator, Tensor

from whence.evidence import Reference
from whence.worlds.dsprites import DSPRITES
from whence.worlds.world import Factor, Grid, World

SIZE = 64
TRAVEL = 31  # pixels between the first and the last position
FIRST = 16.0  # pixel coordinate (centres at +.5) of position 0
RADIUS = 14.0  # half the diagonal of the square at scale 1: it never touches the border
CHUNK = 128  # images rendered at once: their intermediate fields stay in the cache


def linspace(low: float, high: float, n: int) -> tuple[float, ...]:
    return tuple(torch.linspace(low, high, n).tolist())


FACTORS = (
    Factor("shape", "categorical", (1.0, 2.0, 3.0)),
    Factor("scale", "ordinal", linspace(0.5, 1, 6)),
    Factor("orientation", "circular", linspace(0, 2 * math.pi, 40)),
    Factor("x", "ordinal", linspace(0, 1, 32)),
    Factor("y", "ordinal", linspace(0, 1, 32)),
)


@dataclass(frozen=True)
class Sprites(World):
    """Procedural dSprites twin: one white square, ellipse or heart; shape, scale, orientation, x and y vary."""

    colour: bool = False  #: three channels, the sprite in a random colour (each channel in .5 to 1)
    noise: float = 0.0  #: the background is uniform noise up to this brightness (1 as in Noisy-dSprites)
    backgrounds: Path | None = None  #: a folder of pictures: random crops behind, inverted inside (scream style)

    reference: ClassVar[Reference | None] = DSPRITES

    def __post_init__(self) -> None:
        if not 0 <= self.noise <= 1:
            raise ValueError(f"noise is the brightness of the background, between 0 and 1, got {self.noise}.")
        if self.backgrounds is not None and (self.colour or self.noise):
            raise ValueError("backgrounds replace colour and noise; give one or the other.")

    @property
    def factors(self) -> tuple[Factor, ...]:
        return FACTORS

    @property
    def shape(self) -> tuple[int, ...]:
        return (1 if not (self.colour or self.backgrounds) else 3, SIZE, SIZE)

    @property
    def grid(self) -> Grid:
        return Grid(tuple(len(factor.values) for factor in FACTORS))

    def observe(self, v: Tensor, rng: Generator | None = None) -> Tensor:
        v = self.checked(v)
        index = self.index(v)
        on_grid = torch.stack([torch.tensor(f.values)[index[:, k]] for k, f in enumerate(FACTORS)], 1)
        exact = (on_grid - v).abs().amax() < 1e-6 if len(v) else True
        masks = self.stamped(index) if exact else quantise(render(v))
        return self.dress(masks.to(torch.float32).div_(255).unsqueeze(1), rng)

    def checked(self, v: Tensor) -> Tensor:
        """Factor values that can be drawn: five numbers a row, the first of them a shape that there is."""
        if v.ndim != 2 or v.shape[1] != len(FACTORS) or not torch.isfinite(v).all():
            names = ", ".join(factor.name for factor in FACTORS)
            raise ValueError(
                f"Sprites needs rows of {len(FACTORS)} finite values ({names}), got shape {tuple(v.shape)}."
            )
        v = v.detach().to("cpu", torch.float32)
        if len(v) and not 1 <= v[:, 0].round().min() <= v[:, 0].round().max() <= 3:
            raise ValueError(
                f"shape is 1 (square), 2 (ellipse) or 3 (heart), got {v[:, 0].min():g} to {v[:, 0].max():g}."
            )
        if len(v) and v[:, 1].min() <= 0:
            raise ValueError(f"scale is above 0, got {v[:, 1].min():g}.")
        return v

    def stamped(self, index: Tensor) -> Tensor:
        """Grid positions (B, 5) -> images (B, 64, 64) in uint8."""
        stamp = index[:, 0] * 240 + index[:, 1] * 40 + index[:, 2]
        return self.windows[stamp, TRAVEL - index[:, 4], TRAVEL - index[:, 3]]

    @cached_property
    def windows(self) -> Tensor:
        """The whole world, (720, 32, 32, 64, 64) uint8, as a view on 720 stamps of 95 x 95: 6.5 MB."""
        return _windows()

    def images(self) -> Tensor:
        """All 737,280 images without nuisances, (737280, 64, 64) uint8, in the order of `grid`: 3.0 GB.

        `bits` is the same in an eighth of the memory.
        """
        out = torch.empty(len(self.grid), SIZE, SIZE, dtype=torch.uint8)
        for positions, part in zip(self.windows, out.split(len(out) // len(self.windows)), strict=True):
            part.copy_(positions.flip(0, 1).transpose(0, 1).reshape(-1, SIZE, SIZE))
        return out

    def bits(self) -> Tensor:
        """All images thresholded at one half and packed, (737280, 512) uint8, most significant bit first: 377 MB."""
        import numpy as np

        packed = torch.empty(len(self.grid), SIZE * SIZE // 8, dtype=torch.uint8)
        for s, stamp in enumerate(self.windows):
            pictures = (stamp.flip(0, 1).transpose(0, 1).reshape(-1, SIZE * SIZE) > 127).numpy()
            packed[s * len(pictures) : (s + 1) * len(pictures)] = torch.from_numpy(np.packbits(pictures, axis=1))
        return packed

    def dress(self, mask: Tensor, rng: Generator | None) -> Tensor:
        """A mask (B, 1, 64, 64) in [0, 1] becomes the observation of this variant."""
        if not (self.colour or self.noise or self.backgrounds):
            return mask
        if rng is None:
            raise ValueError("This variant of Sprites has random nuisances: pass rng=torch.Generator() to observe.")
        b = len(mask)
        if self.backgrounds is not None:
            # disentanglement_lib@86a644d (dsprites.py, ScreamDSprites): a crop, averaged with a random colour.
            behind = (self.crops(b, rng) + torch.rand(b, 3, 1, 1, generator=rng)) / 2
            return behind * (1 - mask) + (1 - behind) * mask
        paint = 0.5 + 0.5 * torch.rand(b, 3, 1, 1, generator=rng) if self.colour else torch.ones(b, 1, 1, 1)
        x = mask * paint
        if self.noise:
            x = torch.minimum(x + self.noise * torch.rand(x.shape, generator=rng), torch.ones(()))
        return x

    def crops(self, b: int, rng: Generator) -> Tensor:
        """Random 64 x 64 windows of the background pictures, (B, 3, 64, 64) in [0, 1]."""
        which = torch.randint(len(self.pictures), (b,), generator=rng).tolist()
        where = torch.rand(b, 2, generator=rng).tolist()
        windows = []
        for picture, (top, left) in zip((self.pictures[i] for i in which), where, strict=True):
            y, x = int(top * (picture.shape[1] - SIZE + 1)), int(left * (picture.shape[2] - SIZE + 1))
            windows.append(picture[:, y : y + SIZE, x : x + SIZE])
        return torch.stack(windows).to(torch.float32).div_(255)

    @cached_property
    def pictures(self) -> tuple[Tensor, ...]:
        """The background pictures, each (3, H, W) uint8 with sides of at least 64 and the shorter at most 256."""
        import numpy as np
        from PIL import Image

        assert self.backgrounds is not None
        folder = Path(self.backgrounds)
        files = sorted(p for p in folder.glob("*") if p.suffix.lower() in (".png", ".jpg", ".jpeg", ".webp", ".bmp"))
        if not files:
            raise FileNotFoundError(
                f"backgrounds needs a folder with PNG, JPEG, WebP or BMP pictures, found none in {str(folder)!r}."
            )
        pictures = []
        for file in files:
            with Image.open(file) as opened:
                image = opened.convert("RGB")
                scale = min(max(min(image.size), SIZE), 256) / min(image.size)
                size = (max(SIZE, round(image.width * scale)), max(SIZE, round(image.height * scale)))
                pictures.append(torch.from_numpy(np.array(image.resize(size))).permute(2, 0, 1).contiguous())
        return tuple(pictures)


# --- rendering -------------------------------------------------------------------------------------------------------


def quantise(x: Tensor) -> Tensor:
    """[0, 1] -> uint8, to the nearest."""
    return x.mul(255).add_(0.5).to(torch.uint8)


def render(v: Tensor, side: int = SIZE) -> Tensor:
    """Any factor values (B, 5) -> coverage of each pixel (B, side, side) in [0, 1], from signed distances."""
    out = torch.empty(len(v), side, side)
    for chunk, part in zip(v.split(CHUNK), out.split(CHUNK), strict=True):
        for s, distance in enumerate((square, ellipse, heart), start=1):
            if (mine := chunk[:, 0].round() == s).any():
                scale, orientation, x, y = chunk[mine, 1:].unbind(1)
                part[mine] = coverage(distance, scale, orientation, x, y, side)
    return out


def coverage(distance, scale: Tensor, orientation: Tensor, x: Tensor, y: Tensor, side: int) -> Tensor:
    """The part of each pixel inside the shape: half a pixel of soft edge on either side of distance zero."""
    centre = torch.arange(side) + 0.5
    dx = centre[None, None, :] - (FIRST + 0.5 + TRAVEL * x)[:, None, None]  # (B, 1, side)
    dy = centre[None, :, None] - (FIRST + 0.5 + TRAVEL * y)[:, None, None]  # (B, side, 1)
    r = (scale * RADIUS)[:, None, None]
    cos, sin = (orientation.cos()[:, None, None] / r), (orientation.sin()[:, None, None] / r)
    p = torch.addcmul(cos * dx, sin, dy)  # in the shape's own frame, where its radius is one
    q = torch.addcmul(cos * dy, -sin, dx)
    return distance(p, q).mul_(-r).add_(0.5).clamp_(0, 1)


def square(p: Tensor, q: Tensor) -> Tensor:
    """Signed distance to the square with half-diagonal one."""
    half = math.sqrt(0.5)
    a, b = p.abs_().sub_(half), q.abs_().sub_(half)
    inside = torch.maximum(a, b).clamp_(max=0)
    return torch.hypot(a.clamp_(min=0), b.clamp_(min=0)).add_(inside)


def ellipse(p: Tensor, q: Tensor, a: float = 1.0, b: float = 0.5) -> Tensor:
    """Distance to the ellipse with half-axes a and b, to first order at its edge: f / |grad f|."""
    f = (p / a).square_().add_((q / b).square_())
    slope = (p / a**2).square_().add_((q / b**2).square_()).sqrt_().clamp_(min=1e-6)
    return (f - 1).div_(slope.mul_(2))


def heart(p: Tensor, q: Tensor) -> Tensor:
    """Signed distance to a heart: two half discs on a square that stands on its corner.

    The upright heart has its lower tip at (0, 0) and its lobes at (1/4, 3/4) with radius sqrt(2)/4; it is scaled
    and centred to fit the unit disc.
    """
    size, middle = 1.586, 0.6305  # the tip and the lobes are equally far, 1 / size, from (0, middle)
    a, b = p.div(size).abs_(), q.neg().div_(size).add_(middle)  # pictures have y downwards; tip down
    lobe = torch.hypot(a - 0.25, b - 0.75).sub_(math.sqrt(2) / 4)
    ridge = torch.hypot(a, b - 1)  # the notch between the lobes
    along = (a + b).mul_(0.5).clamp_(min=0)
    side = torch.hypot(a - along, b - along).mul_(torch.sign(a - b))
    low = torch.where(side > 0, side, torch.maximum(side, -ridge))
    return torch.where(a + b > 1, lobe, low).mul_(size)


_STAMPS: dict[str, Tensor] = {}


def _windows() -> Tensor:
    """All sliding windows over the 720 stamps, rendered once a process (a fraction of a second)."""
    if "windows" not in _STAMPS:
        wide = SIZE + TRAVEL
        sizes = Grid((3, 6, 40))
        index = sizes.unravel(torch.arange(len(sizes)))
        v = torch.stack([torch.tensor(f.values)[index[:, k]] for k, f in enumerate(FACTORS[:3])], 1)
        middle = torch.ones(len(v), 2)  # position (1, 1): the stamp's centre for every window
        stamps = quantise(render(torch.cat([v, middle], 1), wide))
        _STAMPS["windows"] = stamps.unfold(1, SIZE, 1).unfold(2, SIZE, 1)
    return _STAMPS["windows"]
