"""Graphs: order, paths, reductions, and cycles by their names."""

from __future__ import annotations

import itertools

import networkx
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Generator

from whence import scm


def seeded(seed: int = 0) -> Generator:
    return Generator().manual_seed(seed)


@st.composite
def dags(draw, most: int = 9):
    n, p, seed = draw(st.integers(1, most)), draw(st.floats(0, 1)), draw(st.integers(0, 10**6))
    return scm.random_graph(n, probability=p, shuffle=True, rng=seeded(seed))


@given(dags())
def test_causes_come_before_effects_in_the_topological_order(a):
    place = {node: k for k, node in enumerate(scm.topological_order(a))}
    assert sorted(place) == list(range(len(a)))
    assert all(place[i] < place[j] for i, j in a.nonzero().tolist())


@given(dags())
def test_closure_and_reduction_agree_with_networkx(a):
    g = scm.to_networkx(a)
    closure, reduction = (
        torch.from_numpy(networkx.to_numpy_array(f(g), nodelist=range(len(a))) > 0)
        for f in (networkx.transitive_closure, networkx.transitive_reduction)
    )
    assert torch.equal(scm.transitive_closure(a), closure)
    assert torch.equal(scm.transitive_reduction(a), reduction)
    for j in range(len(a)):
        assert set(scm.ancestors(a, j)) == networkx.ancestors(g, j)
        assert set(scm.descendants(a, j)) == networkx.descendants(g, j)
        assert set(scm.parents(a, j)) == set(g.predecessors(j))


def test_the_closure_reaches_along_a_chain_of_every_length():
    for n in range(1, 40):
        chain = torch.ones(n - 1, dtype=torch.bool).diag(1) if n > 1 else torch.zeros(1, 1, dtype=torch.bool)
        assert torch.equal(scm.transitive_closure(chain), torch.ones(n, n, dtype=torch.bool).triu(1))
        assert torch.equal(scm.transitive_reduction(scm.transitive_closure(chain)), chain)


@given(dags())
def test_networkx_and_edge_lists_give_the_graph_back(a):
    names = [f"v{i}" for i in range(len(a))]
    back, found = scm.from_networkx(scm.to_networkx(a, names))
    assert found == tuple(names)
    assert torch.equal(back, a)
    assert torch.equal(scm.from_edges(map(tuple, a.nonzero().tolist()), len(a)), a)


@given(dags(), st.data())
def test_an_added_edge_that_closes_a_cycle_is_named(a, data):
    edges = scm.transitive_closure(a).nonzero().tolist() + [[i, i] for i in range(len(a))]
    i, j = data.draw(st.sampled_from(edges))
    b = a.clone()
    b[j, i] = True
    assert not scm.is_acyclic(b)
    with pytest.raises(ValueError, match=r"A causal graph has no cycle, got .*Remove one of these edges") as error:
        scm.topological_order(b)
    walk = [int(word) for word in str(error.value).split("got ")[1].split(". ")[0].split(" -> ")]
    assert walk[0] == walk[-1]
    assert len(walk) > 1
    assert all(b[s, t] for s, t in itertools.pairwise(walk))


def test_a_cycle_is_given_by_names():
    with pytest.raises(ValueError, match=r"got rain -> wet -> rain\."):
        scm.from_edges([("rain", "wet"), ("wet", "rain"), ("rain", "mud")], ["rain", "wet", "mud"])


@given(dags())
def test_only_edges_turned_round_are_reversals(a):
    assert not scm.reversals(a, a).any()
    assert torch.equal(scm.reversals(a, a.T), a)
    assert not scm.reversals(a, a | a.T).any()


