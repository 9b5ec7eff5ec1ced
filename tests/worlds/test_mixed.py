"""The mixed world: maps that can be undone, environments that are what they say, and true score differences."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, replace
from typing import ClassVar

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Generator

from whence import Mixed, Sprites, fit, load, values
from whence.check import world_checks
from whence.cli import main
from whence.evidence import Evidence, Guarantee, Reference
from whence.methods import Method
from whence.methods.baseline.linear import LinearCode
from whence.runs import KNOWN
from whence.scm import Hard, RandomBoxed, RandomLinear, RandomMLP, RandomQuadratic, random_graph, transitive_closure
from whence.views import Environments, Pairs, Singles, Spec
from whence.worlds import Design, LinearMixing, MLPMixing, PolynomialMixing, TanhMixing, Unmixed
from whence.worlds.mixing import well_conditioned

MIXINGS = [
    LinearMixing(),
    TanhMixing(),
    MLPMixing(),
    MLPMixing(activation="leaky_relu", layers=2, width=8),
    PolynomialMixing(),
    PolynomialMixing(degree=3, strength=0.3),
]
MECHANISMS = [RandomLinear(), RandomQuadratic(), RandomMLP(), RandomBoxed()]


def seeded(seed: int = 0) -> Generator:
    return Generator().manual_seed(seed)


# --- maps ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mixing", MIXINGS, ids=str)
@pytest.mark.parametrize("dims", [3, 8, 40])
def test_every_map_is_undone_and_its_jacobian_is_its_derivative(mixing, dims):
    if getattr(mixing, "width", None):
        mixing = replace(mixing, width=dims)
    world = Mixed(nodes=3, dims=dims, mixing=mixing, model_seed=3)
    z = world.scm.sample(200, rng=seeded())
    x = world.observe(z)
    assert x.shape == (200, dims)
    assert torch.allclose(world.map.inverse(x), z, atol=1e-5)
    z = z[:20]
    J, h = world.map.jacobian(z), 1e-6
    for j in range(3):
        step = h * torch.eye(3, dtype=torch.float64)[j]
        slope = (world.observe(z + step) - world.observe(z - step)) / (2 * h)
        near = torch.isclose(J[:, :, j], slope, atol=1e-5, rtol=1e-4)
        assert near.double().mean() > 0.99  # a step may cross the bend of a leaky ReLU
    assert world.lost < 0.01


@given(st.integers(1, 12), st.integers(0, 20), st.integers(0, 10**6))
@settings(deadline=None, max_examples=25)
def test_linear_maps_have_columns_of_largest_entry_one_and_full_rank(n, more, seed):
    G = well_conditioned(n + more, n, 0.1, seeded(seed))
    assert torch.allclose(G.abs().amax(0), torch.ones(n).double())
    s = torch.linalg.svdvals(G)
    # Scaling the columns of a matrix by c changes its condition by at most max c / min c.
    norms = G.norm(dim=0)
    assert s[-1] / s[0] > 0.1 * norms.min() / norms.max() / 2


def test_many_nodes_do_not_keep_drawing_for_ever():
    s = torch.linalg.svdvals(well_conditioned(120, 60, 0.1, seeded()))
    assert s[-1] / s[0] > 0.02


def test_the_columns_of_a_linear_map_point_everywhere():
    """The first column of a matrix from the Haar measure, over many seeds, has no favourite direction."""
    G = torch.stack([well_conditioned(4, 2, 0.1, seeded(seed))[:, 0] for seed in range(2_000)])
    unit = G / G.norm(dim=1, keepdim=True)
    assert unit.mean(0).abs().max() < 5 * 0.5 / 2_000**0.5
    assert (unit.T @ unit / 2_000 - torch.eye(4) / 4).abs().max() < 0.03


def test_gradients_are_pushed_by_the_transposed_pseudo_inverse():
    for mixing in MIXINGS[:3]:
        world = Mixed(nodes=3, dims=7, mixing=mixing)
        z, g = world.scm.sample(5, rng=seeded()), torch.randn(2, 5, 3, dtype=torch.float64, generator=seeded())
        J = world.map.jacobian(z)
        expected = torch.einsum("bnd,ebn->ebd", torch.linalg.pinv(J), g)
        assert torch.allclose(world.map.push(z, g), expected, atol=1e-9)


def test_the_mixing_matrix_is_that_of_the_linear_map():
    world = Mixed()
    z = world.scm.sample(4, rng=seeded())
    assert torch.allclose(world.observe(z), z @ world.mixing_matrix.T)
    assert Mixed(mixing=TanhMixing()).mixing_matrix is None


# --- the world -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mixing", MIXINGS, ids=str)
@pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda m: type(m).__name__)
def test_every_variant_keeps_the_promises_of_a_world(mixing, mechanism):
    world = Mixed(nodes=4, dims=9, mixing=mixing, mechanism=mechanism)
    for check in world_checks(world):
        check.run()


def test_a_world_is_a_function_of_its_options():
    one, two = Mixed(model_seed=4), Mixed(model_seed=4)
    assert one == two
    assert torch.equal(one.mixing_matrix, two.mixing_matrix)
    assert torch.equal(one.graph, two.graph)
    assert not torch.equal(one.mixing_matrix, Mixed(model_seed=5).mixing_matrix)
    back = values.build(json.loads(json.dumps(values.describe(Mixed(mixing=MLPMixing(spread=2.0))))), KNOWN)
    assert back == Mixed(mixing=MLPMixing(spread=2.0))


def test_another_mechanism_or_map_leaves_the_rest_of_the_world_as_it_was():
    one, two = Mixed(), Mixed(mechanism=RandomMLP())
    assert torch.equal(one.graph, two.graph)
    assert torch.equal(one.mixing_matrix, two.mixing_matrix)
    assert torch.equal(one.scm.gaussian.weights, Mixed(mixing=TanhMixing()).scm.gaussian.weights)


def test_the_graph_has_the_density_asked_for():
    edges = [int(Mixed(nodes=6, dims=6, model_seed=s).graph.sum()) for s in range(50)]
    assert abs(sum(edges) / 50 - 7.5) < 4 * (15 / 4 / 50) ** 0.5
    edges = [int(Mixed(nodes=6, dims=6, degree=1.0, model_seed=s).graph.sum()) for s in range(50)]
    assert abs(sum(edges) / 50 - 6) < 4 * (15 * 0.24 / 50) ** 0.5
    assert not Mixed(density=1.0).graph.tril().any()
    assert Mixed(density=1.0, shuffle=True).graph.tril().any()


def test_counterfactuals_move_effects_and_keep_the_rest():
    world = Mixed(mechanism=RandomMLP(), density=0.5, model_seed=1)
    v = world.draw(50, rng=seeded())
    reached = transitive_closure(world.graph) | torch.eye(5, dtype=torch.bool)
    for i, factor in enumerate(world.factors):
        out = world.counterfactual(v, {factor.name: 1.0})
        assert out.dtype == torch.float32
        assert (out[:, i] == 1).all()
        assert torch.equal(((out - v) != 0).any(0), reached[i])
        assert torch.allclose(world.counterfactual(v, {i: v[:, i]}), v, atol=1e-6)


def test_a_world_without_causes_has_counterfactuals_and_no_graph():
    world = Sprites()
    v = world.draw(3, rng=seeded())
    out = world.counterfactual(v, {"scale": 1.0})
    assert (out[:, 1] == 1).all()
    assert torch.equal(out[:, [0, 2, 3, 4]], v[:, [0, 2, 3, 4]])
    assert world.scm is world.graph is None
    with pytest.raises(TypeError, match=r"Sprites has no structural causal model.*such as Mixed"):
        world.environments()
    assert torch.equal(Unmixed(Mixed()).graph, Mixed().graph)


def test_impossible_sizes_are_refused():
    with pytest.raises(ValueError, match=r"at least as many observed dimensions as latents.*dims=3 and nodes=5"):
        Mixed(dims=3)
    with pytest.raises(ValueError, match=r"rows of 5 latents, got shape \(2, 4\)"):
        Mixed().observe(torch.zeros(2, 4))
    with pytest.raises(ValueError, match=r"never narrows: width lies between the latents \(5\) and .*\(20\), got 3"):
        Mixed(dims=20, mixing=MLPMixing(width=3)).map  # noqa: B018
    with pytest.raises(ValueError, match=r"above 0 \(so that the map is injective\)"):
        LinearMixing(smallest=0.0)
    with pytest.raises(ValueError, match="degree is at least 2"):
        PolynomialMixing(degree=1)
    with pytest.raises(ValueError, match="at least one layer and spread is positive"):
        MLPMixing(layers=0)


def test_what_rounding_loses_is_told():
    """Far out on tanh, single precision cannot tell latents apart, and with as many dimensions nothing makes up."""
    assert Mixed(nodes=5, dims=5, mixing=TanhMixing(), mechanism=RandomLinear(variance=(50.0, 60.0))).lost > 0.05
    assert Mixed().lost == 0


# --- environments ----------------------------------------------------------------------------------------------------


def covariances(view: Environments, n: int = 40_000) -> list[torch.Tensor]:
    batch = view.take(n, seeded())
    return [x.double().T.cov() for x in [batch.observational, *(e.x for e in batch.interventional)]]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"kind": "soft", "scale": 5.0},
        {"per_node": 2, "targets": "coupled", "shuffle": True, "seed": 3},
        {"per_node": 2, "scale": (1.0, 2.0), "change": "increase", "kind": "soft", "gain": -0.5},
        {"multi_node": True, "targets": "unknown", "seed": 5},
    ],
    ids=str,
)
def test_environments_have_the_moments_of_their_interventions(options):
    world = Mixed(nodes=4, dims=6, density=0.8)
    view, design = world.environments(**options), Design(**options)
    G = world.mixing_matrix
    models = [world.scm, *(world.scm.do(do) for do in design.dos(world.scm))]
    assert len(models) == 1 + 4 * options.get("per_node", 1)
    for got, model in zip(covariances(view), models, strict=True):
        expected = G @ model.gaussian.covariance @ G.T
        assert (got - expected).abs().max() < 0.05 * expected.abs().max()


def test_interventions_may_shift_the_mean_of_their_target():
    world = Mixed(nodes=3, dims=3, density=1.0)
    model = world.scm.do(Design(shift=2.0, scale=1.0).dos(world.scm)[1])
    batch = world.environments(shift=2.0, scale=1.0).take(40_000, seeded())
    z = world.map.inverse(batch.interventional[1].x.double())
    assert float(model.gaussian.mean[1]) == pytest.approx(2.0)
    assert torch.allclose(z.mean(0), model.gaussian.mean, atol=0.1)
    assert "shift" not in world.environments().origin  # so that runs of worlds without one keep their names


def test_what_is_told_of_targets():
    world = Mixed(nodes=3, dims=4)
    known = world.environments(per_node=2)
    assert [set(e.targets) for e in known.told] == [{0}, {1}, {2}] * 2
    assert known.names == ("z0 (×0.25)", "z1 (×0.25)", "z2 (×0.25)", "z0 (×4)", "z1 (×4)", "z2 (×4)")
    coupled = world.environments(per_node=2, targets="coupled", shuffle=True, seed=1)
    made = [targets for targets, _ in Design(per_node=2, shuffle=True, seed=1).environments(3)]
    groups = [e.group for e in coupled.told]
    assert [e.targets for e in coupled.told] == [None] * 6
    assert groups != [next(iter(t)) for t in made]  # the number is not that of the node
    for a in range(6):
        for b in range(6):
            assert (groups[a] == groups[b]) == (made[a] == made[b])
    unknown = world.environments(targets="unknown", multi_node=True)
    assert all(e.targets is None and e.group is None and e.kind == "hard" for e in unknown.told)
    assert unknown.names == ("environment 1", "environment 2", "environment 3")
    assert unknown.spec.environments == 3


@given(st.integers(1, 8), st.integers(0, 1000))
@settings(deadline=None, max_examples=25)
def test_sets_of_several_targets_make_an_invertible_matrix(n, seed):
    made = Design(multi_node=True, seed=seed).environments(n)
    D = torch.tensor([[float(i in targets) for targets, _ in made] for i in range(n)])
    assert torch.linalg.matrix_rank(D) == n


def test_environments_are_drawn_from_the_generator_alone_and_are_not_paired():
    view = Mixed(dims=6).environments()
    a, b = view.batch(2_000, seeded(1)), view.batch(2_000, seeded(1))
    assert torch.equal(a.observational, b.observational)
    assert torch.equal(a.interventional[4].x, b.interventional[4].x)
    assert a.observational.dtype == torch.float32
    assert view.draw(7, seeded()).shape == (7, 6, 5)
    latents = view.draw(4_000, seeded())
    assert abs(torch.corrcoef(latents[:, [0, 3], 0].T)[0, 1]) < 0.07
    chunks = list(view.rows(2, 10, seeded()))
    assert [c.shape for c in chunks] == [(10, 6)]


def test_views_that_a_causal_world_offers():
    world = Mixed(dims=6)
    assert isinstance(world.view(Environments), Environments)
    assert isinstance(world.view(Singles), Singles)
    assert isinstance(world.view(Pairs), Pairs)
    with pytest.raises(TypeError, match="Sprites offers Singles, Pairs, Groups, Labelled, not Environments"):
        Sprites().view(Environments)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"per_node": 3}, "one or two environments a node, got per_node=3"),
        ({"per_node": 2, "multi_node": True}, "Use per_node=1 with multi_node"),
        ({"targets": "coupled"}, "two a node. Use per_node=2"),
        ({"scale": (1.0, 2.0)}, "one number, or a pair for per_node=2"),
        ({"kind": "do", "points": (1.0,), "shift": 1.0}, "so no mean is shifted"),
    ],
)
def test_impossible_designs_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        Mixed().environments(**options)


# --- the truth for oracles -------------------------------------------------------------------------------------------


def test_true_score_differences_of_a_linear_gaussian_world_have_a_closed_form():
    world = Mixed(nodes=4, dims=9, density=0.8)
    truth = world.score_differences(kind="soft", scale=5.0)
    z = world.scm.sample(30, rng=seeded())
    G = torch.linalg.pinv(world.mixing_matrix)
    for e, do in enumerate(truth.dos):
        change = world.scm.do(do).gaussian.precision - world.scm.gaussian.precision
        assert torch.allclose(truth.latent(z)[e], z @ change, atol=1e-9)
        assert torch.allclose(truth(world.observe(z))[e], z @ change @ G, atol=1e-9)
        assert torch.linalg.matrix_rank(truth.latent(z)[e]) <= 1 + len(world.scm.parents[e])


@pytest.mark.parametrize("mixing", [TanhMixing(), MLPMixing(), PolynomialMixing()], ids=lambda m: type(m).__name__)
def test_true_score_differences_are_gradients_of_the_log_ratio_in_observations(mixing):
    """With as many dimensions as latents the densities of x exist; their ratio needs no Jacobian."""
    world = Mixed(nodes=3, dims=3, mixing=mixing, mechanism=RandomMLP(variance=(0.1, 0.2)))
    truth = world.score_differences()
    x = world.observe(world.scm.sample(20, rng=seeded())).requires_grad_()
    z = world.map.inverse(x)
    for e, do in enumerate(truth.dos):
        ratio = (world.scm.log_prob(z) - world.scm.log_prob(z, do=do)).sum()
        (slope,) = torch.autograd.grad(ratio, x, retain_graph=True)
        assert torch.allclose(truth(x.detach())[e], slope, rtol=1e-4, atol=1e-4 * float(slope.abs().max()))


def test_the_truth_for_oracles_can_be_recorded():
    truth = Mixed(nodes=3, dims=4).score_differences(per_node=2, scale=(0.25, 4.0))
    back = values.build(json.loads(json.dumps(values.describe(truth))), KNOWN)
    assert back == truth
    x = torch.randn(5, 4)
    assert torch.equal(back(x), truth(x))
    assert truth(x).dtype == torch.float32
    assert truth(x).shape == (6, 5, 4)


# --- runs and the command line ---------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Leading(Method):
    """As many principal directions as the data have, found while fitting."""

    needs: ClassVar[type] = Environments
    reference: ClassVar[Reference] = Mixed.reference
    guarantee: ClassVar[Guarantee] = Guarantee.nothing("a test.")
    evidence: ClassVar[tuple[Evidence, ...]] = (Evidence("unverified"),)

    def fit(self, data, run):
        batch = data.take(500, seeded(run.seed))
        _, s, V = torch.linalg.svd(batch.observational - batch.observational.mean(0), full_matrices=False)
        n = int((s > 1e-4 * s[0]).sum())
        code = LinearCode(data.spec._replace(latents=n), n)
        code.load_state_dict({"mean": batch.observational.mean(0), "encoder": V[:n].T, "decoder": V[:n]})
        return code

    def skeleton(self, spec):
        return LinearCode(spec, spec.latents)


def test_a_run_remembers_how_many_environments_and_codes_it_found(tmp_path):
    world = Mixed(nodes=3, dims=7)
    run = fit(Leading(), world, into=tmp_path / "run")
    back = load(tmp_path / "run", known=[Leading])
    assert back.spec == run.spec == Spec((7,), 3, 3)
    x = world.observe(world.draw(4, rng=seeded()))
    assert torch.equal(back.representation.encode(x), run.representation.encode(x))
    about = json.loads((tmp_path / "run" / "run.json").read_text())
    assert (about["shape"], about["environments"], about["latents"]) == ([7], 3, 3)
    again = world.environments(**{k: v for k, v in about["data"].items() if k not in ("world", "view")})
    assert again.origin == world.environments().origin


def test_the_command_line_knows_the_world(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["list", "worlds"]) == 0
    assert "mixed" in capsys.readouterr().out
    words = "pca --latents 3 --world mixed --world.nodes 3 --world.dims 6 --world.mixing mlp_mixing"
    more = "--world.mixing.spread 0.5 --world.mechanism random_boxed --world.degree 1 --into run --quiet"
    assert main(["fit", *words.split(), *more.split()]) == 0
    about = json.loads((tmp_path / "run" / "run.json").read_text())
    world = values.build(about["data"]["world"], KNOWN)
    assert world == Mixed(nodes=3, dims=6, mixing=MLPMixing(spread=0.5), mechanism=RandomBoxed(), degree=1.0)
    assert main(["check", "mixed", "--nodes", "3"]) == 0
    assert "All promises are kept" in capsys.readouterr().out


def test_interventions_change_only_their_node_given_its_causes():
    """Regression of a node on its causes is the same wherever it was not intervened on."""
    world = Mixed(nodes=4, dims=4, density=1.0, mechanism=RandomLinear())
    z = world.environments().draw(100_000, seeded()).double()
    for j in range(1, 4):
        for e in range(5):
            w = torch.linalg.lstsq(z[:, e, :j], z[:, e, j]).solution
            expected = world.scm.gaussian.weights[:j, j] * (e != j + 1)
            assert (w - expected).abs().max() < 0.05


def test_random_graphs_and_hard_defaults_stay_as_published():
    """The facts a table rests on: variance x .25, causes cut, half the edges."""
    assert Design() == Design(kind="hard", scale=0.25, change="scale", gain=0.5)
    (do,) = Design().dos(Mixed(nodes=1, dims=1).scm)
    assert do == {0: Hard(variance=0.25)}
    assert math.isclose(Mixed().density, 0.5)
    assert random_graph(3, probability=1.0, rng=seeded()).sum() == 3
