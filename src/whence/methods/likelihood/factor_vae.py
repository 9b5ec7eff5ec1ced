"""FactorVAE: two players."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from torch import nn
from torch.nn.functional import softplus

from whence.descend import Adam, Recipe, Terms, Turn
from whence.evidence import Evidence, Guarantee, Reference
from whence.methods.likelihood.gaussian_vae import GaussianVAE
from whence.nets import Nets, mlp
from whence.representation import Representation
from whence.terms import permute_dims
from whence.views import Single, Spec


@dataclass(frozen=True, kw_only=True)
class FactorVAE(GaussianVAE):
    r"""FactorVAE: a VAE plus the total correlation of its codes, which a critic estimates from permuted codes.

    .. math:: -\mathbb{E}_{q(z \mid x)} \log p(x \mid z) + \mathrm{KL}(q(z \mid x) \,\|\, p(z))
              + \gamma \, \mathbb{E}_{q(z)} \log \frac{D(z)}{1 - D(z)}

    The critic D tells :math:`q(z)` from :math:`\prod_j q(z_j)`; its log odds estimate the log ratio of the two. The
    players alternate, as in algorithm 2 of the paper; disentanglement_lib steps both from the same weights.
    Departures from the reference: the permuted codes come from the same batch (as in disentanglement_lib), not from
    a second one; the critic has one logit instead of two, which is the same function.
    """

    gamma: float = 10.0  #: weight of the total correlation
    critic: tuple[int, ...] = (1000,) * 6  #: hidden layers of the critic

    recipe: ClassVar[Recipe] = Recipe(
        steps=300_000,
        batch=64,
        optimiser=Adam(lr=1e-4),
        players={"critic": Adam(lr=1e-4, betas=(0.5, 0.9))},
    )
    reference: ClassVar[Reference] = Reference(
        key="kim2018disentangling",
        authors="Kim, Hyunjik and Mnih, Andriy",
        title="Disentangling by Factorising",
        venue="International Conference on Machine Learning",
        year=2018,
        url="https://arxiv.org/abs/1802.05983",
    )
    guarantee: ClassVar[Guarantee] = Guarantee.nothing(
        "independent codes are not unique: there are infinitely many independent and fully entangled ones with the "
        "same likelihood (Locatello et al. 2019, theorem 1)."
    )
    evidence: ClassVar[tuple[Evidence, ...]] = (Evidence("closed-form", "tests/methods/test_likelihood.py"),)

    def init(self, spec: Spec) -> Nets:
        return Nets(
            vae=super().init(spec),
            critic=mlp([self.latents, *self.critic, 1], lambda: nn.LeakyReLU(0.2)),
        )

    def represent(self, nets: Any, spec: Spec) -> Representation:
        return super().represent(nets.vae, spec)

    def turns(self, nets: Any, batch: Single, t: int) -> Iterator[Turn]:
        z, terms = self.elbo(nets.vae, batch.x)
        yield Turn("vae", Terms(**terms, tc=self.gamma * nets.critic(z).mean()))
        joint, apart = nets.critic(z), nets.critic(permute_dims(z))
        yield Turn("critic", Terms(joint=0.5 * softplus(-joint).mean(), apart=0.5 * softplus(apart).mean()))
