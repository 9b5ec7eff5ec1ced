"""8. What fitting returns: something frozen that encodes, and says by its type what else it can do.

Ask with `isinstance(representation, Decodes)`, never with `hasattr`.
"""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from torch import Generator, Tensor, nn
from torch.distributions import Normal

from whence.views import Spec, as_float, as_tensor

CHUNK = 1024


def as_given(transform: Callable[[Any, Tensor], Tensor]) -> Callable[[Any, Any], Any]:
    """NumPy in, NumPy out; torch in, torch out, on the device it came from. In chunks, without gradients."""

    @functools.wraps(transform)
    def wrapped(self: Representation, a: Tensor | np.ndarray) -> Any:
        given = as_tensor(a)
        whole = as_float(given) if given.dtype == torch.uint8 else given.to(torch.float32)
        device = next((t.device for t in [*self.parameters(), *self.buffers()]), given.device)
        with torch.no_grad():
            out = torch.cat([transform(self, part.to(device)) for part in whole.split(CHUNK)] or [whole])
        return out.to(given.device) if isinstance(a, Tensor) else out.cpu().numpy()

    return wrapped


class Representation(nn.Module, ABC):
    """Frozen: encodes observations to codes of `dims` numbers each."""

    spec: Spec
    dims: int

    def __init__(self, spec: Spec, dims: int) -> None:
        super().__init__()
        self.spec, self.dims = spec, dims

    def frozen(self) -> Representation:
        """Without gradients and in evaluation mode."""
        return self.eval().requires_grad_(False)

    @abstractmethod
    def codes(self, x: Tensor) -> Tensor:
        """(B, *shape) -> (B, dims), for a batch that has been checked."""

    @as_given
    def encode(self, x: Tensor) -> Tensor:
        """(N, *shape) -> (N, dims). NumPy or torch, floats or uint8 images, of any length."""
        self.check(x)
        return self.codes(x)

    def check(self, x: Tensor) -> None:
        if tuple(x.shape[1:]) != tuple(self.spec.shape):
            raise ValueError(
                f"This representation was fitted on observations of shape {tuple(self.spec.shape)}, got a batch of "
                f"shape {tuple(x.shape)}. The first axis is the batch: pass x[None] for a single observation."
            )


@runtime_checkable
class Decodes(Protocol):
    """Codes back to observations."""

    def decode(self, z: Any) -> Any: ...


@runtime_checkable
class HasPosterior(Protocol):
    """A Gaussian q(z|x) for each observation."""

    def posterior(self, x: Tensor) -> Normal: ...


@runtime_checkable
class Samples(Protocol):
    """New observations from the model."""

    def sample(self, n: int, rng: Generator) -> Tensor: ...


@runtime_checkable
class HasGraph(Protocol):
    """A[i, j] is the confidence that latent i causes latent j."""

    @property
    def graph(self) -> Tensor: ...


@runtime_checkable
class HasInterventions(Protocol):
    """D[i, m], from 0 to 1: how much of what environment m changes lies along latent i."""

    @property
    def intervention_matrix(self) -> Tensor: ...


@runtime_checkable
class HasDensity(Protocol):
    def log_prob(self, x: Tensor) -> Tensor: ...


@runtime_checkable
class Intervenes(Protocol):
    """What x would have been, had causes been set otherwise: encode, abduct, act on the graph, decode."""

    def do(self, x: Any, do: Any) -> Any: ...


@runtime_checkable
class HasConcepts(Protocol):
    """Codes of concepts that were learned by name; `concepts` gives them in the units of `spec.labels`."""

    def concepts(self, z: Any) -> Any: ...


@runtime_checkable
class SaysIdentified(Protocol):
    """Of each latent, whether the theory covers it with the interventions that there were."""

    @property
    def identified(self) -> tuple[bool, ...]: ...


@runtime_checkable
class HasQuality(Protocol):
    """Named numbers that tell, without labels, how well the stages of a fit went; `quality.failed` says in words why
    latents are not to be trusted, and is empty if nothing speaks against it."""

    @property
    def quality(self) -> Any: ...


CAPABILITIES = (Decodes, HasPosterior, Samples, HasGraph, HasInterventions, HasDensity, Intervenes, HasConcepts)
