"""Metrics of information: MIG and its posterior estimate, MIG-sup, DCIMIG, JEMMIG, modularity, and what is noise."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.distributions import Normal

from tests.metrics.test_metrics import Itself, Plain
from tests.reference.arrays import REPRESENTATIONS, SETS, inputs, small_matrices
from whence.metrics import (
    MIG,
    MIGPosterior,
    MIGSup,
    Modularity,
    Probe,
    Unmeasurable,
    dcimig,
    evaluate,
    evident,
    informative,
    jemmig,
    mig,
    mig_posterior,
    mig_sup,
    modularity,
    modularity_from,
    mutual_information,
)
from whence.metrics.mig import log_mixture, posterior_information

GOLDEN = json.loads((Path(__file__).parents[1] / "reference/disentanglement_lib.json").read_text())
ALL = {"mig": mig, "mig_sup": mig_sup, "dcimig": dcimig, "jemmig": jemmig, "modularity": modularity}
EACH = pytest.mark.parametrize("metric", ALL.values(), ids=ALL.keys())
GAPS = pytest.mark.parametrize("metric", [mig_sup, dcimig, jemmig, mig], ids=lambda f: f.__name__)


@pytest.fixture(scope="module")
def v() -> np.ndarray:
    rng = np.random.default_rng(0)
    return np.stack([rng.integers(n, size=5_000) for n in (3, 6, 15, 12)], 1)


@pytest.fixture(scope="module")
def noise() -> np.ndarray:
    return np.random.default_rng(1).normal(size=(5_000, 6))


# --- disentanglement_lib ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bins", [10, 20])
@pytest.mark.parametrize("of", SETS)
@pytest.mark.parametrize("representation", REPRESENTATIONS)
def test_the_studys_numbers(representation, of, bins):
    z, v, _, _ = inputs(of, representation)
    golden = GOLDEN[of][representation]
    information = mutual_information(z, v, bins=bins, study=True)
    np.testing.assert_allclose(information.mutual, golden[f"mutual_information_{bins}"], atol=1e-9)
    np.testing.assert_allclose(information.of_factors, golden["factor_entropy"], atol=1e-9)
    assert mig(z, v, bins=bins, study=True) == pytest.approx(golden[f"mig_{bins}"], abs=1e-9)
    assert modularity(z, v, bins=bins, study=True) == pytest.approx(golden[f"modularity_{bins}"], abs=1e-9)


@pytest.mark.parametrize("name", [n for n in small_matrices() if n != "one_factor"])
def test_modularity_of_given_matrices(name):
    expected = GOLDEN["given_matrices"][name]["modularity"]
    assert modularity_from(small_matrices()[name]) == pytest.approx(expected, abs=1e-9)


# --- anchors ----------------------------------------------------------------------------------------------------------


@EACH
def test_the_factors_themselves_are_perfect(metric, v):
    assert metric(v, v) == pytest.approx(1.0, abs=0.03)  # gaps lose the bias of the second best


@EACH
def test_noise_scores_nothing(metric, v, noise):
    assert metric(noise, v) == pytest.approx(0.0, abs=0.02)


@pytest.mark.parametrize("n", [300, 1_000, 5_000])
def test_noise_is_told_from_information_at_every_size(n, v, noise):
    assert not informative(noise[:n], v[:n]).any()
    assert modularity(noise[:n], v[:n]) == mig_sup(noise[:n], v[:n]) == 0
    assert modularity(noise[:n], v[:n], study=True) > 0.5  # what the reference gives
    assert (informative(v[:n], v[:n]) == np.eye(4, dtype=bool)).all()


def test_the_risk_of_finding_information_in_noise_is_kept():
    """1,000 tables at a risk of 1/1,000 each give more than 5 with a probability of 0.0006."""
    rng = np.random.default_rng(0)
    v = np.stack([rng.integers(40, size=400), rng.geometric(0.4, size=400)], 1)
    z = rng.normal(size=(400, 2))
    found = sum(informative(z[rng.permutation(400)], v).any() for _ in range(1_000))
    assert found <= 5


@pytest.mark.parametrize("metric", [modularity, mig_sup])
def test_dead_and_collapsed_codes_take_no_part(metric, v, noise):
    dead = np.column_stack([v, np.full(len(v), 0.1), 0.02 * noise])
    assert metric(dead, v) == pytest.approx(metric(v, v), abs=1e-12)
    assert metric(dead, v, study=True) < 0.95 * metric(v, v)


@EACH
def test_codes_that_are_all_dead_are_worth_nothing(metric, v):
    assert metric(np.ones((len(v), 3)), v) == pytest.approx(0.0, abs=1e-12)


def test_the_published_jemmig_rewards_a_constant_code(v):
    dead = np.ones((len(v), 2))
    h = mutual_information(v, v).of_factors
    assert jemmig(dead, v, study=True) == pytest.approx(1 - np.mean(h / (h + math.log(20))))
    assert jemmig(dead, v) == 0


@pytest.mark.parametrize("metric", [mig, dcimig, jemmig], ids=lambda f: f.__name__)
def test_a_missing_factor_is_noticed(metric, v):
    assert metric(v[:, :-1], v) < 0.85 * metric(v, v)


@pytest.mark.parametrize("metric", [modularity, mig_sup], ids=lambda f: f.__name__)
def test_a_missing_factor_is_not_noticed_by_metrics_of_codes(metric, v):
    """They ask what is in each code, not what is in none."""
    assert metric(v[:, :-1], v) == pytest.approx(1.0, abs=1e-9)


def test_a_factor_in_two_codes_is_noticed_by_mig_and_jemmig_only(v):
    twice = np.hstack([v, v])
    assert mig(twice, v) == pytest.approx(0, abs=1e-12)
    assert jemmig(twice, v) == pytest.approx(0.5, abs=0.01)
    for metric in (modularity, mig_sup, dcimig):
        assert metric(twice, v) == pytest.approx(metric(v, v), abs=1e-9)


def test_a_code_of_two_factors_is_noticed_by_metrics_of_codes():
    rng = np.random.default_rng(0)
    v = rng.integers(4, size=(5_000, 2))
    both = (4 * v[:, 0] + v[:, 1])[:, None]
    assert modularity(both, v) == pytest.approx(0, abs=0.01)
    assert mig_sup(both, v) == pytest.approx(0, abs=0.01)
    assert dcimig(both, v) == pytest.approx(0, abs=0.01)


# --- closed forms -----------------------------------------------------------------------------------------------------


def crossed(table: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows of two binary factors and two binary codes with exactly these counts, (2, 2, 2, 2)."""
    rows = np.repeat(np.argwhere(np.ones_like(table)), table.ravel(), axis=0)
    return rows[:, :2], rows[:, 2:]


