"""Ada-GVAE: pairs that share some factors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.distributions import Normal

from whence.descend import Terms
from whence.evidence import Evidence, Guarantee, Reference
from whence.methods.likelihood.gaussian_vae import GaussianVAE
from whence.terms import average, gaussian, kl, kl_pairwise, normal
from whence.views import Pair, Pairs, View


@dataclass(frozen=True, kw_only=True)
class AdaGVAE(GaussianVAE):
    r"""Ada-GVAE: the posteriors of a pair are averaged in the dimensions that the pair seems to share.

    With :math:`\delta_j = \mathrm{KL}(q(z_j \mid x) \,\|\, q(z_j \mid x'))` for each pair, the shared dimensions are
    the :math:`D - F` of the smallest :math:`\delta_j` if the number F of changed factors is known, and else those of

    .. math:: \delta_j < \tau, \quad \tau = \tfrac{1}{2} (\max_j \delta_j + \min_j \delta_j)

    They get the mean of the two means and of the two variances (Hosoya's average) in both posteriors. The loss is the
    mean of the two beta-VAE bounds.

    Departures from the reference: none; the divergence is one-sided, as there, and on request symmetric, as in disent.
    (The survey calls the dimensions below the threshold the changed ones: they are the shared ones.)
    """

    beta: float = 1.0  #: weight of the divergence from the prior
    changed: int | None = None  #: F, factors that differ in a pair; none: what pairs tell, or else by the threshold
    symmetric: bool = False  #: compare posteriors by the mean of both divergences, not by the first from the second

    needs: ClassVar[type[View]] = Pairs
    reference: ClassVar[Reference] = Reference(
        key="locatello2020weakly",
        authors='Locatello, Francesco and Poole, Ben and R{\\"a}tsch, Gunnar and Sch{\\"o}lkopf, Bernhard and '
        "Bachem, Olivier and Tschannen, Michael",
        title="Weakly-Supervised Disentanglement Without Compromises",
        venue="International Conference on Machine Learning",
        year=2020,
        url="https://arxiv.org/abs/2002.02886",
    )
    guarantee: ClassVar[Guarantee] = Guarantee(
        "every factor up to a permutation and a reparameterisation of each (Locatello et al. 2020, theorem 1)",
        (
            "factors are independent and continuous",
            "each pair shares at least one factor and each factor is shared at times without any given other",
            "the number of changed factors of a pair is known, which the threshold only estimates",
            "the posterior is matched exactly",
        ),
    )
    evidence: ClassVar[tuple[Evidence, ...]] = (
        Evidence("closed-form", "tests/methods/test_grouped.py"),
        Evidence("benchmarked", "benchmarks/impossibility.md"),
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.changed is not None and not 0 <= self.changed <= self.latents:
            raise ValueError(f"A pair differs in 0 to {self.latents} latents, got changed={self.changed}.")

    def loss(self, nets: Any, batch: Pair, t: int) -> Terms:
        x = torch.cat([batch.x, batch.x_])
        told = None if batch.changed is None else batch.changed.sum(1, keepdim=True)
        q = self.merged(gaussian(nets.encoder(x)), told if self.changed is None else self.changed)
        return Terms(nll=self.nll(nets, q.rsample(), x), kl=self.beta * kl(q))

    def merged(self, q: Normal, changed: Tensor | int | None = None) -> Normal:
        """Posteriors of 2B observations, the second half paired with the first -> the same, shared parts pooled."""
        m, v = (a.unflatten(0, (2, -1)).transpose(0, 1) for a in (q.loc, q.variance))  # (B, 2, D)
        shared = self.shared(normal(m[:, 0], v[:, 0]), normal(m[:, 1], v[:, 1]), changed).repeat(2, 1)
        mean, variance = (a.repeat(2, 1) for a in self.pooled(m, v))
        return normal(torch.where(shared, mean, q.loc), torch.where(shared, variance, q.variance))

    def shared(self, q: Normal, q_: Normal, changed: Tensor | int | None = None) -> Tensor:
        """(B, D) bool: which dimensions a pair seems to share."""
        delta = kl_pairwise(q, q_)
        if self.symmetric:
            delta = (delta + kl_pairwise(q_, q)) / 2
        if changed is None:
            return delta < (delta.amax(1, keepdim=True) + delta.amin(1, keepdim=True)) / 2
        return delta.argsort(1).argsort(1) < delta.shape[1] - changed

    @staticmethod
    def pooled(mean: Tensor, variance: Tensor) -> tuple[Tensor, Tensor]:
        """The shared moments from those of both (B, 2, D)."""
        return average(mean, variance)
