"""AnnealedVAE: a bottleneck that opens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from whence.descend import Terms
from whence.evidence import Evidence, Guarantee, Reference
from whence.methods.likelihood.gaussian_vae import GaussianVAE
from whence.views import Single


@dataclass(frozen=True, kw_only=True)
class AnnealedVAE(GaussianVAE):
    r"""AnnealedVAE: a VAE whose divergence from the prior follows a capacity that grows during training.

    .. math:: -\mathbb{E}_{q(z \mid x)} \log p(x \mid z) + \gamma \, |\mathrm{KL}(q(z \mid x) \,\|\, p(z)) - C_t|,
              \quad C_t = C \, \min(t / T, 1)

    The divergence is summed over latents and averaged over the batch before the distance is taken, in nats. Departures
    from the reference: none; network and budget are those of the large-scale study (Locatello et al. 2019), whose grid
    for C is 5, 10, 25, 50, 75, 100. With fewer steps than T the capacity does not get to C: lower `ramp` with them.
    """

    gamma: float = 1000.0  #: weight of the distance from the capacity
    capacity: float = 25.0  #: C, of the divergence at the end, in nats
    ramp: int = 100_000  #: T, steps over which the capacity grows from 0

    reference: ClassVar[Reference] = Reference(
        key="burgess2018understanding",
        authors="Burgess, Christopher P. and Higgins, Irina and Pal, Arka and Matthey, Loic and Watters, Nick and "
        "Desjardins, Guillaume and Lerchner, Alexander",
        title="Understanding disentangling in beta-VAE",
        venue="arXiv:1804.03599",
        year=2018,
        url="https://arxiv.org/abs/1804.03599",
    )
    guarantee: ClassVar[Guarantee] = Guarantee.nothing(
        "how much a code may say does not decide what it says: a rotated model has the same divergence and likelihood "
        "(Locatello et al. 2019, theorem 1)."
    )
    evidence: ClassVar[tuple[Evidence, ...]] = (Evidence("closed-form", "tests/methods/test_survey.py"),)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.ramp < 1:
            raise ValueError(f"The capacity grows over at least 1 step, got ramp={self.ramp}.")

    def loss(self, nets: Any, batch: Single, t: int) -> Terms:
        _, terms = self.elbo(nets, batch.x)
        c = self.capacity * min(t / self.ramp, 1.0)
        return Terms(nll=terms["nll"], kl=self.gamma * (terms["kl"] - c).abs())
