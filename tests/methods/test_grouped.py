"""Groups and pairs: what is shared is pooled, by the average or the product; the rest is left alone."""

from __future__ import annotations

import pytest
import torch
from torch.distributions import Normal
from torch.distributions.kl import kl_divergence

from whence import AdaGVAE, Adam, Groups, Pairs, Recipe, fit
from whence.methods import GVAE, MLVAE, AdaMLVAE
from whence.nets import MLP
from whence.terms import gaussian
from whence.views import Group, Pair, Spec


def test_the_average_is_the_papers_written_as_a_loop(rng):
    q = gaussian(torch.randn(12, 10, generator=rng, dtype=torch.float64))
    got = AdaGVAE().merged(q)
    for i in range(6):
        m, m_, v, v_ = q.loc[i], q.loc[i + 6], q.variance[i], q.variance[i + 6]
        delta = [kl_divergence(Normal(m[j], v[j].sqrt()), Normal(m_[j], v_[j].sqrt())).item() for j in range(5)]
        tau = (max(delta) + min(delta)) / 2
        for j in range(5):
            if delta[j] < tau:
                expected = (m[j] + m_[j]) / 2, (v[j] + v_[j]) / 2
                for half in (i, i + 6):
                    torch.testing.assert_close(got.loc[half, j], expected[0])
                    torch.testing.assert_close(got.variance[half, j], expected[1])
            else:
                torch.testing.assert_close((got.loc[i, j], got.loc[i + 6, j]), (m[j], m_[j]))
                torch.testing.assert_close((got.variance[i, j], got.variance[i + 6, j]), (v[j], v_[j]))


def test_the_shared_dimensions_are_those_where_the_posteriors_differ_least():
    m = torch.tensor([[0.0, 0.0, 0.0], [0.1, 5.0, -0.1]])
    got = AdaGVAE().merged(gaussian(torch.cat([m, torch.zeros(2, 3)], 1)))
    assert got.loc.tolist() == [
        pytest.approx([0.05, 0.0, -0.05]),
        pytest.approx([0.05, 5.0, -0.05]),
    ]


def test_an_observation_paired_with_itself_keeps_its_posterior(rng):
    q = gaussian(torch.randn(4, 6, generator=rng).repeat(2, 1))
    got = AdaGVAE().merged(q)
    torch.testing.assert_close(got.loc, q.loc)
    torch.testing.assert_close(got.scale, q.scale)


def test_the_loss_is_the_mean_bound_of_both_halves_with_the_averaged_posteriors(rng):
    method, spec = AdaGVAE(latents=3, net=MLP(hidden=(8,)), beta=2.0), Spec((1, 4, 4))
    nets = method.init(spec).double()
    x, x_ = torch.rand(2, 5, *spec.shape, generator=rng, dtype=torch.float64)
    torch.manual_seed(0)
    got = method.loss(nets, Pair(x, x_), 0)
    torch.manual_seed(0)
    q = AdaGVAE().merged(gaussian(nets.encoder(torch.cat([x, x_]))))
    z = q.loc + q.scale * torch.randn(q.loc.shape, dtype=torch.float64)
    p = torch.sigmoid(nets.decoder(z))
    both = torch.cat([x, x_])
    torch.testing.assert_close(got["nll"], -(both * p.log() + (1 - both) * (1 - p).log()).flatten(1).sum(1).mean())
    torch.testing.assert_close(got["kl"], 2.0 * 0.5 * (q.loc**2 + q.variance - q.variance.log() - 1).sum(1).mean())


def test_pairs_that_differ_in_one_cause_separate_the_causes_of_a_rotated_mixture():
    """Three independent causes, mixed by a rotation: single observations cannot tell, pairs can."""
    torch.manual_seed(0)
    v, fresh = torch.randn(2, 5000, 3)
    which = torch.randint(3, (5000, 1))
    v_ = torch.where(torch.arange(3) == which, fresh, v)
    mixing = torch.linalg.qr(torch.randn(6, 3)).Q.T * 5
    method = AdaGVAE(latents=3, net=MLP(hidden=(64,)))
    recipe = Recipe(steps=1500, batch=64, optimiser=Adam(lr=2e-3))
    fitted = fit(method, Pairs.of(v @ mixing, v_ @ mixing), recipe=recipe)
    correlation = torch.corrcoef(torch.cat([fitted.representation.encode(v @ mixing), v], 1).T)[:3, 3:].abs()
    assert (correlation.max(0).values > 0.9).all()
    assert sorted(correlation.argmax(0).tolist()) == [0, 1, 2]


# --- how many changed, and how they are pooled ------------------------------------------------------------------------


def posteriors(rng, b: int = 6, d: int = 5) -> Normal:
    return gaussian(torch.randn(2 * b, 2 * d, generator=rng, dtype=torch.float64))


def divergences(q: Normal, b: int = 6) -> tuple[torch.Tensor, torch.Tensor]:
    first, second = (Normal(a, s) for a, s in zip(q.loc.split(b), q.scale.split(b), strict=True))
    return kl_divergence(first, second), kl_divergence(second, first)


@pytest.mark.parametrize("changed", [0, 1, 3, 5])
def test_a_known_number_of_changed_factors_leaves_so_many_dimensions_alone(changed, rng):
    q = posteriors(rng)
    got = AdaGVAE(latents=5).merged(q, changed)
    delta, _ = divergences(q)
    alone = got.loc[:6] == q.loc[:6]
    assert (alone.sum(1) == changed).all()
    for i in range(6):
        assert set(delta[i].topk(changed).indices.tolist()) == set(alone[i].nonzero().flatten().tolist())


