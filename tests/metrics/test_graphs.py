"""Distances of graphs: by hand, by counting over all small graphs, and by what interventions do in linear models."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.metrics.caused import Caused, Graphed, relabelled
from whence.metrics import (
    SHD,
    SID,
    AveragePrecision,
    EdgeRecovery,
    Probe,
    Unmeasurable,
    average_precision,
    closure_shd,
    edge_recovery,
    evaluate,
    orientation_accuracy,
    shd,
    sid,
    skeleton_shd,
)
from whence.metrics.graphs import closure, matched
from whence.metrics.sid import false_effects
from whence.scm.graph import random_graph, transitive_closure
from whence.worlds import Unmixed


def edges(n: int, *pairs: tuple[int, int]) -> np.ndarray:
    a = np.zeros((n, n), bool)
    for i, j in pairs:
        a[i, j] = True
    return a


def all_graphs(n: int) -> list[np.ndarray]:
    """Every directed graph without self-loops."""
    places = [(i, j) for i in range(n) for j in range(n) if i != j]
    return [edges(n, *itertools.compress(places, bits)) for bits in itertools.product((0, 1), repeat=len(places))]


def ordered_dags(n: int) -> list[np.ndarray]:
    """Every DAG in the order 0, 1, ...: any other is one of them with other names."""
    places = list(itertools.combinations(range(n), 2))
    return [edges(n, *itertools.compress(places, bits)) for bits in itertools.product((0, 1), repeat=len(places))]


def dag(n: int, seed: int, probability: float = 0.5) -> np.ndarray:
    rng = torch.Generator().manual_seed(seed)
    return random_graph(n, probability=probability, shuffle=True, rng=rng).numpy()


CHAIN = edges(3, (0, 1), (1, 2))
REVERSED = edges(3, (1, 0), (1, 2))


# --- Hamming distances -----------------------------------------------------------------------------------------------


def test_each_kind_of_error_costs_one_and_a_reversal_one_or_two():
    assert shd(CHAIN, CHAIN) == 0
    assert shd(edges(3, (0, 1), (1, 2), (0, 2)), CHAIN) == 1
    assert shd(edges(3, (0, 1)), CHAIN) == 1
    assert shd(REVERSED, CHAIN) == 1
    assert shd(REVERSED, CHAIN, reversal=2) == 2
    assert skeleton_shd(REVERSED, CHAIN) == 0
    assert skeleton_shd(edges(3, (0, 2), (1, 2)), CHAIN) == 2
    with pytest.raises(ValueError, match=r"costs 1 \(one change\) or 2 \(removed and added\), got reversal=3"):
        shd(CHAIN, CHAIN, reversal=3)


def test_the_distance_is_the_least_number_of_changes_over_all_graphs_of_three_nodes():
    """Breadth first from every graph: an addition, a removal and (at a cost of one) a reversal are one step each."""
    graphs = {a.tobytes(): a for a in all_graphs(3)}
    places = [(i, j) for i in range(3) for j in range(3) if i != j]

    def neighbours(a):
        for i, j in places:
            b = a.copy()
            b[i, j] = not b[i, j]
            yield b
            if a[i, j] and not a[j, i]:
                b = a.copy()
                b[i, j], b[j, i] = False, True
                yield b

    for start in list(graphs.values())[::5]:
        distance, front = {start.tobytes(): 0}, [start]
        while front:
            found = []
            for a in front:
                for b in neighbours(a):
                    if b.tobytes() not in distance:
                        distance[b.tobytes()] = distance[a.tobytes()] + 1
                        found.append(b)
            front = found
        for key, many in distance.items():
            assert shd(graphs[key], start) == many
            assert shd(graphs[key], start, reversal=2) == (graphs[key] != start).sum()


def test_closures_forgive_what_soft_interventions_do_not_tell():
    full = edges(4, (0, 1), (1, 2), (2, 3), (0, 2), (0, 3), (1, 3))
    chain = edges(4, (0, 1), (1, 2), (2, 3))
    assert shd(chain, full) == 3
    assert closure_shd(chain, full) == 0
    assert closure_shd(edges(4, (0, 1), (2, 3)), full) == 4


@pytest.mark.parametrize("seed", range(5))
def test_the_closure_is_that_of_causal_models(seed):
    a = dag(9, seed, 0.2)
    assert (closure(a) == transitive_closure(torch.from_numpy(a)).numpy()).all()


# --- edges -----------------------------------------------------------------------------------------------------------


def test_precision_recall_and_f1_by_hand():
    truth = edges(4, (0, 1), (0, 2), (1, 2), (2, 3))
    estimate = edges(4, (0, 1), (2, 0), (2, 3))
    assert edge_recovery(estimate, truth) == (2 / 3, 2 / 4, 4 / 7)
    precision, recall, f1 = edge_recovery(estimate, truth)
    assert f1 == pytest.approx(2 / (1 / precision + 1 / recall))
    assert orientation_accuracy(estimate, truth) == pytest.approx(2 / 3)


def test_precision_recall_and_f1_without_edges_are_as_stated():
    none, some = edges(3), CHAIN
    assert edge_recovery(none, none) == (1, 1, 1)
    assert edge_recovery(none, some) == (1, 0, 0)
    assert edge_recovery(some, none) == (0, 1, 0)
    with pytest.raises(Unmeasurable, match="No pair of nodes is joined in both graphs"):
        orientation_accuracy(none, some)


def test_average_precision_is_that_of_scikit_learn_and_knows_ties():
    from sklearn.metrics import average_precision_score

    rng = np.random.default_rng(0)
    off = ~np.eye(7, dtype=bool)
    for seed in range(10):
        truth = dag(7, seed)
        for weights in (rng.random((7, 7)), rng.integers(4, size=(7, 7)) / 4):
            expected = average_precision_score(truth[off], weights[off])
            assert average_precision(weights, truth) == pytest.approx(expected, abs=1e-12)
        assert average_precision(truth, truth) == 1.0
        assert average_precision(np.ones((7, 7)), truth) == pytest.approx(truth.sum() / 42)
    with pytest.raises(Unmeasurable, match="The true graph has no edges"):
        average_precision(CHAIN, edges(3))


def test_the_threshold_makes_edges_of_confidences():
    confidence = CHAIN * 0.4
    assert shd(confidence, CHAIN) == 2
    assert shd(confidence, CHAIN, threshold=0.3) == 0
    assert shd(CHAIN, CHAIN * -1.5 * -1) == 0  # a truth of weights: what is not zero


# --- the structural intervention distance ----------------------------------------------------------------------------


def wrong_effects(truth: np.ndarray, adjust: np.ndarray, seed: int = 0) -> np.ndarray:
    """By the definition: in a linear Gaussian model with random weights, adjusting for the given sets (row i: what is
    adjusted for when i is set) gives another slope or variance of x_j than setting x_i does."""
    n, rng = len(truth), np.random.default_rng(seed)
    w = truth * rng.uniform(0.5, 1.5, (n, n)) * rng.choice([-1, 1], (n, n))
    noise = rng.uniform(0.5, 1.5, n)
    b = np.linalg.inv(np.eye(n) - w.T)
    cov = b * noise @ b.T
    wrong = np.zeros((n, n), bool)
    for i in range(n):
        cut, calm = w.copy(), noise.copy()
        cut[:, i], calm[i] = 0, 0
        acted = np.linalg.inv(np.eye(n) - cut.T)
        slope, variance = acted[:, i], (acted**2 * calm).sum(1)
        s = [i, *np.flatnonzero(adjust[i])]
        gamma = np.linalg.solve(cov[np.ix_(s, s)], cov[s])  # of all nodes at once
        rest = cov.diagonal() - (gamma * cov[s]).sum(0)
        spread = rest + np.einsum("kj,kl,lj->j", gamma[1:], cov[np.ix_(s[1:], s[1:])], gamma[1:])
        inside = adjust[i]
        got_slope, got_variance = np.where(inside, 0, gamma[0]), np.where(inside, cov.diagonal(), spread)
        wrong[i] = (np.abs(got_slope - slope) > 1e-7) | (np.abs(got_variance - variance) > 1e-7)
        wrong[i, i] = False
    return wrong


@pytest.mark.parametrize("n", [3, 4])
def test_wrong_effects_are_those_of_interventions_for_every_graph_and_every_adjustment_set(n):
    """Row i depends on the truth and on i's parents alone, so all sets of parents cover all pairs of DAGs."""
    others = [[j for j in range(n) if j != i] for i in range(n)]
    for truth in ordered_dags(n):
        for bits in itertools.product((False, True), repeat=n - 1):
            adjust = np.zeros((n, n), bool)
            for i in range(n):
                adjust[i, others[i]] = bits
            assert (false_effects(adjust.T, truth) == wrong_effects(truth, adjust)).all()


