"""CauCA: its density is the true one where it can be, latents of a known truth, and what it refuses."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Generator

from whence import CauCA, Environments, fit
from whence.methods.interventional.cauca import CausalBase, directions
from whence.methods.score_based._maps import set_linear
from whence.methods.score_based.fronts import Principal
from whence.scm import SCM, Hard, RandomLinear, from_edges
from whence.worlds import Mixed
from whence.worlds.mixing import MLPMixing

TINY = replace(CauCA.recipe, steps=3, batch=8, every=1)


def seeded(seed=0):
    return Generator().manual_seed(seed)


def edges(world):
    return tuple(f"{i}->{j}" for i, j in world.scm.graph.nonzero().tolist())


def test_the_base_can_be_the_density_of_a_linear_gaussian_model_in_every_environment():
    graph = from_edges([(0, 1), (0, 2), (1, 2)], 3)
    scm = SCM.random(graph, RandomLinear(), rng=seeded(1))
    law, base = scm.gaussian, CausalBase(graph, 3, 4).double()
    slope, shift = torch.zeros(3, 3, 2).double(), torch.zeros(3, 1, 2).double()
    slope[..., 0] = law.weights.T
    shift[..., 0, 1] = 0.5 * law.variances.log()
    set_linear(base.natural, slope, shift)
    shift[..., 0, 1] += 0.5 * math.log(0.25)
    set_linear(base.replaced, slope, shift)  # whose causes are not looked at, since it is hard
    for bent in (base.natural, base.replaced):
        for p in bent.rest.parameters():
            torch.nn.init.zeros_(p)
    z = scm.sample(50, rng=seeded(2))
    got = base(z.expand(4, -1, -1))
    assert torch.allclose(got[0], scm.log_prob(z))
    assert torch.allclose(base.observational(z), scm.log_prob(z))
    for t in range(3):
        assert torch.allclose(got[1 + t], scm.log_prob(z, do={t: Hard(variance=0.25)}))


@pytest.mark.parametrize("hard", [True, False])
def test_a_replaced_mechanism_looks_at_the_causes_of_its_target_only_if_it_is_soft(hard):
    base = CausalBase(from_edges([(0, 1)], 3), 3, 4)
    for p in base.replaced.parameters():
        torch.nn.init.normal_(p)
    for p in base.natural.parameters():  # looks at nothing, so that what is left is the new one
        torch.nn.init.zeros_(p)
    base.hard.fill_(hard)
    z = torch.randn(4, 20, 3, generator=seeded(), requires_grad=True)
    new = base(z)[2] - base.observational(z[2])  # the target of the second environment is 1
    (g,) = torch.autograd.grad(new.sum(), z)
    cause, own, other = g[2].abs().amax(0).tolist()
    assert own > 0.1
    assert other == 0
    assert (cause == 0) == hard


def test_with_two_environments_a_latent_it_begins_at_those_of_a_linear_gaussian_model():
    world = Mixed(nodes=3, dims=3, density=1.0, model_seed=4)
    batch = world.environments(per_node=2).take(50_000, seeded())
    u = [batch.observational, *(env.x for env in batch.interventional)]
    H = directions(u, [0, 1, 2] * 2)
    share = torch.nn.functional.normalize(H.double() @ world.mixing_matrix).abs()  # of each true latent in each row
    assert float(share.diagonal().min()) > 0.99
    assert torch.allclose((u[0] @ H.T).std(0), torch.ones(3), atol=1e-2)


def test_the_density_of_a_fit_is_its_change_of_variables():
    world = Mixed(nodes=2, dims=2, density=1.0, model_seed=3)
    r = fit(CauCA(graph=("0->1",), examples=200), world.environments(), recipe=TINY).representation.double()
    x = world.observe(world.draw(10, rng=seeded(1))).double()
    u = r.reduction(x)
    J = torch.func.vmap(torch.func.jacrev(lambda row: r.flow(row[None])[0][0]))(u)
    expected = r.base.observational(r.codes(x)) + torch.linalg.slogdet(J).logabsdet
    assert torch.allclose(r.log_prob(x), expected, atol=1e-8)


def test_latents_of_a_nonlinear_mixing_are_found_in_the_order_of_their_targets():
    world = Mixed(nodes=2, dims=2, density=1.0, mixing=MLPMixing(layers=2), model_seed=5)
    method = CauCA(graph=edges(world), layers=2, hidden=(32,), examples=4_000)
    r = fit(method, world.environments(), recipe=replace(method.recipe, steps=400)).representation
    v = world.draw(2_000, rng=seeded(1))
    x = world.observe(v)
    own = np.corrcoef(r.encode(x).T.numpy(), v.T.numpy())[:2, 2:]
    assert np.abs(own.diagonal()).min() > 0.95
    assert torch.allclose(r.decode(r.encode(x)), x, atol=1e-3)
    assert torch.equal(r.graph, world.scm.graph.float())


def test_more_dimensions_than_latents_lose_nothing_where_the_mixing_is_linear():
    world = Mixed(nodes=3, dims=8, model_seed=2)
    r = fit(CauCA(graph=edges(world), examples=300), world.environments(), recipe=TINY).representation
    x = world.observe(world.draw(50, rng=seeded()))
    assert torch.allclose(r.decode(r.encode(x)), x, atol=1e-3)


def test_a_reduction_that_loses_much_is_told():
    x = torch.randn(200, 6, generator=seeded())
    view = Environments.of(x, [x + 1, 2 * x], targets=[0, 1])
    with pytest.warns(UserWarning, match="first stage loses"):
        fit(CauCA(graph=(), front=Principal(dims=2)), view, recipe=TINY)


@pytest.mark.parametrize(
    ("graph", "told", "message"),
    [
        (None, {"targets": [0, 1]}, r"needs the causal graph.*graph=\(\) if there are none"),
        ((), {}, "needs to be told the one latent.*got none for environment 1"),
        ((), {"targets": [0, {0, 1}]}, "got 2 targets for environment 2"),
        ((), {"targets": [0, 1], "kinds": "do"}, "interventions with noise.*a do"),
        ((), {"targets": [0, 2]}, "an intervention on each latent, got none on 1 of 3"),
        (("0->5",), {"targets": [0, 1]}, "Unknown node '5'"),
        (("0->1", "1->0"), {"targets": [0, 1]}, "cycle"),
    ],
)
def test_what_is_not_told_or_cannot_be_is_refused(graph, told, message):
    x = torch.randn(30, 4, generator=seeded())
    with pytest.raises(ValueError, match=message):
        fit(CauCA(graph=graph), Environments.of(x, [x + 1, x * 2], **told), recipe=TINY)


def test_settings_that_cannot_be_are_refused():
    with pytest.raises(ValueError, match="at least 1 and bins 2"):
        CauCA(layers=0)
