"""Whence: find what your data came from.

world = Sprites()                                     # observations with known causes
fitted = fit(BetaVAE(beta=4), world, seed=0)          # a learner sees a view of it, never the truth
codes = fitted.representation.encode(images)          # frozen
"""

from whence.descend import Adam, Cosine, Recipe
from whence.fit import Console, fit, fit_many
from whence.methods import (
    AAE,
    AE,
    DCIGN,
    DEAR,
    DIPVAE,
    GSCALE,
    GVAE,
    ICA,
    ICMVAE,
    IVAE,
    LSCALE,
    MLVAE,
    PCA,
    SCMVAE,
    UMNI,
    VAE,
    WAE,
    AdaGVAE,
    AdaMLVAE,
    AnchoredVAE,
    AnchoredWAE,
    AnnealedVAE,
    BetaTCVAE,
    BetaVAE,
    CauCA,
    CausalVAE,
    CausalWAE,
    ClusteringAAE,
    ConditionalVAE,
    ContrastiveCRL,
    FactorVAE,
    InfoVAE,
    InterventionalAE,
    LinearGaussianCRL,
    Pixels,
    RandomEncoder,
    ReducingAAE,
    SemiSupervisedAAE,
    UnlabelledCausalVAE,
)
from whence.runs import Fitted, load
from whence.scm import SCM
from whence.views import Environments, Groups, Labelled, Pairs, Singles
from whence.worlds import DSprites, Mixed, Pendulum, Sprites
