"""The Wasserstein autoencoder."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import torch

from whence.descend import Adam, Recipe, Terms, Turn
from whence.evidence import Evidence, Guarantee, Reference
from whence.methods._divergence import MMD, Divergence
from whence.methods.adversarial.autoencoder import Autoencoding, squared_error
from whence.nets import Nets
from whence.terms import told_apart
from whence.views import Single, Spec


@dataclass(frozen=True, kw_only=True)
class WAE(Autoencoding):
    r"""WAE: an autoencoder whose codes, all together, are held to the prior.

    .. math:: c \, \mathbb{E} \|x - G(E(x))\|^2 + \lambda \, D(q(z) \,\|\, p(z))

    The divergence D is `MMD`, by default with the summed inverse multiquadratics of the paper (WAE-MMD), or
    `Adversarial` (WAE-GAN), whose critic moves after the autoencoder and whose loss the encoder descends in the form
    that does not saturate. Sum over pixels, mean over the batch. The paper's code multiplies the squared error by .05,
    and so do we: with c = 1 the same balance needs :math:`\lambda` 20 times as large.

    Departures from the reference: the encoder is not trained beforehand to match the prior's moments, and the learning
    rate stays. :math:`\lambda` is 10 for digits, 100 for faces.
    """

    lam: float = 10.0  #: lambda, weight of the divergence
    cost: float = 0.05  #: c, weight of the squared error
    divergence: Divergence = MMD()  #: of all codes from the prior

    recipe: ClassVar[Recipe] = Recipe(steps=60_000, batch=100, optimiser=Adam(lr=1e-3, betas=(0.5, 0.999)))
    reference: ClassVar[Reference] = Reference(
        key="tolstikhin2018wasserstein",
        authors='Tolstikhin, Ilya and Bousquet, Olivier and Gelly, Sylvain and Sch{\\"o}lkopf, Bernhard',
        title="Wasserstein Auto-Encoders",
        venue="International Conference on Learning Representations",
        year=2018,
        url="https://arxiv.org/abs/1711.01558",
    )
    guarantee: ClassVar[Guarantee] = Guarantee.nothing(
        "a rotation of the codes keeps a normal prior, and with it both terms (Locatello et al. 2019, theorem 1)."
    )
    evidence: ClassVar[tuple[Evidence, ...]] = (Evidence("closed-form", "tests/methods/test_survey.py"),)

    def init(self, spec: Spec) -> Nets:
        critic = self.divergence.critic(self.latents)
        autoencoder = self.autoencoder(spec, self.latents, self.latents)
        return Nets(autoencoder=autoencoder, **({} if critic is None else {"critic": critic}))

    def turns(self, nets: Any, batch: Single, t: int) -> Iterator[Turn]:
        z, critic = nets.autoencoder.encoder(batch.x).to(batch.x.dtype), getattr(nets, "critic", None)
        p = torch.randn_like(z)
        error = self.cost * squared_error(nets.autoencoder.decoder(z), batch.x)
        yield Turn("autoencoder", Terms(error=error, divergence=self.lam * self.divergence.of(z, p, critic)))
        if critic is not None:
            prior, codes = told_apart(p, z, critic)
            yield Turn("critic", Terms(prior=prior, codes=codes))
