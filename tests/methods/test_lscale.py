"""LSCALE: known truth in closed form, with oracle scores, and from samples; what it must refuse."""

import re

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.distributions import Laplace

from tests.methods.test_umni import drawn, interventions, oracle, population, seeded
from whence.descend import Run
from whence.methods import LSCALE
from whence.methods.score_based import _additive as additive
from whence.methods.score_based import _multinode as multinode
from whence.methods.score_based._additive import Fit, Monomials
from whence.methods.score_based._multinode import Blocks
from whence.methods.score_based.lscale import CausalCode
from whence.representation import Decodes, HasGraph, Intervenes
from whence.scm import (
    SCM,
    Additive,
    Hard,
    Linear,
    RandomMLP,
    RandomQuadratic,
    Soft,
    is_acyclic,
    random_graph,
    transitive_closure,
)
from whence.scores import MulticlassRatio
from whence.views import Environments

THREE = torch.eye(3)


def told(data, targets=None, kind="hard"):
    """The same view, with targets."""
    x = data.blocks
    return Environments.of(x[0], x[1:], targets=list(range(len(x) - 1)) if targets is None else targets, kinds=kind)


def mixed(code, mixing):
    """Encoder times mixing, rows of unit length."""
    effect = code.encoder.double() @ mixing
    return effect / effect.norm(dim=1, keepdim=True)


ALL = torch.ones(3, 3, dtype=torch.float64)  #: of what causes do lasts, whatever the degree


def allowed(graph, kind):
    n = len(graph)
    return torch.eye(n).bool() | (graph.T if kind == "soft" else torch.zeros(n, n).bool())


# --- monomials -------------------------------------------------------------------------------------------------------


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10**6), n=st.integers(1, 4), degree=st.integers(1, 4))
def test_monomials_of_a_linear_map_are_combinations_of_monomials(seed, n, degree):
    rng, basis = seeded(seed), Monomials(n, degree)
    u, H = torch.randn(7, n, generator=rng, dtype=torch.float64), torch.randn(n, n, generator=rng, dtype=torch.float64)
    assert torch.allclose(basis.of(u @ H.T), basis.of(u) @ basis.change(H).T, atol=1e-9)
    expected = torch.stack([u[:, list(powers)].prod(1) for powers in basis.every], 1)
    assert torch.allclose(basis.of(u), expected, atol=1e-12)


def test_chunks_of_rows_give_the_moments_of_all_rows():
    u, basis = torch.randn(100, 3, generator=seeded(), dtype=torch.float64), Monomials(3, 2)
    M, count = Blocks.of([lambda: iter(u.split(33))], 8, basis.of).totals
    phi = basis.of(u)
    assert torch.allclose(M[0], phi.T @ phi / 100)
    assert count.tolist() == [100]


# --- the likelihood --------------------------------------------------------------------------------------------------


def cubic(rows=20_000, n=3, seed=0):
    """Latents with polynomial mechanisms of degree two, and samples under a hard intervention on each."""
    rng = seeded(seed)
    b = torch.randn(n, n, n, generator=rng, dtype=torch.float64) * 0.4

    def sample(hit):
        z = torch.zeros(rows, n, dtype=torch.float64)
        for i in range(n):
            e = torch.randn(rows, generator=rng, dtype=torch.float64)
            cause = sum((b[i, j, k] * (z[:, j] * z[:, k] + z[:, j]) for j in range(i) for k in range(i)), 0 * e)
            z[:, i] = 0.5 * e if hit == i + 1 else cause + e
        return z

    return [sample(e) for e in range(n + 1)]


def test_the_profile_is_the_likelihood_at_its_largest():
    """Against an explicit regression and Gaussian log-densities on rows."""
    z, basis, hits = cubic(rows=500), Monomials(3, 2), (1, 2, 3)
    turn = torch.randn(3, 3, generator=seeded(1), dtype=torch.float64)
    u = [x @ turn.T for x in z]
    H = torch.linalg.inv(turn) + 0.1
    M, count = Blocks.of(u, 4, basis.of).totals
    total = -2 * 2000 * float(torch.linalg.slogdet(H)[1])
    for i in range(3):
        free = torch.cat([x for e, x in enumerate(u) if e != hits[i]]) @ H.T
        phi = Monomials(i, 2).of(free[:, :i]) if i else torch.ones(len(free), 1, dtype=torch.float64)
        rest = free[:, i] - phi @ torch.linalg.lstsq(phi, free[:, i : i + 1]).solution[:, 0]
        own = (u[hits[i]] @ H.T)[:, i]
        total += 1500 * float(rest.square().mean().log()) + 500 * float(own.var(unbiased=False).log())
    assert float(additive.profile(basis, M, count, H, hits)) == pytest.approx(total, rel=1e-9)


