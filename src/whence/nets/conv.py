"""Convolutional networks of the literature."""

from __future__ import annotations

import math
from dataclasses import dataclass

from torch import Tensor, nn

from whence.nets.architecture import Architecture
from whence.nets.mlp import mlp


def images_of_64(name: str, shape: tuple[int, ...]) -> int:
    """The channels of a 64x64 image shape; anything else is refused."""
    if len(shape) != 3 or tuple(shape[1:]) != (64, 64):
        raise ValueError(
            f"{name} takes images of shape (channels, 64, 64), got observations of shape {tuple(shape)}. "
            "Resize them, or use MLP() for vectors and other sizes."
        )
    return shape[0]


@dataclass(frozen=True, kw_only=True)
class Conv64(Architecture):
    """The network of the large-scale study (Locatello et al. 2019): four convolutions of stride 2, FC 256.

    Initialised as PyTorch does; the study has TensorFlow's Glorot-uniform weights.
    """

    width: int = 32  #: channels of the first convolutions; the later ones have twice as many

    def encoder(self, shape: tuple[int, ...], outputs: int) -> nn.Module:
        c, w = images_of_64("Conv64", shape), self.width
        return nn.Sequential(
            nn.Conv2d(c, w, 4, 2, 1),
            nn.ReLU(inplace=True),
            nn.Conv2d(w, w, 4, 2, 1),
            nn.ReLU(inplace=True),
            nn.Conv2d(w, 2 * w, 2, 2),
            nn.ReLU(inplace=True),
            nn.Conv2d(2 * w, 2 * w, 2, 2),
            nn.ReLU(inplace=True),
            nn.Flatten(),
            nn.Linear(2 * w * 16, 256),
            nn.ReLU(inplace=True),
            nn.Linear(256, outputs),
        )

    def decoder(self, latents: int, shape: tuple[int, ...]) -> nn.Module:
        c, w = images_of_64("Conv64", shape), self.width
        return nn.Sequential(
            nn.Linear(latents, 256),
            nn.ReLU(inplace=True),
            nn.Linear(256, 2 * w * 16),
            nn.ReLU(inplace=True),
            nn.Unflatten(1, (2 * w, 4, 4)),
            nn.ConvTranspose2d(2 * w, 2 * w, 4, 2, 1),
            nn.ReLU(inplace=True),
            nn.ConvTranspose2d(2 * w, w, 4, 2, 1),
            nn.ReLU(inplace=True),
            nn.ConvTranspose2d(w, w, 4, 2, 1),
            nn.ReLU(inplace=True),
            nn.ConvTranspose2d(w, c, 4, 2, 1),
        )


@dataclass(frozen=True, kw_only=True)
class Burgess(Architecture):
    """The network of Burgess et al. (2018): four convolutions of 32 channels, 4x4, stride 2, two FC layers of 256."""

    def encoder(self, shape: tuple[int, ...], outputs: int) -> nn.Module:
        c = images_of_64("Burgess", shape)
        convolutions = [m for i in (c, 32, 32, 32) for m in (nn.Conv2d(i, 32, 4, 2, 1), nn.ReLU(inplace=True))]
        return nn.Sequential(
            *convolutions,
            nn.Flatten(),
            nn.Linear(512, 256),
            nn.ReLU(inplace=True),
            nn.Linear(256, 256),
            nn.ReLU(inplace=True),
            nn.Linear(256, outputs),
        )

    def decoder(self, latents: int, shape: tuple[int, ...]) -> nn.Module:
        c = images_of_64("Burgess", shape)
        convolutions = [m for _ in range(3) for m in (nn.ConvTranspose2d(32, 32, 4, 2, 1), nn.ReLU(inplace=True))]
        return nn.Sequential(
            nn.Linear(latents, 256),
            nn.ReLU(inplace=True),
            nn.Linear(256, 256),
            nn.ReLU(inplace=True),
            nn.Linear(256, 512),
            nn.ReLU(inplace=True),
            nn.Unflatten(1, (32, 4, 4)),
            *convolutions,
            nn.ConvTranspose2d(32, c, 4, 2, 1),
        )


@dataclass(frozen=True, kw_only=True)
class Coarse(Architecture):
    """The encoder of Buchholz et al. (2023): one convolution of stride 3, a maximum, two layers. It sees white
    as nothing, and so begins at what is drawn. The decoder, which they have not, is an MLP.

    simonbing/CRLSanityCheck, crc/baselines/contrastive_crl/, ImageEncoderMinimal.
    """

    width: int = 16  #: channels
    hidden: int = 64  #: units of the layer between

    def encoder(self, shape: tuple[int, ...], outputs: int) -> nn.Module:
        c = images_of_64("Coarse", shape)
        return nn.Sequential(
            White(),
            nn.Conv2d(c, self.width, 5, 3),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(100 * self.width, self.hidden),
            nn.ReLU(inplace=True),
            nn.Linear(self.hidden, outputs),
        )

    def decoder(self, latents: int, shape: tuple[int, ...]) -> nn.Module:
        images_of_64("Coarse", shape)
        return nn.Sequential(mlp([latents, self.hidden, math.prod(shape)]), nn.Unflatten(1, shape))


class White(nn.Module):
    """Pictures with white as 0."""

    def forward(self, x: Tensor) -> Tensor:
        return 1 - x
