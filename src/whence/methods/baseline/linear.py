"""Baselines that need no descent: pixels, principal and independent components, an untrained encoder."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Generator, Tensor

from whence.descend import Run, mix
from whence.evidence import Evidence, Guarantee, Reference
from whence.methods._method import Method
from whence.methods.likelihood.beta_vae import BetaVAE
from whence.methods.likelihood.gaussian_vae import GaussianCode
from whence.methods.likelihood.vae import VAE
from whence.nets import Architecture
from whence.representation import Representation, as_given
from whence.views import Singles, Spec, View


class FlatCode(Representation):
    """The observation itself, flattened."""

    def __init__(self, spec: Spec) -> None:
        super().__init__(spec, math.prod(spec.shape))

    def codes(self, x: Tensor) -> Tensor:
        return x.flatten(1)

    @as_given
    def decode(self, z: Tensor) -> Tensor:
        return z.unflatten(1, self.spec.shape)


class LinearCode(Representation):
    """z = (x - mean) W, and back by the pseudo-inverse."""

    def __init__(self, spec: Spec, dims: int) -> None:
        super().__init__(spec, dims)
        pixels = math.prod(spec.shape)
        self.register_buffer("mean", torch.zeros(pixels))
        self.register_buffer("encoder", torch.zeros(pixels, dims))
        self.register_buffer("decoder", torch.zeros(dims, pixels))

    def codes(self, x: Tensor) -> Tensor:
        return (x.flatten(1) - self.mean) @ self.encoder  # type: ignore[operator]

    @as_given
    def decode(self, z: Tensor) -> Tensor:
        return (z @ self.decoder + self.mean).unflatten(1, self.spec.shape)  # type: ignore[operator]


@dataclass(frozen=True, kw_only=True)
class Pixels(Method):
    """The observation itself as the code: what a linear classifier on raw data can do."""

    needs: ClassVar[type[View]] = Singles
    reference: ClassVar[Reference] = BetaVAE.reference  # the paper whose table has it
    guarantee: ClassVar[Guarantee] = Guarantee.nothing("nothing is learned.")
    evidence: ClassVar[tuple[Evidence, ...]] = (Evidence("closed-form", "tests/methods/test_baseline.py"),)

    def fit(self, data: View, run: Run) -> Representation:
        return FlatCode(data.spec)

    def skeleton(self, spec: Spec) -> Representation:
        return FlatCode(spec)


@dataclass(frozen=True, kw_only=True)
class PCA(Method):
    """Principal components, not whitened (scikit-learn's)."""

    latents: int = 10  #: number of components
    examples: int = 10_000  #: observations to look at

    needs: ClassVar[type[View]] = Singles
    reference: ClassVar[Reference] = Reference(
        key="pearson1901lines",
        authors="Pearson, Karl",
        title="On Lines and Planes of Closest Fit to Systems of Points in Space",
        venue="Philosophical Magazine",
        year=1901,
        url="https://doi.org/10.1080/14786440109462720",
    )
    guarantee: ClassVar[Guarantee] = Guarantee(
        "the subspace of largest variance, up to a rotation among directions of equal variance"
    )
    evidence: ClassVar[tuple[Evidence, ...]] = (
        Evidence("closed-form", "tests/methods/test_baseline.py"),
        Evidence("benchmarked", "benchmarks/beta_vae_metric.md"),
    )

    def fit(self, data: View, run: Run) -> Representation:
        mean, components = principal(flat(data, self.examples, run), self.latents, run)
        code = LinearCode(data.spec, self.latents)
        code.load_state_dict({"mean": mean, "encoder": components.T, "decoder": components})
        return code

    def skeleton(self, spec: Spec) -> Representation:
        return LinearCode(spec, self.latents)


@dataclass(frozen=True, kw_only=True)
class ICA(Method):
    """Independent components: FastICA (scikit-learn's) on the principal components, unit variance each."""

    latents: int = 10  #: number of components
    examples: int = 10_000  #: observations to look at

    needs: ClassVar[type[View]] = Singles
    reference: ClassVar[Reference] = Reference(
        key="hyvarinen2000independent",
        authors='Hyv{\\"a}rinen, Aapo and Oja, Erkki',
        title="Independent Component Analysis: Algorithms and Applications",
        venue="Neural Networks",
        year=2000,
        url="https://doi.org/10.1016/S0893-6080(00)00026-5",
    )
    guarantee: ClassVar[Guarantee] = Guarantee(
        "the sources up to order, sign and scale (Comon 1994)",
        ("observations are a linear mixture", "sources are independent", "at most one source is Gaussian"),
    )
    evidence: ClassVar[tuple[Evidence, ...]] = (
        Evidence("closed-form", "tests/methods/test_baseline.py"),
        Evidence("benchmarked", "benchmarks/beta_vae_metric.md"),
    )

    def fit(self, data: View, run: Run) -> Representation:
        from sklearn.decomposition import FastICA

        x = flat(data, self.examples, run)
        mean, components = principal(x, self.latents, run)
        ica = FastICA(whiten="unit-variance", random_state=mix(run.seed, "ica") % 2**32, max_iter=1000, tol=1e-3)
        ica.fit(((x - mean) @ components.T).double().numpy())
        unmix, back = (torch.from_numpy(a).float() for a in (ica.components_, ica.mixing_))
        centre = mean + torch.from_numpy(ica.mean_).float() @ components
        code = LinearCode(data.spec, self.latents)
        code.load_state_dict({"mean": centre, "encoder": components.T @ unmix.T, "decoder": back.T @ components})
        return code

    def skeleton(self, spec: Spec) -> Representation:
        return LinearCode(spec, self.latents)


@dataclass(frozen=True, kw_only=True)
class RandomEncoder(Method):
    """An untrained VAE: what the architecture alone gives."""

    latents: int = 10  #: dimensions of z
    net: Architecture | None = None  #: encoder and decoder; none: conv64 for 64x64 images, mlp for anything else

    needs: ClassVar[type[View]] = Singles
    reference: ClassVar[Reference] = VAE.reference
    guarantee: ClassVar[Guarantee] = Guarantee.nothing("nothing is learned.")
    evidence: ClassVar[tuple[Evidence, ...]] = (Evidence("benchmarked", "benchmarks/beta_vae_metric.md"),)

    def fit(self, data: View, run: Run) -> Representation:
        return self.skeleton(data.spec)

    def skeleton(self, spec: Spec) -> GaussianCode:
        return VAE(latents=self.latents, net=self.net).skeleton(spec)  # type: ignore[return-value]


def flat(data: Any, examples: int, run: Run) -> Tensor:
    """The observations a one-look method learns from, (N, P)."""
    return data.take(examples, Generator().manual_seed(mix(run.seed, "examples"))).x.flatten(1)


def principal(x: Tensor, latents: int, run: Run) -> tuple[Tensor, Tensor]:
    """Mean (P,) and the leading components (latents, P) of observations (N, P)."""
    from sklearn.decomposition import PCA as Principal

    if latents > min(x.shape):
        raise ValueError(
            f"There are at most {min(x.shape)} components in {x.shape[0]} observations of {x.shape[1]} values, "
            f"got latents={latents}. Lower it, or give more data."
        )
    pca = Principal(latents, random_state=mix(run.seed, "pca") % 2**32).fit(x.numpy())
    return torch.from_numpy(pca.mean_).float(), torch.from_numpy(pca.components_).float()
