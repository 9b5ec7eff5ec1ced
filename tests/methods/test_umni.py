"""UMNI: known truth in closed form, with oracle scores, and from samples; what it must refuse."""

import re

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Generator

from whence.descend import Run
from whence.methods.score_based import _multinode as multinode
from whence.methods.score_based._multinode import Blocks
from whence.methods.score_based.umni import UMNI, UnmixedCode
from whence.representation import Decodes, HasGraph, Intervenes
from whence.scm import SCM, Hard, RandomQuadratic, Soft, random_graph, targets_of, transitive_closure
from whence.scores import Oracle
from whence.views import Environments

CHAIN = [[1, 1, 0], [0, 1, 1], [0, 0, 1]]


def seeded(seed=0):
    return Generator().manual_seed(seed)


def interventions(hits, kind="hard", **how):
    made = Hard(**{"variance": 0.25, **how}) if kind == "hard" else Soft(**{"gain": 0.5, "variance": 0.25, **how})
    return [None, *(dict.fromkeys(targets, made) for targets in targets_of(hits))]


def full_rank(n, m, rng):
    """A random intervention matrix of rank n in which every environment does something."""
    while True:
        hits = (torch.rand(n, m, generator=rng) < 0.5).double()
        if torch.linalg.matrix_rank(hits) == n and hits.any(0).all():
            return hits


def drawn(hits, *, rows=4000, kind="hard", seed=0, density=0.5, mechanism=None, **how):
    """Samples of a random model in n + 2 dimensions, with its truth."""
    n, rng = len(hits), seeded(seed)
    torch.manual_seed(seed)
    scm = SCM.random(random_graph(n, probability=density, rng=rng), mechanism, rng=rng)
    dos = interventions(hits, kind, **how)
    z = scm.sample_environments(rows, dos, rng=rng)
    mixing = torch.randn(n + 2, n, generator=rng, dtype=torch.float64)
    x = z @ mixing.T
    return Environments.of(x[0], list(x[1:])), scm, mixing, dos


def oracle(scm, mixing, dos):
    back = torch.linalg.pinv(mixing)
    return Oracle(
        lambda x: torch.stack([-scm.score_difference(x.double() @ back.T, do) @ back for do in dos[1:]]).to(x)
    )


def order_of(code, mixing, hits):
    """The latents in the order of the true ones, by what hits them; and encoder times mixing, rows of unit length."""
    rows = [tuple(row) for row in code.hits.int().tolist()]
    order = [rows.index(tuple(row)) for row in torch.as_tensor(hits).int().tolist()]
    effect = code.encoder.double()[order] @ mixing
    return order, effect / effect.norm(dim=1, keepdim=True)


def population(scm, dos, turn):
    """Second moments of (1, u) under each intervention, exact, u = turn z."""
    parts = []
    for do in dos:
        law = scm.do(do).gaussian
        one = torch.eye(1 + len(scm), dtype=torch.float64)
        one[0, 1:] = one[1:, 0] = law.mean
        one[1:, 1:] = law.covariance + torch.outer(law.mean, law.mean)
        parts.append(one)
    change = multinode.beside_one(turn)
    T = change @ torch.stack(parts) @ change.T
    white, W = multinode.whiten(T[0])
    rows = torch.full((len(dos),), 1e4, dtype=torch.float64)
    return Blocks((white @ T @ white.T)[:, None], rows[:, None]), W @ turn


