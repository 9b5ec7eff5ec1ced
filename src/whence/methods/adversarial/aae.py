"""The adversarial autoencoder."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import torch

from whence.descend import Adam, Recipe, Terms, Turn
from whence.evidence import Evidence, Guarantee, Reference
from whence.methods.adversarial.autoencoder import Autoencoding, squared_error
from whence.nets import Nets, mlp
from whence.terms import fool, told_apart
from whence.views import Single, Spec


@dataclass(frozen=True, kw_only=True)
class AAE(Autoencoding):
    r"""AAE: an autoencoder whose codes a critic cannot tell from draws of the prior.

    .. math:: \mathbb{E} \|x - G(E(x))\|^2 - \lambda \, \mathbb{E} \log D(E(x)), \qquad
              D \text{ descends } -\mathbb{E} \log D(z) - \mathbb{E} \log (1 - D(E(x))), \; z \sim p(z)

    The critic moves first, then the autoencoder. Sum over pixels, mean over the batch.

    Departures from the reference: reconstruction and fooling are one step of the encoder, which makes their weight
    explicit; Adam instead of gradient descent with momentum, because the error is a sum over pixels; networks as for
    other methods (the paper's are `--net mlp --net.hidden 1000,1000`).
    """

    lam: float = 1.0  #: lambda, weight of fooling the critic
    critic: tuple[int, ...] = (1000, 1000)  #: hidden layers of the critic

    recipe: ClassVar[Recipe] = Recipe(steps=60_000, batch=100, optimiser=Adam(lr=2e-4, betas=(0.5, 0.999)))
    reference: ClassVar[Reference] = Reference(
        key="makhzani2015adversarial",
        authors="Makhzani, Alireza and Shlens, Jonathon and Jaitly, Navdeep and Goodfellow, Ian and Frey, Brendan",
        title="Adversarial Autoencoders",
        venue="arXiv:1511.05644",
        year=2015,
        url="https://arxiv.org/abs/1511.05644",
    )
    guarantee: ClassVar[Guarantee] = Guarantee.nothing(
        "a rotation of the codes keeps a normal prior, and with it both losses (Locatello et al. 2019, theorem 1)."
    )
    evidence: ClassVar[tuple[Evidence, ...]] = (Evidence("closed-form", "tests/methods/test_survey.py"),)

    def init(self, spec: Spec) -> Nets:
        autoencoder = self.autoencoder(spec, self.latents, self.latents)
        return Nets(autoencoder=autoencoder, critic=mlp([self.latents, *self.critic, 1]))

    def turns(self, nets: Any, batch: Single, t: int) -> Iterator[Turn]:
        z = nets.autoencoder.encoder(batch.x).to(batch.x.dtype)
        prior, codes = told_apart(torch.randn_like(z), z, nets.critic)
        yield Turn("critic", Terms(prior=prior, codes=codes))
        error = squared_error(nets.autoencoder.decoder(z), batch.x)
        yield Turn("autoencoder", Terms(error=error, fool=self.lam * fool(z, nets.critic)))
