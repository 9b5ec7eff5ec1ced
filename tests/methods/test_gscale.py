"""GSCALE: the truth has no loss, products equal Jacobians, samples give latents and graphs; what must be refused."""

import itertools
from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from torch import Generator

from whence import fit
from whence.descend import Run
from whence.fit import as_view
from whence.methods import GSCALE, ContrastiveCRL, InterventionalAE
from whence.methods.score_based import _graph as graphs
from whence.methods.score_based._embedding import embedding
from whence.methods.score_based._maps import Bent, set_linear
from whence.methods.score_based._pairs import (
    between,
    cheapest_pairing,
    find_pairs,
    pulled,
    pulled_in_chunks,
    told_pairs,
)
from whence.methods.score_based.fronts import (
    Blurred,
    Convolutional,
    Either,
    Principal,
    TanhCode,
    TanhLinear,
    small_bytes,
)
from whence.methods.score_based.gscale import Quality, encoded, sources
from whence.metrics import mcc, r2, shd
from whence.nets import MLP, Conv64
from whence.representation import Decodes, HasGraph, Intervenes
from whence.scm import RandomQuadratic
from whence.scores import Oracle, PictureRatio
from whence.scores.pictures import floats
from whence.terms.changes import leak, mean_changes
from whence.views import Environments
from whence.worlds import Balls, Mixed
from whence.worlds.mixing import MLPMixing, TanhMixing

TWO = {"kind": "hard", "per_node": 2, "scale": (0.25, 4.0)}
SHORT = replace(GSCALE.recipe, steps=300)


def seeded(seed=0):
    return Generator().manual_seed(seed)


def world(n=3, seed=0, mixing=None, dims=20):
    return Mixed(
        nodes=n, dims=dims, mechanism=RandomQuadratic(), mixing=mixing or TanhMixing(), density=0.7, model_seed=seed
    )


def quality(fitted, w, rows=2_000):
    v = w.draw(rows, rng=seeded(9))
    return mcc(fitted.representation.encode(w.observe(v)).numpy(), v.numpy())


# --- closed forms ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mixing", [TanhMixing(), MLPMixing()])
@pytest.mark.parametrize("seed", range(3))
def test_with_true_score_differences_the_true_decoder_has_no_loss(mixing, seed):
    w = world(4, seed, mixing)
    z = w.scm.sample(200, rng=seeded(seed))
    told = w.score_differences(**TWO)
    d = w.map.push(z, told.latent(z))
    pairs = told_pairs(w.environments(**TWO), 2)
    D = mean_changes(pulled(w.map, z, between(d, pairs)))
    assert float(leak(D, z.std(0))) < 1e-6
    turn = torch.linalg.qr(torch.randn(4, 4, generator=seeded(seed), dtype=torch.float64)).Q
    mixed = mean_changes(pulled(lambda u: w.map(u @ turn), z @ turn.T, between(d, pairs)))
    assert float(leak(mixed, (z @ turn.T).std(0))) > 0.1


def test_a_difference_from_the_observational_environment_has_components_along_causes_only():
    w = world(4, 1)
    z = w.scm.sample(200, rng=seeded())
    D = mean_changes(w.score_differences(kind="hard").latent(z))
    assert torch.equal(D > 0, w.scm.graph.T | torch.eye(4).bool())


@pytest.mark.parametrize("net", [MLP(hidden=(7,)), Conv64(width=2)])
def test_products_equal_the_explicit_jacobian(net):
    torch.manual_seed(0)
    shape = (6,) if isinstance(net, MLP) else (1, 64, 64)
    decode = net.decoder(3, shape).double()
    z, d = torch.randn(5, 3).double(), torch.randn(2, 5, *shape).double()
    J = torch.stack([torch.autograd.functional.jacobian(lambda at: decode(at[None])[0], row) for row in z]).flatten(
        1, -2
    )
    expected = torch.einsum("bxk,pbx->pbk", J, d.flatten(2))
    assert torch.allclose(pulled(decode, z, d), expected, atol=1e-12)
    assert torch.allclose(pulled_in_chunks(decode, z, d, rows=2), expected, atol=1e-12)