@pytest.mark.parametrize("seed", range(60))
def test_the_distance_counts_wrong_effects_of_larger_graphs(seed):
    truth, estimate = dag(8, seed, 0.35), dag(8, seed + 1000, 0.35)
    assert sid(estimate, truth) == wrong_effects(truth, estimate.T, seed).sum()


def test_the_example_of_the_paper():
    """Peters and Bühlmann (2015), figure 1: one edge too many costs nothing, one turned edge costs 8."""
    truth = edges(5, (0, 1), *((i, j) for i in (0, 1) for j in (2, 3, 4)))
    more, turned = truth.copy(), truth.copy()
    more[2, 3] = True
    turned[0, 1], turned[1, 0] = False, True
    assert (shd(more, truth), sid(more, truth)) == (1, 0)
    assert (shd(turned, truth), sid(turned, truth)) == (1, 8)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10_000), n=st.integers(2, 9))
def test_a_graph_is_at_no_distance_from_itself_nor_from_a_larger_one_of_its_order(seed, n):
    rng = np.random.default_rng(seed)
    order = rng.permutation(n)
    truth = np.zeros((n, n), bool)
    truth[np.ix_(order, order)] = np.triu(rng.random((n, n)) < 0.4, 1)
    full = np.zeros((n, n), bool)
    full[np.ix_(order, order)] = np.triu(np.ones((n, n), bool), 1)
    assert sid(truth, truth) == sid(full, truth) == shd(truth, truth) == 0
    assert sid(edges(n), truth) == wrong_effects(truth, edges(n), seed).sum()
    assert 0 <= sid(truth.T, truth) <= n * (n - 1)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10_000), n=st.integers(2, 9))
