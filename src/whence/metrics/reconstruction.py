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
    redraws: ClassVar[bool] = True
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
