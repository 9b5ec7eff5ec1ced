"""GVAE: groups that share a content, averaged."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from whence.evidence import Reference
from whence.methods.grouped.ml_vae import MLVAE
from whence.terms import average


@dataclass(frozen=True, kw_only=True)
class GVAE(MLVAE):
    r"""GVAE: one content for a group of observations, by the average of their posteriors, and a style for each.

    .. math:: \sum_{i=1}^{G} \Bigl[ -\mathbb{E} \log p(x_i \mid c, s_i) + \mathrm{KL}(q(s_i \mid x_i) \,\|\, p(s))
              \Bigr] + \mathrm{KL}(q(c \mid x_1 \dots x_G) \,\|\, p(c)), \qquad
              q(c \mid x_1 \dots x_G) = \mathcal{N}\Bigl(\frac{1}{G} \sum_i \mu_i, \frac{1}{G} \sum_i \sigma_i^2\Bigr)

    As `MLVAE` but for the average, which does not let the variance fall with the size of a group, so that groups of
    any size have contents of the same certainty. G is the size of the group (the survey has the set of all groups).

    Departures from the reference: those of `MLVAE`.
    """

    reference: ClassVar[Reference] = Reference(
        key="hosoya2019group",
        authors="Hosoya, Haruo",
        title="Group-based Learning of Disentangled Representations with Generalizability for Novel Contents",
        venue="International Joint Conference on Artificial Intelligence",
        year=2019,
        url="https://www.ijcai.org/proceedings/2019/348",
    )

    @staticmethod
    def pooled(mean: Tensor, variance: Tensor) -> tuple[Tensor, Tensor]:
        return average(mean, variance)
