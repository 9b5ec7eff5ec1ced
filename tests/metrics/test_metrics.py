"""Metrics on codes whose value is known: the factors themselves, mixtures of them, nothing at all."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from torch import Tensor

from whence import Pixels, Recipe, Sprites, fit
from whence.methods import BetaVAE
from whence.metrics import (
    DCIMIG,
    METRICS,
    MIG,
    BetaVAEMetric,
    FactorVAEMetric,
    InfoMEC,
    Metric,
    MIGSup,
    Modularity,
    Probe,
    Reconstruction,
    beta_vae_metric,
    evaluate,
    factor_vae_metric,
    mig,
    mutual_information,
    reconstruction_error,
)
from whence.metrics import groups as of_groups
from whence.metrics import noise as of_noise
from whence.metrics import probe as of_probe
from whence.metrics.evaluate import read_results
from whence.metrics.sharing import pool_sharing
from whence.nets import MLP
from whence.representation import Representation
from whence.storage import StorageError
from whence.views import Spec
from whence.worlds.world import Factor, Grid, World

SIZES = (3, 6, 40, 32, 32)
K = len(SIZES)
FEW = {"train": 2000, "test": 1000}
CHANCE = 4 * math.sqrt(0.2 * 0.8 / 1000)  # four standard errors of an accuracy of one fifth


def beta(z, v, **options) -> float:
    return beta_vae_metric(z, v, **{**FEW, **options})


def factor(z, v, **options) -> float:
    return factor_vae_metric(z, v, **{**FEW, **options})


@pytest.fixture(scope="module")
def v() -> np.ndarray:
    """Independent factors of the sizes of dSprites."""
    rng = np.random.default_rng(0)
    return np.stack([rng.integers(n, size=10_000) for n in SIZES], 1)


@pytest.fixture(scope="module")
def noise() -> np.ndarray:
    """Codes that know nothing."""
    return np.random.default_rng(1).normal(size=(10_000, K))


# --- the anchors: perfect, chance, invariances ------------------------------------------------------------------------


def test_the_factors_themselves_are_a_perfect_code(v):
    assert beta(v, v) == pytest.approx(1.0, abs=0.01)
    assert factor(v, v) == 1.0
    assert mig(v[:, 2:], v[:, 2:], bins=40) == pytest.approx(1.0, abs=0.03)


def test_codes_that_know_nothing_score_chance(v, noise):
    assert beta(noise, v) == pytest.approx(1 / K, abs=CHANCE)
    assert factor(noise, v) == pytest.approx(1 / K, abs=CHANCE)
    assert mig(noise, v) == pytest.approx(0.0, abs=0.005)


def test_factor_vae_and_mig_do_not_care_for_order_sign_and_scale(v):
    rng = np.random.default_rng(2)
    z = v @ rng.normal(size=(K, 7)) + rng.normal(size=(len(v), 7))
    other = (z * [1, -2, 4, -8, 16, -1, 0.5])[:, rng.permutation(7)]  # powers of two: bins and ratios are exact
    other[:, :] += 3.0
    assert factor(other, v, inactive=0.0) == pytest.approx(factor(z, v, inactive=0.0), abs=1e-9)
    assert factor(z * 1e-3, v) == pytest.approx(factor(z, v), abs=1e-9)  # the threshold follows the units of all codes
    assert mig(other, v) == pytest.approx(mig(z, v), abs=1e-3)


@pytest.mark.parametrize("scale", [1e-4, 1.0, 1e4])
def test_a_perfect_code_is_perfect_in_any_units(scale, v):
    z = v[:, ::-1] * np.array([1, -1, 1, -1, 1]) * scale / v.std(0)[::-1]
    assert beta(z, v) == pytest.approx(1.0, abs=0.01)
    assert factor(z, v) == pytest.approx(1.0, abs=0.01)
    assert mig(z, v, bins=40) == pytest.approx(mig(v, v, bins=40), abs=0.005)


def test_a_code_that_is_repeated_has_no_gap(v):
    assert mig(np.hstack([v, v]), v) == pytest.approx(0.0, abs=1e-12)


def test_a_dead_code_changes_nothing(v):
    z = np.hstack([v, np.zeros((len(v), 1))])
    assert factor(z, v) == 1.0
    assert beta(z, v) == pytest.approx(1.0, abs=0.01)
    assert mig(z, v) == pytest.approx(mig(v, v))


def test_codes_that_are_all_dead_are_worth_nothing(v):
    z = np.zeros((len(v), 3))
    assert factor(z, v) == 0.0
    assert mig(z, v) == 0.0
    assert beta(z, v) == pytest.approx(1 / K, abs=CHANCE)


def test_whole_numbers_of_any_width_are_codes_like_others(v):
    assert factor(v.astype(np.uint8), v) == factor(v.astype(float), v)
    assert mig(v.astype(np.uint8), v) == mig(v.astype(float), v)
    assert beta(v.astype(np.uint8), v) == beta(v.astype(float), v)


# --- what each metric misses ------------------------------------------------------------------------------------------


def test_a_missing_factor_is_noticed_by_factor_vae_and_mig_but_not_by_beta_vae(v):
    """The failure that Kim and Mnih (2018) found: what is absent is recognised by its absence."""
    missing = v[:, [0, 1, 3, 4]]
    assert beta(missing, v) == pytest.approx(1.0, abs=0.01)
    assert factor(missing, v) == pytest.approx((K - 1) / K, abs=0.05)
    assert mig(missing, v) < 0.85 * mig(v, v)


def test_a_rotated_code_is_noticed_by_factor_vae_and_mig():
    """Two uniform factors turned by 45 degrees: every code depends on both."""
    rng = np.random.default_rng(0)
    v = rng.integers(20, size=(10_000, 2))
    turned = v @ np.array([[1, 1], [1, -1]]) / math.sqrt(2)
    assert factor(turned, v) < 0.65
    assert mig(turned, v) < 0.05
    assert factor(v, v) == 1.0


# --- mutual information -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("bins", "ceiling"), [(10, 0.7865), (20, 0.8955), (40, 0.9875)])
def test_the_ceiling_of_mig_with_dsprites_factors_is_that_of_the_reference(bins, ceiling, v):
    """disentanglement_lib@86a644d (mig.py) on identity codes of 10,000 observations: bins merge neighbouring values."""
    assert mig(v, v, bins=bins) == pytest.approx(ceiling, abs=0.0015)


def test_mutual_information_is_that_of_the_joint_table():
    joint = np.array([[30, 10], [5, 55]])
    z, v = np.repeat([0, 0, 1, 1], joint.ravel()), np.repeat([0, 1, 0, 1], joint.ravel())
    p = joint / joint.sum()
    expected = (p * np.log(p / (p.sum(1, keepdims=True) * p.sum(0)))).sum()
    information, _, h = mutual_information(z, v, bins=2)
    assert information[0, 0] == pytest.approx(expected, abs=1e-12)
    assert h[0] == pytest.approx(-(p.sum(0) * np.log(p.sum(0))).sum())


def test_a_code_of_one_factor_holds_its_whole_entropy():
    v = np.arange(8)[:, None]
    information, _, h = mutual_information(v, v, bins=8)
    assert information[0, 0] == pytest.approx(h[0]) == pytest.approx(math.log(8))
    assert mig(v, v, bins=8) == pytest.approx(1.0)


def test_mig_of_gaussian_codes_approaches_the_closed_form():
    """I(z; v) of a Gaussian channel is -log(1 - rho^2) / 2; histograms of many samples come close from below."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200_000, 2))
    rho = 0.8
    y = rho * x[:, 0] + math.sqrt(1 - rho**2) * x[:, 1]
    binned = np.digitize(x[:, 0], np.quantile(x[:, 0], np.linspace(0, 1, 41)[1:-1]))
    information = mutual_information(y, binned, bins=60).mutual
    assert information[0, 0] == pytest.approx(-0.5 * math.log(1 - rho**2), abs=0.02)