@pytest.mark.parametrize("hidden", [(), (8,), (8, 5)])
def test_the_sweep_of_a_bent_map_equals_automatic_differentiation(hidden):
    torch.manual_seed(0)
    maps = Bent(2, 3, 4, hidden).double()
    with torch.no_grad():
        for p in maps.parameters():
            p.normal_()
    z, v = torch.randn(2, 6, 3).double(), torch.randn(2, 5, 6, 4).double()
    out, products = maps.pull(z, v)
    assert torch.allclose(out, maps(z))
    for r in range(2):
        one = Bent(1, 3, 4, hidden).double()
        one.load_state_dict(maps.member(r))
        assert torch.allclose(products[r], pulled(lambda at, one=one: one(at[None])[0], z[r], v[r]))


def test_the_gradient_of_the_objective_equals_that_through_automatic_products():
    torch.manual_seed(0)
    maps = Bent(1, 3, 3, (5,)).double()
    z, d = torch.randn(9, 3).double(), torch.randn(3, 9, 3).double()
    one = leak(mean_changes(maps.pull(z[None], d[None])[1])[0], z.std(0))
    at = z.clone().requires_grad_()
    two = leak(mean_changes(pulled(lambda u: maps(u[None])[0], at, d, graph=True)), z.std(0))
    weights = [*maps.rest.weights, maps.slope]
    for a, b in zip(torch.autograd.grad(one, weights), torch.autograd.grad(two, weights), strict=True):
        assert torch.allclose(a, b)


def test_tanh_linear_codes_are_a_linear_map_of_latents_and_products_have_a_closed_form():
    w = world(3, 2, dims=12)
    v = w.draw(1_000, rng=seeded())
    x = w.observe(v)
    code = TanhLinear().build((12,), 3)
    assert TanhLinear().learn(code, [lambda: [x]], None) < 1e-6
    y = code.encode(x)
    fit_ = torch.linalg.lstsq(v.double(), y.double())
    assert float((v.double() @ fit_.solution - y).abs().max()) < 1e-2 * float(y.std())
    assert torch.allclose(torch.cov(y.T), torch.eye(3), atol=0.01)
    code = code.double()
    y, d = y[:50].double(), torch.randn(2, 50, 12).double()
    closed = (d * (1 - code.decode(y).square())) @ code.basis
    assert torch.allclose(pulled(code.decode, y, d), closed)


def test_pairings_and_orders_are_the_best_of_all():
    rng = seeded(4)
    for _ in range(10):
        cost = torch.rand(6, 6, generator=rng).triu(1)

        def total(pairs, cost=cost):
            return sum(float(cost[a, b]) for a, b in pairs)

        every = [[tuple(sorted(p[i : i + 2])) for i in (0, 2, 4)] for p in itertools.permutations(range(6))]
        assert total(cheapest_pairing(cost)) == pytest.approx(min(map(total, every)))
        weight = torch.rand(5, 5, generator=rng)

        def forward(order, weight=weight):
            return sum(float(weight[a, b]) for k, a in enumerate(order) for b in order[k + 1 :])

        assert forward(graphs.causal_order(weight)) == pytest.approx(
            max(map(forward, itertools.permutations(range(5))))
        )


def test_who_shares_a_target_is_seen_in_true_differences():
    for seed, mixing in ((0, TanhMixing()), (1, MLPMixing())):
        w = world(3, seed, mixing, dims=10)
        design = {**TWO, "shuffle": True, "seed": 5}
        z = w.scm.sample(1_500, rng=seeded(seed))
        d = w.map.push(z, w.score_differences(**design).latent(z))
        found = find_pairs(w.map(z), d, straight=False)
        told = told_pairs(w.environments(**design), 2)
        assert {p[:2] for p in found} == {p[:2] for p in told}


def test_kolmogorov_equals_scipy():
    from scipy.stats import ks_2samp

    a, b = torch.randn(50, 2, generator=seeded(1)), torch.randn(80, 2, generator=seeded(2)) + 0.3
    expected = [ks_2samp(a[:, k].numpy(), b[:, k].numpy()).statistic * np.sqrt(50 * 80 / 130) for k in range(2)]
    assert graphs.kolmogorov(a, b).tolist() == pytest.approx(expected, rel=1e-5)


def test_an_embedding_of_a_rolled_sheet_does_not_fold_and_its_plain_projection_does():
    rng = seeded(3)
    t = 1.5 + 6 * torch.rand(1_500, generator=rng)
    h = 10 * torch.rand(1_500, generator=rng)
    y = torch.stack([t * t.cos(), h, t * t.sin()], 1)
    found = embedding(y, 2)
    assert found.folding < 1.5
    r = np.abs(np.corrcoef(found.at.T.numpy(), torch.stack([(t**2)[found.points], h[found.points]]).numpy())[:2, 2:])
    assert r.max(0).min() > 0.95
    from whence.methods.score_based._embedding import folding

    assert folding(y.double(), y[:, [0, 1]].double()) > 2


