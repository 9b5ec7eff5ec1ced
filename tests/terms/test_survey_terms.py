"""Terms of the survey's methods: total correlation, covariances, Stein's direction, groups, heads."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from torch.distributions import MultivariateNormal, Normal

from whence.terms import (
    RBF,
    InverseMultiquadratic,
    Polynomial,
    average,
    closeness,
    covariance,
    fool,
    from_identity,
    log_densities,
    normal,
    product,
    stein,
    stein_direction,
    stratified,
    told_apart,
    total_correlation,
    weighted,
)

# --- total correlation ------------------------------------------------------------------------------------------------


def gaussian_codes(n: int, rho: float, seed: int = 0) -> tuple[torch.Tensor, Normal, float]:
    """Draws of q(z|x) whose mixture is Gaussian with a correlation, and its total correlation in closed form."""
    torch.manual_seed(seed)
    s2 = 0.3
    whole = torch.tensor([[1.0, rho], [rho, 1.0]], dtype=torch.float64)
    means = MultivariateNormal(torch.zeros(2, dtype=torch.float64), whole - s2 * torch.eye(2)).sample((n,))
    q = Normal(means, math.sqrt(s2))
    return q.sample(), q, -0.5 * math.log(1 - rho**2)


@pytest.mark.parametrize("rho", [0.0, 0.5, 0.69])
def test_the_stratified_estimate_reaches_the_closed_form_of_gaussians(rho):
    """n is so large that the batch's own members hardly count: 2,000 others stand for the mixture."""
    z, q, expected = gaussian_codes(2_000, rho)
    assert float(total_correlation(z, q, stratified(2_000, 10**9))) == pytest.approx(expected, abs=0.03)


@pytest.mark.parametrize("rho", [0.0, 0.69])
def test_the_weighted_estimate_is_off_by_log_n_for_each_further_dimension(rho):
    """With the whole data as the batch its weights sum to 1/n and not to 1."""
    n = 2_000
    z, q, expected = gaussian_codes(n, rho)
    found = float(total_correlation(z, q, weighted(n, n)))
    assert found == pytest.approx(expected + (2 - 1) * math.log(n), abs=0.03)


def test_stratified_weights_give_the_mixture_on_average_over_all_batches():
    """Every ordered batch of 3 of 5 observations that begins with i: the mean of the estimate is q(z) exactly."""
    q = Normal(torch.linspace(-1, 2, 5, dtype=torch.float64)[:, None], 0.7)
    z = torch.tensor([[0.4]], dtype=torch.float64)
    density = q.log_prob(z)[:, 0].exp()
    weights = stratified(3, 5)[0].double()
    others = itertools.permutations([1, 2, 3, 4], 2)
    found = torch.stack([(weights * density[[0, *rest]]).sum() for rest in others]).mean()
    torch.testing.assert_close(found, density.mean())
    assert stratified(3, 5).double().sum(1) == pytest.approx([1.0] * 3)


def test_the_columns_of_the_public_code_do_not():
    """beta-tcvae's `W.view(-1)[::M + 1]` walks down the first column of the batch, not its diagonal."""
    n, b = 5, 3
    w = torch.full((b, b), 1 / (b - 1))
    w.view(-1)[::b] = 1 / n
    assert w[:, 0].tolist() == pytest.approx([1 / n] * b)
    assert w.diagonal().tolist() == pytest.approx([1 / n, 1 / 2, 1 / 2])


def test_densities_are_those_of_the_mixture_written_as_a_loop(rng):
    q = Normal(torch.randn(4, 3, generator=rng, dtype=torch.float64), 0.5 + torch.rand(4, 3, generator=rng).double())
    z = torch.randn(4, 3, generator=rng, dtype=torch.float64)
    w = torch.rand(4, 4, generator=rng, dtype=torch.float64)
    joint, each = log_densities(z, q, w)
    for i in range(4):
        p = [[Normal(q.loc[m, j], q.scale[m, j]).log_prob(z[i, j]).exp() for j in range(3)] for m in range(4)]
        torch.testing.assert_close(joint[i], sum(w[i, m] * p[m][0] * p[m][1] * p[m][2] for m in range(4)).log())
        for j in range(3):
            torch.testing.assert_close(each[i, j], sum(w[i, m] * p[m][j] for m in range(4)).log())


