"""Architecture: a recipe for an encoder and a decoder, without weights."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from torch import nn


class Architecture(ABC):
    """A frozen dataclass that builds networks for any observation shape and number of latents."""

    @abstractmethod
    def encoder(self, shape: tuple[int, ...], outputs: int) -> nn.Module:
        """(B, *shape) -> (B, outputs)."""

    @abstractmethod
    def decoder(self, latents: int, shape: tuple[int, ...]) -> nn.Module:
        """(B, latents) -> (B, *shape), unbounded: a likelihood gives it meaning."""


class Nets(nn.Module):
    """Named networks: `Nets(encoder=..., decoder=...).encoder`. The children are a method's players."""

    def __init__(self, **modules: nn.Module) -> None:
        super().__init__()
        for name, module in modules.items():
            self.add_module(name, module)

    if TYPE_CHECKING:  # torch types a child as Tensor | Module, which nobody can call

        def __getattr__(self, name: str) -> Any: ...


def weights_of(module: nn.Module) -> int:
    """The number of learned values."""
    return sum(p.numel() for p in module.parameters())
