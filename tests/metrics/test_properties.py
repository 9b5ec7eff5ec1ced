"""What every metric promises, on codes drawn by hypothesis: one table, and a test for each promise.

Codes and factors are handed to the metrics as a probe's pool, so that it is the `Metric` values, with the settings a
user gets, which keep the promises. Arrays are read-only: no metric changes what it is given.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from tests.metrics.test_metrics import Itself, Plain
from whence import metrics as m
from whence import values
from whence.metrics import METRICS, Metric, Probe, Unmeasurable
from whence.metrics.arrays import Codes

Array = np.ndarray
SIZES = (3, 5, 8)
ROWS = 1_200  # which the 20 classes of equal frequency divide
INF = float("inf")


class Promise(NamedTuple):
    """How far a metric's numbers may move where it promises that they do not, and what it does not promise."""

    metric: Metric
    turned: float = 1e-9  #: when codes and factors are reordered, and codes change sign
    scaled: float = 1e-9  #: when each code has other units
    monotone: float | None = None  #: when each code goes through an increasing map; None: nothing is promised
    dead: float | None = 1e-9  #: when a constant code is added
    twice: float = 0.02  #: when every row comes twice
    single: float = 2e-3  #: in single precision
    perfect: float = 0.03  #: how far the factors themselves may be from the best, in a sample of this size
    notices: bool = True  #: a factor that is in no code
    low: float = 0.0
    high: float = 1.0


FEW: dict[str, Any] = {"train": 600, "test": 400}
DRAWN = 0.07  # of metrics that draw groups of their own: the standard error of 400 of them, nearly three times
TABLE = (
    Promise(m.BetaVAEMetric(pairs=32, **FEW), turned=0.03, scaled=1e-3, dead=1e-3, twice=DRAWN, notices=False),
    Promise(m.FactorVAEMetric(size=32, **FEW), turned=0.05, twice=DRAWN),
    Promise(m.MIG(), monotone=1e-9),
    Promise(m.MIGSup(), monotone=1e-9, notices=False),
    Promise(m.DCIMIG(), monotone=1e-9),
    Promise(m.JEMMIG(), monotone=1e-9),
    Promise(m.Modularity(), monotone=1e-9, notices=False),
    Promise(m.InfoMEC(), turned=1e-6, scaled=1e-6, twice=0.1),  # copies count as evidence against noise
    Promise(m.MIC(samples=300), turned=0.02, monotone=1e-9, twice=0.1, perfect=0.06),
    Promise(m.DCI(), turned=0.02, scaled=0.02, monotone=0.02, dead=1e-3, twice=0.05, perfect=0.06),
    Promise(m.Explicitness(), turned=1e-3, scaled=1e-3, dead=1e-3, perfect=0.15, low=-1.0),
    Promise(m.SAP(), turned=0.05, monotone=0.01, twice=0.03),  # thresholds lie midway between values
    Promise(m.IRS(), notices=False, perfect=0.05),
    Promise(m.MCC(), turned=0.01, scaled=1e-3, dead=0.02, twice=0.05),
    Promise(m.R2(), turned=0.02, scaled=1e-3, dead=0.03, twice=0.05, low=-INF),
    Promise(m.EaseOfUse(), turned=0.02, scaled=1e-3, dead=0.02, twice=0.06, perfect=0.3),
    Promise(m.ScaleMixing(), scaled=1e-6, dead=None, high=INF),
    Promise(m.CodeSize(), dead=None, notices=False, perfect=1e-9),
    Promise(m.GaussianTotalCorrelation(), notices=False, high=INF),
    Promise(m.GaussianWassersteinCorrelation(), scaled=INF, notices=False, high=INF, perfect=INF),
    Promise(m.CodeInformation(), monotone=1e-9, twice=0.1, notices=False, high=INF),  # copies lessen the correction
)


def each(*promises: Promise) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("promise", promises, ids=lambda p: values.name_of(type(p.metric)))


EACH = each(*TABLE)
SEEDS = st.integers(0, 2**32 - 1)


def numbers(metric: Metric, z: Array, v: Array) -> Array:
    """All parts of a metric, on arrays that cannot be written to."""
    for a in (z, v):
        a.setflags(write=False)
    return np.array(metric.numbers(Probe(Itself(), Plain(), samples=len(z)).like(Codes(z, v))))


