"""4. Architectures as values. No method knows its network, no network knows its method."""

from __future__ import annotations

from whence.nets.architecture import Architecture, Nets, weights_of
from whence.nets.conv import Burgess, Coarse, Conv64
from whence.nets.flow import Flow
from whence.nets.labels import ClassOf, Inputs
from whence.nets.mlp import MLP, mlp
from whence.views import Spec

ARCHITECTURES = (Conv64, Burgess, Coarse, MLP)

__all__ = [
    "ARCHITECTURES",
    "MLP",
    "Architecture",
    "Burgess",
    "ClassOf",
    "Coarse",
    "Conv64",
    "Flow",
    "Inputs",
    "Nets",
    "mlp",
    "suited",
    "weights_of",
]


def suited(net: Architecture | None, spec: Spec) -> Architecture:
    """The network asked for, or the usual one for the observation: Conv64 for 64x64 images, else an MLP."""
    if net is not None:
        return net
    return Conv64() if len(spec.shape) == 3 and spec.shape[1:] == (64, 64) else MLP()