# --- in closed form --------------------------------------------------------------------------------------------------


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10**6), n=st.integers(1, 5), more=st.integers(0, 1), kind=st.sampled_from(["hard", "soft"]))
def test_exact_moments_of_any_model_give_hits_order_and_latents(seed, n, more, kind):
    rng = seeded(seed)
    hits = full_rank(n, n + more, rng)
    scm = SCM.random(random_graph(n, probability=0.5, rng=rng), rng=rng)
    turn = torch.linalg.qr(torch.randn(n, n, generator=rng, dtype=torch.float64)).Q
    blocks, mixing = population(scm, interventions(hits, kind), turn)
    T, count = blocks.totals
    flag = multinode.flags_by_likelihood(T, count, 10)[0]
    assert flag.cost == pytest.approx(0.0, abs=1e-4)
    assert sorted(map(tuple, flag.hits.tolist())) == sorted(map(tuple, hits.tolist()))
    fit = multinode.mechanisms(T, count, flag.L, flag.hits)
    order = [flag.hits.tolist().index(row) for row in hits.tolist()]
    effect = (fit.H @ mixing)[order]
    allowed = torch.eye(n).bool() | (transitive_closure(scm.graph).T if kind == "soft" else torch.zeros(n, n).bool())
    assert (effect.diagonal().abs() > 1e-3).all()
    assert float(effect.abs().where(~allowed, 0).max()) < 1e-4
    if kind == "hard":
        strength = (fit.B[order][:, order] * effect.diagonal() / effect.diagonal()[:, None]).T
        assert torch.allclose(strength, scm.gaussian.weights, atol=1e-4)


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10**6), n=st.integers(2, 5), kind=st.sampled_from(["hard", "soft"]))
def test_exact_cross_moments_of_score_differences_give_the_flag_and_the_span_of_hits(seed, n, kind):
    rng = seeded(seed)
    hits = full_rank(n, n, rng)
    scm = SCM.random(random_graph(n, probability=0.5, rng=rng), rng=rng)
    blocks, _ = population(scm, interventions(hits, kind), torch.eye(n, dtype=torch.float64))
    T, count = blocks.totals
    theta = torch.linalg.inv(T[:, 1:, 1:])
    d = theta[1:] - theta[0]
    flag = multinode.flags_by_moments(torch.einsum("mij,kjl->mkil", d, d), 10)[0]
    assert flag.cost < 1e-9
    found = multinode.likeliest_hits(T, count, flag.L)
    assert sorted(map(tuple, found.tolist())) == sorted(map(tuple, hits.tolist()))
    again = multinode.flag_of(torch.einsum("mij,kjl->mkil", d, d), found)
    assert torch.allclose((again @ torch.linalg.inv(flag.L)).triu(1), torch.zeros(n, n).double(), atol=1e-5)


def test_slopes_are_the_gradient_of_the_likelihood():
    rng = seeded(3)
    n, hits = 3, torch.tensor(CHAIN, dtype=torch.float64)
    scm = SCM.random(random_graph(n, probability=1.0, rng=rng), rng=rng)
    z = scm.sample_environments(400, interventions(hits, shift=0.3), rng=rng)
    blocks = Blocks.of(list(z))
    T, count = blocks.totals
    fit = multinode.mechanisms(T, count, torch.eye(n, dtype=torch.float64), hits)
    fit = fit._replace(B=fit.B + 0.1 * torch.ones(n, n).tril(-1), a=fit.a + 0.05, v=fit.v * 1.1)
    z = [part @ fit.H.T for part in z]
    gradient, information = multinode.slopes(Blocks.of(z), fit, hits)

    def likelihood(p):
        E = torch.zeros(n, n, dtype=torch.float64)
        mix = (~torch.eye(n).bool()).nonzero()
        E = E.index_put((mix[:, 0], mix[:, 1]), p[: len(mix)])
        below = torch.ones(n, n).tril(-1).nonzero()
        at = len(mix)
        B = fit.B.index_put((below[:, 0], below[:, 1]), fit.B[below[:, 0], below[:, 1]] + p[at : at + len(below)])
        at += len(below)
        v = fit.v * p[at : at + 2 * n].view(n, 2).exp()
        a = fit.a + p[at + 2 * n :].view(n, 2)
        total = torch.zeros((), dtype=torch.float64)
        for g, rows in enumerate(z):
            k = torch.zeros(n).long() if g == 0 else hits[:, g - 1].long()
            A = (torch.eye(n).double() - B * (1 - k)[:, None]) @ (torch.eye(n).double() + E)
            sd = v[torch.arange(n), k].sqrt()
            r = (rows @ A.T - a[torch.arange(n), k]) / sd
            total = total + len(rows) * (torch.logdet(A.T @ A) / 2 - sd.log().sum()) - r.square().sum() / 2
        return total

    at = torch.zeros(gradient.shape[-1], dtype=torch.float64, requires_grad=True)
    (expected,) = torch.autograd.grad(likelihood(at), at)
    assert torch.allclose(gradient.sum((0, 1)), expected, rtol=1e-8, atol=1e-6)
    assert torch.linalg.eigvalsh(information)[0] > 0