def test_the_names_of_nodes_do_not_matter(seed, n):
    rng = np.random.default_rng(seed)
    place = rng.permutation(n)
    a, b = dag(n, seed), dag(n, seed + 1)
    a_, b_ = a[np.ix_(place, place)], b[np.ix_(place, place)]
    for distance in (shd, skeleton_shd, closure_shd, sid, edge_recovery):
        assert distance(a_, b_) == distance(a, b)
    if b.any():
        confidence = rng.random((n, n))
        assert average_precision(confidence[np.ix_(place, place)], b_) == pytest.approx(
            average_precision(confidence, b)
        )


def test_a_distance_of_a_hundred_nodes_is_quick():
    """It takes less than a few rounds of the regressions that define it; pair by pair it would be thousands."""
    import time

    def seconds(call) -> float:
        times = []
        for _ in range(3):
            begin = time.process_time()
            call()
            times.append(time.process_time() - begin)
        return min(times)

    estimate, truth = dag(100, 0, 0.05), dag(100, 1, 0.05)
    assert 0 < sid(estimate, truth) <= 9900
    assert seconds(lambda: sid(estimate, truth)) < 5 * seconds(lambda: wrong_effects(truth, estimate))


# --- what is refused -------------------------------------------------------------------------------------------------


def test_what_is_no_graph_is_refused():
    with pytest.raises(ValueError, match=r"a square matrix A with A\[i, j\] true if i causes j, got shape \(2, 3\)"):
        shd(np.zeros((2, 3)), CHAIN)
    with pytest.raises(ValueError, match="compared on the same nodes, got 2 and 3"):
        shd(edges(2), CHAIN)
    with pytest.raises(Unmeasurable, match=r"finite and not negative, got 1 that are not. Of signed weights"):
        shd(CHAIN * -1.0 + 2 * edges(3, (0, 1)), CHAIN)
    with pytest.raises(Unmeasurable, match="got 2 that are not"):
        shd(np.where(CHAIN, np.nan, 0), CHAIN)
    with pytest.raises(Unmeasurable, match="needs graphs without cycles, the estimate has one"):
        sid(edges(3, (0, 1), (1, 2), (2, 0)), CHAIN)
    with pytest.raises(Unmeasurable, match="the truth has one"):
        sid(CHAIN, edges(3, (0, 1), (1, 0)))


def test_tensors_booleans_and_lists_are_the_same():
    for form in (torch.from_numpy, np.ndarray.tolist, lambda a: torch.from_numpy(a).float()):
        assert shd(form(REVERSED), form(CHAIN)) == 1
        assert sid(form(REVERSED), form(CHAIN)) == sid(REVERSED, CHAIN)


def test_inputs_are_left_as_they_are():
    a, b = np.ones((3, 3)), np.ones((3, 3))
    shd(a, b), average_precision(a, b)
    assert (a == 1).all()
    assert (b == 1).all()


# --- on a representation ---------------------------------------------------------------------------------------------

METRICS = [SHD(), EdgeRecovery(), AveragePrecision(), SID()]
BEST = [0, 0, 0, 1, 1, 1, 1, 0]


@pytest.mark.parametrize(("order", "signs"), [([0, 1, 2, 3, 4], 1.0), ([3, 1, 4, 0, 2], -2.0)])
def test_the_true_graph_in_any_order_is_best_and_beats_relabelled_ones(order, signs):
    found = evaluate(relabelled(order, signs), Caused(), metrics=METRICS, samples=3000)
    assert [r.value for r in found] == BEST
    for r in found:
        assert r.chance is not None
        assert (r.best - r.chance) * (1 if r.higher_is_better else -1) > 0.1


def test_chance_is_the_mean_over_relabelled_graphs():
    truth = Caused().graph.numpy()
    exact = np.mean([shd(truth[np.ix_(p, p)], truth) for p in map(list, itertools.permutations(range(5)))])
    result = evaluate(relabelled([0, 1, 2, 3, 4]), Caused(), metrics=[SHD()], samples=500)["shd"]
    assert result.chance == pytest.approx(exact, abs=4 * math.sqrt(4 / 100))


