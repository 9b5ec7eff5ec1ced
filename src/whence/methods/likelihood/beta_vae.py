"""The beta-VAE."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from whence.descend import Terms
from whence.evidence import Evidence, Guarantee, Reference
from whence.methods.likelihood.gaussian_vae import GaussianVAE
from whence.views import Single


@dataclass(frozen=True, kw_only=True)
class BetaVAE(GaussianVAE):
    r"""beta-VAE: a VAE whose divergence from the prior weighs :math:`\beta` times as much.

    .. math:: -\mathbb{E}_{q(z \mid x)} \log p(x \mid z) + \beta \, \mathrm{KL}(q(z \mid x) \,\|\, p(z))

    Sum over pixels and latents, mean over the batch, so that beta means what the paper's unnormalised beta means.
    Departures from the reference: the network and the budget are those of the large-scale study (Locatello et al.
    2019), whose grid for beta is 1, 2, 4, 6, 8, 16.
    """

    beta: float = 4.0  #: weight of the divergence from the prior; 1 is a VAE

    reference: ClassVar[Reference] = Reference(
        key="higgins2017beta",
        authors="Higgins, Irina and Matthey, Loic and Pal, Arka and Burgess, Christopher and Glorot, Xavier and "
        "Botvinick, Matthew and Mohamed, Shakir and Lerchner, Alexander",
        title="beta-VAE: Learning Basic Visual Concepts with a Constrained Variational Framework",
        venue="International Conference on Learning Representations",
        year=2017,
        url="https://openreview.net/forum?id=Sy2fzU9gl",
    )
    guarantee: ClassVar[Guarantee] = Guarantee.nothing(
        "without supervision or assumptions on the data no objective on p(x) can tell a cause from a mixture of causes "
        "(Locatello et al. 2019, theorem 1); axis alignment, where it is seen, comes from the diagonal posterior."
    )
    evidence: ClassVar[tuple[Evidence, ...]] = (
        Evidence("closed-form", "tests/methods/test_likelihood.py"),
        Evidence("benchmarked", "benchmarks/beta_vae_metric.md"),
    )

    def loss(self, nets: Any, batch: Single, t: int) -> Terms:
        return self.elbo(nets, batch.x, self.beta)[1]
