"""Losses of a critic, whose output is the log odds that a row is the prior's, of those it judges, and of heads."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor
from torch.nn.functional import pdist, softplus

Critic = Callable[[Tensor], Tensor]


def told_apart(p: Tensor, z: Tensor, critic: Critic) -> tuple[Tensor, Tensor]:
    r"""The critic's loss on draws of the prior, :math:`-\log D(p)`, and on codes, :math:`-\log(1 - D(z))`."""
    return softplus(-critic(p)).mean(), softplus(critic(z)).mean()


def fool(z: Tensor, critic: Critic) -> Tensor:
    r"""The codes' loss :math:`-\log D(z)`, which does not saturate (Goodfellow et al. 2014)."""
    return softplus(-critic(z)).mean()


def closeness(heads: Tensor, eta: float) -> Tensor:
    r""":math:`\sum_{k < l} \max(0, \eta - \|w_k - w_l\|)` of the rows of (K, D): 0 once all are eta apart."""
    return (eta - pdist(heads)).clamp(min=0).sum()
