"""Estimators that learn: their formulas in closed form, and how near they come to scores that are known."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Generator, Tensor
from torch.distributions import Categorical, MixtureSameFamily, MultivariateNormal

from tests.scores.worlds import bent, error, gaussian, logistic
from whence.descend import Run
from whence.scores import (
    ESTIMATORS,
    CrossFit,
    Denoising,
    ExactScoreMatching,
    GaussianMixture,
    KernelStein,
    MulticlassRatio,
    PairwiseRatio,
    SingleGaussian,
    SlicedScoreMatching,
)
from whence.scores.grouped import GroupedTanh
from whence.scores.kernel import KernelScores
from whence.scores.matching import Noise, ScoreNets, denoising
from whence.scores.mixture import Mixture
from whence.scores.ratio import Logits, gaussian_logits
from whence.scores.sample import Sample

#: The largest relative error that is allowed on `bent`: of differences, and of the score of each environment.
REACHED = {
    MulticlassRatio: (0.4, None),
    PairwiseRatio: (0.45, None),
    CrossFit: (0.4, None),
    SlicedScoreMatching: (0.4, 0.35),
    ExactScoreMatching: (0.4, 0.35),
    Denoising: (0.5, 0.4),
    KernelStein: (0.4, 0.45),
    GaussianMixture: (0.45, 0.35),
}
LEARNED = list(REACHED)


def seeded(seed: int = 0) -> Generator:
    return Generator().manual_seed(seed)


def few(kind: type, steps: int = 5):
    """The estimator with hardly any training."""
    estimator = kind()
    if hasattr(estimator, "recipe"):
        return replace(estimator, recipe=replace(estimator.recipe, steps=steps, batch=16))
    if isinstance(estimator, KernelStein):
        return replace(estimator, features=20)
    return replace(estimator, estimator=few(MulticlassRatio)) if isinstance(estimator, CrossFit) else estimator


# --- formulas --------------------------------------------------------------------------------------------------------


def test_the_score_of_a_mixture_is_the_gradient_of_its_log_density():
    rng = seeded()
    root = torch.randn(3, 2, 2, generator=rng, dtype=torch.float64)
    mean, cov = torch.randn(3, 2, generator=rng, dtype=torch.float64), root @ root.mT + 0.1 * torch.eye(2).double()
    weight = torch.tensor([0.2, 0.5, 0.3], dtype=torch.float64)
    law = MixtureSameFamily(Categorical(weight), MultivariateNormal(mean, cov))
    u = (3 * torch.randn(20, 2, generator=rng, dtype=torch.float64)).requires_grad_()
    (expected,) = torch.autograd.grad(law.log_prob(u).sum(), u)
    assert torch.allclose(Mixture(weight, mean, torch.linalg.inv(cov)).score(u), expected, rtol=1e-9, atol=1e-9)


def test_kernel_scores_are_stationary_points_of_their_objective():
    """The ridge, the norm of scores and their divergence, by autograd, at the weights that the linear system gave."""
    ridge, x = 1e-2, logistic().samples(400, seeded())
    scores = KernelStein(features=15, bandwidths=(1.0,), ridges=(ridge,)).fit(x, run=3).inner
    assert isinstance(scores, KernelScores)
    sample = Sample.of(x)
    w = scores.cosines.w
    weights = (scores.slopes[..., 0] / w[:, 0]).requires_grad_()
    for e in range(3):
        u = sample.rows(e)
        angle = u @ w.T + scores.cosines.c
        s = scores.gaussian.scores_of(u, [e])[0] - angle.sin() * weights[e] @ w
        divergence = -(angle.cos() * weights[e] * w.square().sum(1)).sum(1)
        objective = (0.5 * s.square().sum(1) + divergence).mean() + 0.5 * ridge * weights[e].square().sum()
        (slope,) = torch.autograd.grad(objective, weights)
        assert slope.abs().max() < 2e-3 * weights.abs().max()  # folds are of equal weight, rows are not quite


def test_kernel_scores_are_gradients():
    """Their Jacobian is symmetric: a field of scores turns nowhere."""
    scores = few(KernelStein).fit(bent().samples(300, seeded()))
    at = torch.randn(4, 2, generator=seeded(), dtype=torch.float64)
    for point in at:
        J = torch.autograd.functional.jacobian(lambda u: scores.scores_of(u[None], [1])[0, 0], point)
        assert torch.allclose(J, J.T, atol=1e-9)


def test_directional_derivatives_ride_along_with_the_forward_pass():
    nets = GroupedTanh(3, [4, 8, 8, 2]).double()
    u = torch.randn(3, 5, 4, generator=seeded(), dtype=torch.float64)
    v = torch.randn(3, 6, 5, 4, generator=seeded(1), dtype=torch.float64)
    out, change = nets.along(u, v)
    assert torch.allclose(out, nets(u))
    for k in range(6):
        _, expected = torch.autograd.functional.jvp(nets.forward, u, v[:, k])
        assert torch.allclose(change[:, k], expected, atol=1e-12)


def nets_of(x: list[Tensor], copies: int = 1) -> ScoreNets:
    """Scores of Gaussians alone: the networks beside them are silenced."""
    nets = ScoreNets(Sample.of(x), [4, 4], skip=True, copies=copies).double()
    for p in nets.rest.parameters():
        p.data.zero_()
    return nets


def test_the_loss_of_a_gaussian_score_is_half_the_trace_of_its_precision():
    r""":math:`\frac12 \mathbb{E}\|s\|^2 + \operatorname{tr} \nabla s = -\frac12 \operatorname{tr} \Theta`, exactly."""
    x = bent().samples(500, seeded())
    sample, nets = Sample.of(x), nets_of(x)
    u = torch.stack([sample.rows(e) for e in range(3)])
    half = 0.5 * sample.precision.diagonal(dim1=1, dim2=2).sum()
    for p in nets.parameters():
        p.requires_grad_(False)
    exact = ExactScoreMatching().loss(nets, u)
    assert float(exact["norm"]) == pytest.approx(float(half), rel=1e-5)
    assert float(exact["divergence"]) == pytest.approx(-2 * float(half), rel=1e-5)
    torch.manual_seed(0)
    sliced = SlicedScoreMatching(projections=200).loss(nets, u)
    assert float(sliced["norm"]) == pytest.approx(float(half), rel=1e-5)
    assert float(sliced["divergence"]) == pytest.approx(-2 * float(half), rel=0.02)


def test_denoising_is_least_at_the_score_of_the_blurred_density():
    r"""A Gaussian with noise of its own shape has covariance :math:`(1 + \sigma^2) C`: the best multiple of its score
    is :math:`1 / (1 + \sigma^2)`, and extrapolation takes it to within :math:`\sigma^4` of 1."""
    law = gaussian(torch.zeros(2, 2).double(), torch.stack([torch.eye(2), 4 * torch.eye(2)]).double())
    x = law.samples(20_000, seeded())
    sample = Sample.of(x)
    u = torch.stack([sample.rows(e) for e in range(2)])
    for sigma in (0.3, 0.3 * 2**0.5):
        L = sigma * torch.linalg.cholesky(sample.cov)
        noise = Noise(L, torch.linalg.inv(L))
        torch.manual_seed(0)
        with torch.no_grad():
            terms = denoising(nets_of(x), u, noise)
        # of a times these scores the terms are a^2 norm and a pull, so the least is at a = -pull / 2 norm
        best = -float(terms["pull"]) / (2 * float(terms["norm"]))
        assert best == pytest.approx(1 / (1 + sigma**2), rel=0.01)
    assert pytest.approx(1, abs=2 * 0.3**4) == 2 / 1.09 - 1 / 1.18


def test_classifiers_begin_at_the_log_ratios_of_gaussians():
    x = bent().samples(500, seeded())
    sample = Sample.of(x)
    nets = Logits(gaussian_logits(sample), [8])
    u = sample.rows(0)[:30].float().requires_grad_()
    logits = (nets(u[None]) - nets.rest(u[None]))[0]
    gaussians = SingleGaussian().fit([sample.rows(e) for e in range(3)]).differences(u.detach().double())
    for e in (1, 2):
        (d,) = torch.autograd.grad((logits[:, 0] - logits[:, e]).sum(), u, retain_graph=True)
        assert torch.allclose(d.double(), gaussians[e - 1], rtol=1e-3, atol=1e-3)
    value = logits[:, 0] - logits[:, 1]  # and so do the ratios themselves
    law = [MultivariateNormal(m, c) for m, c in zip(sample.mean, sample.cov, strict=True)]
    expected = law[0].log_prob(u.double()) - law[1].log_prob(u.double())
    assert torch.allclose(value.double(), expected, rtol=1e-3, atol=1e-3)


def test_ratios_are_gradients_of_differences_of_logits():
    x = bent().samples(300, seeded())
    for kind in (MulticlassRatio, PairwiseRatio):
        scores = few(kind).fit(x).inner
        u = torch.randn(5, 2, generator=seeded())
        nets, h = scores.nets.double(), 1e-5

        def ratio(u: Tensor, nets=nets, kind=kind) -> Tensor:
            logit = nets(u.expand(1 if kind is MulticlassRatio else 2, *u.shape))
            return (logit[0, :, :1] - logit[0, :, 1:]).T if kind is MulticlassRatio else logit[..., 0]

        steps = [torch.stack([ratio(u.double() + h * s) - ratio(u.double() - h * s)]) for s in torch.eye(2).double()]
        expected = torch.stack(steps, -1)[0] / (2 * h)
        scores.nets.float()
        d = scores.differences_of(u)
        assert torch.allclose(d.double(), expected, rtol=1e-3, atol=1e-3)


# --- accuracy --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", LEARNED, ids=lambda kind: kind.__name__)
def test_scores_that_are_not_gaussian_are_learned_to_the_error_stated(kind):
    """Two humps and a parabola; the Gaussian's relative error is .99, that of nothing at all 1."""
    world = bent()
    x, at = world.samples(3_000, seeded(0)), world.samples(2_000, seeded(1))[0]
    scores = kind().fit(x, run=0)
    of_differences, of_scores = REACHED[kind]
    assert error(scores.differences(at), world.differences(at)) < of_differences
    assert error(SingleGaussian().fit(x).differences(at), world.differences(at)) > 0.9
    if of_scores is None:
        with pytest.raises(TypeError, match=r"has score differences and no single scores.*SingleGaussian\(\)"):
            scores.score(at, 0)
    else:
        for e in range(3):
            assert error(scores.score(at, e), world.score(at, e)) < of_scores
        difference = scores.score(at, 0) - scores.score(at, 2)
        assert torch.allclose(scores.differences(at)[1], difference, rtol=1e-4, atol=1e-4)


