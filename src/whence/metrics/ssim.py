"""Structural similarity of pictures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from whence.evidence import Evidence, Reference
from whence.metrics.arrays import Unmeasurable
from whence.metrics.probe import Probe
from whence.metrics.reconstruction import ROWS, OfReconstructions, compared


def ssim(x: Any, x_: Any, *, span: float = 1.0, window: int = 11, sigma: float = 1.5) -> float:
    r"""Structural similarity of images (N, channels, height, width), mean over windows, channels and images.

    .. math:: \frac{(2 \mu \hat\mu + C_1)(2 \sigma_{x \hat x} + C_2)}
        {(\mu^2 + \hat\mu^2 + C_1)(\sigma_x^2 + \sigma_{\hat x}^2 + C_2)}, \quad C_1 = (0.01 L)^2, \; C_2 = (0.03 L)^2

    with moments under a Gaussian window of `window` pixels and deviation `sigma` that lies within the image, and L the
    `span` of values (bytes are taken as [0, 1]). Departures from the reference: none; colours are compared channel by
    channel.
    """
    a, b = compared(x, x_)
    if a.ndim != 4 or min(a.shape[-2:]) < window:
        raise Unmeasurable(
            f"Structural similarity needs images (N, channels, height, width) of at least {window} pixels a side, got "
            f"{tuple(a.shape)}."
        )
    down, across = (windows(size, window, sigma) for size in a.shape[-2:])
    c1, c2 = (0.01 * span) ** 2, (0.03 * span) ** 2

    def mean(t: Tensor) -> Tensor:
        return down.T @ (t @ across)

    total = 0.0
    for p, q in zip(a.split(ROWS), b.split(ROWS), strict=True):
        p, q = p.double(), q.double()
        m, m_ = mean(p), mean(q)
        both, cross = m * m + m_ * m_, m * m_
        spread, shared = mean(p * p + q * q) - both, mean(p * q) - cross
        similar = (2 * cross + c1) * (2 * shared + c2) / ((both + c1) * (spread + c2))
        total += float(similar.mean((1, 2, 3)).sum())
    return total / len(a)


def windows(size: int, window: int, sigma: float) -> Tensor:
    """(size, places): the weights of every place of a Gaussian window within the image. A product with this matrix is
    an order of magnitude faster than a convolution of few channels."""
    at = torch.arange(window, dtype=torch.float64) - (window - 1) / 2
    g = torch.softmax(-(at**2) / (2 * sigma**2), 0)
    w = torch.zeros(size, size - window + 1, dtype=torch.float64)
    for place in range(w.shape[1]):
        w[place : place + window, place] = g
    return w


@dataclass(frozen=True, kw_only=True)
class SSIM(OfReconstructions):
    """Structural similarity: have small windows of a decoded image the mean, contrast and pattern of the observed ones?

    Misses: shifts of a pixel cost much though one hardly sees them, and large empty areas are similar at no cost.
    """

    observations: int = 2_000  #: how many to reconstruct

    reference: ClassVar[Reference] = Reference(
        key="wang2004image",
        authors="Wang, Zhou and Bovik, Alan C. and Sheikh, Hamid R. and Simoncelli, Eero P.",
        title="Image Quality Assessment: From Error Visibility to Structural Similarity",
        venue="IEEE Transactions on Image Processing",
        year=2004,
        url="https://doi.org/10.1109/TIP.2003.819861",
    )
    evidence: ClassVar[tuple[Evidence, ...]] = (Evidence("closed-form", "tests/metrics/test_reconstruction.py"),)

    def measure(self, probe: Probe) -> float:
        return ssim(*self.both(probe))