def test_of_blurred_pictures_some_coordinates_are_nearly_positions():
    w = Balls(balls=1)
    v = w.draw(1_200, rng=seeded(4))
    starts = Convolutional().build(w.shape, 2).starts([w.observe(v)], 2)
    narrow, wide = (r2(start[:, :2].numpy(), v.numpy()) for start in (starts[0], starts[3]))
    assert wide > 0.95
    assert wide > narrow
    found = embedding(v, 2, [v[:, :1].repeat(1, 2), v @ torch.tensor([[1.0, 2.0], [0.5, -1.0]])])
    assert found.folding < 1.5
    assert len(found.points) == len(v)


def short_front(kind, **settings):
    return kind(steps=0.1, width=8, **settings)


@pytest.mark.parametrize("balls", [1, 3])
def test_blurred_pictures_are_nearly_a_linear_map_of_positions_where_nothing_is_hidden(balls):
    w = Balls(balls=balls, apart=True)
    v = w.draw(600, rng=seeded(4))
    x = w.observe(v)
    front = short_front(Blurred)
    code = front.build(w.shape, 2 * balls)
    front.learn(code, [lambda: x.split(100)], Run(recipe=SHORT))
    y = code.encode(x)
    assert y.shape == (600, 2 * balls)
    assert code.rank == code.dims
    assert r2(y.numpy(), v.numpy()) > 0.99
    assert y.var(0).tolist() == pytest.approx([1 / y.shape[1]] * y.shape[1], rel=0.01)
    assert code.decode(y[:3]).shape == (3, *w.shape)


@pytest.mark.parametrize("front", [Blurred(width=2, side=8), Convolutional(width=2, side=8)])
def test_pictures_are_differentiable_in_their_code(front):
    torch.manual_seed(0)
    code = front.build((3, 16, 16), 4).double()
    y, d = torch.randn(2, code.dims).double(), torch.randn(1, 2, 3, 16, 16).double()
    J = torch.stack([torch.autograd.functional.jacobian(lambda at: code.decode(at[None])[0], row) for row in y])
    assert torch.allclose(pulled(code.decode, y, d), torch.einsum("bchwk,pbchw->pbk", J, d), atol=1e-12)
    with pytest.raises(ValueError, match="side divides"):
        front.build((3, 20, 20), 4)


def test_principal_components_of_blurred_pictures_see_grey_things_too():
    w = Balls(balls=1)
    v = w.draw(400, rng=seeded(4))
    x = w.observe(v).mean(1, keepdim=True)
    front = short_front(Blurred)
    code = front.build((1, 64, 64), 2)
    front.learn(code, [lambda: [x]], Run(recipe=SHORT))
    assert r2(code.encode(x).numpy(), v.numpy()) > 0.99


def test_differences_learned_on_pictures_are_carried_by_the_jacobian_of_the_decoder():
    view = Balls(balls=1).environments(**TWO)
    ratio = PictureRatio(width=1, recipe=replace(PictureRatio().recipe, steps=1, every=1))
    method = GSCALE(on="pictures", scores=ratio, front=short_front(Blurred), examples=12)
    run = Run(recipe=replace(SHORT, steps=2, every=1))
    x = sources(view, method.examples, run)
    code = method.skeleton(view.spec._replace(latents=2))
    method.code(code.front, x, run, view.spec)
    y = [encoded(code.front, source(), "cpu") for source in x]
    u, _, lost = method.reduced(code, y, x[0], run)
    assert lost == (0.0, 1.0)
    d = method.differences(code, x, y, u, Run(recipe=run.recipe))
    pictures = [torch.cat([small_bytes(code.front, part) for part in source()]) for source in x]
    there = ratio.fit(pictures, run=Run(recipe=run.recipe)).differences(floats(pictures[0]))

    def small(at):
        return code.front.small(code.front.decode(code.reducer.decoder(at[None, None])[0]))[0]

    J = torch.stack([torch.autograd.functional.jacobian(small, row) for row in u[0]])
    assert d.shape == (4, 12, 2)
    assert torch.allclose(d, torch.einsum("bchwk,ebchw->ebk", J, there), atol=1e-5 * float(d.abs().max()))


@dataclass(frozen=True, kw_only=True)
class Losing(Principal):
    """Says that it lost so much."""

    lost: float

    def learn(self, code, environments, run, attempt=1):
        super().learn(code, environments, run, attempt)
        return self.lost


