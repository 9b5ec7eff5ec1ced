"""AE: the plain autoencoder."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from torch import nn

from whence.descend import Adam, Cosine, Recipe, Terms
from whence.evidence import Evidence, Guarantee, Reference
from whence.methods.adversarial.autoencoder import Autoencoding, squared_error
from whence.nets import Nets
from whence.views import Single, Spec


@dataclass(frozen=True, kw_only=True)
class AE(Autoencoding):
    r"""The plain autoencoder: few numbers from which observations can be made again, and no thought of what they mean.

    .. math:: \min_{E, G} \mathbb{E} \|x - G(E(x))\|^2

    Any one-to-one map of the code serves as well. What a method that learns from interventions or other supervision
    finds beyond this, it has from there. Environments are learned from together. Departures: none.
    """

    latents: int = 10  #: dimensions of z

    recipe: ClassVar[Recipe] = Recipe(steps=5_000, batch=64, optimiser=Adam(lr=1e-3), schedule=Cosine())
    reference: ClassVar[Reference] = Reference(
        key="hinton2006reducing",
        authors="Hinton, Geoffrey E. and Salakhutdinov, Ruslan R.",
        title="Reducing the Dimensionality of Data with Neural Networks",
        venue="Science",
        year=2006,
        url="https://doi.org/10.1126/science.1127647",
    )
    guarantee: ClassVar[Guarantee] = Guarantee.nothing("any one-to-one map of the code reconstructs as well.")
    evidence: ClassVar[tuple[Evidence, ...]] = (
        Evidence("closed-form", "tests/methods/test_baseline.py"),
        Evidence("benchmarked", "benchmarks/gscale_mlp.md"),
    )

    def init(self, spec: Spec) -> nn.Module:
        return Nets(autoencoder=self.autoencoder(spec, self.latents, self.latents))

    def loss(self, nets: Any, batch: Single, t: int) -> Terms:
        own = nets.autoencoder
        return Terms(reconstruction=squared_error(own.decoder(own.encoder(batch.x)), batch.x))