def test_gaps_are_those_of_the_table():
    v, z = crossed(np.random.default_rng(0).integers(5, 60, size=(2, 2, 2, 2)))

    def h(*columns):
        count = np.unique(np.stack(columns, 1), axis=0, return_counts=True)[1] / len(z)
        return -(count * np.log(count)).sum()

    m = np.array([[h(a) + h(b) - h(a, b) for b in v.T] for a in z.T])
    entropies = np.array([h(b) for b in v.T])
    share, best = m / entropies, m.argmax(0)
    assert mig_sup(z, v, study=True) == pytest.approx(np.abs(share[:, 0] - share[:, 1]).mean())
    gap, first = np.abs(m[:, 0] - m[:, 1]), m.argmax(1)
    held = [max((gap[j] for j in range(2) if first[j] == k), default=0) for k in range(2)]
    assert dcimig(z, v) == pytest.approx(sum(held) / entropies.sum())
    lost = [h(z[:, best[k]], v[:, k]) - m[best[k], k] + m[1 - best[k], k] for k in range(2)]
    assert jemmig(z, v) == pytest.approx(np.mean([1 - lost[k] / (h(z[:, best[k]]) + entropies[k]) for k in range(2)]))
    assert jemmig(z, v, bins=7, study=True) == pytest.approx(np.mean(1 - lost / (entropies + math.log(7))))
    assert modularity(z, v, study=True) == pytest.approx(np.mean(1 - (m.min(1) / m.max(1)) ** 2))