def test_a_wrong_graph_is_noticed_and_one_edge_counts_once():
    a = Caused().graph.numpy().copy()
    a[2, 3], a[3, 2] = False, True
    found = evaluate(Graphed(np.eye(5), a), Caused(), metrics=METRICS, samples=1000, chance=False)
    assert found["shd"].value == 1
    assert found["shd.skeleton"].value == 0
    assert found["edge_recovery.f1"].value == pytest.approx(0.8)
    assert found["sid"].value == sid(a, Caused().graph)


def test_a_factor_without_a_code_has_no_edges():
    """Two of five edges are known if c and e are not represented: a -> b and none else among a, b and d."""
    keep = [0, 1, 3]
    a = Caused().graph.numpy()[np.ix_(keep, keep)]
    found = evaluate(Graphed(np.eye(5)[:, keep], a), Caused(), metrics=METRICS, samples=2000)
    assert found["shd"].value == 4
    assert found["edge_recovery.precision"].value == 1
    assert found["edge_recovery.recall"].value == pytest.approx(0.2)


def test_codes_too_many_are_left_out_of_the_graph():
    mixing = np.hstack([np.zeros((5, 2)), np.eye(5)])
    a = np.ones((7, 7))
    a[2:, 2:] = Caused().graph.numpy()
    assert evaluate(Graphed(mixing, a), Caused(), metrics=[SHD()], samples=500)["shd"].value == 0


def test_codes_are_matched_one_to_one_for_the_largest_sum():
    v = np.random.default_rng(0).normal(size=(4000, 3))
    z = np.column_stack([0 * v[:, 0] + 1, -v[:, 2], v[:, 0] + 0.1 * v[:, 2], v[:, 1]])
    assert matched(z, v).tolist() == [2, 3, 1]
    assert sorted(matched(v[:, :2], v).tolist()) == [-1, 0, 1]


def test_what_cannot_be_measured_says_why():
    class Plain(Graphed):
        graph = None

    r = SHD()(Probe(relabelled([0, 1, 2, 3, 4]), Unmixed(), samples=100))[0]
    assert r.value is None
    assert r.note == "needs a world with a graph, which Unmixed has not"
    wrong = Graphed(np.eye(5), np.zeros((3, 3)))
    assert "3 nodes cannot be aligned with codes of 5 numbers" in SHD()(Probe(wrong, Caused(), samples=100))[0].note
    cyclic = Graphed(np.eye(5), np.ones((5, 5)))
    assert "without cycles" in SID()(Probe(cyclic, Caused(), samples=100))[0].note


def test_metrics_of_graphs_are_not_shown_for_worlds_without_one():
    from whence.metrics import METRICS as KNOWN
    from whence.metrics.known import suited

    of_graphs = {type(m) for m in METRICS}
    assert of_graphs <= set(KNOWN)
    assert not of_graphs & {type(m) for m in suited(Unmixed())}
    assert of_graphs <= {type(m) for m in suited(Caused())}


def test_a_report_takes_the_suited_metrics_as_the_usual_ones():
    from whence import Sprites, values
    from whence.metrics import METRICS as KNOWN
    from whence.metrics import Results
    from whence.metrics.known import suited
    from whence.report.page import usual

    assert usual(Results(results=(), world=values.describe(Sprites())), ()) == suited(Sprites())
    assert usual(Results(results=(), world=values.describe(Caused())), (Caused,)) == suited(Caused())
    assert usual(Results(results=(), world={"type": "Elsewhere"}), ()) == [kind() for kind in KNOWN]


def test_told_targets_need_no_matching():
    """Two latents that are nearly equal: correlation confuses them, and the graph is right as it stands."""
    from whence.metrics import SHD
    from whence.metrics.arrays import Codes
    from whence.metrics.probe import Probe

    rng = np.random.default_rng(0)
    v = rng.normal(size=(2000, 3))
    v[:, 1] = v[:, 0] + 0.1 * v[:, 1]
    z = v.copy()
    z[:, 0], z[:, 1] = 0.4 * v[:, 0] + 0.6 * v[:, 1], v[:, 0] + 0.3 * rng.normal(size=2000)
    told = SHD(matched=False)
    graph = np.array([[0, 1, 0], [0, 0, 0], [0, 0, 0]])

    class World:
        pass

    class Model:
        pass

    World.graph, Model.graph = torch.tensor(graph), torch.tensor(graph, dtype=torch.float64)
    probe = Probe(Model(), World(), samples=2000).like(Codes(z, v))
    assert told.measure(probe)[0] == 0
    assert SHD().measure(probe)[0] > 0
