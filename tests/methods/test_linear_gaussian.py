"""LinearGaussianCRL: the ratio it rests on, known truth in closed form and from samples, what it must refuse."""

import re

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2

from tests.methods.test_umni import drawn, interventions, order_of, population, seeded
from whence.descend import Run
from whence.methods import UMNI, LinearGaussianCRL
from whence.methods.score_based.linear_gaussian import (
    apart,
    change,
    last_of_inverse,
    model_of,
    partial_order,
    precisions,
)
from whence.methods.score_based.umni import UnmixedCode
from whence.representation import Decodes, HasGraph, HasInterventions, Intervenes
from whence.scm import SCM, RandomLinear, random_graph, transitive_closure
from whence.views import Environments

EYE = np.eye(3)


def shuffled(n, rng):
    """One environment a node, in random order."""
    return torch.eye(n)[:, torch.randperm(n, generator=rng)]


def covariance(samples):
    return torch.cov(samples.T, correction=0)


# --- the ratio -------------------------------------------------------------------------------------------------------


def test_the_ratio_is_that_of_gaussians_and_knows_no_units():
    rng = seeded(1)
    x = [torch.randn(many, 3, generator=rng, dtype=torch.float64) for many in (300, 200)]
    x[1] = x[1] @ torch.randn(3, 3, generator=rng, dtype=torch.float64)
    rows = torch.tensor([300.0, 200.0], dtype=torch.float64)
    S = torch.stack([covariance(a) for a in x])
    pooled = torch.einsum("g,gij->ij", rows / rows.sum(), S)
    expected = float(rows.sum() * torch.logdet(pooled) - (rows * torch.logdet(S)).sum())
    found = change(torch.linalg.inv(S), rows)
    assert found.whole == pytest.approx(expected, rel=1e-9)
    W = torch.randn(3, 3, generator=rng, dtype=torch.float64)
    moved = change(W @ torch.linalg.inv(S) @ W.T, rows)
    assert moved.whole == pytest.approx(found.whole, rel=1e-6)
    assert moved.rest == pytest.approx(found.rest, rel=1e-6)
    turned = W @ found.along
    assert abs(float(moved.along @ turned / turned.norm())) == pytest.approx(1.0, abs=1e-6)


def test_a_change_of_rank_one_leaves_nothing_and_is_found():
    rng = seeded(2)
    root = torch.randn(4, 4, generator=rng, dtype=torch.float64)
    v = torch.randn(4, generator=rng, dtype=torch.float64)
    theta = root @ root.T + torch.eye(4)
    found = change(torch.stack([theta, theta + 3 * torch.outer(v, v)]), torch.tensor([500.0, 400.0]).double())
    assert found.rest == pytest.approx(0.0, abs=1e-8)
    assert found.whole > 10
    assert abs(float(found.along @ v / v.norm())) == pytest.approx(1.0, abs=1e-9)


def test_what_is_left_of_rank_one_has_its_degrees_of_freedom():
    rest, whole = [], []
    for seed in range(200):
        rng = seeded(seed)
        x = [torch.randn(400, 3, generator=rng, dtype=torch.float64) for _ in range(2)]
        whole.append(change(*told(x)).whole)
        x[1] = x[1] * torch.tensor([0.4, 1.0, 1.0])
        rest.append(change(*told(x)).rest)
    assert np.mean(whole) == pytest.approx(6, abs=4 * (12 / 200) ** 0.5)
    assert np.mean(rest) == pytest.approx(3, abs=4 * (6 / 200) ** 0.5)
    assert np.mean(np.array(rest) > chi2.isf(0.1, 3)) == pytest.approx(0.1, abs=0.085)


def told(x):
    precisions = torch.linalg.inv(torch.stack([covariance(a) for a in x]))
    return precisions, torch.tensor([float(len(a)) for a in x]).double()