def test_evident_information_is_unbiased_or_nothing(v, noise):
    mixed = np.column_stack([v[:, 2] + 2 * noise[:, 0], noise[:, 1]])
    found = evident(mixed, v)
    unbiased = mutual_information(mixed, v, unbiased=True)
    assert (found.mutual[0] > 0).tolist() == [False, False, True, False]
    assert found.mutual[0, 2] == unbiased.mutual[0, 2] < mutual_information(mixed, v).mutual[0, 2]
    assert not found.mutual[1].any()


# --- invariances ------------------------------------------------------------------------------------------------------


@EACH
@given(seed=st.integers(0, 2**32 - 1), log_scale=st.integers(-20, 20))
@settings(max_examples=8, deadline=None)
def test_order_sign_and_scale_of_codes_and_order_of_factors_do_not_matter(metric, seed, log_scale):
    rng = np.random.default_rng(seed)
    v = rng.integers(4, size=(400, 3))
    z = v @ rng.normal(size=(3, 4)) + 0.3 * rng.normal(size=(400, 4))
    expected = metric(z, v, bins=16)  # which divide 400, so that classes are the same from above and from below
    assert 0 <= expected <= 1
    codes, factors = rng.permutation(4), rng.permutation(3)
    assert metric(z[:, codes] * 2.0**log_scale, v[:, factors], bins=16) == pytest.approx(expected, abs=1e-9)
    assert metric(np.arctan(-z), v, bins=16) == pytest.approx(expected, abs=1e-9)  # any monotone map


@EACH
def test_precision_and_kind_of_array_do_not_matter(metric, v, noise):
    z = (v + 0.2 * noise[:, :4]).astype(np.float32)
    assert metric(z, v) == metric(z.astype(np.float64), v) == metric(torch.from_numpy(z), torch.from_numpy(v))


@GAPS
def test_rows_that_come_twice_change_nothing(metric, v, noise):
    z = v + 0.5 * noise[:, :4]
    twice = metric(np.vstack([z, z]), np.vstack([v, v]))
    assert twice == pytest.approx(metric(z, v), abs=0.02)


@EACH
def test_continuous_factors_are_cut_into_classes(metric):
    v = np.random.default_rng(3).uniform(size=(4_000, 3))
    assert metric(v, v) > 0.95
    assert metric(v[::-1], v) < 0.05


# --- the posterior ----------------------------------------------------------------------------------------------------


def channel(v: np.ndarray, sigma: float) -> float:
    """I(z; v) of z ~ N(v, sigma^2), with v as often as it occurs, by quadrature."""
    values, count = np.unique(v, return_counts=True)
    z = np.linspace(values.min() - 9 * sigma, values.max() + 9 * sigma, 40_001)
    p = np.exp(-0.5 * ((z[:, None] - values) / sigma) ** 2) / (sigma * math.sqrt(2 * math.pi)) @ (count / len(v))
    return -np.trapezoid(p * np.log(p.clip(1e-300)), z) - 0.5 * math.log(2 * math.pi * math.e * sigma**2)


@pytest.mark.parametrize("sigma", [0.2, 0.5, 1.5])
def test_the_posteriors_information_is_that_of_the_gaussian_channel(sigma):
    rng = np.random.default_rng(0)
    v = rng.integers(6, size=(1_500, 2))
    scale = np.full((1_500, 2), sigma)
    found = posterior_information(v.astype(float), scale, v, samples=6_000)
    for k in range(2):
        assert found.mutual[k, k] == pytest.approx(channel(v[:, k], sigma), abs=0.03)
    own = [channel(v[:, k], sigma) for k in range(2)]
    h = found.of_factors
    assert mig_posterior(v, scale, v, samples=6_000) == pytest.approx(np.mean(own / h), abs=0.02)


def test_the_density_of_a_mixture_is_that_of_its_parts():
    rng = np.random.default_rng(0)
    z, m, s = rng.normal(size=(50, 3)), rng.normal(size=(200, 3)), rng.uniform(0.1, 2, size=(200, 3))
    direct = Normal(torch.tensor(m), torch.tensor(s)).log_prob(torch.tensor(z)[:, None]).logsumexp(1) - math.log(200)
    np.testing.assert_allclose(log_mixture(z, m, s), direct, rtol=1e-12)


def test_a_far_away_code_has_a_finite_density():
    assert log_mixture(np.array([[1e3]]), np.zeros((4, 1)), np.ones((4, 1)))[0, 0] == pytest.approx(-5e5, rel=1e-3)