@pytest.mark.parametrize("b", [1, 9])
def test_a_stratified_batch_is_of_the_data(b):
    with pytest.raises(ValueError, match=rf"from 2 observations to all 8, got {b}"):
        stratified(b, 8)


# --- covariances ------------------------------------------------------------------------------------------------------


def test_the_covariance_of_a_batch_is_divided_by_its_size(rng):
    m = torch.randn(7, 3, generator=rng, dtype=torch.float64)
    torch.testing.assert_close(covariance(m), torch.cov(m.T, correction=0))


def test_the_law_of_total_covariance_gives_that_of_draws():
    torch.manual_seed(0)
    means, spread = (
        torch.randn(50_000, 3, dtype=torch.float64) @ torch.randn(3, 3).double(),
        0.5 + torch.rand(3).double(),
    )
    z = means + spread * torch.randn_like(means)
    assert (covariance(z) - covariance(means) - torch.diag(spread**2)).abs().max() < 0.05


def test_distances_from_the_identity_count_both_sides_of_the_diagonal():
    off, own = from_identity(torch.tensor([[3.0, 0.5], [0.5, 1.0]]))
    assert (float(off), float(own)) == (0.5, 4.0)


# --- Stein's direction ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", [RBF(bandwidth=0.8), InverseMultiquadratic(scale=2.0), Polynomial(degree=3)])
def test_the_direction_is_its_formula_pair_by_pair(kernel, rng):
    z = torch.randn(5, 2, generator=rng, dtype=torch.float64)
    found = stein_direction(z, kernel, torch.neg)
    for i in range(5):
        expected = torch.zeros(2, dtype=z.dtype)
        for j in range(5):
            a = z[j].clone().requires_grad_()
            k = kernel(a[None], z[i][None])[0, 0]
            expected += (k.detach() * -z[j] + torch.autograd.grad(k, a)[0]) / 5
        torch.testing.assert_close(found[i], expected)


def kl_of_gaussian(mean: float, variance: float) -> float:
    return 0.5 * (mean**2 + variance - math.log(variance) - 1)


@pytest.mark.parametrize(("mean", "variance"), [(0.7, 0.5), (-1.0, 2.0), (0.2, 1.0)])
def test_moving_along_it_lowers_the_divergence_at_the_rate_of_finite_differences(mean, variance):
    """With k(x, y) = x y + 1 the direction is a z + b, so a Gaussian stays one, whose divergence has a closed form."""
    torch.manual_seed(0)
    z = torch.randn(800, 1, dtype=torch.float64)
    z = mean + math.sqrt(variance) * (z - z.mean()) / z.std(correction=0)  # the moments are exact
    phi = stein_direction(z, Polynomial(degree=1, offset=1.0), torch.neg)
    a, b = 1 - (mean**2 + variance), -mean
    torch.testing.assert_close(phi, a * z + b)
    step = 1e-5

    def moved(e: float) -> float:
        return kl_of_gaussian(mean + e * (a * mean + b), variance * (1 + e * a) ** 2)

    rate = (moved(step) - moved(-step)) / (2 * step)
    assert rate == pytest.approx(-(a**2 + b**2), abs=1e-6)  # minus its squared norm in the kernel's space
    assert rate < 0


def test_descending_the_surrogate_is_moving_along_the_direction(rng):
    z = torch.randn(6, 3, generator=rng, dtype=torch.float64, requires_grad=True)
    gradient = torch.autograd.grad(stein(z, RBF(bandwidth=1.0)), z)[0]
    torch.testing.assert_close(-6 * gradient, stein_direction(z, RBF(bandwidth=1.0), torch.neg))


