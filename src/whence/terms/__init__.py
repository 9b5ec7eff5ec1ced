"""5. Pure tensor functions, one formula each. One reduction everywhere: sum over the event, mean over the batch."""

from whence.terms.acyclicity import acyclicity, effects
from whence.terms.adversarial import closeness, fool, told_apart
from whence.terms.covariance import covariance, from_identity
from whence.terms.gaussian import gaussian, kl, kl_each, kl_pairwise, standard
from whence.terms.grouping import average, normal, product
from whence.terms.hsic import hsic
from whence.terms.likelihood import Bernoulli, Gaussian, Likelihood
from whence.terms.mmd import RBF, InverseMultiquadratic, Kernel, Polynomial, mmd
from whence.terms.stein import stein, stein_direction
from whence.terms.total_correlation import log_densities, permute_dims, stratified, total_correlation, weighted

__all__ = [
    "RBF",
    "Bernoulli",
    "Gaussian",
    "InverseMultiquadratic",
    "Kernel",
    "Likelihood",
    "Polynomial",
    "acyclicity",
    "average",
    "closeness",
    "covariance",
    "effects",
    "fool",
    "from_identity",
    "gaussian",
    "hsic",
    "kl",
    "kl_each",
    "kl_pairwise",
    "log_densities",
    "mmd",
    "normal",
    "permute_dims",
    "product",
    "standard",
    "stein",
    "stein_direction",
    "stratified",
    "told_apart",
    "total_correlation",
    "weighted",
]
