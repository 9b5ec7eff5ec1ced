"""SCM-VAE: its structural prior by hand."""

from __future__ import annotations

import pytest
import torch

from whence.methods import SCMVAE, CausalVAE
from whence.nets import MLP
from whence.views import Label, Spec

SMALL = MLP(hidden=(16,))
GRAPH = ("a->c", "b->c", "c->d")
LABELS = tuple(Label(name, -1.0, 1.0) for name in "abcd")


def networks(method):
    torch.manual_seed(0)
    nets = method.init(Spec((1, 3, 4), labels=LABELS)).double()
    return nets, torch.rand(7, 1, 3, 4, dtype=torch.float64), 2 * torch.rand(7, 4, dtype=torch.float64) - 1


def test_the_prior_is_between_a_concept_s_label_and_its_causes():
    method = SCMVAE(graph=GRAPH, net=SMALL)
    nets, _, a = networks(method)
    a[3, 1] = torch.nan
    centre = method.centre(a, nets.structure.support)
    expected = torch.stack([a[:, 0], a[:, 1], a[:, :3].mean(1), a[:, 2:].mean(1)], 1)
    assert torch.allclose(centre, expected, equal_nan=True)
    assert centre[3].isnan().tolist() == [False, True, True, False], "a cause's label is missing"


def test_the_loss_is_that_of_causal_vae_with_another_prior():
    method, plain = SCMVAE(graph=GRAPH, net=SMALL), CausalVAE(graph=GRAPH, net=SMALL)
    nets, x, u = networks(method)
    centre = method.centre(u, nets.structure.support)

    def terms(of, u):
        torch.manual_seed(1)
        return of.terms(nets, x, u, LABELS)

    mine, theirs, moved = terms(method, u), terms(plain, u), terms(plain, centre)
    for name in ("nll", "noise", "masks", "cycles", "labels"):
        assert torch.equal(mine[name], theirs[name])
    assert mine["concepts"].item() == pytest.approx(moved["concepts"].item(), rel=1e-12)
    assert mine["concepts"].item() != pytest.approx(theirs["concepts"].item(), rel=1e-3)


def test_needs_a_graph():
    for wrong in ({"graph": None}, {"graph": GRAPH, "certain": False}):
        with pytest.raises(ValueError, match="SCMVAE needs the causal graph, graph="):
            SCMVAE(**wrong)
    with pytest.raises(ValueError, match="cycle"):
        SCMVAE(graph=("a->b", "b->a"), net=SMALL).init(Spec((1, 3, 4), labels=LABELS))
