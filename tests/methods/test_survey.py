"""The survey's regularised and adversarial autoencoders against their formulas, written again in float64."""

from __future__ import annotations

import math

import pytest
import torch
from torch.nn.functional import one_hot, softplus

from whence import Adam, Labelled, Recipe, Singles, fit
from whence.descend import Run, descend
from whence.methods import (
    AAE,
    DIPVAE,
    METHODS,
    WAE,
    AnnealedVAE,
    BetaTCVAE,
    BetaVAE,
    ClusteringAAE,
    InfoVAE,
    ReducingAAE,
    SemiSupervisedAAE,
)
from whence.methods._divergence import MMD, Adversarial, Divergence, Stein
from whence.nets import MLP
from whence.terms import InverseMultiquadratic
from whence.views import Label, Labels, Single, Spec

SPEC = Spec((1, 4, 4))
CLASSED = Spec((1, 4, 4), labels=(Label("size", 0.0, 1.0), Label("kind", 1.0, 3.0, (1.0, 2.0, 3.0))))
NET = MLP(hidden=(16,))


@pytest.fixture
def batch(rng) -> Single:
    return Single(torch.rand(9, *SPEC.shape, generator=rng, dtype=torch.float64))


def made(method, spec: Spec = SPEC):
    torch.manual_seed(1)
    return method.init(spec).double()


def turns(method, nets, batch, t: int = 0) -> dict:
    torch.manual_seed(0)
    return {turn.player: turn.terms for turn in method.turns(nets, batch, t)}


def bound(nets, x, d: int = 3):
    """Draw, moments, negative log-likelihood and divergence from the formulas; the draw comes first of all."""
    torch.manual_seed(0)
    m, log_var = nets.encoder(x).split(d, 1)
    z = m + (log_var / 2).exp() * torch.randn(m.shape, dtype=m.dtype)
    p = torch.sigmoid(nets.decoder(z))
    nll = -(x * p.log() + (1 - x) * (1 - p).log()).flatten(1).sum(1).mean()
    return z, m, log_var.exp(), nll, 0.5 * (m**2 + log_var.exp() - log_var - 1).sum(1).mean()


# --- AnnealedVAE ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("t", "c"), [(0, 0.0), (10, 1.25), (40, 5.0), (90, 5.0)])
def test_the_capacity_grows_in_a_line_and_stays(t, c, batch):
    method = AnnealedVAE(latents=3, net=NET, gamma=7.0, capacity=5.0, ramp=40)
    nets = made(method)
    _, _, _, nll, kl = bound(nets, batch.x)
    got = turns(method, nets, batch, t)["all"]
    torch.testing.assert_close(got["nll"], nll)
    torch.testing.assert_close(got["kl"], 7.0 * (kl - c).abs())


def test_a_trained_annealed_vae_has_the_capacity_as_its_divergence(rng):
    torch.manual_seed(0)
    x = torch.randn(500, 4) @ torch.randn(4, 6)
    method = AnnealedVAE(latents=3, net=MLP(hidden=(32,)), gamma=50.0, capacity=2.0, ramp=100)
    fitted = fit(method, x, recipe=Recipe(steps=500, batch=64, optimiser=Adam(lr=3e-3)))
    q = fitted.representation.posterior(x)
    kl = 0.5 * (q.loc**2 + q.variance - q.variance.log() - 1).sum(1).mean()
    assert float(kl) == pytest.approx(2.0, abs=0.15)


def test_a_ramp_is_at_least_a_step():
    with pytest.raises(ValueError, match=r"grows over at least 1 step, got ramp=0"):
        AnnealedVAE(ramp=0)


# --- beta-TCVAE -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stratified", [False, True])
def test_beta_tc_vae_adds_the_total_correlation_beta_minus_one_times(stratified, batch):
    n, b = 1000, 9
    method = BetaTCVAE(latents=3, net=NET, beta=6.0, stratified=stratified, observations=n)
    nets = made(method)
    z, m, v, nll, kl = bound(nets, batch.x)
    weights = torch.full((b, b), 1 / (n * b), dtype=torch.float64)
    if stratified:
        for i in range(b):
            for j in range(b):
                own, after = i == j, j == (i + 1) % b
                weights[i, j] = 1 / n if own else (n - b + 1) / (n * (b - 1)) if after else 1 / (b - 1)
    p = (-((z[:, None] - m) ** 2) / (2 * v)).exp() / (2 * math.pi * v).sqrt()
    tc = ((weights * p.prod(2)).sum(1).log() - (weights[:, :, None] * p).sum(1).log().sum(1)).mean()
    got = turns(method, nets, batch)["all"]
    torch.testing.assert_close(got["nll"], nll)
    torch.testing.assert_close(got["kl"], kl)
    torch.testing.assert_close(got["tc"], 5.0 * tc, rtol=1e-5, atol=1e-5)  # weights are float32


