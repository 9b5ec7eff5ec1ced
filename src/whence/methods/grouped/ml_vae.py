"""ML-VAE: groups that share a content."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from whence.descend import Terms
from whence.evidence import Evidence, Guarantee, Reference
from whence.methods.likelihood.gaussian_vae import GaussianVAE
from whence.terms import gaussian, kl, normal, product
from whence.views import Group, Groups, View


@dataclass(frozen=True, kw_only=True)
class MLVAE(GaussianVAE):
    r"""ML-VAE: one content for a group of observations, by the product of their posteriors, and a style for each.

    .. math:: \sum_{i=1}^{G} \Bigl[ -\mathbb{E} \log p(x_i \mid c, s_i) + \mathrm{KL}(q(s_i \mid x_i) \,\|\, p(s))
              \Bigr] + \mathrm{KL}(q(c \mid x_1 \dots x_G) \,\|\, p(c)), \qquad
              q(c \mid x_1 \dots x_G) \propto \prod_{i=1}^{G} q(c \mid x_i)

    Sum over a group, mean over groups: the event is a group. Content comes first in a code, style behind it; one draw
    of the content serves the whole group, and its divergence counts once. The product has no prior in it, as in the
    paper: its variance falls as 1/G, and a group of one has its own posterior.

    Departures from the reference: network and budget are those of the other methods.
    """

    content: int = 5  #: dimensions of z that a group shares; the others are style

    needs: ClassVar[type[View]] = Groups
    reference: ClassVar[Reference] = Reference(
        key="bouchacourt2018multi",
        authors="Bouchacourt, Diane and Tomioka, Ryota and Nowozin, Sebastian",
        title="Multi-Level Variational Autoencoder: Learning Disentangled Representations from Grouped Observations",
        venue="AAAI Conference on Artificial Intelligence",
        year=2018,
        url="https://arxiv.org/abs/1705.08841",
    )
    guarantee: ClassVar[Guarantee] = Guarantee(
        "what a group shares, as one block up to an invertible map of it (von Kügelgen et al. 2021, theorem 4.2, for "
        "pairs); not the factors within it, nor within the style",
        (
            "the style varies freely within a group, given the content",
            "the number of content dimensions is right",
            "the posterior is matched exactly",
        ),
    )
    evidence: ClassVar[tuple[Evidence, ...]] = (Evidence("closed-form", "tests/methods/test_grouped.py"),)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.content <= self.latents:
            raise ValueError(
                f"The content has at least 1 of the {self.latents} latents and at most all, got content={self.content}."
            )

    def loss(self, nets: Any, batch: Group, t: int) -> Terms:
        b, g, *shape = batch.x.shape  # groups, members
        x = batch.x.reshape(b * g, *shape)
        q = gaussian(nets.encoder(x))
        (m, s), (v, w) = (a.unflatten(0, (b, g)).tensor_split([self.content], 2) for a in (q.loc, q.variance))
        content, style = normal(*self.pooled(m, v)), normal(s, w)
        c = content.rsample()[:, None].expand(b, g, self.content)
        z = torch.cat([c, style.rsample()], 2).flatten(0, 1)
        return Terms(nll=g * self.nll(nets, z, x), content=kl(content), style=kl(style))

    @staticmethod
    def pooled(mean: Tensor, variance: Tensor) -> tuple[Tensor, Tensor]:
        """A group's moments from its members' (B, G, D)."""
        return product(mean, variance)