# --- refusals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("metric", [beta, factor, mig])
def test_codes_that_are_not_finite_are_refused(metric, v):
    z = v.astype(float)
    z[3, 1] = np.nan
    with pytest.raises(ValueError, match=r"must be finite, got NaN or infinity in 1 rows. Drop these rows first"):
        metric(z, v)


@pytest.mark.parametrize("metric", [beta, factor, mig])
def test_codes_and_factors_have_the_same_rows(metric, v):
    with pytest.raises(ValueError, match=r"needs codes \(N, D\) and factors \(N, K\) with the same N"):
        metric(v[:-1], v)


def test_mig_of_a_factor_that_does_not_vary_is_refused(v):
    with pytest.raises(ValueError, match=r"factor must vary, and factor 1 has one value in these rows. Leave it out"):
        mig(v, np.column_stack([v[:, 0], np.zeros(len(v))]))


@pytest.mark.parametrize("metric", [beta, factor])
def test_continuous_factors_are_shared_by_class(metric):
    v = np.random.default_rng(3).uniform(size=(6_000, 3))
    assert metric(v, v) > 0.99
    assert metric(v[::-1], v) == pytest.approx(1 / 3, abs=0.06)


def test_tensors_and_arrays_are_the_same_to_a_metric(v):
    assert factor(torch.from_numpy(v).float(), torch.from_numpy(v)) == factor(v.astype(np.float32), v)