def test_polynomial_mechanisms_give_order_and_encoder_from_any_order():
    z, basis = cubic(), Monomials(3, 2)
    turn = torch.linalg.qr(torch.randn(3, 3, generator=seeded(1), dtype=torch.float64)).Q
    M, count = Blocks.of([x @ turn.T for x in z], 8, basis.of).totals
    found = additive.likeliest(basis, M, count, torch.eye(3, dtype=torch.float64)[[2, 1, 0]] @ turn.T, (3, 2, 1)).fit
    assert found.hits == (1, 2, 3)
    effect = found.H @ turn
    assert torch.allclose((effect / effect.diagonal()[:, None]), torch.eye(3).double(), atol=0.05)


def test_the_spread_of_coefficients_is_that_of_repeated_samples():
    """The encoder's uncertainty included: with the encoder held fixed, the first coefficient would spread less."""
    basis, found, told_errors = Monomials(2, 1), [], []
    for seed in range(30):
        rng = seeded(seed)
        z = torch.randn(3, 800, 2, generator=rng, dtype=torch.float64)
        z[0, :, 1] += z[0, :, 0]
        z[1, :, 0] *= 0.5
        z[1, :, 1] += z[1, :, 0]
        z[2, :, 1] *= 0.5
        blocks = Blocks.of(list(z), 16, basis.of)
        M, count = blocks.totals
        fit = additive.maximise(basis, M, count, torch.eye(2, dtype=torch.float64), (1, 2), 50)
        spread = additive.spread(basis, blocks, fit)
        at = int(spread.at[1, 1])
        found.append(float(spread.b[1, 1]))
        told_errors.append(float(spread.covariance[at, at].sqrt()))
    assert np.std(found) == pytest.approx(np.mean(told_errors), rel=0.45)
    assert np.mean(found) == pytest.approx(1.0, abs=4 * np.std(found) / 30**0.5)


def test_false_edges_of_polynomial_mechanisms_come_at_the_stated_rate():
    """Empty graphs of two latents, tests at 20 %: 8 expected of 40, with a deviation of 2.5."""
    basis, false = Monomials(2, 3), 0
    for seed in range(40):
        z = torch.randn(3, 600, 2, generator=seeded(seed), dtype=torch.float64)
        z[1, :, 0] *= 0.5
        z[2, :, 1] *= 0.5
        blocks = Blocks.of(list(z), 32, basis.of)
        M, count = blocks.totals
        fit = additive.maximise(basis, M, count, torch.eye(2, dtype=torch.float64), (1, 2), 50)
        doubt, sure = additive.doubt(basis, M, count, fit), torch.full((2, 2), torch.inf)
        false += bool(additive.edges(basis, additive.spread(basis, blocks, fit), doubt, sure, ALL)[1, 0] < 0.2)
    assert 1 <= false <= 18


def test_doubt_is_one_where_the_model_is_true_and_more_where_it_is_not():
    """z1 of z0 and z2 of z1 only, by a kink that no cubic follows; environments widen a latent five times."""
    basis = Monomials(3, 3)
    for kink, doubted in ((False, False), (True, True)):
        z = torch.randn(4, 20_000, 3, generator=seeded(1), dtype=torch.float64)
        for e in range(4):
            z[e, :, 0] *= 5**0.5 if e == 1 else 1
            z[e, :, 1] = z[e, :, 1] * 5**0.5 if e == 2 else z[e, :, 1] + z[e, :, 0]
            causes = 2 * (z[e, :, 1] - 0.5).relu() if kink else 0.2 * z[e, :, 1] ** 3 - z[e, :, 1]
            z[e, :, 2] = z[e, :, 2] * 5**0.5 if e == 3 else z[e, :, 2] + causes
        blocks = Blocks.of(list(z), 32, basis.of)
        M, count = blocks.totals
        fit = Fit(0.0, torch.eye(3, dtype=torch.float64), (1, 2, 3))
        doubt, spread = additive.doubt(basis, M, count, fit), additive.spread(basis, blocks, fit)
        assert doubt.freedom[0] == 0
        assert doubt.freedom[2] == 20
        assert (doubt.factor[2] > 5) == doubted
        assert doubt.factor[1] < 2
        sure = torch.full((3, 3), torch.inf)  # of the order
        p = additive.edges(basis, spread, doubt, sure, ALL)
        assert float(p[2, 0]) > 0.02
        assert float(p[1, 0]) < 1e-4
        assert float(p[2, 1]) < 1e-4
        trusting = additive.edges(basis, spread, doubt._replace(freedom=[0, 0, 0]), sure, ALL)
        assert (float(trusting[2, 0]) < 5e-3) == doubted  # the false edge that it takes away