def test_the_misfit_of_the_true_structure_is_as_large_as_its_degrees_of_freedom():
    hits = torch.tensor(CHAIN, dtype=torch.float64)
    found = []
    for seed in range(40):
        rng = seeded(seed)
        scm = SCM.random(random_graph(3, probability=0.7, rng=rng), rng=rng)
        blocks = Blocks.of(list(scm.sample_environments(500, interventions(hits), rng=rng)))
        found.append(multinode.refine(blocks, torch.eye(3, dtype=torch.float64), hits).cost)
    df = multinode.freedom(3, hits)
    assert np.mean(found) == pytest.approx(df, abs=4 * (2 * df / 40) ** 0.5)


def test_false_edges_come_at_the_stated_rate():
    """30 empty graphs, at 30 % for any false edge in a model: 9 expected, with a deviation of 2.5."""
    method, false = UMNI(latents=3, level=0.3), 0
    for seed in range(30):
        data, *_ = drawn(CHAIN, rows=600, seed=seed, density=0.0)
        false += bool((method.fit(data, Run()).graph > 0.5).any())
    assert 2 <= false <= 17


# --- from samples ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["hard", "soft"])
@pytest.mark.parametrize("seed", range(4))
def test_samples_of_a_linear_model_give_hits_latents_and_graph(seed, kind):
    hits = full_rank(4, 4, seeded(seed))
    data, scm, mixing, _ = drawn(hits, kind=kind, seed=seed)
    code = UMNI(kind=kind, level=1e-4).fit(data, Run())
    order, effect = order_of(code, mixing, hits)
    truth = transitive_closure(scm.graph) if kind == "soft" else scm.graph
    assert torch.equal(code.graph[order][:, order] > 0.5, truth)
    allowed = torch.eye(4).bool() | (truth.T if kind == "soft" else torch.zeros(4, 4).bool())
    assert float(effect.abs().where(~allowed, 0).max()) < 0.1
    assert code.targets == tuple(frozenset(order[i] for i in targets) for targets in targets_of(hits))


@pytest.mark.parametrize("kind", ["hard", "soft"])
@pytest.mark.parametrize("mechanism", [None, RandomQuadratic()])
def test_oracle_scores_of_any_mechanism(kind, mechanism):
    for seed in range(3):
        hits = full_rank(4, 4, seeded(seed))
        data, scm, mixing, dos = drawn(hits, kind=kind, seed=seed, mechanism=mechanism)
        code = UMNI(kind=kind, scores=oracle(scm, mixing, dos)).fit(data, Run())
        order, effect = order_of(code, mixing, hits)
        truth = transitive_closure(scm.graph) if kind == "soft" else scm.graph
        assert torch.equal(code.graph[order][:, order] > 0.5, truth)
        allowed = torch.eye(4).bool() | (truth.T if kind == "soft" else torch.zeros(4, 4).bool())
        # soft: exact, in the observations' single precision; hard: a regression on samples
        assert float(effect.abs().where(~allowed, 0).max()) < (1e-4 if kind == "soft" else 0.1)