def test_small_pieces():
    rng = seeded(3)
    rows = torch.randn(2, 5, generator=rng, dtype=torch.float64)
    U = apart(rows)
    assert torch.allclose(U.T @ U, torch.eye(3).double(), atol=1e-12)
    assert torch.allclose(rows @ U, torch.zeros(2, 3).double(), atol=1e-12)
    assert torch.equal(apart(rows[:0]).abs(), torch.eye(5).double())
    root = torch.randn(4, 4, generator=rng, dtype=torch.float64)
    cov = root @ root.T
    expected = torch.linalg.inv(torch.linalg.cholesky(cov))[-1]
    assert torch.allclose(last_of_inverse(cov), expected, atol=1e-9)


# --- in closed form --------------------------------------------------------------------------------------------------


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10**6), n=st.integers(1, 6), density=st.sampled_from([0.0, 0.5, 1.0]))
def test_exact_moments_of_any_model_give_targets_ancestors_latents_and_effects(seed, n, density):
    rng = seeded(seed)
    hits = shuffled(n, rng)
    scm = SCM.random(random_graph(n, probability=density, rng=rng), rng=rng)
    turn = torch.linalg.qr(torch.randn(n, n, generator=rng, dtype=torch.float64)).Q
    blocks, mixing = population(scm, interventions(hits), turn)
    T, count = blocks.totals
    order = partial_order(precisions(T), count * 1e4, n, level=1e-6)  # of 10^8 rows, whose moments are exact
    target = hits.T.argmax(1)
    nodes = [int(target[e - 1]) for e in order.environments]  # in the order in which they were found
    assert sorted(nodes) == list(range(n))
    above = transitive_closure(scm.graph)
    for i, causes in zip(nodes, order.causes, strict=True):
        assert {nodes[j] for j in causes} == set(above[:, i].nonzero()[:, 0].tolist())
    H, B = model_of(T, count, order)
    effect = H @ mixing[:, nodes]
    scale = effect.diagonal()
    assert float((effect - torch.diag(scale)).abs().max()) < 1e-5 * float(scale.abs().max())
    strength = (B * scale / scale[:, None]).T
    assert torch.allclose(strength, scm.gaussian.weights[nodes][:, nodes], atol=1e-4)


# --- from samples ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(4))
def test_samples_give_targets_latents_and_graph(seed):
    hits = shuffled(4, seeded(seed))
    data, scm, mixing, _ = drawn(hits, seed=seed)
    code = LinearGaussianCRL(level=1e-4).fit(data, Run())
    order, effect = order_of(code, mixing, hits)
    assert torch.equal(code.graph[order][:, order] > 0.5, scm.graph)
    assert torch.allclose(effect.abs(), torch.eye(4, dtype=torch.float64), atol=0.1)
    assert chi2.sf(float(code.misfit[0]), float(code.misfit[1])) > 1e-3


def test_the_order_of_environments_and_the_scale_of_observations_do_not_matter():
    data, *_ = drawn(EYE, seed=5, density=1.0)
    x = [block.double() for block in data.blocks]
    code = LinearGaussianCRL(latents=3).fit(data, Run())
    moved = Environments.of(100 * x[0] + 3, [100 * x[e] + 3 for e in (3, 1, 2)])
    other = LinearGaussianCRL(latents=3).fit(moved, Run())
    assert torch.equal(other.hits, code.hits[:, [2, 0, 1]])
    assert torch.allclose(other.encoder * 100, code.encoder, rtol=1e-2, atol=1e-3)
    assert torch.allclose(other.graph, code.graph, atol=1e-3)


def test_edges_that_are_not_there_come_at_the_stated_rate():
    """30 empty graphs, at 30 % for any false edge in a model: 9 expected at most, with a deviation of 2.5."""
    method, false = LinearGaussianCRL(latents=3, level=0.3), 0
    for seed in range(30):
        data, *_ = drawn(EYE, rows=600, seed=seed, density=0.0)
        false += bool((method.fit(data, Run()).graph > 0.5).any())
    assert false <= 17


def test_noise_of_heavy_tails_is_not_taken_for_ancestors():
    codes = []
    for seed in range(8):
        data, scm, mixing, _ = drawn(EYE, mechanism=RandomLinear(noise="laplace"), seed=seed)
        code = LinearGaussianCRL(level=1e-3).fit(data, Run())
        order, effect = order_of(code, mixing, EYE)
        assert torch.equal(code.graph[order][:, order] > 0.5, scm.graph)
        assert torch.allclose(effect.abs(), torch.eye(3, dtype=torch.float64), atol=0.15)
        codes.append(code)
    assert np.mean([float(code.misfit[0]) for code in codes]) == pytest.approx(15, abs=4 * (30 / 8) ** 0.5)


