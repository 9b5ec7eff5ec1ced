"""The adversarial autoencoder for dimensionality reduction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Generator, Tensor, nn

from whence.descend import Terms
from whence.methods.adversarial.autoencoder import Autoencoder
from whence.methods.adversarial.classed_aae import classes_and_style
from whence.methods.adversarial.semi_supervised_aae import SemiSupervisedAAE
from whence.nets import Nets
from whence.representation import Representation
from whence.terms import closeness
from whence.views import Labels, Spec


class Reduced(Autoencoder):
    """A code is its class's head plus its style."""

    def __init__(self, *args: Any, heads: nn.Linear) -> None:
        super().__init__(*args)
        self.heads = heads

    def codes(self, x: Tensor) -> Tensor:
        y, z = classes_and_style(self.encoder(x), self.heads.in_features)
        return self.heads(y) + z

    def sample(self, n: int, rng: Generator) -> Tensor:
        y = torch.eye(self.heads.in_features)[torch.randint(self.heads.in_features, (n,), generator=rng)]
        return self.decode(self.heads(y.to(self.heads.weight)).cpu() + torch.randn(n, self.dims, generator=rng))


@dataclass(frozen=True, kw_only=True)
class ReducingAAE(SemiSupervisedAAE):
    r"""AAE for dimensionality reduction: one code of few dimensions, its class's head plus a style.

    .. math:: \mathbb{E} \|x - G(W y + z)\|^2 - \lambda \, \mathbb{E} \bigl[\log D_y(y) + \log D_z(z)\bigr]
              - \rho \, \mathbb{E}_{\text{labelled}} \log y_u
              + \kappa \sum_{k < l} \max\bigl(0, \eta - \|w_k - w_l\|\bigr)

    The columns of W are the heads. Heads that are nearer to each other than :math:`\eta` are pushed apart. (The survey
    has it that those further apart than :math:`\eta` are penalised, which would pull all classes together.)

    Departures from the reference: those of `AAE`; without labels the paper finds clusters, which here is what rows
    without a label do.
    """

    latents: int = 2  #: dimensions of the code
    eta: float = 4.0  #: how far apart heads are to be, in standard deviations of the style
    kappa: float = 1.0  #: weight of their distances

    def init(self, spec: Spec) -> Nets:
        nets = super().init(spec)
        k, d = self.classes(spec), self.latents
        both = self.autoencoder(spec, k + d, d)
        nets.autoencoder = Nets(encoder=both.encoder, decoder=both.decoder, heads=nn.Linear(k, d, bias=False))
        return nets

    def represent(self, nets: Any, spec: Spec) -> Representation:
        both = nets.autoencoder
        return Reduced(both.encoder, both.decoder, spec, self.latents, heads=both.heads)

    def joined(self, nets: Any, y: Tensor, z: Tensor) -> Tensor:
        return nets.autoencoder.heads(y) + z

    def extra(self, nets: Any, y: Tensor, batch: Labels) -> Terms:
        heads = nets.autoencoder.heads.weight.mT
        return Terms(**super().extra(nets, y, batch), heads=self.kappa * closeness(heads, self.eta))