def test_denoising_extrapolates_to_less_bias():
    """Of Gaussians, whose blurred score is known to be too short by 1 + sigma^2."""
    law = gaussian(torch.zeros(2, 2).double(), torch.stack([torch.eye(2), 0.25 * torch.eye(2)]).double())
    x = law.samples(4_000, seeded())
    at = x[0][:1_000]
    found = {}
    for extrapolate in (False, True):
        estimator = Denoising(sigma=0.5, extrapolate=extrapolate)
        estimator = replace(estimator, recipe=replace(estimator.recipe, steps=150))
        s = estimator.fit(x).score(at, 0)
        found[extrapolate] = float((s * law.score(at, 0)).sum() / law.score(at, 0).square().sum())
    assert found[False] == pytest.approx(1 / 1.25, abs=0.05)
    assert abs(found[True] - (2 / 1.25 - 1 / 1.5)) < 0.08


# --- what all keep ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", LEARNED, ids=lambda kind: kind.__name__)
def test_shift_and_scale_of_the_data_change_scores_by_the_scale_alone(kind):
    x = bent().samples(200, seeded())
    one, two = few(kind).fit(x, run=1), few(kind).fit([1_000 * rows + 3 for rows in x], run=1)
    assert error(1_000 * two.differences(1_000 * x[0] + 3), one.differences(x[0])) < 1e-3