def test_a_code_that_is_its_prior_tells_nothing_and_a_repeated_one_has_no_gap():
    v = np.random.default_rng(0).integers(5, size=(1_000, 2))
    prior = np.column_stack([v[:, 0], np.zeros(1_000)])
    scale = np.column_stack([np.full(1_000, 0.3), np.ones(1_000)])
    found = posterior_information(prior, scale, v)
    assert found.mutual[1].max() == pytest.approx(0, abs=1e-9)
    assert mig_posterior(np.hstack([prior, prior]), np.hstack([scale, scale]), v) == pytest.approx(0, abs=0.05)


def test_memory_is_bounded_by_chunks(monkeypatch):
    shapes = []
    real = np.exp

    def watched(t, *args, **kwargs):
        shapes.append(np.shape(t))
        return real(t, *args, **kwargs)

    monkeypatch.setattr(np, "exp", watched)
    rng = np.random.default_rng(0)
    log_mixture(rng.normal(size=(64, 1)), rng.normal(size=(50_000, 1)), np.ones((50_000, 1)))
    assert max(math.prod(s) for s in shapes) <= 300_000


def test_a_posterior_without_width_is_refused():
    v = np.arange(10) % 2
    with pytest.raises(ValueError, match=r"a positive standard deviation for each code.*not all of them positive"):
        mig_posterior(v[:, None], np.zeros((10, 1)), v)
    with pytest.raises(ValueError, match=r"means \(10, 1\) and scales \(10, 2\)"):
        mig_posterior(v[:, None], np.ones((10, 2)), v)


class Encoder(Itself):
    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(1))

    def posterior(self, x: Tensor) -> Normal:
        return Normal(x, torch.full_like(x, 0.02))


def test_a_probe_gives_the_posteriors_of_its_own_pool_in_order():
    probe = Probe(Encoder().frozen(), Plain(), samples=2_500)
    np.testing.assert_array_equal(probe.posterior.mean, probe.pool.z)
    np.testing.assert_array_equal(probe.chance.posterior.mean, probe.chance.pool.z)
    np.testing.assert_array_equal(probe.redrawn(0).posterior.mean, probe.redrawn(0).pool.z)
    assert probe.repeats == probe.chance.repeats == probe.truth.repeats == 1
    assert probe.redrawn(0).repeats == pytest.approx(2, abs=0.1)
    with pytest.raises(Unmeasurable, match="These codes have no q"):
        _ = probe.truth.posterior


def test_the_metric_of_the_posterior_asks_for_one():
    found = evaluate(Encoder().frozen(), Plain(), metrics=[MIGPosterior(samples=500)], samples=2_500)["mig_posterior"]
    expected = np.mean([channel(np.arange(n) / n, 0.02) / math.log(n) for n in (3, 5, 8)])
    assert found.value == pytest.approx(expected, abs=0.03)
    assert found.chance < 0.05
    without = evaluate(Itself(), Plain(), metrics=[MIGPosterior()], samples=100)["mig_posterior"]
    assert without.note == "needs HasPosterior, which Itself is not"


def test_rows_drawn_again_find_no_information_in_noise():
    class Blind(Itself):
        def codes(self, x: Tensor) -> Tensor:
            return torch.rand(x.shape, generator=torch.Generator().manual_seed(len(x))).to(x)

    for found in evaluate(Blind(), Plain(), metrics=[Modularity(), MIGSup()], samples=2_000, bootstrap=10):
        assert found.value == found.chance == 0
        assert found.interval == (0, 0)


# --- refusals ---------------------------------------------------------------------------------------------------------


@EACH
def test_a_factor_that_does_not_vary_is_refused(metric, v):
    with pytest.raises(Unmeasurable, match=r"factor must vary, and factor 4 has one value in these rows. Leave it out"):
        metric(v, np.column_stack([v, np.zeros(len(v))]))


def test_modularity_needs_two_factors(v):
    with pytest.raises(Unmeasurable, match="needs two factors: a code cannot mix what is alone"):
        modularity(v, v[:, 0])
    assert evaluate(Itself(), Plain(), metrics=[MIG(), Modularity()], samples=500)["modularity"].value == 1
