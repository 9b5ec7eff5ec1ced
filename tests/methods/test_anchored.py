"""Anchored methods: closed forms of their terms, exact interventions of their causal model, and what parts are."""

from __future__ import annotations

import pytest
import torch
from torch.distributions import Normal, kl_divergence

from whence import fit
from whence.descend import Adam, Cosine, Recipe
from whence.methods import AnchoredVAE, AnchoredWAE
from whence.methods.causal._composed import Mechanisms, Parts, families, parts_of, tellers
from whence.nets import MLP
from whence.scm import SCM, Additive, from_edges
from whence.views import Label, Labelled, Spec
from whence.worlds import Pendulum

GRAPH = tuple(f"{cause}->shadow_{effect}" for cause in ("pendulum", "light") for effect in ("length", "position"))
WORLD = Pendulum(size=16, noise=0.5)
SMALL = {"net": MLP(hidden=(16,)), "drawing": MLP(hidden=(8,)), "hidden": (8,)}
TINY = Recipe(steps=6, batch=16, every=2)
NAMES = ("a", "b", "c", "d")
CHAIN = from_edges([("a", "c"), ("b", "c"), ("c", "d")], NAMES)


def links() -> Mechanisms:
    torch.manual_seed(0)
    return Mechanisms(CHAIN, NAMES, (8,)).double()


def test_mechanisms_abduct_and_predict_are_inverse():
    m = links()
    z = torch.randn(9, 4, dtype=torch.float64)
    assert torch.allclose(m.predict(m.abduct(z), {}), z)
    assert torch.allclose(m.abduct(z)[:, :2], z[:, :2]), "without causes a concept is its own noise"


def test_a_do_is_that_of_the_structural_causal_model():
    """The same mechanisms as an SCM of the library give the same counterfactuals."""
    m = links()
    noise = Normal(torch.tensor(0.0).double(), torch.tensor(1.0).double())

    def link(j):
        return None if not m.causes[j] else lambda pa: m.links[j](pa)[..., 0]

    scm = SCM.of(CHAIN, [Additive(link=link(j), noise=noise) for j in range(4)], NAMES)
    z = torch.randn(7, 4, dtype=torch.float64)
    with torch.no_grad():
        for do in ({0: 0.3}, {2: -1.0}, {0: 0.3, 2: 1.0}, {3: 0.0}, {1: 2.0, 3: 1.0}):
            mine = m.predict(m.abduct(z), {j: torch.full((7,), v).double() for j, v in do.items()})
            assert torch.allclose(mine, scm.counterfactual(z, do))


def test_noise_is_drawn_as_it_was_seen():
    m = links()
    with torch.no_grad():
        for net in m.links[2:]:
            for p in net.parameters():
                p.zero_()
    a = torch.randn(20_000, 4, dtype=torch.float64) * torch.tensor([1.0, 0.1, 2.0, 0.5])
    a[:50, 2] = torch.nan
    m.learn_noise(a)
    e = m.noise(20_000, torch.Generator().manual_seed(0))
    assert e.std(0).tolist() == pytest.approx([1.0, 0.1, 2.0, 0.5], rel=0.06)
    assert e.mean(0).abs().max() < 0.05


def test_parts_are_families_of_effects_or_what_is_told():
    assert families(CHAIN) == ((0,), (1,), (2,), (3,))
    assert families(WORLD.graph) == ((0,), (1,), (2, 3))
    assert parts_of(("a", "b+d", "c"), CHAIN, NAMES) == ((0,), (1, 3), (2,))
    with pytest.raises(ValueError, match=r"Unknown concept in a part 'f'"):
        parts_of(("a", "f"), CHAIN, NAMES)
    with pytest.raises(ValueError, match="and d is in none"):
        parts_of(("a", "b", "c"), CHAIN, NAMES)


@pytest.mark.parametrize("light", [True, False])
def test_a_picture_is_the_product_of_its_parts(light):
    torch.manual_seed(0)
    parts = Parts(MLP(hidden=(8,)), (2, 3, 3), ((0,), (1, 2)), light, 1)
    parts.places.copy_(torch.rand(parts.places.shape) > 0.3)
    z = torch.randn(6, 3)
    drawn = parts(z)
    darkness = [
        may * torch.sigmoid(net(parts.waves(z[:, p])) - 2)
        for p, net, may in zip(parts.parts, parts.drawn, parts.places, strict=True)
    ]
    product = torch.stack([1 - d for d in darkness]).prod(0)
    picture = product if light else 1 - product
    assert torch.allclose(parts.mean(drawn.product), picture, atol=1e-6)
    assert drawn.ink.item() == pytest.approx(sum(d.sum().item() for d in darkness) / 6, rel=1e-4)
    x = torch.rand(6, 2, 3, 3)
    sure = picture.clamp(1e-6, 1 - 1e-6)
    expected = torch.nn.functional.binary_cross_entropy(sure, x, reduction="sum") / 6
    assert parts.cross_entropy(drawn.product, x).item() == pytest.approx(expected.item(), rel=1e-4)