@pytest.mark.parametrize("kind", ESTIMATORS, ids=lambda kind: kind.__name__)
def test_scores_are_a_function_of_the_seed_and_leave_the_random_state_alone(kind):
    x = bent().samples(200, seeded())
    state = torch.random.get_rng_state()
    one, again = few(kind).fit(x, run=1), few(kind).fit(x, run=1)
    assert torch.equal(torch.random.get_rng_state(), state)
    assert torch.equal(one.differences(x[0]), again.differences(x[0]))
    if kind not in (SingleGaussian, GaussianMixture):
        other = few(kind).fit(x, run=2)
        assert not torch.equal(one.differences(x[0]), other.differences(x[0]))


@pytest.mark.parametrize("kind", ESTIMATORS, ids=lambda kind: kind.__name__)
def test_moments_are_those_of_differences_unless_folds_are_crossed(kind):
    x = bent().samples(150, seeded())
    scores = few(kind).fit(x)
    d = scores.differences(x[0])
    by_hand = torch.einsum("ebi,fbj->efij", d, d) / len(x[0])
    crossed = scores.cross_moments(x[0].split(40))
    if kind is CrossFit:
        a, b = (part.differences(x[0]) for part in scores.parts)
        assert torch.allclose(d, (a + b) / 2, rtol=1e-5, atol=1e-6)
        by_hand = (torch.einsum("ebi,fbj->efij", a, b) + torch.einsum("ebi,fbj->efij", b, a)) / 2 / len(x[0])
    assert torch.allclose(crossed, by_hand, rtol=1e-5, atol=1e-6)
    assert torch.allclose(scores.moments(x[0]), by_hand[range(2), range(2)], rtol=1e-5, atol=1e-6)