def test_more_environments_than_latents():
    hits = [[1, 0, 0, 0, 1], [0, 1, 0, 1, 0], [0, 0, 1, 0, 0]]
    data, _, mixing, _ = drawn(hits, seed=1)
    code = LinearGaussianCRL().fit(data, Run())
    _, effect = order_of(code, mixing, hits)
    assert torch.allclose(effect.abs(), torch.eye(3, dtype=torch.float64), atol=0.1)
    assert code.intervention_matrix.shape == (3, 5)


def test_an_idle_environment_beside_enough_others_is_told():
    data, *_ = drawn([[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0]], seed=4)
    with pytest.warns(UserWarning, match="No difference of covariances from observational is seen in environment 4"):
        code = LinearGaussianCRL().fit(data, Run())
    assert not code.hits[:, 3].any()


def test_one_latent_no_edges_all_edges():
    data, *_ = drawn([[1]])
    code = LinearGaussianCRL().fit(data, Run())
    assert code.hits.tolist() == [[True]]
    assert code.encode(data.blocks[0]).std() == pytest.approx(1.0, abs=1e-3)
    for density in (0.0, 1.0):
        data, scm, mixing, _ = drawn(EYE, density=density, seed=2)
        code = LinearGaussianCRL(level=1e-4).fit(data, Run())
        order, _ = order_of(code, mixing, EYE)
        assert torch.equal(code.graph[order][:, order] > 0.5, scm.graph)


def test_the_representation_encodes_decodes_and_intervenes():
    data, scm, mixing, _ = drawn(EYE, rows=20_000, density=1.0, seed=1)
    code = LinearGaussianCRL(latents=3).fit(data, Run())
    assert isinstance(code, UnmixedCode)
    for capability in (Decodes, HasGraph, HasInterventions, Intervenes):
        assert isinstance(code, capability)
    x = data.blocks[0][:200]
    z = code.encode(x)
    assert torch.allclose(code.decode(z), x, atol=1e-3)
    order, _ = order_of(code, mixing, EYE)
    scale = (code.encoder.double()[order] @ mixing).diagonal()
    truth = x.double() @ torch.linalg.pinv(mixing).T
    offset = float((scale[0] * truth[:, 0] - z[:, order[0]].double()).mean())
    expected = scm.counterfactual(truth, {0: 1.5}) @ mixing.T
    moved = code.do(x, {order[0]: float(scale[0]) * 1.5 - offset})
    assert (moved - expected).abs().mean() < 0.05 * (expected - x).abs().mean()


def test_it_agrees_with_the_likelihood_of_umni():
    data, *_ = drawn(EYE, density=1.0, seed=3)
    code, other = LinearGaussianCRL(latents=3).fit(data, Run()), UMNI(latents=3).fit(data, Run())
    assert torch.equal(code.hits, other.hits)
    assert torch.equal(code.graph > 0.5, other.graph > 0.5)
    x = data.blocks[0]
    r = np.corrcoef(code.encode(x).numpy().T, other.encode(x).numpy().T)[:3, 3:]
    assert np.abs(r.diagonal()).min() > 0.999


@pytest.mark.parametrize("method", [LinearGaussianCRL(), UMNI()])
def test_constant_and_repeated_columns_change_nothing_and_rows_that_are_not_finite_are_refused(method):
    data, *_ = drawn(EYE, seed=1, rows=1000)
    more = [torch.cat([x, x[:, :1], torch.full_like(x[:, :1], 7.0)], 1) for x in data.blocks]
    code = method.fit(data, Run())
    other = method.fit(Environments.of(more[0], more[1:]), Run())
    assert torch.equal(other.hits, code.hits)
    assert torch.allclose(other.graph, code.graph, atol=1e-3)
    agree = (other.encode(more[0]) * code.encode(data.blocks[0])).mean(0)  # unit variance: correlations
    assert torch.allclose(agree.abs(), torch.ones(3), atol=1e-2)
    more[2][4, 1] = float("nan")
    with pytest.raises(ValueError, match="must be finite, got NaN or infinity in 1 of 1000 rows"):
        Environments.of(more[0], more[1:])