def test_setting_a_concept_leaves_the_other_parts_as_they_are():
    r = fit(AnchoredVAE(graph=GRAPH, **SMALL), WORLD, recipe=TINY).representation
    x = WORLD.observe(WORLD.draw(4, rng=torch.Generator().manual_seed(0)))
    z = r.codes(x)
    moved = r.predict(r.abduct(x), {3: torch.full((4,), 0.5)})
    assert torch.allclose(moved[:, :3], z[:, :3], atol=1e-6)
    ratio = r.parts(moved).product / r.parts(z).product
    shadow, may = r.parts.drawn[2], r.parts.places[2]
    alone = [1 - may * torch.sigmoid(shadow(r.parts.waves(c[:, [2, 3]])) - 2) for c in (moved, z)]
    assert torch.allclose(ratio, alone[0] / alone[1], atol=1e-4)


def test_every_place_goes_to_the_part_that_tells_it_best():
    """A left half that shows a, a right half that shows its effect b, which a tells but for the noise."""
    rng = torch.Generator().manual_seed(0)
    a = 2 * torch.rand(400, 2, generator=rng) - 1
    a[:, 1] = 0.7 * a[:, 0] + 0.3 * a[:, 1]
    x = a[:, :1, None, None].repeat(1, 1, 6, 10)
    x[..., 5:] = a[:, 1:, None, None]
    for order in (((0,), (1,)), ((1,), (0,))):
        found = tellers(x, a, order)
        assert (found.sum(0) == 1).all(), "one part each"
        left = order.index((0,))
        assert found[left, :, :4].all()
        assert found[1 - left, :, 6:].all()
    twice = tellers(x.repeat(2, 1, 1, 1), a.repeat(2, 1), ((1,), (0,)))
    assert torch.equal(twice, tellers(x, a, ((1,), (0,)))) or twice[1, :, :4].all(), "copies tell nothing"
    assert tellers(torch.zeros(20, 1, 4, 4), a[:20], ((0,), (1,)))[0].all(), "what never changes is the first's"


def test_places_are_divided_only_with_labels_enough():
    x, u = torch.rand(300, 1, 4, 4), torch.rand(300, 2)
    u[80:, 0] = torch.nan
    view = Labelled.of(x, u, names=("a", "b"))
    for rows, shared in ((view, True), (Labelled.of(x, u.nan_to_num(0.5), names=("a", "b")), False)):
        r = fit(AnchoredVAE(**SMALL), rows, recipe=TINY).representation
        assert bool((r.parts.places == 1).all()) is shared
        r = fit(AnchoredVAE(**SMALL, apart=False), rows, recipe=TINY).representation
        assert (r.parts.places == 1).all()


def terms_of(method, known=None):
    torch.manual_seed(0)
    labels = tuple(Label(name, 0.0, 1.0) for name in NAMES)
    nets = method.init(Spec((1, 4, 4), labels=labels))
    x, a = torch.rand(8, 1, 4, 4), torch.rand(8, 4) * 2 - 1
    if known is not None:
        a[~known] = torch.nan
    return nets, x, a


def divergences(taught: bool, a, mean, log_var):
    q, p = Normal(mean, (0.5 * log_var).exp()), Normal(a, 0.01)
    return (kl_divergence(p, q) if taught else kl_divergence(q, p)).sum(1).mean().item()


@pytest.mark.parametrize("taught", [True, False])
def test_the_divergence_from_anchors_in_closed_form(taught):
    method = AnchoredVAE(**SMALL, taught=taught)
    nets, x, a = terms_of(method)
    terms = method.picture_terms(nets, x, a)
    expected = divergences(taught, a, *nets.encoder(x).chunk(2, 1))
    assert terms["kl"].item() == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("taught", [True, False])
def test_a_missing_label_leaves_the_mean_free(taught):
    known = torch.ones(8, 4, dtype=torch.bool)
    known[:, 2] = False
    method = AnchoredVAE(**SMALL, taught=taught)
    nets, x, a = terms_of(method, known)
    terms = method.picture_terms(nets, x, a)
    mean, log_var = nets.encoder(x).chunk(2, 1)
    anchor = torch.where(known, a, mean)
    assert terms["kl"].item() == pytest.approx(divergences(taught, anchor, mean, log_var), rel=1e-5)
    (slope,) = torch.autograd.grad(terms["kl"], nets.encoder[-1][-1].bias, retain_graph=True)
    assert slope[2].item() == pytest.approx(0, abs=1e-5), "the mean of the third concept is free"
    assert slope[:2].abs().min() > 1e-3
    wae = AnchoredWAE(**SMALL)
    nets, x, a = terms_of(wae, known)
    terms = wae.picture_terms(nets, x, a)
    assert terms["distance"].item() == 0, "no row has all labels"
    gradients = torch.autograd.grad(terms.total, list(nets.parameters()), allow_unused=True)
    assert all(torch.isfinite(g).all() for g in gradients if g is not None)