def test_each_training_of_a_run_has_a_curve_of_its_own_and_the_runs_recipe_is_not_used():
    run, x = Run(seed=1), bent().samples(100, seeded())
    few(MulticlassRatio).fit(x, run=run)
    few(SlicedScoreMatching, steps=7).fit(x, run=run)
    assert {stage: curve.steps[-1] for stage, curve in run.curves.items()} == {"scores-0": 5, "scores-1": 7}
    assert set(run.curves["scores-1"].names) >= {"norm", "divergence"}


def test_batches_take_each_environment_equally_often_and_need_no_copy(monkeypatch):
    x = [
        torch.full((rows, 1), float(e)).double() + torch.randn(rows, 1, generator=seeded(e)).double() * 1e-2
        for e, rows in enumerate((20, 2_000, 50))
    ]
    resident = Sample.of(x).view()
    u = resident.batch(64, seeded()).u
    assert u.shape == (3, 64, 1)
    assert u.dtype == torch.float32
    assert (u.mean((1, 2))[1:] > u.mean((1, 2))[:-1]).all()
    monkeypatch.setattr("whence.scores.sample.RESIDENT", 10)
    assert torch.allclose(Sample.of(x).view().batch(64, seeded()).u, u, atol=1e-5)


# --- folds -----------------------------------------------------------------------------------------------------------