@pytest.mark.parametrize("lost", [0.01, 0.5])
def test_the_first_front_that_keeps_what_there_is_is_used(lost):
    x = torch.randn(50, 6, generator=seeded())
    front = Either(first=Losing(dims=2, lost=lost), second=Principal(dims=5))
    code = front.build((6,), 2)
    assert front.learn(code, [lambda: [x]], None) == pytest.approx(lost if lost < 0.1 else 0, abs=0.2)
    assert bool(code.fell) == (lost > 0.1)
    y = code.encode(x)
    assert y.shape == (50, 5)
    assert code.rank == (5 if lost > 0.1 else 2)
    assert torch.equal(y[:, code.rank :], torch.zeros(50, 5 - code.rank))
    assert code.decode(y).shape == x.shape
    again = front.build((6,), 2)
    again.load_state_dict(code.state_dict())
    assert torch.equal(again.encode(x), y)


def test_a_world_is_asked_for_the_environments_that_a_method_wants():
    assert len(as_view(GSCALE(), Mixed()).told) == 10
    assert len(as_view(ContrastiveCRL(), Mixed()).told) == 5
    assert {env.value for env in as_view(InterventionalAE(), Mixed()).told} == {-1.0, 0.0, 1.0}


# --- graphs ----------------------------------------------------------------------------------------------------------


def causes(w, rows=4_000, error=0.0, level=0.01):
    view = w.environments(**TWO)
    z = view.draw(rows, seeded(1))
    n = z.shape[2]
    mixing = torch.eye(n) + error * torch.randn(n, n, generator=seeded(7))
    m, s = z[:, 0].mean(0), z[:, 0].std(0)
    z = [(z[:, e] - m) / s @ mixing.T for e in range(z.shape[1])]
    return graphs.confidence_of_samples(graphs.causes_from_samples(z, [(1 + i, 1 + n + i) for i in range(n)], level))


@pytest.mark.parametrize("seed", range(3))
def test_true_latents_give_the_graph_and_small_errors_of_codes_do_not_change_it(seed):
    w = world(4, seed)
    for error in (0.0, 0.02):
        assert shd(causes(w, error=error), w.scm.graph.double()) <= 1


def test_false_edges_are_rare():
    false = 0
    for seed in range(8):
        w = replace(world(3, seed), density=0.0)
        false += int((causes(w, rows=1_500, level=0.05) > 0.5).sum())
    assert false <= 2


def test_units_do_not_change_a_graph_read_from_true_differences():
    w = world(4, 0)
    z = w.scm.sample(300, rng=seeded())
    told = w.score_differences(**TWO).latent(z)
    pairs = told_pairs(w.environments(**TWO), 2)
    D, D0 = mean_changes(between(told, pairs)), mean_changes(told[:4])
    units = torch.tensor([0.01, 1.0, 30.0, 5.0]).double()
    one = graphs.confidence_of_differences(D0, D, z.std(0))
    two = graphs.confidence_of_differences(D0 / units, D / units, z.std(0) * units)
    assert torch.allclose(one, two)
    assert torch.equal(one > 0.5, w.scm.graph)


# --- fits ------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def tanh():
    w = world(3, 0)
    return w, fit(GSCALE(front=TanhLinear(), examples=3_000), w.environments(**TWO), recipe=SHORT)


def test_samples_give_latents_and_graph(tanh):
    w, fitted = tanh
    assert quality(fitted, w) > 0.99
    assert shd(fitted.representation.graph, w.scm.graph.double()) == 0
    assert fitted.representation.identified == (True,) * 3
    assert fitted.representation.environments == ((1, 4), (2, 5), (3, 6))
    assert not fitted.representation.quality.failed


def test_scores_learned_again_on_the_latents_found_are_those_of_the_reduced_code(tanh):
    w, fitted = tanh
    code, method = fitted.representation, fitted.method
    x = [torch.cat(list(w.environments(**TWO).rows(e, 3_000, seeded(e)))) for e in range(7)]
    u = [code.front.encode(rows) for rows in x]  # as many as latents: nothing is reduced
    got = method.sharper(code, u, Run(recipe=SHORT))
    z = w.map.inverse(x[0].double())
    true = torch.linalg.solve(torch.linalg.lstsq(z, u[0].double()).solution, w.score_differences(**TWO).latent(z).mT).mT
    for e in range(6):
        assert torch.corrcoef(torch.stack([got[e].flatten().double(), true[e].flatten()]))[0, 1] > 0.9