@pytest.mark.parametrize("kind", [AnchoredVAE, AnchoredWAE])
def test_what_is_drawn_moves_the_encoder_only_where_a_label_is_missing(kind):
    known = torch.ones(8, 4, dtype=torch.bool)
    known[:, 2] = False
    for taught in (True, False):
        method = kind(**SMALL, taught=taught)
        nets, x, a = terms_of(method, known)
        terms = method.picture_terms(nets, x, a)
        drawn = next(terms[name] for name in ("nll", "cost") if name in terms)
        (slope,) = torch.autograd.grad(drawn, nets.encoder[-1][-1].bias)
        assert (slope[:4].abs() > 0).tolist() == [not taught, not taught, True, not taught]


def test_penalties_of_the_wae_vanish_at_the_labels_and_not_beside_them():
    """Noise of codes at the labels is normal and independent of them; of codes that shrink, it is not."""
    from whence.terms import InverseMultiquadratic, hsic, mmd

    torch.manual_seed(0)
    a = torch.rand(400, 3, dtype=torch.float64) * 2 - 1
    kernel = InverseMultiquadratic(scale=6.0)

    def penalties(h):
        f = (h + 0.03 * torch.randn_like(h) - a) / 0.03
        return mmd(f, torch.randn_like(f), kernel).item(), hsic(f, a).item()

    at, beside = penalties(a), penalties(0.95 * a)
    assert abs(at[0]) < 0.02
    assert beside[0] > 5 * abs(at[0])
    assert beside[1] > 2 * at[1]


def test_mechanisms_are_learned_from_labels_alone():
    """Before a picture is seen, effects are predicted from their causes."""
    rng = torch.Generator().manual_seed(0)
    u = torch.rand(4000, 3, generator=rng)
    u[:, 2] = u[:, 0] * u[:, 1] + 0.05 * torch.randn(4000, generator=rng)
    view = Labelled.of(torch.rand(4000, 1, 2, 2, generator=rng), u, names=("a", "b", "c"))
    method = AnchoredVAE(graph=("a->c", "b->c"), **SMALL | {"hidden": (32,)})
    recipe = Recipe(steps=150, batch=4, optimiser=Adam(lr=1e-3), schedule=Cosine(), every=50)
    fitted = fit(method, view, recipe=recipe)
    low, high = u[:, 2].min(), u[:, 2].max()
    floor = (0.05 / float(high - low) * 2) ** 2
    assert fitted.curves["mechanisms"]["mechanisms.error"][-1] < 1.3 * floor


@pytest.mark.parametrize("method", [AnchoredVAE, AnchoredWAE])
def test_learns_to_set_a_concept(method):
    """A square whose grey is one label and a bar whose place is its effect: after a short run, do moves what
    it should and leaves what it should."""
    rng = torch.Generator().manual_seed(0)
    u = torch.rand(2000, 2, generator=rng)
    u[:, 1] = 0.5 * u[:, 0] + 0.5 * u[:, 1]

    def picture(u):
        x = torch.ones(len(u), 1, 6, 6)
        x[:, 0, :2, :2] = u[:, 0, None, None]
        x[:, 0, 4:] = u[:, 1, None, None]
        return x

    view = Labelled.of(picture(u), u, names=("a", "b"))
    model = method(graph=("a->b",), net=MLP(hidden=(32,)), drawing=MLP(hidden=(16,)), hidden=(16,), octaves=1)
    recipe = Recipe(steps=400, batch=64, optimiser=Adam(lr=5e-3), schedule=Cosine(), every=100)
    r = fit(model, view, recipe=recipe).representation
    v = u[:200]
    after = v.clone()
    after[:, 0] = 0.3
    after[:, 1] += 0.5 * (0.3 - v[:, 0])
    error = (r.do(picture(v), {"a": 0.3}) - picture(after)).square().mean()
    still = (picture(v) - picture(after)).square().mean()
    assert error < 0.4 * still
    after = v.clone()
    after[:, 1] = 0.8
    error = (r.do(picture(v), {"b": 0.8}) - picture(after)).square().mean()
    assert error < 0.4 * (picture(v) - picture(after)).square().mean()


def test_what_cannot_be_composed_is_refused():
    labels = (Label("a", 0.0, 1.0),)
    with pytest.raises(ValueError, match=r"Pictures are composed of parts, and these observations have shape \(5,\)"):
        AnchoredVAE(**SMALL).init(Spec((5,), labels=labels))
    with pytest.raises(ValueError, match="anchor is a standard deviation, above 0, got 0"):
        AnchoredVAE(anchor=0.0)