def test_moments_of_crossed_folds_are_unbiased_where_those_of_one_fit_are_not():
    """Environments that do not differ: the true moment is 0. 200 samples, at fixed points."""
    law = gaussian(torch.zeros(2, 2).double(), torch.eye(2).double().expand(2, 2, 2))
    at = torch.randn(100, 2, generator=seeded(999), dtype=torch.float64)
    plain, crossed = [], []
    for seed in range(200):
        x = law.samples(60, seeded(seed))
        plain.append(SingleGaussian().fit(x).moments(at)[0])
        crossed.append(CrossFit(estimator=SingleGaussian()).fit(x).moments(at)[0])
    plain, crossed = torch.stack(plain), torch.stack(crossed)

    def deviations_from_zero(m: Tensor) -> Tensor:
        return (m.mean(0) / (m.std(0) / len(m) ** 0.5)).diagonal()

    assert (deviations_from_zero(plain) > 10).all()
    assert (deviations_from_zero(crossed).abs() < 4).all()
    assert (torch.linalg.eigvalsh(crossed)[:, 0] < 0).any()  # the price: a moment need not be positive


def test_folds_share_no_rows():
    x = bent().samples(101, seeded())
    scores = CrossFit(estimator=SingleGaussian(), folds=3).fit(x)
    for fold, part in enumerate(scores.parts):
        alone = SingleGaussian().fit([rows[fold::3] for rows in x])
        assert torch.equal(part.differences(x[0]), alone.differences(x[0]))
    assert torch.allclose(
        scores.score(x[0], 1), torch.stack([part.score(x[0], 1) for part in scores.parts]).mean(0), rtol=1e-10
    )
    with pytest.raises(ValueError, match="at least 2 folds, got 1"):
        CrossFit(folds=1)


# --- what is refused -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda x: x[:1], r"the observational sample and at least one interventional one, got 1"),
        (lambda x: [x[0], x[1][:, :1]], r"shape \(N, 2\) in floats, got \(100, 1\) .* environment 1"),
        (lambda x: [x[0], x[1].long()], r"got \(100, 2\) of torch.int64 for environment 1"),
        (lambda x: [x[0], x[1][:2]], "more than 2 rows, got 2 in environment 1"),
        (lambda x: [rows * torch.tensor([1.0, 0.0]) for rows in x], r"fill their 2 coordinates, got 1 .*Support.find"),
        (lambda x: [x[0], x[1] * torch.tensor([1.0, 0.0])], "environment 1 varies in 1 only.*fixes a value"),
        (lambda x: [x[0], x[1].index_fill(0, torch.tensor([3, 5]), float("nan"))], "of environment 1 .* 2 of 100 rows"),
    ],
)
def test_samples_without_scores_are_refused(change, message):
    with pytest.raises(ValueError, match=message):
        SingleGaussian().fit(change(bent().samples(100, seeded())))


@pytest.mark.parametrize("kind", ESTIMATORS, ids=lambda kind: kind.__name__)
def test_degenerate_samples_have_the_right_scores_or_none(kind):
    """A constant column, rows that are not finite, an environment that repeats another, a single dimension."""
    x = torch.randn(300, 2, generator=seeded())
    scores = few(kind).fit([x, x.clone()])
    own = torch.linalg.inv(torch.cov(x.T)).diagonal().sqrt().mean()
    assert float(scores.differences(x).abs().mean()) < 0.15 * float(own)
    line = [torch.randn(300, 1, generator=seeded(1)), 0.5 * torch.randn(200, 1, generator=seeded(2))]
    d = few(kind).fit(line).differences(line[0])[0]
    exact = (1 / line[1].var() - 1 / line[0].var()) * line[0]
    assert float((d - exact).norm() / exact.norm()) < 0.35
    for spoiled, message in ((0.0, "fill their 2 coordinates, got 1"), (float("nan"), "must be finite, got NaN")):
        with pytest.raises(ValueError, match=message):
            few(kind).fit([rows * torch.tensor([1.0, spoiled]) for rows in (x, x + 1)])


def test_settings_that_mean_nothing_are_refused():
    with pytest.raises(ValueError, match=r"Denoising needs noise, got sigma = 0.*ExactScoreMatching"):
        Denoising(sigma=0)
    with pytest.raises(ValueError, match="at least 2 folds, got 1"):
        KernelStein(folds=1)
