"""VAE, beta-VAE and FactorVAE against their formulas, written again in float64, and against closed forms."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn
from torch.nn.functional import softplus

from whence import VAE, Adam, BetaVAE, FactorVAE, Recipe, Singles, fit
from whence.descend import Cosine, Run, Terms, Turn, descend
from whence.methods import Gradient
from whence.nets import MLP, Nets, mlp
from whence.terms import Bernoulli, Gaussian, permute_dims
from whence.views import Single, Spec

SPEC = Spec((1, 6, 6))
NET = MLP(hidden=(16,))


@pytest.fixture
def batch(rng) -> Single:
    return Single(torch.rand(9, *SPEC.shape, generator=rng, dtype=torch.float64))


def bound(nets, x, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """z, the negative log-likelihood and the divergence, pixel by pixel, from the paper's formulas."""
    torch.manual_seed(seed)
    moments = nets.encoder(x)
    m, log_var = moments[:, :3], moments[:, 3:]
    z = m + torch.exp(log_var / 2) * torch.randn(m.shape, dtype=m.dtype)
    p = torch.sigmoid(nets.decoder(z))
    nll = divergence = torch.zeros((), dtype=x.dtype)
    for i in range(len(x)):
        nll = nll - (x[i] * p[i].log() + (1 - x[i]) * (1 - p[i]).log()).sum() / len(x)
        divergence = divergence + 0.5 * (m[i] ** 2 + log_var[i].exp() - log_var[i] - 1).sum() / len(x)
    return z, nll, divergence


def terms(method, nets, batch, seed: int = 0) -> Terms:
    torch.manual_seed(seed)
    return method.loss(nets, batch, 0)


@pytest.mark.parametrize("beta", [0.0, 1.0, 4.0, 16.0])
def test_beta_multiplies_the_divergence_and_nothing_else(beta, batch):
    method = BetaVAE(latents=3, net=NET, beta=beta)
    nets = method.init(SPEC).double()
    _, nll, divergence = bound(nets, batch.x)
    got = terms(method, nets, batch)
    torch.testing.assert_close(got["nll"], nll)
    torch.testing.assert_close(got["kl"], beta * divergence)
    torch.testing.assert_close(got.total, nll + beta * divergence)
    assert list(got) == ["nll", "kl"]


def test_a_vae_is_a_beta_vae_with_beta_one(batch):
    nets = VAE(latents=3, net=NET).init(SPEC).double()
    one, other = (terms(m(latents=3, net=NET), nets, batch) for m in (VAE, lambda **o: BetaVAE(beta=1.0, **o)))
    assert one == other


def test_the_gaussian_likelihood_is_used_when_asked_for_and_for_vectors(batch):
    assert VAE().observes(SPEC) == Bernoulli()
    assert VAE().observes(Spec((4,))) == Gaussian()
    method = VAE(latents=3, net=NET, likelihood=Gaussian(scale=0.5))
    nets = method.init(SPEC).double()
    z, _, _ = bound(nets, batch.x)
    error = (nets.decoder(z) - batch.x).flatten(1)
    expected = (error**2 / (2 * 0.25) + math.log(0.5 * math.sqrt(2 * math.pi))).sum(1).mean()
    torch.testing.assert_close(terms(method, nets, batch)["nll"], expected)


def test_the_gradient_of_the_loss_passes_through_the_sample(batch):
    method = BetaVAE(latents=3, net=NET, beta=0.0)
    nets = method.init(SPEC).double()
    gradient = torch.autograd.grad(terms(method, nets, batch).total, list(nets.encoder.parameters()))
    assert all(g.abs().max() > 0 for g in gradient)


def test_the_code_is_the_posteriors_mean_and_decodes_to_a_mean_observation(rng):
    fitted = fit(VAE(latents=3, net=NET), torch.rand(30, *SPEC.shape, generator=rng), recipe=Recipe(steps=2, batch=8))
    r, x = fitted.representation, torch.rand(5, *SPEC.shape, generator=rng)
    q = r.posterior(x)
    torch.testing.assert_close(r.encode(x), q.loc)
    torch.testing.assert_close(r.encode(x), r.encoder(x)[:, :3])
    torch.testing.assert_close(r.decode(q.loc), torch.sigmoid(r.decoder(q.loc)))
    samples = r.sample(200, rng)
    assert samples.shape == (200, *SPEC.shape)
    assert 0 <= samples.min() < samples.max() <= 1


@pytest.mark.parametrize("method", [VAE, BetaVAE, FactorVAE])
def test_latents_count_from_one(method):
    with pytest.raises(ValueError, match=r"latents is at least 1, got 0"):
        method(latents=0)


def test_a_bernoulli_likelihood_of_values_outside_the_unit_interval_is_refused():
    x = torch.linspace(-1, 2, 40 * 4).reshape(40, 1, 2, 2)
    with pytest.raises(ValueError, match=r"needs observations in \[0, 1\], got values from .*use likelihood=Gaussian"):
        fit(VAE(latents=2, net=NET), x, recipe=Recipe(steps=1, batch=8))


