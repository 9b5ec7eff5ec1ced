"""How much of an observation survives encoding and decoding."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor

from whence.evidence import Evidence, Reference
from whence.metrics.arrays import Unmeasurable
from whence.metrics.metric import Metric, Part
from whence.metrics.probe import Probe
from whence.representation import Decodes
from whence.views import as_float, as_tensor

ROWS = 128  #: observations compared at a time, in double precision
NEAR = 2.0**-24  #: how near float32 comes to 1; decoded probabilities are taken no nearer to 0 or 1
ROUNDING = 1e-6  #: how far a value may leave [0, 1] by rounding


def reconstruction_error(x: Any, x_: Any) -> float:
    r"""Mean over observations and their values of :math:`(x - \hat x)^2`."""
    a, b = np.asarray(x), np.asarray(x_)
    if a.shape != b.shape:
        raise ValueError(f"Observations and reconstructions have the same shape, got {a.shape} and {b.shape}.")
    return float(np.square(a.astype(np.float64) - b).mean())


class CrossEntropy(NamedTuple):
    """In nats an observation."""

    total: float
    excess: float  #: over the least value, which is the entropy of the observations' own values


def bernoulli_cross_entropy(x: Any, x_: Any) -> CrossEntropy:
    r"""Mean over observations of the summed cross-entropy of their values with decoded probabilities, in nats.

    .. math:: -\sum_i x_i \log \hat x_i + (1 - x_i) \log(1 - \hat x_i)

    Values and probabilities lie in [0, 1]; bytes are taken so. Where x is not 0 or 1 the least value is not 0 but the
    entropy of x; the excess over it is :math:`\sum_i \mathrm{KL}(x_i \,\|\, \hat x_i)`. Probabilities are kept
    :math:`2^{-24}` away from 0 and 1, so a value that is wrong with certainty costs 16.6 nats, not infinitely many.
    """
    total = least = 0.0
    a, b = compared(x, x_)
    for what, t in (("observations", a), ("decoded observations", b)):
        low, high = float(t.min()), float(t.max())
        if low < -ROUNDING or high > 1 + ROUNDING:
            raise Unmeasurable(
                f"A Bernoulli cross-entropy needs {what} between 0 and 1, got {low:.3g} to {high:.3g}. Use the mean "
                "squared error, or a likelihood whose mean is a probability."
            )
    for x, p in zip(a.split(ROWS), b.split(ROWS), strict=True):
        x, p = x.double().clamp(0, 1), p.double().clamp(NEAR, 1 - NEAR)
        total -= float(torch.special.xlogy(x, p).sum() + torch.special.xlogy(1 - x, 1 - p).sum())
        least += float((torch.special.entr(x) + torch.special.entr(1 - x)).sum())
    return CrossEntropy(total / len(a), (total - least) / len(a))


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


def compared(x: Any, x_: Any) -> tuple[Tensor, Tensor]:
    """Observations and reconstructions, checked."""
    a, b = (as_float(as_tensor(t).detach().cpu()) for t in (x, x_))
    if a.shape != b.shape or not len(a):
        raise ValueError(
            f"Observations and reconstructions have the same shape and are not empty, got {tuple(a.shape)} and "
            f"{tuple(b.shape)}."
        )
    for t in (a, b):
        if not torch.isfinite(t).all():
            raise Unmeasurable(f"Observations are finite, got {int((~torch.isfinite(t)).sum())} values that are not.")
    return a.to(torch.promote_types(a.dtype, torch.float32)), b.to(torch.promote_types(b.dtype, torch.float32))


class OfReconstructions(Metric):
    """A metric of observations and what becomes of them by encoding and decoding, made once for all of them."""

    observations: int
    resamples = False
    asks: ClassVar[tuple[type, ...]] = (Decodes,)

    def both(self, probe: Probe) -> tuple[Tensor, Tensor]:
        n = self.observations
        found = probe.once(("reconstructions", n), lambda: probe.reconstructions(n))
        assert found is not None, "asks Decodes"
        return found


@dataclass(frozen=True, kw_only=True)
class Reconstruction(OfReconstructions):
    """Reconstruction error: the mean squared difference between an observation and its decoded code.

    Misses: small things. A sprite that is lost changes few pixels.
    """

    observations: int = 2_000  #: how many to reconstruct

    parts: ClassVar[tuple[Part, ...]] = (Part("", 0.0, higher_is_better=False),)
    reference: ClassVar[Reference] = Reference(
        key="hinton2006reducing",
        authors="Hinton, Geoffrey E. and Salakhutdinov, Ruslan R.",
        title="Reducing the Dimensionality of Data with Neural Networks",
        venue="Science",
        year=2006,
        url="https://doi.org/10.1126/science.1127647",
    )
    evidence: ClassVar[tuple[Evidence, ...]] = (Evidence("closed-form", "tests/metrics/test_metrics.py"),)

    def measure(self, probe: Probe) -> float:
        return reconstruction_error(*self.both(probe))


@dataclass(frozen=True, kw_only=True)
class BernoulliCrossEntropy(OfReconstructions):
    """Bernoulli cross-entropy: how many nats does an observation in [0, 1] cost under its decoded code?

    Two numbers: the cost, and its excess over the entropy of the pixels, which is what a better model could save.

    Misses: what mean squared error misses; and one value that is wrong with certainty outweighs many that are vague.
    """

    observations: int = 2_000  #: how many to reconstruct

    parts: ClassVar[tuple[Part, ...]] = (
        Part("", 0.0, higher_is_better=False),
        Part("excess", 0.0, higher_is_better=False),
    )
    reference: ClassVar[Reference] = Reference(
        key="kingma2014auto",
        authors="Kingma, Diederik P. and Welling, Max",
        title="Auto-Encoding Variational Bayes",
        venue="International Conference on Learning Representations",
        year=2014,
        url="https://arxiv.org/abs/1312.6114",
    )
    evidence: ClassVar[tuple[Evidence, ...]] = (Evidence("closed-form", "tests/metrics/test_reconstruction.py"),)

    def measure(self, probe: Probe) -> CrossEntropy:
        return bernoulli_cross_entropy(*self.both(probe))


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
