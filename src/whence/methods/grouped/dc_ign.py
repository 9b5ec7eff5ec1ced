"""DC-IGN: groups in which one factor varies, and codes that are clamped."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch

from whence.descend import Terms
from whence.evidence import Evidence, Guarantee, Reference
from whence.methods.likelihood.gaussian_vae import GaussianVAE
from whence.terms import gaussian, kl
from whence.views import Group, Groups, View


@dataclass(frozen=True, kw_only=True)
class DCIGN(GaussianVAE):
    r"""DC-IGN: a latent for each named factor. Where a group shares the factor, its latent is clamped to the group's
    mean before it is decoded, so that only the latent of the factor that varies can explain what differs.

    .. math:: -\mathbb{E} \log p(x \mid \tilde z) + \mathrm{KL}(q(z \mid x) \,\|\, p(z))
              + \frac{\rho}{2} \sum_{k \text{ shared}} (z_k - \bar z_k)^2, \qquad
              \tilde z_k = \bar z_k \text{ if factor } k \text{ is shared, else } z_k

    with :math:`\bar z` the mean of a group, through which no gradient passes: a clamped latent is moved by the last
    term and by the divergence alone. Latents behind those of the named factors are intrinsic: a group always shares
    them, and their mean is decoded with its gradient. Sum over x and z, mean over all observations of a batch.

    Departures from the reference: the decoder's gradient is replaced there by :math:`\rho (z_k - \bar z_k)`, which is
    the gradient of our last term; a batch there is one group, and holds several here; network and budget are those of
    the other methods.
    """

    each: int = 1  #: latents of each named factor
    rho: float = 0.01  #: pull of clamped latents to their group's mean

    needs: ClassVar[type[View]] = Groups
    design: ClassVar[Mapping[str, Any]] = {"shared": -1, "size": 8, "told": True}
    reference: ClassVar[Reference] = Reference(
        key="kulkarni2015deep",
        authors="Kulkarni, Tejas D. and Whitney, William F. and Kohli, Pushmeet and Tenenbaum, Joshua B.",
        title="Deep Convolutional Inverse Graphics Network",
        venue="Advances in Neural Information Processing Systems",
        year=2015,
        url="https://arxiv.org/abs/1503.03167",
    )
    guarantee: ClassVar[Guarantee] = Guarantee(
        "each factor by itself in the latents named after it, up to an invertible map (Shu et al. 2020, theorem 1, for "
        "restricted labelling)",
        (
            "a factor varies while all others are held, for every factor",
            "it is told which one varies",
            "the distribution of groups is matched exactly",
        ),
    )
    evidence: ClassVar[tuple[Evidence, ...]] = (Evidence("closed-form", "tests/methods/test_dc_ign.py"),)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.each < 1:
            raise ValueError(f"each is at least 1, got {self.each}.")

    def check(self, data: View) -> None:
        super().check(data)
        assert isinstance(data, Groups)
        if not data.told:
            raise ValueError(
                "DCIGN needs to be told which factors a group shares. Use world.groups(shared=-1, size=8, told=True)."
            )
        if self.latents < self.each * len(data.told):
            raise ValueError(
                f"DCIGN has {self.each} of its latents for each of {len(data.told)} factors, got "
                f"latents={self.latents}. Use latents={self.each * len(data.told)} or more."
            )

    def loss(self, nets: Any, batch: Group, t: int) -> Terms:
        assert batch.shared is not None, "checked"
        b, g, *shape = batch.x.shape  # groups, members
        x = batch.x.reshape(b * g, *shape)
        q = gaussian(nets.encoder(x))
        z = q.rsample().unflatten(0, (b, g))
        named, own = z.tensor_split([self.each * batch.shared.shape[1]], 2)
        mean = named.mean(1, keepdim=True).detach()
        shared = batch.shared.repeat_interleave(self.each, 1)[:, None]
        clamped = torch.where(shared, mean, named)
        pull = ((named - mean).square() * shared).sum() / (b * g)
        decoded = torch.cat([clamped, own.mean(1, keepdim=True).expand_as(own)], 2).flatten(0, 1)
        return Terms(nll=self.nll(nets, decoded, x), kl=kl(q), pull=self.rho / 2 * pull)