# --- groups that share a factor ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("k", range(K))
def test_a_group_out_of_the_pool_shares_its_factor_and_leaves_the_others_free(k, v):
    groups = pool_sharing(v, v, np.random.default_rng(0))(k, 400, 50)
    assert groups.shape == (400, 50, K)
    assert (groups[:, :, k] == groups[:, :1, k]).all()
    assert set(np.unique(groups[:, 0, k])) == set(range(SIZES[k]))
    for other in set(range(K)) - {k}:
        within, total = groups[:, :, other].var(1).mean(), v[:, other].var()
        assert within == pytest.approx(total * 49 / 50, rel=0.05)


# --- probes and worlds ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Plain(World):
    """Observations are the factors, one of them hidden if asked for."""

    hide: bool = False

    @property
    def factors(self) -> tuple[Factor, ...]:
        return tuple(Factor(f"f{n}", "ordinal", tuple(float(i) / n for i in range(n))) for n in (3, 5, 8))

    @property
    def shape(self) -> tuple[int, ...]:
        return (3,)

    @property
    def grid(self) -> Grid:
        return Grid((3, 5, 8))

    def observe(self, v: Tensor, rng=None) -> Tensor:
        return v * torch.tensor([1.0, 0.0 if self.hide else 1.0, 1.0])


class Itself(Representation):
    def __init__(self) -> None:
        super().__init__(Spec((3,)), 3)

    def codes(self, x: Tensor) -> Tensor:
        return x


SMALL = {"samples": 4000, "metrics": [BetaVAEMetric(**FEW), FactorVAEMetric(**FEW), MIG(bins=8)]}


def test_a_probe_of_a_perfect_code_gives_the_best_and_its_chance_level_gives_chance():
    found = evaluate(Itself(), Plain(), **SMALL)
    assert [r.metric for r in found] == ["beta_vae_metric", "factor_vae_metric", "mig"]
    assert [r.value for r in found] == pytest.approx([1, 1, 1], abs=0.02)
    assert [r.chance for r in found] == pytest.approx([1 / 3, 1 / 3, 0], abs=0.07)


@pytest.mark.parametrize("kind", [BetaVAEMetric, FactorVAEMetric])
@pytest.mark.parametrize("hide", [False, True])
def test_newly_drawn_groups_agree_with_groups_out_of_the_pool(kind, hide):
    probe = Probe(Itself(), Plain(hide), samples=4000)
    pooled, fresh = (kind(train=600, test=600, fresh=f)(probe)[0].value for f in (False, True))
    assert fresh == pytest.approx(pooled, abs=0.06)


def test_a_probe_gives_the_same_in_every_call_and_another_seed_another_sample():
    def values(seed):
        return [r.value for r in evaluate(Itself(), Plain(hide=True), seed=seed, **SMALL)]

    assert values(0) == values(0) != values(1)


def test_a_probe_encodes_once():
    class Counting(Itself):
        count = 0

        def codes(self, x):
            Counting.count += len(x)
            return x

    evaluate(Counting(), Plain(), **SMALL)
    assert Counting.count == 4000


def test_what_several_metrics_need_is_made_once(monkeypatch):
    """Tables of information, and codes in their units: once for the codes, once dealt, once for the factors."""
    made = []

    def count(where, name):
        real = getattr(where, name)
        monkeypatch.setattr(where, name, lambda *a, **k: made.append(name) or real(*a, **k))

    for where, name in ((of_probe, "mutual_information"), (of_noise, "evident"), (of_groups.Units, "of")):
        count(where, name)
    few = [BetaVAEMetric(**FEW), FactorVAEMetric(**FEW)]
    evaluate(Itself(), Plain(), metrics=[MIG(), DCIMIG(), MIGSup(), Modularity(), InfoMEC(), *few], samples=300)
    classified = 2  # the beta-VAE metric standardises its points, of the codes and of dealt ones
    assert made.count("mutual_information") == 2 + 1
    assert made.count("evident") == 2 + 1
    assert made.count("of") == 2 + classified


