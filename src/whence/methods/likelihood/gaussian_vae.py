"""GaussianVAE: what variational autoencoders with a diagonal Gaussian posterior share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Generator, Tensor, nn
from torch.distributions import Normal

from whence.descend import Adam, Recipe, Terms
from whence.methods._method import Gradient
from whence.nets import Architecture, Nets, suited
from whence.representation import Representation, as_given
from whence.terms import Bernoulli, Gaussian, Likelihood, gaussian, kl
from whence.views import Singles, Spec, View


class GaussianCode(Representation):
    """The mean of q(z|x) is the code; decodes, samples, and has the posterior."""

    def __init__(self, encoder: nn.Module, decoder: nn.Module, likelihood: Likelihood, spec: Spec, dims: int) -> None:
        super().__init__(spec, dims)
        self.encoder, self.decoder, self.likelihood = encoder, decoder, likelihood

    def codes(self, x: Tensor) -> Tensor:
        return self.posterior(x).loc

    def posterior(self, x: Tensor) -> Normal:
        return gaussian(self.encoder(x))

    @as_given
    def decode(self, z: Tensor) -> Tensor:
        """(N, dims) -> (N, *shape): the mean of p(x|z)."""
        return self.likelihood.mean(self.decoder(z))

    def sample(self, n: int, rng: Generator) -> Tensor:
        return self.decode(torch.randn(n, self.dims, generator=rng))


@dataclass(frozen=True, kw_only=True)
class GaussianVAE(Gradient):
    r"""Encoder to :math:`q(z \mid x) = \mathcal{N}(\mu(x), \sigma^2(x))`, decoder to :math:`p(x \mid z)`, prior
    :math:`\mathcal{N}(0, 1)`. Subclasses say what is added to the bound."""

    latents: int = 10  #: dimensions of z
    net: Architecture | None = None  #: encoder and decoder; none: conv64 for 64x64 images, mlp for anything else
    likelihood: Likelihood | None = None  #: p(x|z); none: bernoulli for images, gaussian for vectors

    needs: ClassVar[type[View]] = Singles
    # disentanglement_lib@86a644d (config/unsupervised_study_v1): the study's budget for every method
    recipe: ClassVar[Recipe] = Recipe(steps=300_000, batch=64, optimiser=Adam(lr=1e-4))

    def __post_init__(self) -> None:
        if self.latents < 1:
            raise ValueError(f"latents is at least 1, got {self.latents}.")

    def observes(self, spec: Spec) -> Likelihood:
        """The likelihood in use."""
        return self.likelihood or (Bernoulli() if len(spec.shape) == 3 else Gaussian())

    def init(self, spec: Spec) -> Nets:
        net = suited(self.net, spec)
        return Nets(
            encoder=net.encoder(spec.shape, 2 * self.latents),
            decoder=net.decoder(self.latents, spec.shape),
        )

    def represent(self, nets: Any, spec: Spec) -> Representation:
        return GaussianCode(nets.encoder, nets.decoder, self.observes(spec), spec, self.latents)

    def nll(self, nets: Any, z: Tensor, x: Tensor) -> Tensor:
        r"""Mean over the batch of :math:`-\log p(x \mid z)`."""
        return self.observes(Spec(tuple(x.shape[1:]))).nll(nets.decoder(z), x)

    def elbo(self, nets: Any, x: Tensor, beta: float = 1.0) -> tuple[Tensor, Terms]:
        """A draw of z, and the two terms of the bound with the second one's weight."""
        q = gaussian(nets.encoder(x))
        z = q.rsample()
        return z, Terms(nll=self.nll(nets, z, x), kl=beta * kl(q))

    def check(self, data: View) -> None:
        if isinstance(self.observes(data.spec), Bernoulli):
            x = data.batch(16, Generator().manual_seed(0))[0]
            if x.min() < 0 or x.max() > 1:
                raise ValueError(
                    f"A Bernoulli likelihood needs observations in [0, 1], got values from {x.min():.3g} to "
                    f"{x.max():.3g}. Scale them, or use likelihood=Gaussian()."
                )