def test_with_beta_one_it_is_a_vae(batch):
    method, vae = BetaTCVAE(latents=3, net=NET, beta=1.0), BetaVAE(latents=3, net=NET, beta=1.0)
    nets = made(method)
    torch.testing.assert_close(turns(method, nets, batch)["all"].total, turns(vae, nets, batch)["all"].total)


# --- DIP-VAE ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("of", "lambda_d", "used"), [("means", None, 20.0), ("codes", None, 2.0), ("codes", 3.0, 3.0)])
def test_dip_vae_penalises_the_covariance_entry_by_entry(of, lambda_d, used, batch):
    method = DIPVAE(latents=3, net=NET, covariance=of, lambda_od=2.0, lambda_d=lambda_d)
    nets = made(method)
    _, m, v, nll, kl = bound(nets, batch.x)
    off = own = torch.zeros((), dtype=m.dtype)
    for j in range(3):
        for k in range(3):
            c = (m[:, j] * m[:, k]).mean() - m[:, j].mean() * m[:, k].mean()
            if j == k:
                own = own + (c + (v[:, j].mean() if of == "codes" else 0) - 1) ** 2
            else:
                off = off + c**2
    got = turns(method, nets, batch)["all"]
    torch.testing.assert_close(got["off_diagonal"], 2.0 * off)
    torch.testing.assert_close(got["diagonal"], used * own)
    torch.testing.assert_close(got.total, nll + kl + 2.0 * off + used * own)


# --- InfoVAE and WAE --------------------------------------------------------------------------------------------------


def test_a_divergence_is_abstract():
    with pytest.raises(TypeError, match="abstract"):
        Divergence()  # type: ignore[abstract]


def imq(x, y, d):
    k = torch.zeros(len(x), len(y), dtype=x.dtype)
    for s in (0.1, 0.2, 0.5, 1, 2, 5, 10):
        k += s * 2 * d / (s * 2 * d + ((x[:, None] - y) ** 2).sum(2))
    return k


def u_statistic(z, p, d=3):
    n, off = len(z), 1 - torch.eye(len(z), dtype=z.dtype)
    within = ((imq(z, z, d) + imq(p, p, d)) * off).sum() / (n * (n - 1))
    return within - 2 * imq(z, p, d).mean()


def draws(z):
    """The prior's draws: what a generator gives behind z's."""
    return torch.randn(z.shape, dtype=z.dtype)


@pytest.mark.parametrize(("alpha", "lam"), [(0.0, 10.0), (1.0, 10.0), (-3.0, 4.0)])
def test_alpha_and_lambda_are_the_papers(alpha, lam, batch):
    method = InfoVAE(latents=3, net=NET, alpha=alpha, lam=lam)
    nets = made(method)
    z, _, _, nll, kl = bound(nets.vae, batch.x)
    expected = u_statistic(z, draws(z))
    got = turns(method, nets, batch)
    assert list(got) == ["vae"]
    torch.testing.assert_close(got["vae"]["nll"], nll)
    torch.testing.assert_close(got["vae"]["kl"], (1 - alpha) * kl)
    torch.testing.assert_close(got["vae"]["divergence"], (alpha + lam - 1) * expected)


def test_with_lambda_beta_and_alpha_one_minus_beta_it_is_a_beta_vae(batch):
    method, beta = InfoVAE(latents=3, net=NET, alpha=-3.0, lam=4.0), BetaVAE(latents=3, net=NET, beta=4.0)
    nets = made(method)
    torch.testing.assert_close(turns(method, nets, batch)["vae"].total, turns(beta, nets.vae, batch)["all"].total)


def test_the_wasserstein_objective_is_its_formula(batch):
    method = WAE(latents=3, net=NET, lam=10.0)
    nets = made(method)
    z = nets.autoencoder.encoder(batch.x)
    error = ((torch.sigmoid(nets.autoencoder.decoder(z)) - batch.x) ** 2).flatten(1).sum(1).mean()
    torch.manual_seed(0)
    expected = u_statistic(z, draws(z))
    got = turns(method, nets, batch)["autoencoder"]
    torch.testing.assert_close(got["error"], 0.05 * error)
    torch.testing.assert_close(got["divergence"], 10.0 * expected)


