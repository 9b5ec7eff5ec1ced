r"""7. Scores: estimators of :math:`s = \nabla \log p`, and of differences of scores between environments.

An estimator is a value. Fitting it on the environments' samples, the observational one first, gives `Scores`: functions
of n coordinates that are evaluated at any points, in chunks.

>>> import torch
>>> from whence.scores import SingleGaussian, Support
>>> rng = torch.Generator().manual_seed(0)
>>> mixing = torch.randn(2, 6, generator=rng)
>>> samples = [torch.randn(500, 2, generator=rng) * scale @ mixing for scale in (1.0, 2.0, 0.5)]
>>> support = Support.find(samples)         # n is read off the spectrum, or given: Support.find(samples, 2)
>>> support.n
2
>>> u = [support.project(x) for x in samples]
>>> scores = SingleGaussian().fit(u, run=0)       # a Run, or just a seed
>>> scores.differences(u[0]).shape          # (E, N, n): s_0 - s_e at the given points
torch.Size([2, 500, 2])
>>> scores.score(u[0], 0).shape             # (N, n); estimators of ratios have no single scores, and say so
torch.Size([500, 2])
>>> scores.moments(u[0]).shape              # (E, n, n): E[d_e d_e'], streamed; u[0] may be chunks
torch.Size([2, 2, 2])
>>> scores.cross_moments(u[0]).shape        # (E, E, n, n)
torch.Size([2, 2, 2, 2])

`estimator.within(support)` is the same estimator for projected samples: only an `Oracle`, which is told in observed
dimensions, needs it, so a method always calls it.
"""

from whence.scores.base import Estimated, ScoreEstimator, Scores
from whence.scores.crossfit import CrossFit
from whence.scores.gaussian import SingleGaussian
from whence.scores.kernel import KernelStein
from whence.scores.matching import Denoising, ExactScoreMatching, SlicedScoreMatching
from whence.scores.mixture import GaussianMixture
from whence.scores.oracle import Oracle
from whence.scores.pictures import PictureRatio
from whence.scores.ratio import MulticlassRatio, PairwiseRatio
from whence.scores.support import Spectrum, Support

#: Every estimator of vectors that learns, for studies, flags and recorded methods.
ESTIMATORS = (
    SingleGaussian,
    MulticlassRatio,
    PairwiseRatio,
    SlicedScoreMatching,
    ExactScoreMatching,
    Denoising,
    KernelStein,
    GaussianMixture,
    CrossFit,
)

__all__ = [
    "ESTIMATORS",
    "CrossFit",
    "Denoising",
    "Estimated",
    "ExactScoreMatching",
    "GaussianMixture",
    "KernelStein",
    "MulticlassRatio",
    "Oracle",
    "PairwiseRatio",
    "PictureRatio",
    "ScoreEstimator",
    "Scores",
    "SingleGaussian",
    "SlicedScoreMatching",
    "Spectrum",
    "Support",
]
