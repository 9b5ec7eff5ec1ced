"""The adversarial autoencoder that clusters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from whence.evidence import Guarantee
from whence.methods.adversarial.classed_aae import ClassedAAE
from whence.views import Spec


@dataclass(frozen=True, kw_only=True)
class ClusteringAAE(ClassedAAE):
    r"""Clustering AAE: a code of a class y, one of K, and a style z; two critics hold them to their priors.

    .. math:: \mathbb{E} \|x - G(y, z)\|^2 - \lambda \, \mathbb{E} \bigl[\log D_y(y) + \log D_z(z)\bigr], \qquad
              y, z = E(x)

    The priors are :math:`\mathrm{Cat}(1/K)`, as one of K, and :math:`\mathcal{N}(0, 1)`; y is a softmax, which the
    critic drives to one of K, each as often. The critics move first, together.

    Departures from the reference: those of `AAE`.
    """

    clusters: int = 16  #: K, classes to find

    guarantee: ClassVar[Guarantee] = Guarantee.nothing(
        "clusters are what helps to reconstruct, whatever varies in the data; equal frequencies are assumed."
    )

    def classes(self, spec: Spec) -> int:
        return self.clusters
