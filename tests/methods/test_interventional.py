"""Rivals that learn from interventions: their logits in closed form, what they find, what they refuse."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Generator

from whence import fit
from whence.descend import Adam
from whence.methods import ContrastiveCRL, InterventionalAE
from whence.methods.interventional.contrastive_crl import Quadratics, cycles
from whence.methods.score_based.fronts import Principal
from whence.metrics import mcc, shd
from whence.nets import MLP
from whence.scm import SCM, RandomLinear, random_graph
from whence.views import Environments
from whence.worlds import Mixed


def seeded(seed=0):
    return Generator().manual_seed(seed)


def test_the_logits_can_be_the_true_log_ratios_of_a_linear_gaussian_model():
    rng = seeded(2)
    scm = SCM.random(random_graph(3, probability=1.0, rng=rng), RandomLinear(), rng=rng)
    law = scm.gaussian
    z = scm.sample(50, rng=rng)
    head = Quadratics(3).double()
    with torch.no_grad():
        head.weights.copy_(law.weights.T)
        head.scale.copy_((0.5 / law.variances).sqrt())
        head.own.copy_((0.5 / (0.25 * law.variances)).sqrt())
        head.constant.fill_(0.5 * torch.tensor(0.25).log())
    from whence.scm import Hard

    for t in range(3):
        true = scm.log_prob(z) - scm.log_prob(z, do={t: Hard(variance=0.25)})
        assert torch.allclose(head(z)[:, t], true)


def test_cycles_are_counted_and_a_graph_without_them_costs_nothing():
    A = torch.tensor([[0.0, 1.0, 0.5], [0.0, 0.0, 2.0], [0.0, 0.0, 0.0]])
    assert float(cycles(A)) == pytest.approx(0, abs=1e-5)
    assert float(cycles(A + A.T)) > 1


def test_contrast_finds_latents_and_graph_of_a_linear_gaussian_model():
    w = Mixed(nodes=3, dims=6, density=1.0, model_seed=1)
    method = ContrastiveCRL(net=MLP(hidden=()), sparsity=0.0)
    recipe = replace(method.recipe, steps=800, batch=256, optimiser=Adam(lr=1e-2))
    r = fit(method, w.environments(scale=0.25), recipe=recipe).representation
    v = w.draw(2_000, rng=seeded(1))
    assert mcc(r.encode(w.observe(v)).numpy(), v.numpy()) > 0.97
    assert shd(r.graph, w.scm.graph.double()) <= 1


def test_codes_come_in_the_order_of_told_targets():
    x = torch.randn(30, 4, generator=seeded())
    view = Environments.of(x, [x + 1, x * 2], targets=[1, 0])
    recipe = replace(ContrastiveCRL.recipe, steps=2, batch=4, every=1)
    told = fit(ContrastiveCRL(net=MLP(hidden=(4,))), view, recipe=recipe).representation
    free = fit(ContrastiveCRL(net=MLP(hidden=(4,))), Environments.of(x, [x + 1, x * 2]), recipe=recipe).representation
    assert torch.equal(told.encode(x), free.encode(x)[:, [1, 0]])
    assert torch.equal(told.graph, free.graph[[1, 0]][:, [1, 0]])


@pytest.mark.parametrize(
    ("told", "message"), [({"kinds": "do"}, "hard interventions with noise"), ({"targets": [0, 0]}, "one intervention")]
)
def test_what_cannot_be_is_refused(told, message):
    x = torch.randn(30, 4, generator=seeded())
    with pytest.raises(ValueError, match=message):
        fit(ContrastiveCRL(), Environments.of(x, [x + 1, x * 2], **told))


# --- an autoencoder and regressions of told values -------------------------------------------------------------------


def test_values_of_do_give_latents_of_a_linear_mixing():
    w = Mixed(nodes=3, dims=8, density=1.0, model_seed=2)
    view = w.environments(kind="do", points=(-2.0, 0.0, 2.0))
    method = InterventionalAE(front=Principal(dims=3), examples=1_000)
    r = fit(method, view, recipe=replace(method.recipe, steps=500)).representation
    v = w.draw(2_000, rng=seeded(1))
    own = np.corrcoef(r.encode(w.observe(v)).T.numpy(), v.T.numpy())[:3, 3:]
    assert own.diagonal().min() > 0.9


def test_a_head_that_could_only_learn_a_constant_is_refused():
    w = Mixed(nodes=3, dims=8, model_seed=2)
    view = w.environments(kind="do", points=(2.0,))
    with pytest.raises(ValueError, match="one value has a constant to learn, got one value of latents 0, 1, 2"):
        fit(InterventionalAE(), view)
    recipe = replace(InterventionalAE.recipe, steps=3, batch=8, every=1)
    assert fit(InterventionalAE(head="linear", examples=100), view, recipe=recipe).representation.dims == 3


def test_values_must_be_told():
    w = Mixed(nodes=3, dims=8, model_seed=2)
    with pytest.raises(ValueError, match="tells its target and its value"):
        fit(InterventionalAE(), w.environments())
    with pytest.raises(ValueError, match="'mlp' or 'linear'"):
        InterventionalAE(head="none")