def test_random_graphs_have_the_asked_for_density_and_order():
    n = 40
    pairs = n * (n - 1) / 2
    for asked, p in (({"probability": 0.3}, 0.3), ({"degree": 2.0}, 2 * n / pairs), ({"degree": 1e9}, 1.0)):
        a = scm.random_graph(n, **asked, rng=seeded())
        assert abs(int(a.sum()) - pairs * p) <= 4 * (pairs * p * (1 - p)) ** 0.5
        assert not a.tril().any()
    shuffled = scm.random_graph(n, probability=0.3, shuffle=True, rng=seeded())
    assert shuffled.tril().any()
    assert scm.is_acyclic(shuffled)
    assert torch.equal(shuffled, scm.random_graph(n, probability=0.3, shuffle=True, rng=seeded()))


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({}, "Give probability or degree, one of them"),
        ({"probability": 0.5, "degree": 1.0}, "Give probability or degree, one of them"),
        ({"probability": 1.5}, "between 0 and 1 .* got probability=1.5"),
        ({"degree": -1.0}, "degree is not negative, got degree=-1.0"),
    ],
)
def test_impossible_densities_are_refused(asked, message):
    with pytest.raises(ValueError, match=message):
        scm.random_graph(4, **asked, rng=seeded())


def test_matrices_are_checked():
    assert scm.from_matrix([[0, 0.7], [0, 0]]).tolist() == [[False, True], [False, False]]
    assert scm.from_matrix(np.zeros((2, 2))).dtype == torch.bool
    with pytest.raises(ValueError, match=r"square matrix .* got shape \(2, 3\)"):
        scm.from_matrix(torch.zeros(2, 3))
    with pytest.raises(ValueError, match="finite numbers, got 1 that are not"):
        scm.from_matrix([[0.0, float("nan")], [0.0, 0.0]])
    with pytest.raises(ValueError, match=r"Unknown node 'rian'. Did you mean 'rain'\?"):
        scm.from_edges([("rian", "wet")], ["rain", "wet"])
    with pytest.raises(ValueError, match="at least one node"):
        scm.random_graph(0, probability=0.5, rng=seeded())


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10**6), n=st.integers(1, 6))
def test_the_nearest_dag_is_the_best_over_all_orders(seed, n):
    weight = torch.rand(n, n, generator=seeded(seed), dtype=torch.float64).fill_diagonal_(0)
    best = max(float(weight[list(order)][:, list(order)].triu(1).sum()) for order in itertools.permutations(range(n)))
    kept = scm.nearest_dag(weight)
    assert scm.is_acyclic(kept > 0)
    assert float(kept.sum()) == pytest.approx(best)


def test_weights_without_cycles_are_kept_as_they_are_whatever_their_number():
    for n in (3, 16, 50):
        rng = seeded(n)
        weight = scm.random_graph(n, probability=0.5, shuffle=True, rng=rng) * torch.rand(n, n, generator=rng)
        assert torch.equal(scm.nearest_dag(weight), weight)


def test_the_search_for_many_nodes_loses_little_of_what_is_best_for_few():
    from whence.scm.graph import _best_order, _good_order

    def forward(w, order):
        return np.triu(w[np.ix_(order, order)], 1).sum()

    rng = np.random.default_rng(0)
    found = [(forward(w, _good_order(w)), forward(w, _best_order(w))) for w in rng.random((20, 8, 8))]
    assert all(good <= best + 1e-9 for good, best in found)
    assert np.mean([good / best for good, best in found]) > 0.98


def test_weights_are_checked():
    with pytest.raises(ValueError, match="square matrix of finite numbers"):
        scm.nearest_order(torch.full((2, 2), torch.nan))


def test_graphs_of_networkx_without_directions_are_refused_and_several_edges_are_one():
    with pytest.raises(TypeError, match="directed edges, got a Graph, whose edges have no direction"):
        scm.from_networkx(networkx.Graph([("x", "y")]))
    several = networkx.MultiDiGraph([("x", "y"), ("x", "y")])
    a, names = scm.from_networkx(several)
    assert names == ("x", "y")
    assert a.tolist() == [[False, True], [False, False]]