@pytest.mark.parametrize("method", [InfoVAE(latents=3, net=NET, lam=5.0), WAE(latents=3, net=NET, lam=5.0)])
def test_with_a_critic_there_are_two_players_with_the_papers_losses(method, batch):
    from dataclasses import replace

    method = replace(method, divergence=Adversarial(hidden=(8,)))
    nets = made(method)
    if isinstance(method, InfoVAE):
        z, weight = bound(nets.vae, batch.x)[0], 4.0
    else:
        z, weight = nets.autoencoder.encoder(batch.x), 5.0
        torch.manual_seed(0)
    p = draws(z)
    got = turns(method, nets, batch)
    d_z, d_p = torch.sigmoid(nets.critic(z)), torch.sigmoid(nets.critic(p))
    first = next(iter(got.values()))
    torch.testing.assert_close(first["divergence"], -weight * d_z.log().mean())
    torch.testing.assert_close(got["critic"]["prior"], -d_p.log().mean())
    torch.testing.assert_close(got["critic"]["codes"], -(1 - d_z).log().mean())


@pytest.mark.parametrize("divergence", [MMD(), Stein(), Adversarial(hidden=(32, 32))], ids=lambda d: type(d).__name__)
def test_each_divergence_draws_codes_to_the_prior(divergence):
    """Only the divergence is left to descend: a wide, shifted and correlated linear code becomes standard normal."""
    torch.manual_seed(0)
    x = torch.randn(4000, 2) @ torch.tensor([[1.5, 0.8], [0.0, 0.7]]) + torch.tensor([1.0, -1.0])
    method = WAE(latents=2, net=MLP(hidden=()), lam=1.0, cost=0.0, divergence=divergence)
    nets = method.init(Spec((2,)))
    with torch.no_grad():
        nets.autoencoder.encoder[1][0].weight.copy_(torch.eye(2))
        nets.autoencoder.encoder[1][0].bias.zero_()
    lr = 3e-3 if isinstance(divergence, Adversarial) else 2e-2
    recipe = Recipe(steps=500, batch=128, optimiser=Adam(lr=lr, betas=(0.5, 0.9)), ema=0.98)
    descend(method.turns, nets, Singles.of(x), Run(recipe=recipe))
    with torch.no_grad():
        z = nets.autoencoder.encoder(x)
    assert z.mean(0).abs().max() < 0.2
    assert (torch.cov(z.T) - torch.eye(2)).abs().max() < 0.35


# --- adversarial autoencoders -----------------------------------------------------------------------------------------


def test_the_adversarial_autoencoder_moves_its_critic_first(batch):
    method = AAE(latents=3, net=NET, critic=(8,), lam=2.0)
    nets = made(method)
    z = nets.autoencoder.encoder(batch.x)
    torch.manual_seed(0)
    p = draws(z)
    got = turns(method, nets, batch)
    assert list(got) == ["critic", "autoencoder"]
    torch.testing.assert_close(got["critic"].total, (softplus(-nets.critic(p)) + softplus(nets.critic(z))).mean())
    error = ((torch.sigmoid(nets.autoencoder.decoder(z)) - batch.x) ** 2).flatten(1).sum(1).mean()
    torch.testing.assert_close(got["autoencoder"]["error"], error)
    torch.testing.assert_close(got["autoencoder"]["fool"], 2.0 * softplus(-nets.critic(z)).mean())


def classed(batch, method):
    nets = made(method, CLASSED)
    k = 3 if hasattr(method, "rho") else method.clusters
    out = nets.autoencoder.encoder(batch.x)
    return nets, k, out[:, :k].softmax(1), out[:, k:]


def test_clusters_have_two_critics_one_for_the_class_and_one_for_the_style(batch):
    method = ClusteringAAE(latents=2, net=NET, critic=(8,), clusters=5, lam=2.0)
    nets, k, y, z = classed(batch, method)
    torch.manual_seed(0)
    drawn = one_hot(torch.randint(k, (9,)), k).double()
    p = draws(z)
    got = turns(method, nets, batch)
    cy, cz = nets.critics.y, nets.critics.z
    names = ["prior_y", "codes_y", "prior_z", "codes_z"]
    losses = [softplus(-cy(drawn)), softplus(cy(y)), softplus(-cz(p)), softplus(cz(z))]
    for name, loss in zip(names, losses, strict=True):
        torch.testing.assert_close(got["critics"][name], loss.mean())
    out = torch.sigmoid(nets.autoencoder.decoder(torch.cat([y, z], 1)))
    torch.testing.assert_close(got["autoencoder"]["error"], ((out - batch.x) ** 2).flatten(1).sum(1).mean())
    torch.testing.assert_close(got["autoencoder"]["fool_y"], 2.0 * softplus(-cy(y)).mean())
    torch.testing.assert_close(got["autoencoder"]["fool_z"], 2.0 * softplus(-cz(z)).mean())
    assert "label" not in got["autoencoder"]


