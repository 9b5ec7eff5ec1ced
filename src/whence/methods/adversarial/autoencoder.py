"""Autoencoder: what adversarial and Wasserstein autoencoders share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Generator, Tensor, nn

from whence.methods._method import Gradient
from whence.nets import Architecture, Nets, suited
from whence.representation import Representation, as_given
from whence.views import Singles, Spec, View


class Autoencoder(Representation):
    """A code without noise; decodes, and samples by decoding draws of the standard normal prior."""

    def __init__(self, encoder: nn.Module, decoder: nn.Module, spec: Spec, dims: int) -> None:
        super().__init__(spec, dims)
        self.encoder, self.decoder = encoder, decoder

    def codes(self, x: Tensor) -> Tensor:
        return self.encoder(x).to(torch.float32)

    @as_given
    def decode(self, z: Tensor) -> Tensor:
        """(N, dims) -> (N, *shape)."""
        return observation(self.decoder(z))

    def sample(self, n: int, rng: Generator) -> Tensor:
        return self.decode(torch.randn(n, self.dims, generator=rng))


def observation(out: Tensor) -> Tensor:
    """A decoder's output as an observation: pixels are in [0, 1]."""
    return torch.sigmoid(out) if out.ndim == 4 else out


def squared_error(out: Tensor, x: Tensor) -> Tensor:
    r"""Mean over the batch of :math:`\|x - G(z)\|^2`."""
    return (observation(out.to(x.dtype)) - x).square().sum() / len(x)


@dataclass(frozen=True, kw_only=True)
class Autoencoding(Gradient):
    r"""Encoder to a code :math:`z = E(x)` without noise, decoder to :math:`G(z)`, prior :math:`\mathcal{N}(0, 1)`."""

    latents: int = 8  #: dimensions of z
    net: Architecture | None = None  #: encoder and decoder; none: conv64 for 64x64 images, mlp for anything else

    needs: ClassVar[type[View]] = Singles

    def __post_init__(self) -> None:
        if self.latents < 1:
            raise ValueError(f"latents is at least 1, got {self.latents}.")

    def autoencoder(self, spec: Spec, outputs: int, inputs: int) -> Nets:
        """An encoder with so many outputs, a decoder with so many inputs: one player."""
        net = suited(self.net, spec)
        return Nets(encoder=net.encoder(spec.shape, outputs), decoder=net.decoder(inputs, spec.shape))

    def represent(self, nets: Any, spec: Spec) -> Representation:
        return Autoencoder(nets.autoencoder.encoder, nets.autoencoder.decoder, spec, self.latents)