def test_too_few_observations_and_draws_are_refused():
    with pytest.raises(ValueError, match=r"need 10 observations or more.*got samples=3 and bootstrap=0. Samples are"):
        evaluate(Itself(), Plain(), samples=3)
    with pytest.raises(ValueError, match="got samples=100 and bootstrap=-1"):
        evaluate(Itself(), Plain(), samples=100, bootstrap=-1)


def test_what_a_representation_cannot_do_is_not_measured_and_says_why():
    result = evaluate(Itself(), Plain(), metrics=[Reconstruction()])["reconstruction"]
    assert result.value is None
    assert result.note == "needs Decodes, which Itself is not"
    assert str(result) == "reconstruction: not measured (needs Decodes, which Itself is not)"


def test_reconstruction_is_the_mean_squared_difference():
    x = np.random.default_rng(0).random((5, 1, 4, 4))
    assert reconstruction_error(x, x) == 0
    assert reconstruction_error(x, x + 0.1) == pytest.approx(0.01)
    with pytest.raises(ValueError, match=r"have the same shape, got \(5, 1, 4, 4\) and \(4, 1, 4, 4\)"):
        reconstruction_error(x, x[:4])


def test_pixels_reconstruct_exactly_and_by_chance_as_two_unrelated_pictures():
    world = Sprites()
    result = evaluate(fit(Pixels(), world), metrics=[Reconstruction(observations=300)], samples=300)["reconstruction"]
    x = world.observe(world.draw(600, rng=torch.Generator().manual_seed(5)))
    assert result.value == 0.0
    assert result.chance == pytest.approx((x[:300] - x[300:]).square().mean().item(), rel=0.1)


def test_a_metric_that_is_no_number_is_an_error():
    @dataclass(frozen=True, kw_only=True)
    class Broken(Metric):
        def measure(self, probe):
            return math.nan

    with pytest.raises(ArithmeticError, match=r"broken came out as nan"):
        Broken()(Probe(Itself(), Plain(), samples=10))


def test_another_worlds_observations_are_refused():
    with pytest.raises(ValueError, match=r"encodes observations of shape \(3,\), and this world's have shape \(1, 64"):
        evaluate(Itself(), Sprites())
    with pytest.raises(TypeError, match=r"does not know its world. Call evaluate\(representation, world\)"):
        evaluate(Itself())


def test_every_metric_has_its_ideal_its_reference_and_its_evidence():
    for kind in METRICS:
        assert kind.reference.year > 1900
        assert kind.evidence
        assert all(math.isfinite(part.best) for part in kind.parts)


# --- results ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    method = BetaVAE(latents=3, net=MLP(hidden=(8,)))
    fitted = fit(method, Sprites(), recipe=Recipe(steps=2, batch=8), into=tmp_path_factory.mktemp("run") / "a")
    return fitted, evaluate(fitted, metrics=[MIG(), Reconstruction(observations=20)], samples=200)


def test_results_survive_their_file(run):
    fitted, found = run
    again = read_results(fitted.folder)
    assert again.results == found.results
    assert again == found
    assert len(again.kl) == 3
    assert np.shape(again.mutual_information) == (3, 5)


def test_results_are_found_by_name_with_the_nearest_suggested(run):
    _, found = run
    assert found["mig"] is found[0]
    with pytest.raises(KeyError, match=r"Unknown metric 'mgi'. Did you mean 'mig'"):
        _ = found["mgi"]


def test_results_leave_as_a_table(run):
    lines = run[1].csv().splitlines()
    assert lines[0] == "metric,value,low,high,chance,ceiling,best,higher_is_better,note"
    assert lines[1].startswith("mig,0.")
    assert len(lines) == 3


@pytest.mark.parametrize("change", [("value", "1.0"), ("seed", "7")])
def test_edited_results_are_refused(change, run):
    import re

    fitted, _ = run
    path = fitted.folder / "results.json"
    whole = path.read_text()
    name, to = change
    edited = re.sub(rf'"{name}": [^,\n]+', f'"{name}": {to}', whole, count=1)
    assert edited != whole
    try:
        path.write_text(edited)
        with pytest.raises(
            StorageError, match=r"results.json' was edited: it does not match its hash. Run whence eval"
        ):
            read_results(fitted.folder)
        path.write_text(whole[:100])
        with pytest.raises(StorageError, match=r"results.json' is not whole JSON"):
            read_results(fitted.folder)
    finally:
        path.write_text(whole)


def test_a_run_without_results_says_how_to_get_them(tmp_path):
    with pytest.raises(StorageError, match=r"has no results.json. Evaluate it first: whence evaluate"):
        read_results(tmp_path)