def labels(rng, n: int = 9) -> torch.Tensor:
    kind = torch.tensor([1.0, 3.0, torch.nan, 2.0, torch.nan, 1.0, 1.0, 2.0, 3.0])[:n]
    return torch.stack([torch.rand(n, generator=rng), kind], 1)


def test_labels_are_a_cross_entropy_over_the_rows_that_have_them(batch, rng):
    method = SemiSupervisedAAE(latents=2, net=NET, critic=(8,), rho=0.5)
    nets, _, y, _ = classed(batch, method)
    u = labels(rng)
    got = turns(method, nets, Labels(batch.x, u))["autoencoder"]
    known = [i for i in range(9) if not u[i, 1].isnan()]
    expected = -sum(y[i, int(u[i, 1]) - 1].log() for i in known) / len(known)
    torch.testing.assert_close(got["label"], 0.5 * expected)
    none = turns(method, nets, Labels(batch.x, torch.full_like(u, torch.nan)))["autoencoder"]
    assert none["label"] == 0


def test_a_reduced_code_is_its_head_plus_its_style_and_heads_are_pushed_apart(batch, rng):
    method = ReducingAAE(latents=2, net=NET, critic=(8,), eta=4.0, kappa=3.0)
    nets, _, y, z = classed(batch, method)
    w = nets.autoencoder.heads.weight.T
    got = turns(method, nets, Labels(batch.x, labels(rng)))["autoencoder"]
    out = torch.sigmoid(nets.autoencoder.decoder(y @ w + z))
    torch.testing.assert_close(got["error"], ((out - batch.x) ** 2).flatten(1).sum(1).mean())
    apart = [(4.0 - (w[k] - w[j]).norm()).clamp(min=0) for k in range(3) for j in range(k)]
    torch.testing.assert_close(got["heads"], 3.0 * sum(apart))
    r = method.represent(nets, CLASSED).float()
    torch.testing.assert_close(r.encode(batch.x.float()), (y @ w + z).float())
    assert r.sample(7, rng).shape == (7, *SPEC.shape)


def blobs(n: int = 900):
    torch.manual_seed(0)
    kind = torch.randint(3, (n,))
    centres = torch.tensor([[4.0, 0.0, 0.0], [0.0, 4.0, 0.0], [0.0, 0.0, 4.0]])
    return centres[kind] + 0.5 * torch.randn(n, 3), kind


RECIPE = Recipe(steps=600, batch=64, optimiser=Adam(lr=2e-3, betas=(0.5, 0.9)))


def test_a_few_labels_name_the_classes():
    x, kind = blobs()
    u = torch.where(torch.arange(len(x)) < 30, kind.float(), torch.nan)[:, None]
    view = Labelled.of(x, u, classes=["label 1"], fraction=0.5)
    method = SemiSupervisedAAE(latents=1, net=MLP(hidden=(32,)), critic=(32,))
    r = fit(method, view, recipe=RECIPE).representation
    assert (r.classes_of(x) == kind).float().mean() > 0.95
    assert r.sample(5, torch.Generator()).shape == (5, 3)


def test_clusters_are_found_without_labels():
    x, kind = blobs()
    r = fit(ClusteringAAE(latents=1, net=MLP(hidden=(32,)), critic=(32,), clusters=3), x, recipe=RECIPE).representation
    found = r.classes_of(x)
    pure = sum(torch.bincount(kind[found == c], minlength=3).max() for c in range(3))
    assert pure / len(x) > 0.9


def test_a_label_with_classes_is_needed_and_named():
    numbers = Labelled.of(torch.zeros(8, 3), torch.arange(8.0))
    with pytest.raises(ValueError, match=r"needs a label with classes, got numbers only: label 1.*classes="):
        fit(SemiSupervisedAAE(net=NET), numbers, recipe=Recipe(steps=1, batch=4))
    with pytest.raises(ValueError, match=r"Unknown label 'kid'. Did you mean 'kind'"):
        SemiSupervisedAAE(net=NET, label="kid").init(CLASSED)


@pytest.mark.parametrize("method", [WAE, AAE, ClusteringAAE])
def test_latents_count_from_one(method):
    with pytest.raises(ValueError, match=r"latents is at least 1, got 0"):
        method(latents=0)


def test_the_default_kernel_has_the_mean_squared_distance_of_the_priors_draws():
    torch.manual_seed(0)
    z, p = torch.randn(2, 50, 4)
    assert MMD().of(z, p, None) == MMD(kernel=InverseMultiquadratic(scale=8.0)).of(z, p, None)
    assert {WAE, AAE, InfoVAE} <= set(METHODS)