def test_an_edge_is_no_surer_than_the_order_of_its_ends():
    z, basis = cubic(), Monomials(3, 2)
    blocks = Blocks.of(z, 16, basis.of)
    M, count = blocks.totals
    fit, later = additive.likeliest(basis, M, count, torch.eye(3, dtype=torch.float64), (1, 2, 3))
    assert fit.hits == (1, 2, 3)
    assert float(later[1, 0]) > 100
    doubt, spread = additive.doubt(basis, M, count, fit), additive.spread(basis, blocks, fit)
    assert float(additive.edges(basis, spread, doubt, later, ALL)[1, 0]) < 1e-6
    later[1, 0] = 3.84 * doubt.factor[1]
    assert float(additive.edges(basis, spread, doubt, later, ALL)[1, 0]) == pytest.approx(0.05, abs=1e-4)


def test_parts_are_what_causes_put_into_the_variance():
    """z1 = 2 z0 + z0^2 + e: in terms of the noise's variance 4 + 2, and cubics add nothing."""
    z = torch.randn(3, 40_000, 2, generator=seeded(), dtype=torch.float64)
    z[0, :, 1] += 2 * z[0, :, 0] + z[0, :, 0] ** 2
    z[1, :, 0] *= 0.5
    z[1, :, 1] += 2 * z[1, :, 0] + z[1, :, 0] ** 2
    parts = []
    for degree in (1, 2, 3):
        basis = Monomials(2, degree)
        M, count = Blocks.of(list(z), 16, basis.of).totals
        part = additive.parts(basis, M, count, Fit(0.0, torch.eye(2, dtype=torch.float64), (1, 2)))
        assert (part.triu() == 0).all()
        parts.append(part)
    pooled = torch.cat([z[0], z[1]])
    x = pooled[:, 0] - pooled[:, 0].mean()
    mean = 2 * pooled[:, 0] + pooled[:, 0].square()
    assert float(parts[1][1, 0]) == pytest.approx(80_000 * float(mean.var()), rel=0.03)
    b = float(x @ mean / (x @ x))
    unsaid = float((mean - mean.mean() - b * x).square().mean())
    assert float(parts[0][1, 0]) == pytest.approx(80_000 * b**2 * float(x.var()) / (1 + unsaid), rel=0.03)
    assert float(additive.lasting(parts[1], parts[2])[1, 0]) == pytest.approx(1, abs=0.01)
    assert float(additive.lasting(parts[0], parts[1])[1, 0]) < 1


def test_what_goes_away_with_the_degree_does_not_last():
    before, after = torch.tensor([1.0, 9.0, 9.0, 0.0]).double(), torch.tensor([1.0, 4.0, 16.0, 0.0]).double()
    assert additive.lasting(before, after).tolist() == pytest.approx([1, 0, 1 / 16, 1])


def test_with_few_rows_there_is_no_doubt():
    basis = Monomials(2, 3)
    z = torch.randn(3, 6, 2, generator=seeded(), dtype=torch.float64)
    M, count = Blocks.of(list(z), 2, basis.of).totals
    assert additive.doubt(basis, M, count, Fit(0.0, torch.eye(2).double(), (1, 2))).freedom == [0, 0]