def test_pairs_that_tell_what_changed_tell_how_many(rng):
    method, spec = AdaGVAE(latents=3, net=MLP(hidden=(8,))), Spec((1, 4, 4))
    nets = method.init(spec)
    x, x_ = torch.rand(2, 4, *spec.shape, generator=rng)
    told = torch.tensor([[1, 0, 0, 0], [1, 1, 0, 0], [0, 1, 1, 1], [0, 0, 0, 0]]).bool()

    def kl(batch, **options) -> float:
        torch.manual_seed(0)
        return float(AdaGVAE(latents=3, net=MLP(hidden=(8,)), **options).loss(nets, batch, 0)["kl"].detach())

    q = gaussian(nets.encoder(torch.cat([x, x_])))
    p = method.merged(q, torch.tensor([[1], [2], [3], [0]]))
    expected = 0.5 * (p.loc**2 + p.variance - p.variance.log() - 1).sum(1).mean()
    assert kl(Pair(x, x_, told)) == pytest.approx(float(expected.detach()))
    assert kl(Pair(x, x_, told), changed=1) == kl(Pair(x, x_), changed=1)  # what is set goes before what is told


def test_the_symmetric_comparison_is_the_mean_of_both_divergences(rng):
    q = posteriors(rng, 200)
    one, other = divergences(q, 200)
    expected = [(d < (d.amax(1, keepdim=True) + d.amin(1, keepdim=True)) / 2) for d in (one, (one + other) / 2)]
    halves = [Normal(a, s) for a, s in zip(q.loc.split(200), q.scale.split(200), strict=True)]
    found = [AdaGVAE(latents=5, symmetric=s).shared(*halves) for s in (False, True)]
    assert torch.equal(found[0], expected[0])
    assert torch.equal(found[1], expected[1])
    assert not torch.equal(*found)


def test_the_product_is_of_half_the_harmonic_mean_of_the_variances(rng):
    """disentanglement_lib has the harmonic mean itself, which is twice the variance of a product."""
    q = posteriors(rng)
    got = AdaMLVAE(latents=5).merged(q, 0)
    v, v_ = q.variance.split(6)
    torch.testing.assert_close(got.variance[:6], v * v_ / (v + v_))
    torch.testing.assert_close(got.loc[:6], (q.loc[:6] * v_ + q.loc[6:] * v) / (v + v_))
    assert torch.equal(got.loc[:6], got.loc[6:])


def test_a_pair_differs_in_some_of_the_latents():
    with pytest.raises(ValueError, match=r"differs in 0 to 4 latents, got changed=5"):
        AdaMLVAE(latents=4, changed=5)


# --- groups -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [MLVAE, GVAE])
def test_the_loss_is_the_sum_over_a_group_with_one_content(kind, rng):
    b, g, c, d = 4, 3, 2, 5
    method, spec = kind(latents=d, content=c, net=MLP(hidden=(8,))), Spec((1, 4, 4))
    nets = method.init(spec).double()
    x = torch.rand(b, g, *spec.shape, generator=rng, dtype=torch.float64)
    torch.manual_seed(0)
    got = method.loss(nets, Group(x), 0)
    torch.manual_seed(0)
    e_c, e_s = torch.randn(b, c, dtype=x.dtype), torch.randn(b, g, d - c, dtype=x.dtype)
    nll = kl_c = kl_s = torch.zeros((), dtype=x.dtype)
    for i in range(b):
        m, v = nets.encoder(x[i]).chunk(2, 1)
        v = v.exp()
        if kind is MLVAE:
            whole = 1 / (1 / v[:, :c]).sum(0)
            mean = whole * (m[:, :c] / v[:, :c]).sum(0)
        else:
            mean, whole = m[:, :c].mean(0), v[:, :c].mean(0)
        content = mean + whole.sqrt() * e_c[i]
        kl_c = kl_c + 0.5 * (mean**2 + whole - whole.log() - 1).sum() / b
        for k in range(g):
            style = m[k, c:] + v[k, c:].sqrt() * e_s[i, k]
            p = torch.sigmoid(nets.decoder(torch.cat([content, style])[None]))[0]
            nll = nll - (x[i, k] * p.log() + (1 - x[i, k]) * (1 - p).log()).sum() / b
            kl_s = kl_s + 0.5 * (m[k, c:] ** 2 + v[k, c:] - v[k, c:].log() - 1).sum() / b
    torch.testing.assert_close(got["nll"], nll)
    torch.testing.assert_close(got["content"], kl_c)
    torch.testing.assert_close(got["style"], kl_s)


@pytest.mark.parametrize("kind", [MLVAE, GVAE])
def test_what_a_group_shares_goes_into_the_content_and_nothing_else_does(kind):
    torch.manual_seed(0)
    group = torch.randint(200, (3000,))
    shared, own = torch.randn(200, 2)[group], torch.randn(3000, 2)
    mixing = torch.linalg.qr(torch.randn(6, 4)).Q.T * 5
    x = torch.cat([shared, own], 1) @ mixing
    method = kind(latents=4, content=2, net=MLP(hidden=()))
    recipe = Recipe(steps=600, batch=32, optimiser=Adam(lr=1e-2))
    z = fit(method, Groups.of(x, group.numpy(), size=3), recipe=recipe).representation.encode(x)

    def explained(codes, factors):
        codes = torch.cat([codes, torch.ones(len(codes), 1)], 1)
        rest = factors - codes @ torch.linalg.lstsq(codes, factors).solution
        return 1 - rest.var() / factors.var()

    assert explained(z[:, :2], shared) > 0.95
    assert explained(z[:, :2], own) < 0.1
    assert explained(z[:, 2:], own) > 0.9
    assert explained(z[:, 2:], shared) < 0.1


def test_the_content_is_a_part_of_the_latents():
    with pytest.raises(ValueError, match=r"at least 1 of the 4 latents and at most all, got content=5"):
        MLVAE(latents=4, content=5)
