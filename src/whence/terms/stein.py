"""The direction in which a sample moves to become another distribution's."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from whence.terms.mmd import Kernel


def stein_direction(z: Tensor, kernel: Kernel, score: Callable[[Tensor], Tensor]) -> Tensor:
    r"""(n, d): where each row moves so that :math:`\mathrm{KL}(q \,\|\, p)` falls fastest (Liu and Wang 2016).

    .. math:: \phi(z) = \frac{1}{n} \sum_j k(z_j, z) \nabla \log p(z_j) + \nabla_{z_j} k(z_j, z)

    The first part pulls towards p, the second pushes rows apart.
    """
    z = z.detach()

    def repulsion(to: Tensor) -> Tensor:
        return torch.func.grad(lambda shift: kernel(z + shift, to[None]).sum())(torch.zeros_like(to))

    return (kernel(z, z).mT @ score(z) + torch.func.vmap(repulsion)(z)) / len(z)


def stein(z: Tensor, kernel: Kernel) -> Tensor:
    r"""A surrogate whose gradient moves each row of z along :math:`\phi` to the standard normal: not a number of nats.

    .. math:: -\frac{1}{n} \sum_i z_i^\top \phi(z_i), \quad \phi \text{ held fixed}

    With the minus sign: descending :math:`z^\top \phi`, as the survey has it, moves away from the prior.
    """
    return -(z * stein_direction(z, kernel, torch.neg)).sum(1).mean()