def test_codes_come_in_the_order_of_told_targets_and_decode(tanh):
    w, fitted = tanh
    r = fitted.representation
    assert isinstance(r, Decodes)
    assert isinstance(r, HasGraph)
    assert isinstance(r, Intervenes)
    v = w.draw(1_000, rng=seeded(3))
    x = w.observe(v)
    z = r.encode(x)
    own = np.abs(np.corrcoef(z.T.numpy(), v.T.numpy())[:3, 3:])
    assert own.diagonal().min() > 0.98
    assert float((r.decode(z) - x).square().mean() / x.var()) < 0.01
    assert z.std(0).tolist() == pytest.approx([1] * 3, abs=0.15)


def test_do_moves_a_latent_and_its_effects_and_nothing_else(tanh):
    w, fitted = tanh
    r = fitted.representation
    x = w.observe(w.draw(200, rng=seeded(5)))
    assert torch.allclose(r.do(x, {}), x, atol=1e-5)
    for i in range(3):
        z, new = r.encode(x), r.encode(r.do(x, {i: 0.7}))
        moved = (new - z).abs().mean(0) > 0.03
        down = w.scm.graph[i] | (w.scm.graph[i].float() @ w.scm.graph.float() > 0)
        down[i] = True
        assert float((new[:, i] - 0.7).abs().max()) < 0.1
        assert torch.equal(moved & ~down, torch.zeros(3).bool())
    with pytest.raises(IndexError, match="numbered 0 to 2"):
        r.do(x, {3: 0.0})


def test_true_differences_and_unknown_partners_give_the_same():
    w = world(3, 1)
    design = {**TWO, "targets": "unknown", "shuffle": True}
    method = GSCALE(
        front=TanhLinear(), examples=200, per_node=2, scores=Oracle(w.score_differences(**{**TWO, "shuffle": True}))
    )
    fitted = fit(method, w.environments(**design), recipe=SHORT)
    assert quality(fitted, w) > 0.999
    made = [targets for targets, _ in w.score_differences(**{**TWO, "shuffle": True}).design.environments(3)]
    assert all(made[a - 1] == made[b - 1] for a, b in fitted.representation.environments)
    assert fitted.representation.quality.leak < 1e-4


def test_the_published_objective_ends_at_the_truth_too():
    w = world(3, 1)
    method = GSCALE(
        front=TanhLinear(), examples=200, objective="axes", scores=Oracle(w.score_differences(**TWO)), restarts=2
    )
    assert quality(fit(method, w.environments(**TWO), recipe=SHORT), w) > 0.999


def test_only_latents_with_two_interventions_are_said_to_be_identified():
    w = world(3, 0)
    view = w.environments(**TWO)
    x = [torch.cat(list(view.rows(e, 2_000, seeded(e)))) for e in range(7)]
    part = Environments.of(x[0], [x[1], x[4], x[2]], targets=[0, 0, 1], kinds="hard")
    fitted = fit(GSCALE(front=TanhLinear(), latents=3, examples=2_000), part, recipe=SHORT)
    assert fitted.representation.identified == (True, False, False)
    assert fitted.representation.environments == ((1, 2), (0, 3), None)
    assert not (fitted.representation.graph[2] > 0.5).any()
    v = w.draw(1_000, rng=seeded(1))
    own = np.corrcoef(fitted.representation.encode(w.observe(v))[:, 0], v[:, 0])[0, 1]
    assert abs(own) > 0.98
    one = fit(GSCALE(front=TanhLinear(), examples=500), w.environments(), recipe=replace(SHORT, steps=20))
    assert one.representation.identified == (False,) * 3


def test_a_mixing_that_is_not_known_is_reduced_and_undone():
    w = Mixed(nodes=2, dims=6, mixing=MLPMixing(layers=2), density=1.0, model_seed=3)
    fitted = fit(
        GSCALE(front=Principal(dims=6), hidden=(32,), reducing=(32, 32), examples=3_000, restarts=2),
        w.environments(**TWO),
        recipe=replace(GSCALE.recipe, steps=400),
    )
    assert quality(fitted, w) > 0.9
    assert fitted.representation.quality.reduction < 0.05


