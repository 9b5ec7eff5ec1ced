"""Classifiers of pictures: gradients are those of their logits, and carried to the one number that pictures depend on
they are the closed form."""

from dataclasses import replace

import pytest
import torch
from torch import Generator

from whence.methods.score_based._pairs import pulled
from whence.scores import PictureRatio
from whence.scores.pictures import Classifiers, PictureScores


def seeded(seed=0):
    return Generator().manual_seed(seed)


def pictures(t):
    """(B,) -> (B, 1, 8, 8): a pattern, so much of it."""
    rows = torch.linspace(-1, 1, 8).to(t)
    return 0.5 + t[:, None, None, None] * (rows[:, None] * rows)


@pytest.mark.parametrize("shared", [True, False])
def test_carried_to_what_pictures_depend_on_they_are_the_closed_form(shared):
    means, spread = (0.0, 0.1, -0.2), 0.2
    samples = [pictures(m + spread * torch.randn(2_000, generator=seeded(e))) for e, m in enumerate(means)]
    recipe = replace(PictureRatio().recipe, steps=150, batch=32, ema=0.95)
    scores = PictureRatio(shared=shared, width=4, recipe=recipe).fit(samples, run=0)
    t = torch.linspace(-0.2, 0.2, 9)[:, None]
    d = pulled(lambda t: pictures(t[:, 0]), t, scores.differences(pictures(t[:, 0])))[..., 0]
    for own, m in zip(d, means[1:], strict=True):
        assert own.mean() == pytest.approx(-m / spread**2, rel=0.25)


@pytest.mark.parametrize("shared", [True, False])
def test_differences_are_gradients_of_logits(shared):
    torch.manual_seed(0)
    nets = Classifiers(*((1, (3, 8, 8), 3) if shared else (2, (3, 8, 8), 1)), 2).double()
    scores = PictureScores(nets, 2, (3, 8, 8), "cpu", shared)
    x, step = torch.rand(2, 3, 8, 8, generator=seeded()).double(), 1e-5

    def ratios(x):
        out = nets(x.expand(nets.groups, *x.shape))
        return (out[0, :, :1] - out[0, :, 1:]).T if shared else out[..., 0]

    with torch.enable_grad():
        J = torch.autograd.functional.jacobian(ratios, x)  # (2, B, B, 3, 8, 8)
    for b in range(2):
        assert torch.allclose(scores.differences(x.float())[:, b].double(), J[:, b, b], atol=1e-4)
    move = torch.randn(x.shape, generator=seeded(1)).double()
    slope = (ratios(x + step * move) - ratios(x - step * move)) / (2 * step)
    assert torch.allclose(torch.einsum("rbsijk,sijk->rb", J, move), slope, atol=1e-7)


def test_classifiers_side_by_side_share_nothing():
    nets = Classifiers(3, (1, 8, 8), 1, 2)
    x = torch.rand(3, 4, 1, 8, 8, generator=seeded()).requires_grad_()
    (g,) = torch.autograd.grad(nets(x)[1].sum(), x)
    assert torch.equal(g[[0, 2]], torch.zeros_like(g[[0, 2]]))
    assert (g[1] != 0).any()


def test_what_cannot_be_is_refused():
    x = torch.rand(10, 3, 8, 8)
    with pytest.raises(ValueError, match="square pictures"):
        PictureRatio().fit([x[:, :, :6], x[:, :, :6]])
    with pytest.raises(ValueError, match="at least one other"):
        PictureRatio().fit([x])
    short = PictureRatio(width=1, recipe=replace(PictureRatio().recipe, steps=1, every=1))
    scores = short.fit([x, (255 * x).to(torch.uint8)])
    assert scores.differences(x).shape == (1, 10, 3, 8, 8)
    with pytest.raises(ValueError, match="need points"):
        scores.differences(x.flatten(1))
