"""Baselines against linear algebra and known sources."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from whence import AE, ICA, PCA, AdaGVAE, Environments, Pixels, RandomEncoder, fit
from whence.descend import Adam
from whence.nets import MLP
from whence.worlds import Mixed


@pytest.fixture
def x(rng) -> torch.Tensor:
    spread = torch.tensor([5.0, 3.0, 2.0, 1.0, 0.5, 0.1])
    rotation = torch.linalg.qr(torch.randn(6, 6, generator=rng)).Q
    return (torch.randn(500, 6, generator=rng) * spread) @ rotation + 10


def test_pixels_are_the_observation_and_come_back(rng):
    x = torch.rand(7, 3, 4, 4, generator=rng)
    r = fit(Pixels(), x).representation
    assert torch.equal(r.encode(x), x.flatten(1))
    assert torch.equal(r.decode(r.encode(x)), x)
    assert r.dims == 48


def test_principal_components_are_the_singular_vectors(x):
    codes = fit(PCA(latents=3), x).representation.encode(x).double().numpy()
    centred = x.double().numpy() - x.double().numpy().mean(0)
    _, s, vt = np.linalg.svd(centred, full_matrices=False)
    expected = centred @ vt[:3].T
    sign = np.sign((codes * expected).sum(0))
    assert np.allclose(codes * sign, expected, atol=1e-4)
    assert codes.var(0) * len(x) == pytest.approx(s[:3] ** 2, rel=1e-4)


def test_decoding_principal_components_projects_onto_their_subspace(x):
    r = fit(PCA(latents=3), x).representation
    once = r.decode(r.encode(x))
    centred = x.double().numpy() - x.double().numpy().mean(0)
    _, _, vt = np.linalg.svd(centred, full_matrices=False)
    projection = centred @ vt[:3].T @ vt[:3] + x.double().numpy().mean(0)
    assert np.allclose(once.numpy(), projection, atol=1e-4)
    torch.testing.assert_close(r.decode(r.encode(once)), once, atol=1e-4, rtol=1e-5)


def test_all_principal_components_lose_nothing(x):
    r = fit(PCA(latents=6), x).representation
    torch.testing.assert_close(r.decode(r.encode(x)), x, atol=1e-4, rtol=1e-5)


def test_independent_components_recover_independent_sources_up_to_order_sign_and_scale(rng):
    sources = torch.rand(4000, 3, generator=rng) - 0.5
    sources[:, 2] = sources[:, 2].sign() * sources[:, 2].abs().sqrt()
    x = sources @ torch.randn(3, 8, generator=rng) + 2
    r = fit(ICA(latents=3), x).representation
    codes = r.encode(x)
    correlation = torch.corrcoef(torch.cat([codes, sources], 1).T)[:3, 3:].abs()
    assert (correlation.max(0).values > 0.99).all()
    assert sorted(correlation.argmax(0).tolist()) == [0, 1, 2]
    torch.testing.assert_close(codes.std(0), torch.ones(3), atol=0.01, rtol=0)
    torch.testing.assert_close(codes.mean(0), torch.zeros(3), atol=0.01, rtol=0)
    torch.testing.assert_close(r.decode(codes), x, atol=1e-3, rtol=1e-3)


def test_baselines_learn_from_all_environments_together(rng):
    rows = [torch.randn(300, 4, generator=rng) * torch.tensor(scale) for scale in ([1, 2, 3, 4.0], [9, 2, 3, 4.0])]
    pooled = fit(PCA(latents=4), Environments.of(rows[0], rows[1:])).representation
    expected = fit(PCA(latents=4), torch.cat(rows)).representation
    assert torch.allclose(pooled.encode(rows[0]), expected.encode(rows[0]), atol=1e-5)
    world = Mixed(nodes=3, dims=6)
    codes = fit(ICA(latents=3), world.environments()).representation.encode(torch.zeros(2, 6))
    assert codes.shape == (2, 3)
    with pytest.raises(TypeError, match="learns from Pairs, got Environments"):
        fit(AdaGVAE(), world.environments())


def test_more_components_than_the_data_have_are_refused(x):
    with pytest.raises(ValueError, match=r"at most 6 components in 500 observations of 6 values, got latents=7"):
        fit(PCA(latents=7), x)


@pytest.mark.parametrize("method", [PCA(latents=2), ICA(latents=2)])
def test_methods_that_look_once_depend_on_the_seed_alone(method, x):
    one, other = (fit(method, x, seed=3).representation.encode(x) for _ in range(2))
    assert torch.equal(one, other)


def test_a_random_encoder_is_an_untrained_network_of_its_seed(x):
    method = RandomEncoder(latents=2, net=MLP(hidden=(8,)))
    one, same, other = (fit(method, x, seed=s).representation.encode(x) for s in (0, 0, 1))
    assert torch.equal(one, same)
    assert not torch.equal(one, other)
    assert one.shape == (500, 2)


def test_a_linear_autoencoder_spans_the_principal_components(x):
    x = x - x.mean(0)
    recipe = replace(AE.recipe, steps=600, batch=256, optimiser=Adam(lr=3e-2))
    r = fit(AE(latents=3, net=MLP(hidden=())), x, recipe=recipe).representation
    _, s, _ = torch.linalg.svd(x, full_matrices=False)
    least = float(s[3:].square().sum()) / len(x)  # what the three leading components leave out
    lost = float((r.decode(r.encode(x)) - x).square().sum()) / len(x)
    assert least - 1e-4 <= lost < 1.1 * least