def test_the_surveys_sign_moves_away_from_the_prior():
    torch.manual_seed(0)
    away = toward = 1.5 + 0.5 * torch.randn(300, 1, dtype=torch.float64)
    for _ in range(100):
        toward = toward + 0.2 * stein_direction(toward, RBF(), torch.neg)
        away = away - 0.2 * stein_direction(away, RBF(), torch.neg)
    assert kl_of_gaussian(float(toward.mean()), float(toward.var())) < 0.05
    assert kl_of_gaussian(float(away.mean()), float(away.var())) > kl_of_gaussian(1.5, 0.25)


# --- groups -----------------------------------------------------------------------------------------------------------


def test_the_product_of_gaussians_is_that_of_bayes_on_a_grid(rng):
    mean = torch.randn(1, 4, 1, generator=rng, dtype=torch.float64)
    variance = 0.3 + torch.rand(1, 4, 1, generator=rng, dtype=torch.float64)
    grid = torch.linspace(-12, 12, 200_001, dtype=torch.float64)
    log_p = sum(Normal(mean[0, i, 0], variance[0, i, 0].sqrt()).log_prob(grid) for i in range(4))
    p = (log_p - log_p.max()).exp()
    p = p / p.sum()
    m = (p * grid).sum()
    found = product(mean, variance)
    torch.testing.assert_close(found[0][0, 0], m)
    torch.testing.assert_close(found[1][0, 0], (p * (grid - m) ** 2).sum())


def test_equal_members_have_a_product_of_a_part_of_their_variance_and_an_average_of_all_of_it():
    mean, variance = torch.ones(2, 5, 3), torch.full((2, 5, 3), 0.4)
    torch.testing.assert_close(product(mean, variance), (torch.ones(2, 3), torch.full((2, 3), 0.08)))
    torch.testing.assert_close(average(mean, variance), (torch.ones(2, 3), torch.full((2, 3), 0.4)))
    assert normal(*product(mean, variance)).scale[0, 0] == pytest.approx(math.sqrt(0.08))


def test_a_group_of_one_is_its_member(rng):
    mean, variance = torch.randn(3, 1, 2, generator=rng), torch.rand(3, 1, 2, generator=rng)
    for pooled in (product, average):
        torch.testing.assert_close(pooled(mean, variance), (mean[:, 0], variance[:, 0]))


# --- critics and heads ------------------------------------------------------------------------------------------------


def test_the_best_critic_gives_the_divergence_of_jensen_and_shannon():
    """The odds p/q make the critic's loss 2 log 2 - 2 JS; q is the code's Gaussian, JS is integrated."""
    p, q = Normal(0.0, 1.0), Normal(1.0, 1.0)
    grid = torch.linspace(-12, 13, 100_001, dtype=torch.float64)
    a, b = p.log_prob(grid).exp(), q.log_prob(grid).exp()
    m, width = (a + b) / 2, grid[1] - grid[0]
    js = 0.5 * ((a * (a / m).log()).sum() + (b * (b / m).log()).sum()) * width
    torch.manual_seed(0)
    x, z = p.sample((200_000, 1)), q.sample((200_000, 1))

    def odds(t):
        return p.log_prob(t) - q.log_prob(t)

    prior, codes = told_apart(x, z, odds)
    assert float(prior + codes) == pytest.approx(2 * math.log(2) - 2 * float(js), abs=0.005)
    torch.testing.assert_close(fool(z, odds), -torch.sigmoid(odds(z)).log().mean())


def test_heads_nearer_than_eta_are_pushed_apart_and_no_others():
    heads = torch.tensor([[0.0, 0.0], [1.0, 0.0], [9.0, 0.0]], dtype=torch.float64, requires_grad=True)
    cost = closeness(heads, 3.0)
    assert float(cost.detach()) == 2.0
    moved = heads.detach() - 0.1 * torch.autograd.grad(cost, heads)[0]
    assert moved.tolist() == [[pytest.approx(-0.1), 0.0], [pytest.approx(1.1), 0.0], [9.0, 0.0]]
