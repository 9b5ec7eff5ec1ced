"""ICM-VAE: its flow is invertible, its divergence exact, and a do is that of a structural causal model."""

from __future__ import annotations

import pytest
import torch
from torch.distributions import Independent, MultivariateNormal, Normal, kl_divergence

from whence import fit
from whence.descend import Recipe
from whence.methods import ICMVAE
from whence.nets import MLP
from whence.scm import topological_order
from whence.views import Label, Spec
from whence.worlds import Pendulum

GRAPH = ("a->c", "b->c", "c->d")
LABELS = tuple(Label(name, -1.0, 1.0) for name in "abcd")
SMALL = MLP(hidden=(16,))


def networks(method):
    torch.manual_seed(0)
    nets = method.init(Spec((1, 3, 4), labels=LABELS)).double()
    for part in (nets.flow, nets.prior):
        for p in part.parameters():
            torch.nn.init.normal_(p, std=0.5)
    x = torch.rand(7, 1, 3, 4, dtype=torch.float64)
    return nets, x, 2 * torch.rand(7, 4, dtype=torch.float64) - 1


def ready(width=2):
    method = ICMVAE(graph=GRAPH, width=width, net=SMALL)
    nets, x, a = networks(method)
    return method, nets, x, a, method.represent(nets, Spec((1, 3, 4), labels=LABELS)).double()


def test_a_flow_is_invertible_in_its_noise_with_the_volume_that_is_said():
    _, nets, x, _, r = ready()
    with torch.no_grad():
        e = r.abduct(x)
        z = r.predict(e, {}).unflatten(1, (4, 2))
        own = list(z.unbind(1))
        back, volume = [], 0.0
        for j in range(4):
            s, t = nets.flow(own, j)
            back.append((z[:, j] - t) / s.exp())
            volume = volume + s.sum(1)
    assert torch.allclose(torch.stack(back, 1), e)
    jacobian = torch.autograd.functional.jacobian(lambda e: r.predict(e.reshape(1, 4, 2), {})[0], e[0].flatten())
    assert torch.linalg.slogdet(jacobian)[1].item() == pytest.approx(volume[0].item(), rel=1e-9)


def test_a_do_sets_the_value_and_moves_only_descendants():
    _, _, x, _, r = ready()
    with torch.no_grad():
        e = r.abduct(x)
        before, after = r.predict(e, {}), r.predict(e, {2: torch.full((7,), 0.3).double()})
    assert torch.allclose(r.values(after)[:, 2], torch.tensor(0.3).double())
    assert torch.allclose(after[:, :4], before[:, :4]), "causes stay"
    assert (after[:, 6:] - before[:, 6:]).abs().min() > 1e-6, "the effect follows"
    again = r.predict(e, {2: r.values(before)[:, 2]})
    assert torch.allclose(r.values(again)[:, 2], r.values(before)[:, 2])


def test_divergences_in_closed_form_where_mechanisms_are_linear():
    """A chain of two with constant scales and linear shifts: both distributions of z are Gaussian, so the divergence
    is a closed form; ours draws the cause, and agrees on average."""
    labels = LABELS[:2]
    method = ICMVAE(graph=("a->b",), width=1, net=SMALL)
    torch.manual_seed(0)
    nets = method.init(Spec((1, 2, 2), labels=labels)).double()

    class Linear(torch.nn.Module):
        def __init__(self, s, slope):
            super().__init__()
            self.s, self.slope = s, slope

        def forward(self, z, j):
            return torch.full_like(z[j], self.s[j]), (self.slope * z[0] if j else torch.full_like(z[0], 0.2))

    nets.flow, nets.prior = Linear((0.3, -0.4), 0.7), Linear((0.1, 0.2), -0.5)
    x = torch.rand(1, 1, 2, 2, dtype=torch.float64).expand(40_000, 1, 2, 2)
    a = torch.tensor([[0.4, -0.6]], dtype=torch.float64).expand(40_000, 2)
    terms = method.terms(nets, x, a, (0, 1))
    mean, log_var = nets.encoder(x[:1]).detach()[0].chunk(2)
    k = torch.tensor([[1.0, 0.0], [0.7, 1.0]]).double() @ torch.diag(torch.tensor([0.3, -0.4]).double().exp())
    q = MultivariateNormal(k @ mean + torch.tensor([0.2, 0.14]).double(), k @ torch.diag(log_var.exp()) @ k.T)
    first = torch.tensor(0.1).exp() * 0.4 + 0.2
    l = torch.tensor([[1.0, 0.0], [-0.5, 1.0]]).double()
    centre = torch.stack([first, torch.tensor(0.2).exp() * -0.6 - 0.5 * first]).double()
    p = MultivariateNormal(centre, l @ l.T)
    assert terms["concepts"].item() == pytest.approx(kl_divergence(q, p).item(), rel=0.01)
    e = Independent(Normal(mean, (0.5 * log_var).exp()), 1)
    standard = Independent(Normal(torch.zeros(2).double(), torch.ones(2).double()), 1)
    assert terms["noise"].item() == pytest.approx(kl_divergence(e, standard).item(), rel=1e-9)


def test_missing_labels_leave_their_terms_out():
    method, nets, x, a, _ = ready()
    torch.manual_seed(3)
    whole = method.terms(nets, x, a, topological_order(nets_graph()))
    a[:, 3] = torch.nan
    torch.manual_seed(3)
    less = method.terms(nets, x, a, topological_order(nets_graph()))
    assert less["concepts"] < whole["concepts"]
    assert less["nll"].item() == whole["nll"].item()
    assert all(torch.isfinite(t) for t in less.values())


def nets_graph():
    from whence.scm import from_edges

    return from_edges([("a", "c"), ("b", "c"), ("c", "d")], tuple("abcd"))


def test_learns_from_pictures_with_labels():
    """The divergence from the prior that labels give grows at first, as a posterior does that finds out more."""
    world = Pendulum(size=16, noise=0.5)
    graph = tuple(f"{cause}->shadow_{effect}" for cause in ("pendulum", "light") for effect in ("length", "position"))
    method = ICMVAE(graph=graph, net=MLP(hidden=(32,)))
    fitted = fit(method, world, recipe=Recipe(steps=60, batch=64, every=20))
    curve = fitted.curves["train"]
    assert sum(curve[name][-1] for name in curve.names) < sum(curve[name][0] for name in curve.names) - 10
    with pytest.raises(ValueError, match="width is at least 1, got 0"):
        ICMVAE(width=0)
