"""ClassedAAE: adversarial autoencoders whose code has a class and a style."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Generator, Tensor
from torch.nn.functional import one_hot

from whence.descend import Terms, Turn
from whence.methods.adversarial.aae import AAE
from whence.methods.adversarial.autoencoder import Autoencoder, squared_error
from whence.nets import Nets, mlp
from whence.representation import Representation
from whence.terms import fool, told_apart
from whence.views import Spec


class Classed(Autoencoder):
    """The probabilities of the classes come first in a code, its style behind them."""

    def codes(self, x: Tensor) -> Tensor:
        return torch.cat(classes_and_style(self.encoder(x), self.classes), 1)

    def classes_of(self, x: Tensor) -> Tensor:
        """(N,): the most probable class, or cluster."""
        return self.encode(x)[:, : self.classes].argmax(1)

    def sample(self, n: int, rng: Generator) -> Tensor:
        y = one_hot(torch.randint(self.classes, (n,), generator=rng), self.classes)
        return self.decode(torch.cat([y, torch.randn(n, self.dims - self.classes, generator=rng)], 1))

    def __init__(self, *args: Any, classes: int) -> None:
        super().__init__(*args)
        self.classes = classes


def classes_and_style(out: Tensor, classes: int) -> tuple[Tensor, Tensor]:
    """(B, K + D) of an encoder -> probabilities (B, K) and style (B, D)."""
    logits, z = out.to(torch.promote_types(out.dtype, torch.float32)).tensor_split([classes], 1)
    return logits.softmax(1), z


@dataclass(frozen=True, kw_only=True)
class ClassedAAE(AAE):
    """A code of a class y, one of K, and a style z; two critics hold them to their priors."""

    @abstractmethod
    def classes(self, spec: Spec) -> int:
        """K."""

    def init(self, spec: Spec) -> Nets:
        k, d = self.classes(spec), self.latents
        critics = Nets(y=mlp([k, *self.critic, 1]), z=mlp([d, *self.critic, 1]))
        return Nets(autoencoder=self.autoencoder(spec, k + d, k + d), critics=critics)

    def represent(self, nets: Any, spec: Spec) -> Representation:
        k, both = self.classes(spec), nets.autoencoder
        return Classed(both.encoder, both.decoder, spec, k + self.latents, classes=k)

    def turns(self, nets: Any, batch: Any, t: int) -> Iterator[Turn]:
        k = nets.critics.y[0].in_features
        y, z = classes_and_style(nets.autoencoder.encoder(batch.x), k)
        drawn = one_hot(torch.randint(k, (len(y),), device=y.device), k).to(y)
        apart = [*told_apart(drawn, y, nets.critics.y), *told_apart(torch.randn_like(z), z, nets.critics.z)]
        names = ("prior_y", "codes_y", "prior_z", "codes_z")
        yield Turn("critics", Terms(zip(names, apart, strict=True)))
        error = squared_error(nets.autoencoder.decoder(self.joined(nets, y, z)), batch.x)
        fooled = {"fool_y": self.lam * fool(y, nets.critics.y), "fool_z": self.lam * fool(z, nets.critics.z)}
        yield Turn("autoencoder", Terms(error=error, **fooled, **self.extra(nets, y, batch)))

    def joined(self, nets: Any, y: Tensor, z: Tensor) -> Tensor:
        """What the decoder gets."""
        return torch.cat([y, z], 1)

    def extra(self, nets: Any, y: Tensor, batch: Any) -> Terms:
        """Further terms of a setting."""
        return Terms()
