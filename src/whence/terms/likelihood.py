"""Observation models p(x|z), as values. A decoder gives their natural parameters."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, mse_loss


@dataclass(frozen=True, kw_only=True)
class Likelihood(ABC):
    """How a decoder's output stands for a distribution of observations."""

    @abstractmethod
    def nll(self, out: Tensor, x: Tensor) -> Tensor:
        r"""Mean over the batch of :math:`-\log p(x \mid z)`, summed over the observation."""

    @abstractmethod
    def mean(self, out: Tensor) -> Tensor:
        """The expected observation."""


@dataclass(frozen=True, kw_only=True)
class Bernoulli(Likelihood):
    r"""Each value in [0, 1]: :math:`-\log p = -\sum_i x_i \log p_i + (1 - x_i) \log(1 - p_i)`.

    For values between 0 and 1 this is a cross-entropy and not a density, as in the literature; its least value is
    then the entropy of the pixels, not 0.
    """

    copies: float = 1.0  #: how many equal values each one stands for, as in a picture that was shrunk

    def nll(self, out: Tensor, x: Tensor) -> Tensor:
        return self.copies * binary_cross_entropy_with_logits(out.to(x.dtype), x, reduction="sum") / len(x)

    def mean(self, out: Tensor) -> Tensor:
        return torch.sigmoid(out)


@dataclass(frozen=True, kw_only=True)
class Gaussian(Likelihood):
    r"""Fixed scale: :math:`-\log p = \sum_i \frac{(x_i - m_i)^2}{2 \sigma^2} + \log \sigma \sqrt{2 \pi}`."""

    scale: float = 1.0  #: the standard deviation of each value

    def __post_init__(self) -> None:
        if not self.scale > 0:
            raise ValueError(f"The scale of a Gaussian is positive, got {self.scale}.")

    def nll(self, out: Tensor, x: Tensor) -> Tensor:
        constant = x[0].numel() * (math.log(self.scale) + 0.5 * math.log(2 * math.pi))
        return mse_loss(out.to(x.dtype), x, reduction="sum") / (2 * self.scale**2 * len(x)) + constant

    def mean(self, out: Tensor) -> Tensor:
        return out


LIKELIHOODS = (Bernoulli, Gaussian)
