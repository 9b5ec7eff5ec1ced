"""The variational autoencoder."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from whence.descend import Terms
from whence.evidence import Evidence, Guarantee, Reference
from whence.methods.likelihood.gaussian_vae import GaussianVAE
from whence.views import Single


@dataclass(frozen=True, kw_only=True)
class VAE(GaussianVAE):
    r"""Variational autoencoder: maximises the evidence lower bound.

    .. math:: -\mathbb{E}_{q(z \mid x)} \log p(x \mid z) + \mathrm{KL}(q(z \mid x) \,\|\, p(z))

    Sum over pixels and latents, mean over the batch. Departures from the reference: none.
    """

    reference: ClassVar[Reference] = Reference(
        key="kingma2014auto",
        authors="Kingma, Diederik P. and Welling, Max",
        title="Auto-Encoding Variational Bayes",
        venue="International Conference on Learning Representations",
        year=2014,
        url="https://arxiv.org/abs/1312.6114",
    )
    guarantee: ClassVar[Guarantee] = Guarantee.nothing(
        "any rotation of z has the same likelihood and the same prior (Locatello et al. 2019, theorem 1)."
    )
    evidence: ClassVar[tuple[Evidence, ...]] = (
        Evidence("closed-form", "tests/methods/test_likelihood.py"),
        Evidence("benchmarked", "benchmarks/beta_vae_metric.md"),
    )

    def loss(self, nets: Any, batch: Single, t: int) -> Terms:
        return self.elbo(nets, batch.x)[1]
