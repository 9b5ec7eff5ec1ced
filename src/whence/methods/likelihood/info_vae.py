"""InfoVAE: what a code says and what all codes look like, weighed apart."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import torch

from whence.descend import Terms, Turn
from whence.evidence import Evidence, Guarantee, Reference
from whence.methods._divergence import MMD, Divergence
from whence.methods.likelihood.gaussian_vae import GaussianVAE
from whence.nets import Nets
from whence.representation import Representation
from whence.terms import gaussian, kl, told_apart
from whence.views import Single, Spec


@dataclass(frozen=True, kw_only=True)
class InfoVAE(GaussianVAE):
    r"""InfoVAE: a VAE with information between x and z added, and all codes together held to the prior.

    .. math:: -\mathbb{E}_{q(z \mid x)} \log p(x \mid z) + (1 - \alpha) \, \mathrm{KL}(q(z \mid x) \,\|\, p(z))
              + (\alpha + \lambda - 1) \, D(q(z) \,\|\, p(z))

    The divergence D of all codes from the prior is `MMD`, `Stein` (a surrogate, with the sign that lowers the
    divergence) or `Adversarial` (with a critic, which moves after the autoencoder). Sum over pixels, mean over the
    batch, so that :math:`\lambda` is the paper's for a summed likelihood, 1,000; with one divided by the number of
    pixels, as in the authors' code, it is as many times smaller.

    Departures from the reference: the posterior is sampled also for :math:`\alpha = 1`, where the authors' code has
    none; its discrepancy is the unbiased one, its kernel the inverse multiquadratics.
    """

    alpha: float = 0.0  #: weight of the information between x and z; 1 leaves out each code's own divergence
    lam: float = 1000.0  #: lambda, weight of the divergence of all codes together
    divergence: Divergence = MMD()  #: of all codes from the prior

    reference: ClassVar[Reference] = Reference(
        key="zhao2019infovae",
        authors="Zhao, Shengjia and Song, Jiaming and Ermon, Stefano",
        title="InfoVAE: Balancing Learning and Inference in Variational Autoencoders",
        venue="AAAI Conference on Artificial Intelligence",
        year=2019,
        url="https://arxiv.org/abs/1706.02262",
    )
    guarantee: ClassVar[Guarantee] = Guarantee.nothing(
        "a rotation of the codes keeps a normal prior, and with it every term (Locatello et al. 2019, theorem 1)."
    )
    evidence: ClassVar[tuple[Evidence, ...]] = (Evidence("closed-form", "tests/methods/test_survey.py"),)

    def init(self, spec: Spec) -> Nets:
        critic = self.divergence.critic(self.latents)
        return Nets(vae=super().init(spec), **({} if critic is None else {"critic": critic}))

    def represent(self, nets: Any, spec: Spec) -> Representation:
        return super().represent(nets.vae, spec)

    def turns(self, nets: Any, batch: Single, t: int) -> Iterator[Turn]:
        q = gaussian(nets.vae.encoder(batch.x))
        z, critic = q.rsample(), getattr(nets, "critic", None)
        p = torch.randn_like(z)
        nll, own = self.nll(nets.vae, z, batch.x), (1 - self.alpha) * kl(q)
        whole = (self.alpha + self.lam - 1) * self.divergence.of(z, p, critic)
        yield Turn("vae", Terms(nll=nll, kl=own, divergence=whole))
        if critic is not None:
            prior, codes = told_apart(p, z, critic)
            yield Turn("critic", Terms(prior=prior, codes=codes))
