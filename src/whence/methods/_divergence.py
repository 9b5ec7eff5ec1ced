"""How far the codes of a batch are, all together, from a prior: by a kernel, or by a critic. As values."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from whence.nets.mlp import mlp
from whence.terms import RBF, InverseMultiquadratic, Kernel, fool, mmd, stein


@dataclass(frozen=True, kw_only=True)
class Divergence(ABC):
    """A distance of q(z) from p(z), or a surrogate with its gradient."""

    def critic(self, dims: int) -> nn.Module | None:
        """The network that tells codes from the prior's draws, if one does."""
        return None

    @abstractmethod
    def of(self, z: Tensor, p: Tensor, critic: Any) -> Tensor:
        """Codes z (B, D) against draws p (B, D) of the prior."""


@dataclass(frozen=True, kw_only=True)
class MMD(Divergence):
    """Squared maximum mean discrepancy (U-statistic)."""

    kernel: Kernel | None = None  #: none: inverse multiquadratics with C = 2 D, for a standard normal prior

    def of(self, z: Tensor, p: Tensor, critic: Any) -> Tensor:
        return mmd(z, p, self.kernel or InverseMultiquadratic(scale=2.0 * z.shape[1]))


@dataclass(frozen=True, kw_only=True)
class Stein(Divergence):
    """Stein's variational direction to the standard normal; the number is a surrogate, only its gradient is meant."""

    kernel: Kernel | None = None  #: none: Gaussian, of the bandwidth root D

    def of(self, z: Tensor, p: Tensor, critic: Any) -> Tensor:
        return stein(z, self.kernel or RBF(bandwidth=math.sqrt(z.shape[1])))


@dataclass(frozen=True, kw_only=True)
class Adversarial(Divergence):
    r"""A critic's opinion, :math:`-\log D(z)` with D the probability that z is the prior's: the encoder's loss that
    does not saturate (Goodfellow et al. 2014)."""

    hidden: tuple[int, ...] = (512, 512, 512, 512)  #: hidden layers of the critic

    def critic(self, dims: int) -> nn.Module:
        return mlp([dims, *self.hidden, 1])

    def of(self, z: Tensor, p: Tensor, critic: Any) -> Tensor:
        assert critic is not None
        return fool(z, critic)


DIVERGENCES = (MMD, Stein, Adversarial)