# --- what it refuses -------------------------------------------------------------------------------------------------


def test_too_few_environments():
    data, *_ = drawn([[1, 0], [0, 1], [0, 0]])
    with pytest.raises(ValueError, match="an interventional environment for each latent, got 2 for 3 latents"):
        LinearGaussianCRL().fit(data, Run())
    with pytest.raises(ValueError, match="n = 9 dimensions needs at least as many observed ones, got d = 5"):
        LinearGaussianCRL(latents=9).fit(data, Run())


def test_an_environment_that_changes_nothing_is_named():
    data, *_ = drawn([[1, 0, 0], [0, 1, 0], [0, 0, 0]], seed=1)
    with pytest.raises(ValueError, match="no difference of covariances from observational is seen in environment 3"):
        LinearGaussianCRL().fit(data, Run())


def test_two_environments_of_one_latent_are_named():
    data, *_ = drawn([[1, 0, 1], [0, 1, 0], [0, 0, 0]], seed=1, density=1.0)
    twins = "environment 3 changes nothing that environment 1|environment 1 changes nothing that environment 3"
    with pytest.raises(ValueError, match=twins):
        LinearGaussianCRL().fit(data, Run())
    x = data.blocks
    with pytest.raises(ValueError, match="environment 1 and environment 3 hold the same observations"):
        LinearGaussianCRL().fit(Environments.of(x[0], [x[1], x[2], x[1]]), Run())
    with pytest.raises(ValueError, match="observational and environment 2 hold the same observations"):
        LinearGaussianCRL(latents=2).fit(Environments.of(x[0], [x[1], x[0]]), Run())


def test_a_shift_of_the_mean_is_no_change_of_covariance():
    data, *_ = drawn(EYE, density=0.0, variance=None, shift=1.0)
    with pytest.raises(ValueError, match="changes its variance: no difference of covariances from"):
        LinearGaussianCRL().fit(data, Run())


def test_interventions_on_several_latents_are_told():
    data, *_ = drawn([[1, 1, 0], [0, 1, 1], [0, 0, 1]], density=1.0, seed=2)
    with pytest.warns(UserWarning, match="of which each environment changes one.*use UMNI"):
        LinearGaussianCRL().fit(data, Run())


def test_what_the_view_tells_is_believed():
    x = drawn(EYE)[0].blocks
    with pytest.raises(ValueError, match=re.escape("environment 1, environment 2, environment 3 is soft. Use UMNI")):
        LinearGaussianCRL().fit(Environments.of(x[0], x[1:], kinds="soft"), Run())
    with pytest.raises(ValueError, match="the view says that environment 2 has several targets"):
        LinearGaussianCRL().fit(Environments.of(x[0], x[1:], targets=[0, {0, 1}, 2]), Run())


def test_a_value_that_is_fixed_and_too_few_rows():
    data, _, mixing, _ = drawn(EYE)
    z = data.blocks[1].double() @ torch.linalg.pinv(mixing).T
    z[:, 0] = 1.0
    x = [block.double() for block in data.blocks]
    with pytest.raises(ValueError, match="environment 1 varies in fewer"):
        LinearGaussianCRL(latents=3).fit(Environments.of(x[0], [z @ mixing.T, x[2], x[3]]), Run())
    with pytest.warns(UserWarning, match="too few rows to tell latents apart"):
        LinearGaussianCRL(latents=3).fit(Environments.of(x[0][:40], [x[1][:40], x[1][40:80], x[2][:40]]), Run())
    with pytest.raises(ValueError, match=re.escape("more than 4 observations of 3 latents, got 4 in observational")):
        LinearGaussianCRL(latents=3).fit(Environments.of(x[0][:4], x[1:]), Run())


@pytest.mark.parametrize(
    ("fields", "message"), [({"level": 1.0}, "between 0 and 1"), ({"latents": 0}, "at least one latent")]
)
def test_settings_are_checked(fields, message):
    with pytest.raises(ValueError, match=message):
        LinearGaussianCRL(**fields)
