"""DIP-VAE: codes without correlations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch

from whence.descend import Terms
from whence.evidence import Evidence, Guarantee, Reference
from whence.methods.likelihood.gaussian_vae import GaussianVAE
from whence.terms import covariance, from_identity, gaussian, kl
from whence.views import Single


@dataclass(frozen=True, kw_only=True)
class DIPVAE(GaussianVAE):
    r"""DIP-VAE: a VAE whose codes are to have the prior's covariance, the identity.

    .. math:: -\mathbb{E}_{q(z \mid x)} \log p(x \mid z) + \mathrm{KL}(q(z \mid x) \,\|\, p(z))
              + \lambda_{od} \sum_{j \ne k} C_{jk}^2 + \lambda_d \sum_j (C_{jj} - 1)^2

    C is the covariance over the batch of the means :math:`\mu(x)` (DIP-VAE-I), or that of the codes,
    :math:`\mathrm{Cov} \, \mu(x) + \mathbb{E} \, \mathrm{diag} \, \sigma^2(x)` (DIP-VAE-II), by the law of total
    covariance. Both pairs (j, k) and (k, j) count, and the batch's covariance is divided by B.

    Departures from the reference: the covariance is of one batch, as in disentanglement_lib, not a running one. The
    study's grid for :math:`\lambda_{od}` is 1, 2, 5, 10, 20, 50.
    """

    covariance: Literal["means", "codes"] = "means"  #: of what: means (DIP-VAE-I) or codes (DIP-VAE-II)
    lambda_od: float = 10.0  #: weight of the squared covariances
    lambda_d: float | None = None  #: weight of the variances' distance from 1; none: 10 lambda_od (I), lambda_od (II)

    reference: ClassVar[Reference] = Reference(
        key="kumar2018variational",
        authors="Kumar, Abhishek and Sattigeri, Prasanna and Balakrishnan, Avinash",
        title="Variational Inference of Disentangled Latent Concepts from Unlabeled Observations",
        venue="International Conference on Learning Representations",
        year=2018,
        url="https://arxiv.org/abs/1711.00848",
    )
    guarantee: ClassVar[Guarantee] = Guarantee.nothing(
        "codes without correlations stay so under every rotation, so they are not even unique for Gaussian causes."
    )
    evidence: ClassVar[tuple[Evidence, ...]] = (Evidence("closed-form", "tests/methods/test_survey.py"),)

    def loss(self, nets: Any, batch: Single, t: int) -> Terms:
        q = gaussian(nets.encoder(batch.x))
        second = self.covariance == "codes"
        off, own = from_identity(covariance(q.loc) + second * torch.diag(q.variance.mean(0)))
        lambda_d = (1 if second else 10) * self.lambda_od if self.lambda_d is None else self.lambda_d
        bound = {"nll": self.nll(nets, q.rsample(), batch.x), "kl": kl(q)}
        return Terms(**bound, off_diagonal=self.lambda_od * off, diagonal=lambda_d * own)
