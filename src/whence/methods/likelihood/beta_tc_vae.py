"""beta-TCVAE: the total correlation estimated from the batch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from whence.descend import Terms
from whence.evidence import Evidence, Guarantee, Reference
from whence.methods.likelihood.gaussian_vae import GaussianVAE
from whence.terms import gaussian, kl, stratified, total_correlation, weighted
from whence.views import Single


@dataclass(frozen=True, kw_only=True)
class BetaTCVAE(GaussianVAE):
    r"""beta-TCVAE: a VAE whose codes' total correlation weighs :math:`\beta` times as much, estimated from the batch.

    .. math:: -\mathbb{E}_{q(z \mid x)} \log p(x \mid z) + \mathrm{KL}(q(z \mid x) \,\|\, p(z))
              + (\beta - 1) \, \mathrm{KL}\bigl(q(z) \,\|\, \textstyle\prod_j q(z_j)\bigr)

    The divergence has the total correlation in it once, with information between x and z and each dimension's own
    divergence from the prior, whose weights stay 1 as in the paper's experiments. A batch stands for the n observations
    by weights: `weighted`, whose constant :math:`(D - 1) \log n` only moves what is logged, or `stratified`.

    Departures from the reference: the divergence has its closed form (as in disentanglement_lib) instead of one draw's
    log ratio; stratified weights are the paper's, which its public code puts into columns and not on the diagonal.
    """

    beta: float = 6.0  #: weight of the total correlation; 1 is a VAE
    stratified: bool = False  #: weights of minibatch-stratified sampling, not of minibatch-weighted
    observations: int = 737_280  #: n, how many different ones there are; as many as dSprites has

    reference: ClassVar[Reference] = Reference(
        key="chen2018isolating",
        authors="Chen, Ricky T. Q. and Li, Xuechen and Grosse, Roger and Duvenaud, David",
        title="Isolating Sources of Disentanglement in Variational Autoencoders",
        venue="Advances in Neural Information Processing Systems",
        year=2018,
        url="https://arxiv.org/abs/1802.04942",
    )
    guarantee: ClassVar[Guarantee] = Guarantee.nothing(
        "independent codes are not unique: there are infinitely many independent and fully entangled ones with the "
        "same likelihood (Locatello et al. 2019, theorem 1)."
    )
    evidence: ClassVar[tuple[Evidence, ...]] = (Evidence("closed-form", "tests/methods/test_survey.py"),)

    def loss(self, nets: Any, batch: Single, t: int) -> Terms:
        q = gaussian(nets.encoder(batch.x))
        z = q.rsample()
        weights = (stratified if self.stratified else weighted)(len(z), self.observations)
        tc = total_correlation(z, q, weights)
        return Terms(nll=self.nll(nets, z, batch.x), kl=kl(q), tc=(self.beta - 1) * tc)