# --- in closed form --------------------------------------------------------------------------------------------------


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10**6), n=st.integers(1, 6), kind=st.sampled_from(["hard", "soft"]))
def test_exact_moments_of_any_linear_model_give_order_and_latents(seed, n, kind):
    rng = seeded(seed)
    eye = torch.eye(n, dtype=torch.float64)
    scm = SCM.random(random_graph(n, probability=0.5, shuffle=True, rng=rng), rng=rng)
    turn = torch.linalg.qr(torch.randn(n, n, generator=rng, dtype=torch.float64)).Q
    blocks, mixing = population(scm, interventions(eye, kind), turn)
    T, count = blocks.totals
    flag = multinode.flags_by_likelihood(T, count, 10, every=eye)[0]
    assert flag.cost == pytest.approx(0.0, abs=1e-4)
    fit = multinode.mechanisms(T, count, flag.L, flag.hits)
    effect = (fit.H @ mixing)[flag.hits.argmax(1).argsort()]
    assert (effect.diagonal().abs() > 1e-3).all()
    assert float(effect.abs().where(~allowed(transitive_closure(scm.graph), kind), 0).max()) < 1e-4


# --- from samples ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["hard", "soft"])
@pytest.mark.parametrize("mechanism", [None, RandomQuadratic()])
@settings(max_examples=4, deadline=None)
@given(seed=st.integers(0, 10**6), n=st.integers(1, 5), scale=st.floats(0.01, 100))
def test_oracle_scores_of_any_mechanism(kind, mechanism, seed, n, scale):
    data, scm, mixing, dos = drawn(torch.eye(n), rows=3000, kind=kind, seed=seed, mechanism=mechanism)
    x = [scale * block for block in data.blocks]
    view = Environments.of(x[0], x[1:], targets=list(range(n)))
    code = LSCALE(latents=n, kind=kind, scores=oracle(scm, scale * mixing, dos), level=1e-4).fit(view, Run())
    truth = transitive_closure(scm.graph) if kind == "soft" else scm.graph
    wrong = (code.graph > 0.5) & ~truth
    assert not wrong.any()
    # soft: exact, in the observations' single precision; hard: a regression on samples
    rest = mixed(code, mixing).abs().where(~allowed(truth, kind), 0)
    assert float(rest.max()) < (1e-3 if kind == "soft" else 0.15)


@pytest.mark.parametrize("kind", ["hard", "soft"])
@pytest.mark.parametrize("density", [0.0, 0.5, 1.0])
def test_samples_of_a_linear_model_give_latents_and_graph_in_the_order_of_targets(kind, density):
    for seed in range(2):
        data, scm, mixing, _ = drawn(torch.eye(4), kind=kind, seed=seed, density=density, rows=8000)
        code = LSCALE(kind=kind, level=1e-4).fit(told(data, kind=kind), Run())
        truth = transitive_closure(scm.graph) if kind == "soft" else scm.graph
        assert torch.equal(code.graph > 0.5, truth)
        assert float(mixed(code, mixing).abs().where(~allowed(truth, kind), 0).max()) < 0.1
        assert torch.equal(code.intervention_matrix, torch.eye(4))


def test_hard_interventions_on_networks_give_latents_and_graph():
    found = []
    for seed in range(3):
        data, scm, mixing, _ = drawn(
            torch.eye(4), rows=10_000, seed=seed, mechanism=RandomMLP(), density=0.7, variance=5.0
        )
        code = LSCALE().fit(told(data), Run())
        assert float((mixed(code, mixing).abs() - torch.eye(4)).abs().max()) < 0.35
        found.append(int(((code.graph > 0.5) != scm.graph).sum()))
    assert np.mean(found) <= 1.5


def test_false_edges_that_kinks_make_go_away_with_the_degree():
    data, scm, mixing, _ = drawn(
        torch.eye(4), rows=20_000, seed=4, mechanism=RandomQuadratic(), density=0.7, variance=5.0
    )
    with pytest.warns(UserWarning, match=r"far from polynomials of degree 3: .* environments \d+ times"):
        cubic = LSCALE(degree=3).fit(told(data), Run())
    richer = LSCALE(degree=4).fit(told(data), Run())
    assert ((cubic.graph > 0.5) & ~scm.graph).any()
    assert torch.equal(richer.graph > 0.5, scm.graph)
    off = [float((mixed(code, mixing).abs() - torch.eye(4)).abs().max()) for code in (cubic, richer)]
    assert off[1] < 0.7 * off[0]
    assert len(richer.basis) == 70
    assert (richer.mechanisms[:, -35:] != 0).any()  # of degree four


