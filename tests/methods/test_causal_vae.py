"""CausalVAE: its loss by hand, its limits, its interventions, and the graph it learns."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest
import torch

from whence import fit, runs
from whence.descend import Recipe
from whence.methods import CausalVAE, UnlabelledCausalVAE
from whence.methods.causal._concepts import Extrapolation, anchored, graph_of, in_units
from whence.nets import MLP
from whence.scm import is_acyclic
from whence.views import Label, Labelled, Spec
from whence.worlds import Pendulum

GRAPH = tuple(f"{cause}->shadow_{effect}" for cause in ("pendulum", "light") for effect in ("length", "position"))
WORLD = Pendulum(size=16, noise=0.5)
SMALL = MLP(hidden=(16,))
TINY = Recipe(steps=6, batch=16, every=2)


def labels(n: int = 4) -> tuple[Label, ...]:
    return tuple(Label(f"c{i}", -1.0 - i, 3.0 + i) for i in range(n))


def networks(method: CausalVAE, shape=(1, 3, 4), n: int = 4):
    torch.manual_seed(0)
    nets = method.init(Spec(shape, labels=labels(n))).double()
    x = torch.rand(7, *shape, dtype=torch.float64)
    u = torch.rand(7, n, dtype=torch.float64) * 4 - 1
    return nets, x, u


def layers(net, h, activation):
    """A network of linear layers by hand."""
    linear = [
        (m.weight.detach().numpy(), m.bias.detach().numpy()) for m in net.modules() if isinstance(m, torch.nn.Linear)
    ]
    for k, (w, b) in enumerate(linear):
        h = h @ w.T + b
        if k + 1 < len(linear):
            h = activation(h)
    return h


def relu(h):
    return np.maximum(h, 0)


def elu(h):
    return np.where(h > 0, h, np.expm1(np.minimum(h, 0)))


def softmax(h, axis):
    e = np.exp(h - h.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def test_the_released_loss_is_the_formula_of_the_authors_code():
    """Written anew in NumPy, from a reading of huawei-noah/trustworthyAI@46c3d29 (mask_vae_pendulum.py)."""
    graph = ("c0->c1", "c0->c2", "c0->c3", "c1->c2", "c1->c3")
    method = CausalVAE.released(graph, net=SMALL, jitter=0.0)
    nets, x, u = networks(method)
    terms = method.terms(nets, x, u, labels())
    n, k = 4, 4
    pixels, given = x.numpy(), u.numpy()
    a = (nets.structure.weights * nets.structure.support).detach().numpy()
    e = layers(nets.encoder, pixels.reshape(7, -1), relu)[:, : n * k].reshape(7, n, k)
    z = np.einsum("ij,bjk->bik", np.linalg.inv(np.eye(n) - a.T), e)
    sums = np.einsum("ij,bik->bjk", a, z)
    g = np.stack([layers(nets.masks.links[j], sums[:, j], elu) for j in range(n)], 1)
    m = nets.attention.M.detach().numpy()
    weight = softmax(1 / (1 + np.exp(-(z @ m @ e.transpose(0, 2, 1)))), axis=1)
    masked = g + weight @ e
    logits = np.mean([layers(nets.decoder.decoders[j], masked[:, j], relu) for j in range(n)], 0)
    cross_entropy = np.logaddexp(0, logits) - pixels.reshape(7, -1) * logits
    anchor = ((given - np.array([1.0] * 4)) / np.array([2.0, 3.0, 4.0, 5.0]))[:, :, None]
    told = np.stack([layers(nets.label_masks.links[j], (given @ a)[:, j : j + 1], elu)[:, 0] for j in range(n)], 1)
    h = np.trace(np.linalg.matrix_power(np.eye(n) + a * a / n, n)) - n
    expected = {
        "nll": cross_entropy.sum(1).mean() / 384,
        "noise": 0.3 * 0.5 * (e**2).sum((1, 2)).mean(),
        "concepts": 0.5 * ((z - anchor) ** 2).sum((1, 2)).mean(),
        "masks": 0.5 * ((masked - anchor) ** 2).sum((1, 2)).mean(),
        "labels": ((given - told) ** 2).mean(),
        "cycles": 3 * h + 0.5 * h**2,
    }
    assert {name: term.item() for name, term in terms.items()} == pytest.approx(expected, rel=1e-9)


def test_the_printed_loss_in_closed_form():
    """A linear chain of effects: divergences of Gaussians by torch, l_u and l_m by hand."""
    method = CausalVAE(graph=("c0->c1", "c1->c2", "c0->c3"), net=SMALL, sampled=True)
    nets, x, u = networks(method)
    torch.manual_seed(1)
    terms = method.terms(nets, x, u, labels())
    torch.manual_seed(1)
    found = method.encoded(nets, x)
    q = torch.distributions.Normal(found.mean, found.scale)
    standard = torch.distributions.Normal(torch.zeros_like(found.mean), 1.0)
    kl = torch.distributions.kl_divergence(q, standard).sum((1, 2)).mean()
    assert terms["noise"].item() == pytest.approx(float(kl), rel=1e-9)
    c = torch.linalg.inv(torch.eye(4, dtype=torch.float64) - nets.structure.matrix().T)
    moved = torch.distributions.Normal(
        torch.einsum("ij,bjk->bik", c, found.mean), torch.einsum("ij,bjk->bik", c**2, found.scale**2).sqrt()
    )
    prior = torch.distributions.Normal(anchored(u, labels())[:, :, None].expand_as(found.mean), 1.0)
    kl = torch.distributions.kl_divergence(moved, prior).sum((1, 2)).mean()
    assert terms["concepts"].item() == pytest.approx(float(kl), rel=1e-9)
    assert terms["cycles"].item() == pytest.approx(0, abs=1e-12)


def test_missing_labels_leave_their_terms_out_and_gradients_finite():
    method = CausalVAE(graph=("c0->c1",), net=SMALL)
    nets, x, u = networks(method)
    u[:, 1] = torch.nan
    u[:3, 0] = torch.nan
    torch.manual_seed(1)
    terms = method.terms(nets, x, u, labels())
    assert float(terms["labels"]) == 0, "concept 1 alone has a cause, and no label"
    gradients = torch.autograd.grad(terms.total, list(nets.parameters()), allow_unused=True)
    assert all(torch.isfinite(g).all() for g in gradients if g is not None)


def test_without_interventions_nothing_moves_and_with_them_only_descendants():
    method = CausalVAE(graph=GRAPH, net=SMALL)
    fitted = fit(method, WORLD, recipe=TINY)
    r = fitted.representation
    x = WORLD.observe(WORLD.draw(5, rng=torch.Generator().manual_seed(0)))
    z = r.encode(x).unflatten(1, (4, 4))
    e = r.abduct(x)
    moved = r.predict(e, {1: torch.full((5,), 0.25)}).unflatten(1, (4, 4))
    assert torch.allclose(moved[:, 1], torch.full((5, 4), 0.25))
    assert torch.allclose(moved[:, 0], z[:, 0], atol=1e-6), "not a descendant"
    assert (moved[:, 2:] - z[:, 2:]).abs().max() > 1e-4, "descendants follow"
    leaf = r.predict(e, {3: torch.full((5,), 0.25)}).unflatten(1, (4, 4))
    assert torch.allclose(leaf[:, :3], z[:, :3], atol=1e-6)


def test_do_is_in_the_labels_units_and_refuses_what_it_cannot_do():
    r = fit(CausalVAE(graph=GRAPH, net=SMALL), WORLD, recipe=TINY).representation
    x = WORLD.observe(WORLD.draw(3, rng=torch.Generator().manual_seed(0)))
    picture = r.do(x, {"light": 90.0, "pendulum": torch.tensor([0.0, 5.0, 10.0])})
    assert picture.shape == x.shape
    assert isinstance(r.do(x.numpy(), {"light": 90.0}), np.ndarray)
    assert torch.allclose(r.do(x, {1: 90.0}), r.do(x, {"light": 90.0}))
    assert r.grid(x, "light", [70.0, 90.0, 110.0]).shape == (3, 3, *x.shape[1:])
    assert torch.allclose(r.grid(x, "light", [70.0, 90.0])[:, 1], r.do(x, {"light": 90.0}), atol=1e-6)
    a, b = (r.sample(4, torch.Generator().manual_seed(0), do) for do in (None, {"light": 90.0}))
    assert a.shape == b.shape == (4, *x.shape[1:])
    with pytest.raises(KeyError, match=r"Unknown concept 'lihgt'\. Did you mean 'light'"):
        r.do(x, {"lihgt": 90.0})
    with pytest.raises(IndexError, match="numbered 0 to 3, got 7"):
        r.do(x, {7: 0.0})
    with pytest.raises(ValueError, match="set twice"):
        r.do(x, {1: 80.0, "light": 80.0})
    with pytest.raises(ValueError, match=r"one for each of the 3 observations, got shape \(2,\)"):
        r.do(x, {"light": [80.0, 90.0]})
    with pytest.warns(Extrapolation, match=r"do\(light = 200\) lies outside of what was seen in learning, 60 to 147"):
        r.do(x, {"light": 200.0})
    with pytest.raises(ValueError, match="fitted on observations of shape"):
        r.do(torch.rand(2, 3, 20, 20), {"light": 90.0})
    with pytest.raises(ValueError, match="fitted on observations of shape"):
        r.do(torch.rand(2, 1, 16, 16), {"light": 90.0})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        r.do(x, {"light": 147.0})


def test_labels_that_cannot_be_learned_from_are_told():
    x = torch.rand(40, 1, 4, 4)
    u = torch.rand(40, 2)
    method = CausalVAE(graph=("a->b",), net=SMALL)

    def learn(u, names=("a", "b")):
        return fit(method, Labelled.of(x, u, names=names), recipe=TINY)

    with pytest.raises(ValueError, match=r"Label 'b' is 0\.5 in every row: a concept must vary"):
        learn(torch.stack([u[:, 0], torch.full((40,), 0.5)], 1))
    with pytest.raises(ValueError, match="Unknown node 'a'"):
        learn(u, names=("c", "b"))
    rare = torch.full((4000, 2), torch.nan)
    rare[:, 0] = torch.rand(4000)
    rare[0, 1], rare[1, 1] = 0.0, 1.0
    with pytest.raises(ValueError, match="Label 'b' is missing in all of 512 rows"):
        fit(method, Labelled.of(torch.rand(4000, 1, 2, 2), rare, names=("a", "b")), recipe=TINY)
    view = Labelled.of(x, u, names=("a", "b"))
    wrong = replace(view, labels=(view.labels[0], Label("b", 0.0, 0.1)))
    with pytest.warns(UserWarning, match="Label 'b' is said to lie between 0 and 0.1, and has values such as"):
        fit(method, wrong, recipe=TINY)
    with pytest.raises(ValueError, match=r"observations in \[0, 1\]"):
        fit(method, Labelled.of(3 * x, u, names=("a", "b")), recipe=TINY)


def test_names_of_columns_decide_and_not_their_order():
    """The graph names labels, so columns in another order are the same model with its columns in that order."""
    names = ("light", "shadow_position", "pendulum", "shadow_length")
    r = fit(CausalVAE(graph=GRAPH, net=SMALL), WORLD.labelled(of=names), recipe=TINY).representation
    edges = {(names[i], names[j]) for i, j in (r.graph > 0.5).nonzero().tolist()}
    assert edges == {tuple(edge.split("->")) for edge in GRAPH}


def test_graphs_are_read_and_checked():
    assert graph_of(("a -> b",), ("a", "b")).tolist() == [[False, True], [False, False]]
    with pytest.raises(ValueError, match="written cause->effect"):
        graph_of(("a>b",), ("a", "b"))
    with pytest.raises(ValueError, match="no cycle"):
        graph_of(("a->b", "b->a"), ("a", "b"))
    u = torch.tensor([[1.0, -3.0]])
    assert torch.allclose(in_units(anchored(u, labels(2)), labels(2)), u)


def test_a_learned_matrix_ends_without_cycles():
    """From a start that is full of them, the augmented Lagrangian takes them out."""
    method = CausalVAE(net=SMALL, start=0.7, pretraining=1_200)
    world = Pendulum(size=16, noise=0.5)
    x = torch.zeros(256, 1, 2, 2)
    u = world.draw(256, rng=torch.Generator().manual_seed(0))
    names = [factor.name for factor in world.factors]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        r = fit(method, Labelled.of(x, u, names=names), recipe=TINY).representation
    assert r.nets.structure.cycles().item() < 1e-2
    assert is_acyclic(r.graph > 0.5)


def test_singular_and_cyclic_matrices_are_counted_named_and_survived():
    method = CausalVAE(net=SMALL)
    torch.manual_seed(0)
    nets = method.init(Spec((1, 2, 2), labels=labels(3)))
    with torch.no_grad():
        nets.structure.weights.zero_()
        nets.structure.weights[0, 1] = nets.structure.weights[1, 0] = 1.0
        nets.structure.weights[1, 2] = 0.8
    x, u = torch.rand(4, 1, 2, 2), torch.rand(4, 3)
    terms = method.terms(nets, x, u, labels(3))
    assert torch.isfinite(terms.total)
    assert float(terms["cycles"]) > 0
    nets.structure.schedule(0)
    with pytest.warns(UserWarning, match="In 1 steps I - A' was near to a singular matrix"):
        nets.structure.told(("a", "b", "c"))
    with pytest.warns(UserWarning, match="has cycles. Interventions leave out its weakest edges: b->a"):
        nets.structure.told(("a", "b", "c"))
    r = method.represent(nets, Spec((1, 2, 2), labels=labels(3)))
    assert torch.isfinite(r.do(x, {"c0": 0.5})).all()


def test_the_multiplier_follows_the_constraint():
    method = CausalVAE(net=SMALL)
    structure = method.init(Spec((1, 2, 2), labels=labels(2))).structure
    with torch.no_grad():
        structure.weights.fill_(0.3)  # as 1 in H = tr (I + [[0, .5], [.5, 0]])^2 - 2 = 0.5
    before = structure.lagrangian.clone()
    structure.schedule(48)
    assert torch.equal(structure.lagrangian[:3], before[:3]), "between updates nothing moves"
    structure.schedule(49)
    assert structure.lagrangian[:3].tolist() == pytest.approx([0.5, 1.0, 0.5])
    structure.schedule(99)
    assert structure.lagrangian[:3].tolist() == pytest.approx([1.0, 10.0, 0.5])
    held = CausalVAE(net=SMALL, multipliers=(3.0, 1.0)).init(Spec((1, 2, 2), labels=labels(2))).structure
    held.schedule(49)
    assert held.lagrangian[:2].tolist() == [3.0, 1.0]


def test_without_labels_concepts_have_numbers():
    r = fit(UnlabelledCausalVAE(concepts=3, net=SMALL), WORLD, recipe=TINY).representation
    x = WORLD.observe(WORLD.draw(3, rng=torch.Generator().manual_seed(0)))
    assert r.names == ("concept 1", "concept 2", "concept 3")
    assert r.do(x, {"concept 2": 0.5}).shape == x.shape
    with pytest.raises(ValueError, match="no graph can be given"):
        UnlabelledCausalVAE(graph=("a->b",))
    with pytest.raises(ValueError, match="concepts is at least 1"):
        UnlabelledCausalVAE(concepts=0)


def test_pretraining_learns_the_matrix_from_labels_alone():
    method = CausalVAE(graph=GRAPH, certain=False, net=SMALL, pretraining=20)
    fitted = fit(method, WORLD, recipe=TINY)
    assert list(fitted.curves) == ["graph", "train"]
    assert fitted.curves["graph"].names == ("labels", "cycles")


def test_a_run_with_names_is_saved_and_loaded(tmp_path):
    fitted = fit(CausalVAE(graph=GRAPH, net=SMALL), WORLD, recipe=TINY, into=tmp_path / "run")
    back = runs.load(tmp_path / "run")
    x = WORLD.observe(WORLD.draw(3, rng=torch.Generator().manual_seed(0)))
    assert torch.equal(fitted.representation.do(x, {"light": 90.0}), back.representation.do(x, {"light": 90.0}))