def drawn(seed: int, rows: int = ROWS) -> Codes:
    """Four codes of three factors: two that hold one, one that mixes two, all with noise of their own."""
    rng = np.random.default_rng(seed)
    v = rng.integers(SIZES, size=(rows, 3))
    s = (v - v.mean(0)) / v.std(0)
    mixing = np.array([[1, 0, 0], [0, 1, 0], [0, 0.4, 1], [0.7, 0, 0.7]])
    return Codes(s @ mixing.T + rng.uniform(0.02, 0.6, 4) * rng.standard_normal((rows, 4)), v)


@cache
def factors() -> Array:
    return np.random.default_rng(0).integers(SIZES, size=(ROWS, 3))


def test_every_metric_has_made_its_promises():
    assert {type(p.metric) for p in TABLE} | set(GIVEN) | DRAWN == set(METRICS)


# --- invariances ------------------------------------------------------------------------------------------------------


@EACH
@given(seed=SEEDS)
@settings(max_examples=2, deadline=None)
def test_order_and_sign_do_not_matter(promise, seed):
    z, v = drawn(seed)
    rng = np.random.default_rng(seed)
    turned = (z * rng.choice([-1.0, 1.0], 4))[:, rng.permutation(4)]
    expected = numbers(promise.metric, z, v)
    np.testing.assert_allclose(numbers(promise.metric, turned, v[:, rng.permutation(3)]), expected, atol=promise.turned)


@EACH
@given(seed=SEEDS)
@settings(max_examples=2, deadline=None)
def test_units_do_not_matter(promise, seed):
    z, v = drawn(seed)
    rng = np.random.default_rng(seed)
    scaled = z * 2.0 ** rng.integers(-1, 2, 4)  # exactly; to some a code of a twentieth of the spread of others is dead
    expected = numbers(promise.metric, z, v)
    if promise.scaled < INF:
        np.testing.assert_allclose(numbers(promise.metric, scaled, v), expected, atol=promise.scaled)
    else:
        np.testing.assert_allclose(numbers(promise.metric, 2 * z, v) / expected, [4, 1], rtol=1e-9)  # squared units


@each(*(p for p in TABLE if p.monotone is not None))
@given(seed=SEEDS)
@settings(max_examples=2, deadline=None)
def test_increasing_maps_do_not_matter_where_it_is_promised(promise, seed):
    z, v = drawn(seed)
    bent = np.stack([f(c) for f, c in zip((np.arctan, np.exp, np.cbrt, np.sinh), z.T, strict=True)], 1)
    expected = numbers(promise.metric, z, v)
    np.testing.assert_allclose(numbers(promise.metric, bent, v), expected, atol=promise.monotone)


@each(*(p for p in TABLE if p.dead is not None))
@given(seed=SEEDS, value=st.sampled_from([0.0, 0.1, -1e6]))
@settings(max_examples=2, deadline=None)
def test_a_constant_code_does_not_matter(promise, seed, value):
    z, v = drawn(seed)
    dead = np.insert(z, 2, value, axis=1)
    np.testing.assert_allclose(numbers(promise.metric, dead, v), numbers(promise.metric, z, v), atol=promise.dead)


# --- anchors ----------------------------------------------------------------------------------------------------------


@EACH
def test_the_factors_themselves_are_the_best(promise):
    v = factors()
    best = [part.best for part in promise.metric.parts]
    np.testing.assert_allclose(numbers(promise.metric, v.astype(float), v), best, atol=promise.perfect)


@each(*(p for p in TABLE if p.metric.compares))
@given(seed=SEEDS)
@settings(max_examples=2, deadline=None)
def test_independent_codes_give_chance(promise, seed):
    """Dealing such codes to other observations changes nothing, and it is far from what the factors themselves give."""
    v, z = factors(), np.random.default_rng(seed).standard_normal((ROWS, 3))
    probe = Probe(Itself(), Plain(), samples=ROWS).like(Codes(z, v))
    noise, chance = (np.array(promise.metric.numbers(p)) for p in (probe, probe.chance))
    if isinstance(promise.metric, m.ScaleMixing):  # a mixing of noise is any matrix
        assert min(noise[0], chance[0]) > 0.5
        return
    np.testing.assert_allclose(noise, chance, atol=0.12)
    assert (noise < numbers(promise.metric, v.astype(float), v) - 0.4).all()