def test_a_gradient_method_without_a_loss_says_what_to_write():
    class Unfinished(Gradient):
        def init(self, spec):
            return Nets(a=nn.Linear(1, 1))

        def represent(self, nets, spec): ...

    with pytest.raises(TypeError, match=r"Unfinished needs a `loss` \(one player\) or `turns` \(several\)"):
        Unfinished().loss(None, None, 0)


# --- closed form: the linear VAE is probabilistic PCA -----------------------------------------------------------------


def test_a_linear_vae_reaches_the_marginal_likelihood_of_probabilistic_pca():
    """Lucas et al. (2019): the optimal bound of a linear VAE is the log-likelihood of probabilistic PCA."""
    torch.manual_seed(0)
    d, latents, sigma = 6, 2, 0.5
    mixing = torch.linalg.qr(torch.randn(d, latents)).Q * torch.tensor([2.0, 1.0])
    x = torch.randn(4000, latents) @ mixing.T + sigma * torch.randn(4000, d)
    x -= x.mean(0)
    # the optimum for a given sigma: leading eigenvectors, stretched to the eigenvalues above sigma^2
    s = (x.T @ x / len(x)).double()
    eigenvalues = torch.linalg.eigvalsh(s).flip(0)
    model = eigenvalues.clone()
    model[latents:] = sigma**2
    best = 0.5 * (d * math.log(2 * math.pi) + model.log().sum() + (eigenvalues / model).sum())
    method = VAE(latents=latents, net=MLP(hidden=()), likelihood=Gaussian(scale=sigma))
    recipe = Recipe(steps=2500, batch=128, optimiser=Adam(lr=0.03), schedule=Cosine(), every=100)
    nets = fit(method, x, recipe=recipe).representation
    found = torch.stack([method.loss(nets, Single(x), 0).total for _ in range(30)]).mean()
    assert best - 0.02 < found < best + 0.02


# --- FactorVAE --------------------------------------------------------------------------------------------------------


def test_the_two_turns_of_factor_vae_are_the_papers_two_losses(batch):
    method = FactorVAE(latents=3, net=NET, critic=(8, 8), gamma=7.0)
    nets = method.init(SPEC).double()
    z, nll, divergence = bound(nets.vae, batch.x)
    torch.manual_seed(0)
    vae, critic = method.turns(nets, batch, 0)
    assert (vae.player, critic.player) == ("vae", "critic")
    torch.testing.assert_close(vae.terms["nll"], nll)
    torch.testing.assert_close(vae.terms["kl"], divergence)
    odds = nets.critic(z)[:, 0]
    torch.testing.assert_close(vae.terms["tc"], 7.0 * (torch.sigmoid(odds) / (1 - torch.sigmoid(odds))).log().mean())
    torch.testing.assert_close(critic.terms["joint"], -0.5 * torch.sigmoid(odds).log().mean())
    torch.manual_seed(0)
    torch.randn(z.shape, dtype=z.dtype)  # the draw of z, so that the permutation is the same
    apart = nets.critic(permute_dims(z))
    torch.testing.assert_close(critic.terms["apart"], 0.5 * softplus(apart).mean())


def test_the_critic_does_not_move_the_vae_nor_the_vae_the_critic(rng):
    method = FactorVAE(latents=2, net=NET, critic=(4,))
    nets = method.init(SPEC)
    before = {name: p.clone() for name, p in nets.named_parameters()}
    players = {"critic": Adam(lr=1e-30)}
    recipe = Recipe(steps=3, batch=8, optimiser=Adam(lr=0.1), players=players)
    descend(method.turns, nets, Singles.of(torch.rand(20, *SPEC.shape, generator=rng)), Run(recipe=recipe))
    for name, p in nets.named_parameters():
        assert torch.equal(p, before[name]) == name.startswith("critic"), name


@pytest.mark.parametrize("rho", [0.0, 0.6, 0.9])
def test_the_critics_log_odds_estimate_the_total_correlation_of_given_codes(rho):
    """The density ratio of correlated Gaussians has the mean -log(1 - rho^2) / 2."""
    torch.manual_seed(0)
    z = torch.randn(20_000, 2)
    z[:, 1] = rho * z[:, 0] + math.sqrt(1 - rho**2) * z[:, 1]
    nets = Nets(critic=mlp([2, 64, 64, 1], lambda: nn.LeakyReLU(0.2)))

    def turns(nets, batch, t):
        joint, apart = nets.critic(batch.x), nets.critic(permute_dims(batch.x))
        yield Turn("critic", Terms(joint=0.5 * softplus(-joint).mean(), apart=0.5 * softplus(apart).mean()))

    recipe = Recipe(steps=800, batch=512, optimiser=Adam(lr=3e-3), schedule=Cosine())
    descend(turns, nets, Singles.of(z), Run(recipe=recipe))
    with torch.no_grad():
        estimate = nets.critic(z).mean().item()
    assert estimate == pytest.approx(-0.5 * math.log(1 - rho**2), abs=0.06)
