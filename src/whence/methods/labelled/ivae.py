"""iVAE: a prior that follows what else was observed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.distributions import Normal

from whence.descend import Adam, Recipe, Terms
from whence.evidence import Evidence, Guarantee, Reference
from whence.methods.likelihood.gaussian_vae import GaussianVAE
from whence.nets import Inputs, Nets, mlp
from whence.representation import Representation, as_given
from whence.terms import Bernoulli, Gaussian, Likelihood, gaussian, kl_pairwise, normal, product
from whence.views import Labelled, Labels, Spec, View


class Unconditional(Representation):
    """The mean of what an observation alone says of its code; decodes. The prior needs u, so nothing is sampled."""

    def __init__(self, encoder: nn.Module, decoder: nn.Module, likelihood: Likelihood, spec: Spec, dims: int) -> None:
        super().__init__(spec, dims)
        self.encoder, self.decoder, self.likelihood = encoder, decoder, likelihood

    def codes(self, x: Tensor) -> Tensor:
        return gaussian(self.encoder(x)).loc

    @as_given
    def decode(self, z: Tensor) -> Tensor:
        return self.likelihood.mean(self.decoder(z))


@dataclass(frozen=True, kw_only=True)
class IVAE(GaussianVAE):
    r"""iVAE: latents are independent given u, which was observed beside x, and u decides how much each varies.

    .. math:: -\mathbb{E}_{q(z \mid x, u)} \log p(x \mid z) + \mathrm{KL}(q(z \mid x, u) \,\|\, p(z \mid u)), \quad
              p(z \mid u) = \mathcal{N}(0, \mathrm{diag} \, \lambda(u)), \quad
              q(z \mid x, u) \propto r(z \mid x) \, p(z \mid u)

    u are all labels of the view, classes as one of many; rows without a label have the inputs of a missing one. The
    prior is learned, its mean is 0. Sum over x and z, mean over the batch.

    Departures from the reference: its encoder takes x and u. Here the posterior has the factors that Bayes' rule gives
    it, with a Gaussian r for the likelihood of z, so that an observation has a code without its u, the mean of r.
    The learning rate falls by the recipe's schedule, not at a plateau.
    """

    latents: int = 5  #: dimensions of z
    prior: tuple[int, ...] = (100, 100)  #: hidden layers of the network from u to the prior's log variances

    needs: ClassVar[type[View]] = Labelled
    recipe: ClassVar[Recipe] = Recipe(steps=20_000, batch=64, optimiser=Adam(lr=1e-3))
    reference: ClassVar[Reference] = Reference(
        key="khemakhem2020variational",
        authors='Khemakhem, Ilyes and Kingma, Diederik P. and Monti, Ricardo Pio and Hyv{\\"a}rinen, Aapo',
        title="Variational Autoencoders and Nonlinear ICA: A Unifying Framework",
        venue="International Conference on Artificial Intelligence and Statistics",
        year=2020,
        url="https://arxiv.org/abs/1907.04809",
    )
    guarantee: ClassVar[Guarantee] = Guarantee(
        "each latent up to a permutation, and a map of its own (Khemakhem et al. 2020, theorems 1 to 3)",
        (
            "latents are independent given u, and Gaussian with variances that u decides",
            "u has more values than latents, and the variances under them vary independently enough",
            "the mixing is one-to-one and smooth, with noise of a known distribution added",
            "the posterior is matched exactly",
        ),
    )
    evidence: ClassVar[tuple[Evidence, ...]] = (Evidence("closed-form", "tests/methods/test_labelled.py"),)

    def observes(self, spec: Spec) -> Likelihood:
        # ilkhem/iVAE (models.py): the decoder's variance is .01
        return self.likelihood or (Bernoulli() if len(spec.shape) == 3 else Gaussian(scale=0.1))

    def init(self, spec: Spec) -> Nets:
        nets, inputs = super().init(spec), Inputs(spec.labels)
        nets.prior = nn.Sequential(inputs, mlp([inputs.width, *self.prior, self.latents], lambda: nn.LeakyReLU(0.1)))
        return nets

    def represent(self, nets: Any, spec: Spec) -> Representation:
        return Unconditional(nets.encoder, nets.decoder, self.observes(spec), spec, self.latents)

    def loss(self, nets: Any, batch: Labels, t: int) -> Terms:
        q, p = self.posterior(nets, batch)
        return Terms(nll=self.nll(nets, q.rsample(), batch.x), kl=kl_pairwise(q, p).sum(1).mean())

    def posterior(self, nets: Any, batch: Labels) -> tuple[Normal, Normal]:
        """q(z|x, u) and p(z|u)."""
        r = gaussian(nets.encoder(batch.x))
        variance = nets.prior(batch.u).to(r.loc.dtype).exp()
        moments = (torch.stack(pair, 1) for pair in ((r.loc, torch.zeros_like(r.loc)), (r.variance, variance)))
        return normal(*product(*moments)), normal(torch.zeros_like(r.loc), variance)