def test_scores_of_full_rank_give_the_graph_itself_and_fewer_causes_in_a_latent():
    from whence.metrics.mixing import with_surrounding

    dropped = 0
    for seed in range(6):
        data, scm, mixing, dos = drawn(torch.eye(4), kind="soft", seed=seed, density=0.6, mechanism=RandomQuadratic())
        code = LSCALE(kind="soft", full_rank=True, scores=oracle(scm, mixing, dos)).fit(told(data, kind="soft"), Run())
        assert torch.equal(code.graph > 0.5, scm.graph)
        dropped += int((transitive_closure(scm.graph) & ~scm.graph).sum())
        may = torch.as_tensor(with_surrounding(scm.graph.numpy()))
        assert float(mixed(code, mixing).abs().where(~may, 0).max()) < 1e-2
    assert dropped >= 3


def test_linear_mechanisms_are_not_complex_enough_for_ranks():
    data, scm, mixing, dos = drawn(torch.eye(4), kind="soft", density=1.0)
    with pytest.warns(UserWarning, match="not of full rank"):
        LSCALE(kind="soft", full_rank=True, scores=oracle(scm, mixing, dos)).fit(told(data, kind="soft"), Run())


def test_learned_scores_on_halves():
    data, _, mixing, _ = drawn(THREE, rows=2000, density=1.0, mechanism=RandomQuadratic())
    code = LSCALE(scores=MulticlassRatio(hidden=(16,))).fit(told(data), Run())
    assert float((mixed(code, mixing).abs() - torch.eye(3)).abs().max()) < 0.3
    assert is_acyclic(code.graph > 0.5)


def test_permuted_environments_permute_nothing_but_what_is_told():
    data, *_ = drawn(THREE, seed=5)
    x = data.blocks
    code = LSCALE().fit(told(data), Run())
    other = LSCALE().fit(Environments.of(x[0], [x[3], x[1], x[2]], targets=[2, 0, 1]), Run())
    assert torch.allclose(other.encoder, code.encoder, atol=1e-3)
    assert torch.allclose(other.graph, code.graph, atol=1e-3)
    assert torch.equal(other.intervention_matrix.argmax(1), torch.tensor([1, 2, 0]))
    untold = LSCALE().fit(Environments.of(x[0], [x[3], x[1], x[2]]), Run())
    assert torch.allclose(untold.encoder[[1, 2, 0]], code.encoder, atol=1e-3)


def test_scale_and_origin_of_observations_do_not_matter():
    data, *_ = drawn(THREE, seed=5)
    x = [100 * block.double() + 3 for block in data.blocks]
    code, other = LSCALE(latents=3).fit(told(data), Run()), LSCALE(latents=3).fit(Environments.of(x[0], x[1:]), Run())
    assert torch.allclose(other.encoder * 100, code.encoder, rtol=1e-2, atol=1e-3)
    assert torch.allclose(other.graph, code.graph, atol=1e-2)


def test_coupled_environments_come_in_the_order_of_latents():
    data, *_ = drawn(THREE, seed=5)
    x = data.blocks
    view = Environments.of(x[0], [x[1], x[2], x[3], x[1], x[2], x[3]], groups=[0, 1, 2, 0, 1, 2])
    with pytest.warns(UserWarning, match="environment 4, environment 5, environment 6 is not looked at"):
        code = LSCALE().fit(view, Run())
    assert torch.allclose(code.encoder, LSCALE().fit(told(data), Run()).encoder, atol=1e-3)


def test_one_latent():
    data, *_ = drawn(torch.eye(1))
    code = LSCALE().fit(told(data), Run())
    assert code.encode(data.blocks[0]).std() == pytest.approx(1.0, abs=1e-3)
    assert code.graph.tolist() == [[0.0]]


# --- what fitting returns --------------------------------------------------------------------------------------------