def test_the_order_of_environments_and_the_scale_of_latents_and_observations_do_not_matter():
    hits = torch.tensor(CHAIN)
    data, _, _, _ = drawn(hits, seed=5)
    x = [block.double() for block in data.blocks]
    code = UMNI(latents=3).fit(data, Run())
    moved = Environments.of(100 * x[0] + 3, [100 * x[e] + 3 for e in (3, 1, 2)])
    other = UMNI(latents=3).fit(moved, Run())
    assert torch.equal(other.hits, code.hits[:, [2, 0, 1]])
    assert torch.allclose(other.encoder * 100, code.encoder, rtol=1e-2, atol=1e-3)
    assert torch.allclose(other.graph, code.graph, atol=1e-3)


def test_more_environments_than_latents_and_one_that_repeats():
    hits = [[1, 1, 0, 1, 0], [0, 1, 1, 0, 1], [0, 0, 1, 0, 1]]
    data, _, mixing, _ = drawn(hits)
    code = UMNI().fit(data, Run())
    _, effect = order_of(code, mixing, hits)
    assert torch.allclose(effect.abs(), torch.eye(3, dtype=torch.float64), atol=0.1)
    assert code.intervention_matrix.shape == (3, 5)


def test_interventions_that_only_shift_the_mean():
    data, *_ = drawn(CHAIN, density=0.0, variance=None, shift=1.0)
    code = UMNI().fit(data, Run())
    assert sorted(map(tuple, code.hits.int().tolist())) == sorted(map(tuple, CHAIN))


def test_one_latent():
    data, *_ = drawn([[1, 1]])
    code = UMNI().fit(data, Run())
    assert code.hits.tolist() == [[True, True]]
    assert code.encode(data.blocks[0]).std() == pytest.approx(1.0, abs=1e-3)


def test_no_edges_and_all_edges():
    for density in (0.0, 1.0):
        data, scm, mixing, _ = drawn(CHAIN, density=density, seed=2)
        code = UMNI(level=1e-4).fit(data, Run())
        order, _ = order_of(code, mixing, CHAIN)
        assert torch.equal(code.graph[order][:, order] > 0.5, scm.graph)


# --- what fitting returns --------------------------------------------------------------------------------------------


def test_the_representation_encodes_decodes_and_intervenes():
    data, scm, mixing, _ = drawn(CHAIN, rows=20_000, density=1.0, seed=1)
    code = UMNI(latents=3).fit(data, Run())
    assert isinstance(code, UnmixedCode)
    assert isinstance(code, Decodes)
    assert isinstance(code, HasGraph)
    assert isinstance(code, Intervenes)
    x = data.blocks[0][:200]
    z = code.encode(x)
    assert torch.allclose(code.decode(z), x, atol=1e-3)
    order, _ = order_of(code, mixing, CHAIN)
    scale = (code.encoder.double()[order] @ mixing).diagonal()
    truth = x.double() @ torch.linalg.pinv(mixing).T
    value = 1.5
    offset = float((scale[0] * truth[:, 0] - z[:, order[0]].double()).mean())
    expected = scm.counterfactual(truth, {0: value}) @ mixing.T
    moved = code.do(x, {order[0]: float(scale[0]) * value - offset})
    assert (moved - expected).abs().mean() < 0.05 * (expected - x).abs().mean()
    assert torch.allclose(code.do(x, {0: lambda z: z}), x, atol=1e-4)
    with pytest.raises(IndexError, match="numbered 0 to 2, got 7"):
        code.do(x, {7: 0.0})


def test_the_number_of_latents_is_read_off_the_data():
    data, *_ = drawn(CHAIN)
    code = UMNI().fit(data, Run())
    assert code.dims == 3
    again = UMNI().skeleton(code.spec)
    again.load_state_dict(code.state_dict())
    assert torch.equal(again.encode(data.blocks[0]), code.encode(data.blocks[0]))