@EACH
def test_a_missing_factor_is_noticed_but_where_theory_says_it_is_not(promise):
    """Blind are: the beta-VAE metric, for which K - 1 codes name K factors (the last is "none of them"); and metrics of
    what is in each code that is there, which do not ask what is in none: modularity, MIG-sup, robustness, and all that
    look at codes alone. Of metrics of several parts, one notices."""
    v = factors()
    if isinstance(promise.metric, m.ScaleMixing):
        with pytest.raises(Unmeasurable, match="needs a code for each factor, got 2 codes and 3 factors"):
            numbers(promise.metric, v[:, :2].astype(float), v)
        return
    whole, missing = (numbers(promise.metric, v[:, :k].astype(float), v) for k in (3, 2))
    better = np.array([part.higher_is_better for part in promise.metric.parts])
    loss = np.where(better, whole - missing, missing - whole)
    if promise.notices:
        assert loss.max() > 0.12
    elif promise.metric.compares:
        assert loss.max() < 0.02


# --- numbers ----------------------------------------------------------------------------------------------------------


@EACH
@given(seed=SEEDS, d=st.integers(1, 6), noise=st.sampled_from([0.0, 0.1, 1.0, 100.0]))
@settings(max_examples=6, deadline=None)
def test_results_are_within_their_bounds_or_refused(promise, seed, d, noise):
    rng = np.random.default_rng(seed)
    v = rng.integers(SIZES, size=(240, 3))
    z = np.rint(4 * (v @ rng.normal(size=(3, d)) + noise * rng.standard_normal((240, d)))) / 4  # with ties
    with contextlib.suppress(Unmeasurable):
        check(promise, numbers(promise.metric, z, v))


def check(promise: Promise, found: Array) -> None:
    assert (found >= promise.low - 1e-9).all()
    assert (found <= promise.high + 1e-9).all()


@EACH
def test_rows_that_come_twice_change_little(promise):
    z, v = drawn(5)
    found = numbers(promise.metric, np.repeat(z, 2, 0), np.repeat(v, 2, 0))  # none is learned from and tested on
    np.testing.assert_allclose(found, numbers(promise.metric, z, v), atol=promise.twice)


@EACH
@given(seed=SEEDS)
@settings(max_examples=2, deadline=None)
def test_precision_does_not_matter(promise, seed):
    z, v = drawn(seed)
    single = z.astype(np.float32)
    found = numbers(promise.metric, single, v)
    np.testing.assert_allclose(found, numbers(promise.metric, single.astype(float), v), atol=promise.single)


# --- metrics of something else than codes and factors -----------------------------------------------------------------


class Both(NamedTuple):
    """A metric's function on what it compares: as it is, changed in a way that should not matter, and at its best."""

    value: Any
    changed: Any
    at_best: Any
    best: Any


def of_pictures(function: Callable[[Tensor, Tensor], Any], best: Any) -> Callable[[np.random.Generator], Both]:
    def draw(rng: np.random.Generator) -> Both:
        x, y = (torch.from_numpy(rng.uniform(size=(5, 2, 13, 12))) for _ in range(2))
        rows, channels = rng.permutation(5), rng.permutation(2)
        turned = [t[rows][:, channels].flip(-1) for t in (x, y)]
        return Both(function(x, y), function(*turned), function(x, x), best)

    return draw


def of_graphs(function: Callable[[Array, Array], Any], best: Any) -> Callable[[np.random.Generator], Both]:
    def draw(rng: np.random.Generator) -> Both:
        truth, estimate = (np.triu(rng.random((5, 5)) < 0.5, 1) for _ in range(2))
        truth[0, 1] = True
        p, q = rng.permutation(5), rng.permutation(5)
        estimate = estimate[np.ix_(p, p)]
        renamed = function(estimate[np.ix_(q, q)], truth[np.ix_(q, q)])
        return Both(function(estimate, truth), renamed, function(truth, truth), best)

    return draw


def of_samples(rng: np.random.Generator) -> Both:
    x, y = rng.normal(size=(40, 3)), rng.normal(0.5, 1, size=(30, 3))
    q = np.linalg.qr(rng.normal(size=(3, 3)))[0]  # turned, and moved

    def both(a: Array, b: Array, **options: bool) -> tuple[float, float]:
        return m.mmd(a, b, **options), m.energy_distance(a, b, **options)

    turned = both(x[rng.permutation(40)] @ q + 3, y @ q + 3)
    return Both(both(x, y), turned, both(x, x, unbiased=False), (0, 0))


