"""Architectures: shapes, sizes by hand, refusals."""

from __future__ import annotations

import pytest
import torch

from whence.nets import (
    ARCHITECTURES,
    MLP,
    Architecture,
    Burgess,
    ClassOf,
    Coarse,
    Conv64,
    Inputs,
    Nets,
    mlp,
    suited,
    weights_of,
)
from whence.views import Label, Spec


def conv(i: int, o: int, k: int) -> int:
    return i * o * k * k + o


def linear(i: int, o: int) -> int:
    return i * o + o


@pytest.mark.parametrize("net", [kind() for kind in ARCHITECTURES], ids=lambda net: type(net).__name__)
@pytest.mark.parametrize("channels", [1, 3])
def test_encoders_and_decoders_have_the_shapes_they_promise(net, channels):
    shape = (channels, 64, 64)
    x = torch.rand(2, *shape)
    moments = net.encoder(shape, 20)(x)
    assert moments.shape == (2, 20)
    assert net.decoder(10, shape)(moments[:, :10]).shape == x.shape


def test_conv64_has_the_weights_of_the_large_scale_study():
    encoder = conv(1, 32, 4) + conv(32, 32, 4) + conv(32, 64, 2) + conv(64, 64, 2) + linear(1024, 256) + linear(256, 20)
    decoder = linear(10, 256) + linear(256, 1024) + conv(64, 64, 4) + conv(64, 32, 4) + conv(32, 32, 4) + conv(32, 1, 4)
    assert weights_of(Conv64().encoder((1, 64, 64), 20)) == encoder == 309_204
    assert weights_of(Conv64().decoder(10, (1, 64, 64))) == decoder == 381_313


def test_burgess_has_the_weights_of_the_paper():
    convolutions = conv(1, 32, 4) + 3 * conv(32, 32, 4)
    encoder = convolutions + linear(512, 256) + linear(256, 256) + linear(256, 20)
    decoder = linear(10, 256) + linear(256, 256) + linear(256, 512) + 3 * conv(32, 32, 4) + conv(32, 1, 4)
    assert weights_of(Burgess().encoder((1, 64, 64), 20)) == encoder
    assert weights_of(Burgess().decoder(10, (1, 64, 64))) == decoder


def test_the_coarse_encoder_has_the_weights_of_the_paper_and_sees_what_is_drawn_on_white():
    net = Coarse().encoder((3, 64, 64), 4)
    assert weights_of(net) == conv(3, 16, 5) + linear(1600, 64) + linear(64, 4)
    x = torch.ones(1, 3, 64, 64)
    first = net[:2](x)
    assert torch.allclose(first, net[1].bias[:, None, None].expand_as(first[0])[None])
    x[..., 30:34, 30:34] = 0
    assert not torch.allclose(net[:2](x), first)


def test_an_mlp_has_the_layers_it_says_and_its_decoder_in_reverse():
    net = MLP(hidden=(8, 4))
    assert weights_of(net.encoder((2, 3), 5)) == linear(6, 8) + linear(8, 4) + linear(4, 5)
    assert weights_of(net.decoder(5, (2, 3))) == linear(5, 4) + linear(4, 8) + linear(8, 6)


def test_without_hidden_layers_an_mlp_is_linear():
    f = mlp([3, 2])
    a, b = torch.randn(4, 3), torch.randn(4, 3)
    torch.testing.assert_close(f(a + b) + f(torch.zeros(4, 3)), f(a) + f(b))


@pytest.mark.parametrize("net", [Conv64(), Burgess(), Coarse()])
@pytest.mark.parametrize("shape", [(1, 32, 32), (64, 64), (7,)])
def test_convolutions_refuse_what_is_no_image_of_64(net, shape):
    name = type(net).__name__
    for build in (lambda: net.encoder(shape, 2), lambda: net.decoder(2, shape)):
        with pytest.raises(ValueError, match=rf"{name} takes images of shape \(channels, 64, 64\).*or use MLP\(\)"):
            build()


def test_the_usual_network_suits_the_observation():
    assert suited(None, Spec((1, 64, 64))) == Conv64()
    assert suited(None, Spec((12,))) == MLP()
    assert suited(None, Spec((3, 32, 32))) == MLP()
    assert suited(Burgess(), Spec((1, 64, 64))) == Burgess()


def test_networks_are_named():
    nets = Nets(encoder=mlp([2, 3]), critic=mlp([3, 1]))
    assert dict(nets.named_children()) == {"encoder": nets.encoder, "critic": nets.critic}


def test_the_base_cannot_be_built():
    with pytest.raises(TypeError, match=r"abstract"):
        Architecture()  # type: ignore[abstract]


LABELS = Label("size", 0.0, 4.0), Label("kind", 1.0, 3.0, (1.0, 2.0, 3.0))


def test_labels_enter_a_network_as_it_takes_them():
    inputs, kind = Inputs(LABELS), ClassOf(1, LABELS[1])
    u = torch.tensor([[1.0, 3.0], [4.0, torch.nan]])
    assert inputs.width == 4
    assert inputs(u).tolist() == [[-0.5, 0.0, 0.0, 1.0], [1.0, 0.0, 0.0, 0.0]]
    assert kind(u).tolist() == [2, -1]
    assert not list(inputs.state_dict())