# --- what it refuses -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("hits", "likelihood", "told"),
    [
        (
            [[1, 1, 0], [0, 0, 1], [1, 1, 1]],
            "environment 1 and environment 2 hit the same latents",
            "linearly dependent",
        ),
        ([[1, 1, 0], [1, 1, 0], [0, 1, 1]], "some latents are only hit together", "linearly dependent"),
        ([[1, 0, 0], [0, 1, 0], [0, 0, 0]], "no difference from observational is seen in environment 3", "are zero"),
        ([[1, 1, 0], [0, 0, 1], [0, 0, 0]], "environment 1 and environment 2", "environment 1, environment 2"),
    ],
)
def test_a_rank_deficient_intervention_matrix_is_refused_with_the_reason(hits, likelihood, told):
    data, scm, mixing, dos = drawn(hits)
    with pytest.raises(ValueError, match=f"rank 3, the number of latents, got rank 2: .*{likelihood}"):
        UMNI().fit(data, Run())
    with pytest.raises(ValueError, match=f"span 2 dimensions.*{told}"):
        UMNI(scores=oracle(scm, mixing, dos)).fit(data, Run())


def test_an_idle_environment_beside_enough_others_is_told():
    data, *_ = drawn([[1, 0, 0, 0], [0, 1, 0, 0], [0, 1, 1, 0]], seed=4)
    with pytest.warns(UserWarning, match="No difference from observational is seen in environment 4"):
        UMNI().fit(data, Run())


def test_too_few_environments_too_many_too_few_rows():
    data, *_ = drawn([[1, 0], [0, 1], [1, 1]])
    with pytest.raises(ValueError, match="at least as many interventional environments as latents, got 2 for 3"):
        UMNI().fit(data, Run())
    data, *_ = drawn(np.ones((1, 15)), rows=50)
    with pytest.raises(ValueError, match="at most 14 of them, got 15"):
        UMNI().fit(data, Run())
    x = [block[:4] for block in drawn(CHAIN)[0].blocks]
    with pytest.raises(ValueError, match=re.escape("more than 4 observations of 3 latents, got 4")):
        UMNI(latents=3).fit(Environments.of(x[0], x[1:]), Run())


def test_an_environment_that_fixes_a_value_is_refused():
    data, _, mixing, _ = drawn(CHAIN)
    z = data.blocks[1].double() @ torch.linalg.pinv(mixing).T
    z[:, 0] = 1.0
    blocks = data.blocks[0].double(), (z @ mixing.T), *data.blocks[2:]
    with pytest.raises(ValueError, match="environment 1 varies in fewer"):
        UMNI(latents=3).fit(Environments.of(blocks[0], [x.float() for x in blocks[1:]]), Run())


def test_soft_interventions_are_not_taken_for_hard_ones():
    x = drawn(CHAIN, kind="soft")[0].blocks
    view = Environments.of(x[0], x[1:], kinds="soft")
    with pytest.raises(ValueError, match=re.escape("Use UMNI(kind='soft')")):
        UMNI().fit(view, Run())


def test_mechanisms_that_are_not_linear_are_told():
    data, *_ = drawn(CHAIN, density=1.0, mechanism=RandomQuadratic(), rows=20_000)
    with pytest.warns(UserWarning, match="do not look like linear causal mechanisms"):
        UMNI().fit(data, Run())


def test_linear_mechanisms_with_heavy_tails_fit_as_well_as_they_should():
    from whence.scm import RandomLinear

    codes = [UMNI().fit(drawn(CHAIN, mechanism=RandomLinear(noise="laplace"), seed=s)[0], Run()) for s in range(8)]
    assert np.mean([float(code.misfit[0]) for code in codes]) == pytest.approx(15, abs=4 * (30 / 8) ** 0.5)


@pytest.mark.parametrize(
    ("fields", "message"),
    [({"kind": "do"}, "hard or soft"), ({"level": 2.0}, "between 0 and 1"), ({"beam": 0}, "at least 1")],
)
def test_settings_are_checked(fields, message):
    with pytest.raises(ValueError, match=message):
        UMNI(**fields)
