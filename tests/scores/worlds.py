"""Known densities: environments with a log-density each, mixed by a matrix. True scores by autograd."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Generator, Tensor
from torch.distributions import Categorical, MixtureSameFamily, Normal


@dataclass(frozen=True)
class Known:
    """x = z M with z from environment e's `draw`, and the density of z."""

    draw: Callable[[int, int, Generator], Tensor]
    log_prob: Callable[[int, Tensor], Tensor]
    environments: int
    M: Tensor

    def samples(self, n: int, rng: Generator) -> list[Tensor]:
        return [self.draw(e, n, rng) @ self.M for e in range(self.environments + 1)]

    def score(self, x: Tensor, e: int) -> Tensor:
        z = (x.double() @ torch.linalg.inv(self.M)).requires_grad_()
        (s,) = torch.autograd.grad(self.log_prob(e, z).sum(), z)
        return s @ torch.linalg.inv(self.M).T

    def differences(self, x: Tensor) -> Tensor:
        return torch.stack([self.score(x, 0) - self.score(x, e) for e in range(1, self.environments + 1)])


MIXING = torch.tensor([[1.0, 0.4], [-0.7, 2.0]], dtype=torch.float64)


def bent() -> Known:
    """Two humps, and a parabola of noise on them; then each of the two replaced: no Gaussian fits."""
    humps = MixtureSameFamily(Categorical(torch.ones(2)), Normal(torch.tensor([-1.2, 1.2]), torch.tensor([0.6, 0.6])))

    def first(e: int) -> Normal | MixtureSameFamily:
        return Normal(0.0, 1.2) if e == 1 else humps

    def second(e: int, z: Tensor) -> Normal:
        return Normal(torch.zeros_like(z), 1.2) if e == 2 else Normal(0.7 * z.square() - 1, 0.8)

    def draw(e: int, n: int, rng: Generator) -> Tensor:
        a = torch.randn(n, generator=rng, dtype=torch.float64)
        sign = torch.randint(2, (n,), generator=rng) * 2 - 1
        a = 1.2 * a if e == 1 else 1.2 * sign + 0.6 * a
        c = second(e, a)
        return torch.stack([a, c.loc + c.scale * torch.randn(n, generator=rng, dtype=torch.float64)], 1)

    return Known(draw, lambda e, z: first(e).log_prob(z[:, 0]) + second(e, z[:, 0]).log_prob(z[:, 1]), 2, MIXING)


def logistic(scales: Sequence[float] = (1.0, 2.0, 0.5)) -> Known:
    r"""Independent logistic variables, :math:`s(z) = -\tanh(z / 2a) / a`, of another scale in each environment."""

    def draw(e: int, n: int, rng: Generator) -> Tensor:
        return torch.logit(torch.rand(n, 2, generator=rng, dtype=torch.float64).clamp(1e-9, 1 - 1e-9)) * scales[e]

    def log_prob(e: int, z: Tensor) -> Tensor:
        u = z / scales[e]
        return (-u - 2 * torch.nn.functional.softplus(-u)).sum(1)

    return Known(draw, log_prob, len(scales) - 1, MIXING)


def gaussian(means: Tensor, covariances: Tensor) -> Known:
    """(G, n) and (G, n, n)."""
    n = means.shape[1]
    L = torch.linalg.cholesky(covariances)

    def draw(e: int, size: int, rng: Generator) -> Tensor:
        return means[e] + torch.randn(size, n, generator=rng, dtype=torch.float64) @ L[e].T

    def log_prob(e: int, z: Tensor) -> Tensor:
        return torch.distributions.MultivariateNormal(means[e], covariances[e]).log_prob(z)

    return Known(draw, log_prob, len(means) - 1, torch.eye(n, dtype=torch.float64))


def error(estimate: Tensor, truth: Tensor) -> float:
    """Relative L2: zero scores have 1."""
    return float(((estimate - truth).square().sum() / truth.square().sum()).sqrt())