def test_the_representation_encodes_decodes_and_intervenes_with_polynomials():
    rng, rows = seeded(0), 20_000
    mixing = torch.randn(5, 2, generator=rng, dtype=torch.float64)

    def sample(hit):
        z = torch.randn(rows, 2, generator=rng, dtype=torch.float64)
        z[:, 0] *= 0.5 if hit == 1 else 1.0
        z[:, 1] = 0.5 * z[:, 1] if hit == 2 else z[:, 0] ** 2 + z[:, 0] + z[:, 1]
        return z

    z = [sample(e) for e in range(3)]
    x = [(part @ mixing.T).float() for part in z]
    code = LSCALE(latents=2).fit(Environments.of(x[0], x[1:], targets=[0, 1]), Run())
    assert isinstance(code, CausalCode)
    assert isinstance(code, Decodes)
    assert isinstance(code, HasGraph)
    assert isinstance(code, Intervenes)
    assert torch.equal(code.graph > 0.5, torch.tensor([[False, True], [False, False]]))
    codes = code.encode(x[0])
    assert torch.allclose(code.decode(codes), x[0], atol=1e-3)
    scale, offset = np.polyfit(z[0][:, 0].numpy(), codes[:, 0].numpy(), 1)
    expected = z[0].clone()
    expected[:, 1] += 1.5**2 + 1.5 - expected[:, 0] ** 2 - expected[:, 0]
    expected[:, 0] = 1.5
    moved = code.do(x[0], {0: float(scale * 1.5 + offset)}).double()
    error = (moved - expected @ mixing.T).abs().mean()
    assert error < 0.1 * (expected @ mixing.T - x[0]).abs().mean()
    again = LSCALE(latents=2).skeleton(code.spec)
    again.load_state_dict(code.state_dict())
    assert torch.equal(again.do(x[0], {0: 1.0}), code.do(x[0], {0: 1.0}))


# --- what it refuses -------------------------------------------------------------------------------------------------


def test_what_the_view_tells_must_be_one_target_each():
    x = drawn(THREE)[0].blocks
    cases = [
        ({"targets": [0, {0, 1}, 2]}, "one latent each, and the view says otherwise of environment 2"),
        ({"targets": [0, 1, 3]}, "got none on 2"),
        ({"targets": [0, None, 2]}, "not told of environment 2"),
        ({"targets": [0, 1, 2], "kinds": "soft"}, re.escape("Use LSCALE(kind='soft')")),
    ]
    for fields, message in cases:
        with pytest.raises(ValueError, match=message):
            LSCALE().fit(Environments.of(x[0], x[1:], **fields), Run())


def test_fewer_environments_than_latents_and_fewer_dimensions():
    x = drawn(THREE)[0].blocks
    with pytest.raises(ValueError, match=r"one environment for each latent .3: 3 dimensions.*got 2"):
        LSCALE().fit(Environments.of(x[0], x[1:3]), Run())
    with pytest.raises(ValueError, match=r"got 2 for the 3 latents that are intervened on.*cannot be undone"):
        LSCALE().fit(Environments.of(x[0][:, :2], [y[:, :2] for y in x[1:]]), Run())


def test_an_environment_that_changes_nothing_is_named():
    data, scm, mixing, dos = drawn([[1, 0, 0], [0, 0, 0], [0, 0, 1]])
    with pytest.raises(ValueError, match="no difference from observational is seen in environment 2"):
        LSCALE().fit(told(data), Run())
    with pytest.raises(ValueError, match="no difference from observational is seen in environment 2"):
        LSCALE(scores=oracle(scm, mixing, dos)).fit(told(data), Run())
    x = [block[:60] for block in data.blocks]
    with pytest.warns(UserWarning, match="too few rows to see"):
        LSCALE(latents=3).fit(Environments.of(x[0], x[1:]), Run())


def test_a_control_that_is_repeated_and_duplicates():
    x = drawn(THREE)[0].blocks
    with pytest.raises(ValueError, match="no difference from observational is seen in environment 1"):
        LSCALE().fit(Environments.of(x[0], [x[0], *x[2:]]), Run())
    with pytest.raises(ValueError, match="environment 1 and environment 2 have the same distribution"):
        LSCALE().fit(Environments.of(x[0], [x[1], x[1], x[3]]), Run())


def test_constant_columns_are_no_hindrance_and_nan_rows_are_refused():
    data, *_ = drawn(THREE)
    x = [torch.cat([block, torch.ones(len(block), 1)], 1) for block in data.blocks]
    code = LSCALE().fit(Environments.of(x[0], x[1:]), Run())
    assert torch.allclose(code.encoder[:, :-1], LSCALE().fit(told(data), Run()).encoder, atol=1e-3)
    broken = data.blocks[1].clone()
    broken[0, 0] = torch.nan
    with pytest.raises(ValueError, match="NaN or infinity in 1 of"):
        LSCALE().fit(Environments.of(x[0], [broken, *x[2:]]), Run())


