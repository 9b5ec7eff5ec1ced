"""Two samples: did they come from one distribution? Kernel mean discrepancies, energy, and Gaussian moments."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor

from whence.evidence import Evidence, Reference
from whence.metrics.arrays import Unmeasurable
from whence.metrics.energy import energy_distance
from whence.metrics.metric import Metric, Part
from whence.metrics.mmd import mmd, two_samples
from whence.metrics.probe import Probe
from whence.representation import HasPosterior, Samples
from whence.terms.mmd import InverseMultiquadratic, Kernel


def frechet_distance(x: Any, y: Any) -> float:
    r"""Squared Wasserstein distance of two Gaussians with the means and covariances of two samples of features.

    .. math:: \|\mu_x - \mu_y\|^2 + \mathrm{tr}\bigl(\Sigma_x + \Sigma_y - 2 (\Sigma_x \Sigma_y)^{1/2}\bigr)

    On Inception features this is the FID; on others, or on codes, it is like the FID and not comparable with it. It
    grows as samples get smaller, so compare equal numbers only. Misses everything but means and covariances.
    """
    a, b = two_samples(x, y)
    p, q = torch.cov(a.T).reshape(a.shape[1], -1), torch.cov(b.T).reshape(b.shape[1], -1)
    values, vectors = torch.linalg.eigh(p)
    root = vectors * values.clamp(min=0).sqrt() @ vectors.T
    shared = torch.linalg.eigvalsh(root @ q @ root).clamp(min=0).sqrt().sum()
    apart = (a.mean(0) - b.mean(0)).square().sum() + p.trace() + q.trace() - 2 * shared
    return max(float(apart), 0.0)


# --- on a representation ---------------------------------------------------------------------------------------------


class Discrepancy(NamedTuple):
    mmd: float
    energy: float


class OfSamples(Metric):
    """A metric of two samples, one of them the model's. Around 0 the two cannot be told apart."""

    compares = False
    resamples = False
    redraws: ClassVar[bool] = True
    parts: ClassVar[tuple[Part, ...]] = tuple(Part(name, 0.0, higher_is_better=False) for name in Discrepancy._fields)

    @abstractmethod
    def pair(self, probe: Probe) -> tuple[Tensor, Tensor]:
        """The two samples."""

    def kernel(self, dims: int) -> Kernel | None:
        return None

    def measure(self, probe: Probe) -> Discrepancy:
        x, y = self.pair(probe)
        for name, t in (("model's", x), ("other", y)):
            if not torch.isfinite(t).all():
                raise Unmeasurable(f"The {name} sample has values that are not finite, so nothing is near to it.")
        return Discrepancy(mmd(x, y, kernel=self.kernel(x[0].numel())), energy_distance(x, y))


@dataclass(frozen=True, kw_only=True)
class SampleDiscrepancy(OfSamples):
    """Discrepancy of samples: can what the model samples be told from observations of the world?

    Two numbers, both unbiased, so a perfect model gives 0 on average and as often less as more: the squared maximum
    mean discrepancy (Gaussian kernel, median distance) and the energy distance, in units of the observations.

    Misses: on raw pixels what is small in a picture; and a model that repeats its training data.
    """

    observations: int = 500  #: of the world, and as many samples of the model

    asks: ClassVar[tuple[type, ...]] = (Samples,)
    reference: ClassVar[Reference] = Reference(
        key="gretton2012kernel",
        authors="Gretton, Arthur and Borgwardt, Karsten M. and Rasch, Malte J. and Schölkopf, Bernhard and "
        "Smola, Alexander",
        title="A Kernel Two-Sample Test",
        venue="Journal of Machine Learning Research",
        year=2012,
        url="https://jmlr.org/papers/v13/gretton12a.html",
    )
    evidence: ClassVar[tuple[Evidence, ...]] = (Evidence("closed-form", "tests/metrics/test_samples.py"),)

    def pair(self, probe: Probe) -> tuple[Tensor, Tensor]:
        model, rng = probe.representation, probe.generator("sample")
        assert isinstance(model, Samples), "asks Samples"
        x = probe.world.observe(probe.world.draw(self.observations, rng=rng), rng)
        with torch.no_grad():
            return model.sample(self.observations, rng).cpu(), x


@dataclass(frozen=True, kw_only=True)
class PriorDiscrepancy(OfSamples):
    """Discrepancy of codes from the prior: do codes of the world's observations, all together, fill a standard normal?

    One draw of q(z|x) for each observation, against as many of the prior. Two numbers, both unbiased: the squared
    maximum mean discrepancy (inverse multiquadratics, as in Wasserstein autoencoders) and the energy distance.

    Misses: whether codes say anything about observations. A collapsed posterior is the prior, and gives 0.
    """

    observations: int = 2_000  #: of the world, and as many draws of the prior

    asks: ClassVar[tuple[type, ...]] = (HasPosterior,)
    reference: ClassVar[Reference] = Reference(
        key="tolstikhin2018wasserstein",
        authors="Tolstikhin, Ilya and Bousquet, Olivier and Gelly, Sylvain and Schölkopf, Bernhard",
        title="Wasserstein Auto-Encoders",
        venue="International Conference on Learning Representations",
        year=2018,
        url="https://arxiv.org/abs/1711.01558",
    )
    evidence: ClassVar[tuple[Evidence, ...]] = (Evidence("closed-form", "tests/metrics/test_samples.py"),)

    def kernel(self, dims: int) -> Kernel:
        return InverseMultiquadratic(scale=2.0 * dims)

    def pair(self, probe: Probe) -> tuple[Tensor, Tensor]:
        model, rng = probe.representation, probe.generator("prior")
        assert isinstance(model, HasPosterior), "asks HasPosterior"
        v = probe.world.draw(self.observations, rng=rng)
        device = next(iter(probe.representation.parameters())).device
        with torch.no_grad():
            q = [model.posterior(probe.world.observe(part, rng).to(device)) for part in v.split(1024)]
        mean, spread = (torch.cat([getattr(each, what) for each in q]).cpu() for what in ("loc", "scale"))
        z = mean + spread * torch.randn(mean.shape, generator=rng)
        return z, torch.randn(z.shape, generator=rng)