def test_pictures_pass_through_all_stages_and_a_killed_run_goes_on(tmp_path):
    w = Balls(balls=1)
    method = GSCALE(front=Convolutional(dims=4, side=16, width=2), examples=60, restarts=1, hidden=(4,), reducing=(4,))
    recipe, view = replace(GSCALE.recipe, steps=4, batch=8, every=2), w.environments(**TWO)
    with pytest.warns(UserWarning, match="does not trust its latents"):
        whole = fit(method, view, recipe=recipe)
    x = w.observe(w.draw(3, rng=seeded()))
    r = whole.representation
    assert r.decode(r.encode(x)).shape == (3, 3, 64, 64)
    assert r.do(x, {0: 1.0}).shape == x.shape
    assert {"autoencoder-1", "scores-0", "embedding-1", "reduction-1", "train"} <= set(whole.curves)
    original = GSCALE.orient

    def killed(*_):
        raise KeyboardInterrupt

    try:
        GSCALE.orient = killed
        with pytest.raises(KeyboardInterrupt):
            fit(method, view, recipe=recipe, into=tmp_path / "run", save_every=0)
    finally:
        GSCALE.orient = original
    assert (tmp_path / "run" / "checkpoint-autoencoder-1.safetensors").exists()
    with pytest.warns(UserWarning, match="does not trust its latents"):
        again = fit(method, view, recipe=recipe, into=tmp_path / "run", save_every=0)
    for name, tensor in r.state_dict().items():
        assert torch.equal(tensor, again.representation.state_dict()[name]), name


# --- what is refused -------------------------------------------------------------------------------------------------


def test_a_run_that_failed_says_so():
    assert Quality(code=0.2, reduction=0.0).failed.startswith("the first stage loses 20.0%")
    assert "folds" in Quality(folding=2.0).failed
    assert Quality(reduction=0.2).failed.startswith("the reduction loses 20.0%")
    assert Quality(leak=0.5).failed == "score differences have 0.50 off their axis for 1 on it"
    assert not Quality(code=0.001, folding=1.2).failed


@pytest.mark.parametrize(
    ("told", "method", "message"),
    [
        ({"kinds": "soft"}, GSCALE(), "hard interventions, which cut"),
        ({"targets": [{0, 1}, 1, 0, 0]}, GSCALE(), "on one latent each"),
        ({"targets": [0, 1, 0, 0]}, GSCALE(), "one or two environments of a latent, got 3"),
        ({}, GSCALE(latents=2), "intervene on 4 latents, got latents=2"),
        ({}, GSCALE(latents=3, front=Principal(dims=2)), "Environments intervene on 4"),
        ({"groups": [0, 0, 1, 1]}, GSCALE(front=TanhLinear()), "between -1 and 1"),
    ],
)
def test_what_cannot_be_is_refused(told, method, message):
    x = 3 * torch.randn(40, 5, generator=seeded())
    with pytest.raises(ValueError, match=message):
        fit(method, Environments.of(x, [x.clone() for _ in range(4)], **told))


def test_settings_out_of_range_are_refused():
    for settings, message in (
        ({"per_node": 3}, "one or two environments"),
        ({"objective": "none"}, "'ratio' or 'axes'"),
        ({"restarts": 0}, "at least 1"),
        ({"rounds": 0}, "at least 1"),
        ({"rounds": 2, "scores": Oracle(torch.zeros)}, "not learned again"),
        ({"level": 0.0}, "probability"),
    ):
        with pytest.raises(ValueError, match=message):
            GSCALE(**settings)
    with pytest.raises(ValueError, match="even number"):
        find_pairs(torch.zeros(4, 2), torch.zeros(3, 4, 2), straight=True)
    with pytest.raises(ValueError, match="side divides"):
        Convolutional(side=24).build((3, 64, 64), 4)
    with pytest.raises(ValueError, match="vectors of at least"):
        TanhLinear().build((2,), 4)


def test_linear_starts_are_exact():
    maps = Bent(2, 3, 3, (4,))
    set_linear(maps, torch.ones(3, 3), torch.ones(3))
    assert torch.equal(maps.slope, torch.ones(2, 3, 3))
    assert isinstance(TanhLinear().build((5,), 2), TanhCode)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an accelerator")
@pytest.mark.parametrize("where", ["vectors", "pictures"])
def test_a_gpu_gives_latents_as_good_as_the_processor_does(where):
    w = world(seed=1) if where == "vectors" else Balls(balls=1)
    method = GSCALE(examples=2_000, front=TanhLinear() if where == "vectors" else None)
    found = [quality(fit(method, w.environments(**TWO), recipe=SHORT, device=on), w) for on in ("cpu", "cuda")]
    assert abs(found[0] - found[1]) < 0.05
