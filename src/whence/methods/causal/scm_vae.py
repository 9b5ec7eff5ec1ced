"""SCM-VAE: CausalVAE with a known graph and a prior that looks at a concept's causes, too."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from whence.evidence import Evidence, Guarantee, Reference
from whence.methods.causal._concepts import graph_of
from whence.methods.causal.causal_vae import CausalVAE
from whence.nets import Nets
from whence.views import Spec


@dataclass(frozen=True, kw_only=True)
class SCMVAE(CausalVAE):
    r"""SCM-VAE: a known graph, and a structural prior: a concept is expected between its own label and its causes'.

    .. math:: p(z_i \mid u) = \mathcal{N}\Bigl(\frac{a(u_i) + \sum_{j \in pa(i)} a(u_j)}{1 + |pa(i)|}, 1\Bigr)

    takes the place of :math:`p(z_i \mid u) = \mathcal{N}(a(u_i), 1)` in the loss of `CausalVAE`, whose layers and other
    terms stay; the graph is given and its weights are learned. A concept with a label missing, its own or a cause's,
    has no prior in that row.

    Departures from the reference: the concept's layer is CausalVAE's linear one with masks behind it, as in the
    authors' code, not a nonlinear one in causal order; for that see `ICMVAE`.
    """

    graph: tuple[str, ...] | None = ()  #: the causal graph, edges "cause->effect" by the labels' names

    reference: ClassVar[Reference] = Reference(
        key="komanduri2022scmvae",
        authors="Komanduri, Aneesh and Wu, Yongkai and Huang, Wen and Chen, Feng and Wu, Xintao",
        title="SCM-VAE: Learning Identifiable Causal Representations via Structural Knowledge",
        venue="IEEE International Conference on Big Data",
        year=2022,
        url="https://doi.org/10.1109/BigData55660.2022.10021114",
    )
    guarantee: ClassVar[Guarantee] = Guarantee(
        "concepts up to a rescaling of each, as CausalVAE (Komanduri et al. 2022, theorem 1)",
        (
            "labels of all concepts vary the prior's parameters enough",
            "the decoder is injective and the posterior exact",
            "the graph, which is given, is right; nothing is promised of pictures under interventions",
        ),
    )
    evidence: ClassVar[tuple[Evidence, ...]] = (Evidence("closed-form", "tests/methods/test_scm_vae.py"),)

    def __post_init__(self) -> None:
        if self.graph is None or not self.certain:
            raise ValueError(
                'SCMVAE needs the causal graph, graph=("light->shadow", ...). Use CausalVAE where it is to be learned.'
            )

    def init(self, spec: Spec) -> Nets:
        assert self.graph is not None
        graph_of(self.graph, self.names(spec))  # refuses unknown names and cycles before any network is made
        return super().init(spec)

    def centre(self, a: Tensor, support: Tensor) -> Tensor:
        # Akomand/SCM-VAE (codebase/models/mask_vae_pendulum.py): the mean of a concept's own label and its causes'
        family = support.to(a.dtype) + torch.eye(len(support), dtype=a.dtype, device=a.device)
        sums: Any = a.nan_to_num() @ family
        unknown = a.isnan().to(a.dtype) @ family > 0
        return (sums / family.sum(0)).masked_fill(unknown, torch.nan)
