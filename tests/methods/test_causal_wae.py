"""CausalWAE: its two forms by hand, its penalties, and what an injective decoder is."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import nn

from whence import fit
from whence.descend import Recipe
from whence.methods import CausalWAE
from whence.methods.causal._concepts import anchored
from whence.methods.causal.causal_wae import injective
from whence.nets import MLP
from whence.terms import InverseMultiquadratic, hsic, mmd
from whence.views import Label, Spec
from whence.worlds import Pendulum

GRAPH = ("a->c", "b->c")
LABELS = tuple(Label(name, 0.0, 2.0) for name in "abc")
SMALL = MLP(hidden=(16,))
TINY = Recipe(steps=6, batch=16, every=2)


def networks(method: CausalWAE, shape=(1, 4, 4)):
    torch.manual_seed(0)
    nets = method.init(Spec(shape, labels=LABELS)).double()
    return nets, torch.rand(9, *shape, dtype=torch.float64), torch.rand(9, 3, dtype=torch.float64) * 2


def method(**options) -> CausalWAE:
    return CausalWAE(graph=GRAPH, net=SMALL, width=2, decoder=(8, 12), **options)


def test_the_full_form_and_that_of_equation_8():
    """z1 = (I - A')^-1 f + a and z1 = a; z2 = g(A o z1) + f."""
    for form in ("full", "eq8"):
        one = method(form=form)
        nets, x, u = networks(one)
        own, a = nets.autoencoder, anchored(u, LABELS)
        found = one.encoded(own, x, a)
        graph = own.structure.matrix()
        z1 = a[:, :, None].repeat(1, 1, 2)
        if form == "full":
            for j in (0, 1):
                z1[:, j] += found.f[:, j]
            z1[:, 2] += found.f[:, 2] + graph[0, 2] * found.f[:, 0] + graph[1, 2] * found.f[:, 1]
        assert torch.allclose(found.z1, z1)
        for j in range(3):
            parents = torch.cat([graph[i, j] * z1[:, i] for i in range(3)], 1)
            assert torch.allclose(found.z2[:, j], own.masks.links[j](parents) + found.f[:, j])


def test_a_concept_without_causes_is_decoded_from_noise_alone():
    """As printed: what is decoded of a root does not depend on its label, beside what the encoder sees of it. This, and
    not the graph, is why interventions on it do little; the anchored form decodes the concept itself."""
    one = method(sees_labels=False)
    nets, x, u = networks(one)
    moved = anchored(u, LABELS)
    moved[:, 0] += 1
    before, after = (one.encoded(nets.autoencoder, x, a).z2 for a in (anchored(u, LABELS), moved))
    assert torch.allclose(before[:, :2], after[:, :2])
    assert not torch.allclose(before[:, 2], after[:, 2])


def test_terms_are_the_library_s_estimators():
    one = method()
    nets, x, u = networks(one)
    torch.manual_seed(3)
    f, terms = one.terms(nets, x, u, LABELS)
    torch.manual_seed(3)
    normal = torch.randn_like(f)
    kernel = InverseMultiquadratic(scale=2.0 * 6)
    assert terms["distance"].item() == pytest.approx(100 * mmd(f, normal, kernel).item())
    assert terms["dependence"].item() == pytest.approx(1000 * hsic(f, anchored(u, LABELS)).item())
    own = nets.autoencoder
    out = torch.sigmoid(own.decoder(one.encoded(own, x, anchored(u, LABELS)).z2))
    assert terms["cost"].item() == pytest.approx((out - x).square().sum((1, 2, 3)).mean().item())


def test_one_joint_discrepancy_stands_for_both_penalties():
    _, terms = method(match="joint").terms(*networks(method(match="joint")), LABELS)
    assert "dependence" not in terms
    assert "distance" in terms


def test_a_critic_plays_against_the_autoencoder():
    one = method(match="critic", critic=(8,))
    world = Pendulum(size=16, noise=0.5)
    names = [factor.name for factor in world.factors]
    one = replace(one, graph=(f"{names[0]}->{names[2]}",))
    fitted = fit(one, world, recipe=TINY)
    curve = fitted.curves["train"].names
    assert "autoencoder.distance" in curve
    assert "critic.normal" in curve


def test_missing_labels_are_told_from_the_picture():
    one = method()
    nets, x, u = networks(one)
    u[:, 1] = torch.nan
    torch.manual_seed(0)
    _, terms = one.terms(nets, x, u, LABELS)
    gradients = torch.autograd.grad(terms.total, list(nets.autoencoder.parameters()), allow_unused=True)
    assert all(torch.isfinite(g).all() for g in gradients if g is not None)


def test_decoders_that_are_not_injective_are_refused():
    assert injective(nn.Sequential(nn.Linear(3, 5), nn.LeakyReLU(), nn.Linear(5, 5))) == ""
    assert "from 5 numbers to 3" in injective(nn.Linear(5, 3))
    assert "ReLU maps different inputs" in injective(nn.Sequential(nn.Linear(3, 5), nn.ReLU()))
    flat = nn.Linear(2, 3)
    with torch.no_grad():
        flat.weight[:, 1] = 2 * flat.weight[:, 0]
    assert "smaller rank" in injective(flat)
    with pytest.raises(ValueError, match="needs an injective decoder, and a layer goes from 64 numbers to 32"):
        CausalWAE(graph=GRAPH, net=SMALL, decoder=(64, 32)).init(Spec((1, 8, 8), labels=LABELS))


def test_a_narrow_matrix_has_inverse_images():
    """What is checked is what is claimed: of an injective network, different codes give different pictures."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(3, 6), nn.LeakyReLU(0.2), nn.Linear(6, 9)).double()
    assert injective(net) == ""
    z = torch.randn(40, 3, dtype=torch.float64)
    h = torch.linalg.lstsq(net[2].weight, (net(z) - net[2].bias).T).solution.T
    back = torch.where(h > 0, h, h / 0.2)
    found = torch.linalg.lstsq(net[0].weight, (back - net[0].bias).T).solution.T
    assert torch.allclose(found, z)