def of_posteriors(rng: np.random.Generator) -> Both:
    v = rng.integers([2, 3], size=(300, 2))
    mean, scale = v + 0.2 * rng.normal(size=v.shape), rng.uniform(0.05, 0.2, size=v.shape)

    def mig(z: Array, s: Array, f: Array) -> float:
        return m.mig_posterior(z, s, f, samples=300)  # every row once, whatever their order

    changed = mig(7 - 2 * mean[:, ::-1], 2 * scale[:, ::-1], v[:, ::-1])
    return Both(mig(mean, scale, v), changed, mig(v.astype(float), np.full(v.shape, 0.05), v), 1)


def parents_of(rng: np.random.Generator) -> Both:
    graph = np.triu(rng.random((4, 4)) < 0.6, 1)
    allowed = m.with_parents(graph)
    mixing = np.eye(4) + 0.3 * rng.normal(size=(4, 4))
    q = rng.permutation(4)
    renamed = m.mixing_error(mixing[np.ix_(q, q)] * rng.choice([-3.0, 2.0], (4, 1)), allowed[np.ix_(q, q)])
    forgiven = np.diag(rng.uniform(1, 2, 4)) + allowed * rng.normal(size=(4, 4))
    np.fill_diagonal(forgiven, rng.uniform(1, 2, 4))
    return Both(m.mixing_error(mixing, allowed), renamed, m.mixing_error(forgiven, allowed), (0, 0))


def of_concepts(rng: np.random.Generator) -> Both:
    v = rng.normal(size=240)
    z = v + 0.5 * rng.normal(size=240)

    def both(a: Array, b: Array) -> tuple[float, float]:
        found = m.coefficients(a, b)
        return float(found.mic[0, 0]), float(found.tic[0, 0])

    rows = rng.permutation(240)
    return Both(both(z, v), both(np.exp(z[rows]), v[rows]), both(v, v), (1, 1))


#: Metrics that draw from a world themselves, each with tests of its own.
DRAWN = {m.Counterfactuals, m.ReaderFrechet, m.InterventionalDiscrepancy}

GIVEN: dict[type[Metric], Callable[[np.random.Generator], Both]] = {
    m.Reconstruction: of_pictures(m.reconstruction_error, 0),
    m.BernoulliCrossEntropy: of_pictures(lambda x, y: m.bernoulli_cross_entropy(x, y).excess, 0),
    m.SSIM: of_pictures(m.ssim, 1),
    m.SampleDiscrepancy: of_samples,
    m.PriorDiscrepancy: of_samples,
    m.MIGPosterior: of_posteriors,
    m.SHD: of_graphs(lambda a, b: (m.shd(a, b), m.shd(a, b, reversal=2), m.skeleton_shd(a, b)), (0, 0, 0)),
    m.EdgeRecovery: of_graphs(m.edge_recovery, (1, 1, 1)),
    m.AveragePrecision: of_graphs(m.average_precision, 1),
    m.SID: of_graphs(m.sid, 0),
    m.ParentMixing: parents_of,
    m.ConceptMIC: of_concepts,
}


@pytest.mark.parametrize("kind", GIVEN, ids=values.name_of)
@given(seed=SEEDS)
@settings(max_examples=8, deadline=None)
def test_other_metrics_keep_theirs(kind, seed):
    """Names of nodes, order of rows and channels, signs, and motions of the whole do not matter; equals are the best,
    and nothing is better."""
    value, changed, at_best, best = (np.atleast_1d(x) for x in GIVEN[kind](np.random.default_rng(seed)))
    posterior = kind is m.MIGPosterior  # other codes are drawn of another row
    np.testing.assert_allclose(changed, value, atol=0.1 if posterior else 1e-7)
    np.testing.assert_allclose(at_best, best, atol=0.03 if posterior else 1e-6)
    if kind not in (m.SampleDiscrepancy, m.PriorDiscrepancy):  # which are unbiased, so sometimes beyond it
        better = kind.parts[0].higher_is_better
        assert (value <= best + 1e-9 if better else value >= best - 1e-9).all()