def test_too_few_rows_and_values_that_are_fixed():
    data, _, mixing, _ = drawn(THREE)
    x = [block[:4] for block in data.blocks]
    with pytest.raises(ValueError, match="more than 4 observations of 3 latents, got 4"):
        LSCALE(latents=3).fit(Environments.of(x[0], x[1:]), Run())
    z = data.blocks[1].double() @ torch.linalg.pinv(mixing).T
    z[:, 0] = 1.0
    view = Environments.of(data.blocks[0], [(z @ mixing.T).float(), *data.blocks[2:]])
    with pytest.raises(ValueError, match="environment 1 varies in fewer"):
        LSCALE(latents=3).fit(view, Run())


def test_interventions_that_look_soft_are_told():
    data, *_ = drawn(THREE, kind="soft", density=1.0, mechanism=RandomQuadratic(), rows=20_000, seed=1)
    with pytest.warns(UserWarning, match="as no hard intervention leaves it"):
        LSCALE().fit(told(data, kind=None), Run())


@pytest.mark.parametrize("gains", [(0.5, -0.3, 0.2, 2.0), (1.0, 1.0, 1.0, 1.0)])
def test_soft_interventions_on_linear_mechanisms_are_hard_ones_on_other_latents(gains):
    """Latents y = (I - C) z, with C the weights under interventions: the same laws in every environment."""
    n, rng = 4, seeded(3)
    B = torch.randn(n, n, generator=rng, dtype=torch.float64).tril(-1)
    C = torch.tensor(gains, dtype=torch.float64)[:, None] * B
    new = torch.eye(n) - C
    A = (B - C) @ torch.linalg.inv(new)  # mechanisms of y

    def model(weights):
        noise = Laplace(0.0, 1.0)
        mechanisms = [Additive(link=Linear(row[:i]) if i else None, noise=noise) for i, row in enumerate(weights)]
        return SCM.of(torch.ones(n, n).triu(1), mechanisms)

    z = 3 * torch.randn(50, n, generator=rng, dtype=torch.float64)
    y = z @ new.T  # of determinant one
    assert torch.allclose(model(B).log_prob(z), model(A).log_prob(y))
    for i, gain in enumerate(gains):
        soft, hard = {i: Soft(gain=gain, variance=0.25)}, {i: Hard(variance=0.25)}
        assert torch.allclose(model(B).log_prob(z, do=soft), model(A).log_prob(y, do=hard))
    if gains[0] == 1:  # only variances change
        assert not A.any()


def test_latents_that_look_hard_are_found_without_a_warning_where_interventions_are_soft_and_linear(recwarn):
    data, scm, mixing, _ = drawn(THREE, kind="soft", density=1.0, rows=50_000, seed=2)
    code = LSCALE().fit(told(data, kind=None), Run())
    assert not [str(w.message) for w in recwarn if "hard" in str(w.message)]
    new = torch.eye(3) - scm.gaussian.weights.T / 2  # soft interventions halve the weights
    assert torch.allclose(mixed(code, mixing).abs(), (new / new.norm(dim=1, keepdim=True)).abs(), atol=0.03)


def test_soft_interventions_on_other_than_linear_mechanisms_ask_for_other_scores():
    data, *_ = drawn(THREE, kind="soft", density=1.0, mechanism=RandomQuadratic(), rows=20_000)
    with pytest.warns(UserWarning, match="do not look like linear causal mechanisms"):
        LSCALE(kind="soft").fit(told(data, kind="soft"), Run())


def test_dependence_is_seen_where_it_is_and_not_where_it_is_not():
    z, basis = cubic(), Monomials(3, 2)
    M, count = Blocks.of(z, 8, basis.of).totals
    hard = additive.dependence(basis, M, count, Fit(0.0, torch.eye(3, dtype=torch.float64), (1, 2, 3)))
    assert float(hard.min()) > 1e-3
    z[3][:, 2] += 0.2 * z[3][:, 0] ** 2
    M, count = Blocks.of(z, 8, basis.of).totals
    soft = additive.dependence(basis, M, count, Fit(0.0, torch.eye(3, dtype=torch.float64), (1, 2, 3)))
    assert float(soft[2]) < 1e-9


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"kind": "do"}, "hard or soft"),
        ({"level": 2.0}, "between 0 and 1"),
        ({"degree": 0}, "at least 1"),
        ({"full_rank": True}, "full_rank reads the graph"),
    ],
)
def test_settings_are_checked(fields, message):
    with pytest.raises(ValueError, match=message):
        LSCALE(**fields)
