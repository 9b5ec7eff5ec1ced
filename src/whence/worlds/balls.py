"""Balls: coloured discs whose positions cause each other, drawn so that pictures can be differentiated."""

from __future__ import annotations

import colorsys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Generator, Tensor

from whence.evidence import Reference
from whence.scm import SCM, Random, RandomBoxed, random_graph
from whence.worlds.design import Design
from whence.worlds.mixed import SAMPLE, Mixed
from whence.worlds.world import Factor, World

CHUNK = 25  #: pictures drawn at once: what is in between stays in a core's cache, and in memory that is there already
FAR = 40.0  #: exponents beyond this are as good as infinite: e^-40 of a colour


class Model(NamedTuple):
    scm: SCM
    low: Tensor  #: (n,) of each position, the left or upper end of its lane
    high: Tensor  #: (n,)


@dataclass(frozen=True)
class Balls(World):
    r"""Discs on a white ground, later ones on top: two latents a ball, x and y, of a random causal model.

    .. math:: \alpha_k(p) = \sigma\Bigl(\frac{r^2 - \lVert p - c_k \rVert^2}{2 r w}\Bigr), \qquad
              x \leftarrow (1 - \alpha_k)\, x + \alpha_k\, \mathrm{colour}_k

    for pixels p and centres :math:`c_k`: an edge about w pixels soft, and smooth in the positions, so true score
    differences exist at pictures too. Positions are linear Gaussian, truncated to a box, as in the released experiments
    (score-based-crl@abb5a09, GSCALE-I-images/, which draws with matplotlib). The nonlinear model of the paper is not
    public: `RandomBoxedQuadratic` is the paper's quadratic mechanism in the same box. Of mechanisms without a box,
    values are squashed: a latent's position is the logistic function of it in standard units.

    `stepped` draws as the pygame experiments do: positions are cut to whole pixels and edges are hard. Such pictures
    are a step function of the positions: they do not change at all for most small moves, gradients are zero or
    undefined, and no theory of scores applies. Methods that only compare or regress do not notice.
    """

    balls: int = 2  #: two latents each: x and y
    degree: float = 2.0  #: edges a node on average, as far as there can be; 2 balls have all of them
    mechanism: Random = field(default_factory=RandomBoxed)  #: how positions depend on their causes
    apart: bool = False  #: each ball keeps to a horizontal lane of its own, so that none hides another
    stepped: bool = False  #: whole pixels and hard edges: without gradients
    radius: float = 5.0  #: of a ball, in pixels
    soft: float = 0.5  #: w, pixels over which an edge fades
    side: int = 64  #: of a picture, in pixels
    model_seed: int = 0  #: of the graph and its mechanisms: another seed is another world

    reference: ClassVar[Reference | None] = Mixed.reference

    def __post_init__(self) -> None:
        room = self.side / self.balls if self.apart and self.balls > 0 else self.side
        if self.balls < 1 or self.radius <= 0 or self.soft <= 0 or room < 2 * self.radius + 1:
            raise ValueError(
                f"Balls need to be at least one, with a positive radius and edge, and room to move, got "
                f"balls={self.balls}, radius={self.radius}, soft={self.soft}, {room:.0f} pixels each. "
                "Use fewer or smaller ones."
            )

    @cached_property
    def model(self) -> Model:
        edges, mechanisms, sample = (
            Generator().manual_seed(s)
            for s in torch.randint(2**62, (3,), generator=Generator().manual_seed(self.model_seed)).tolist()
        )
        names = [axis + str(k + 1) for k in range(self.balls) for axis in "xy"]
        graph = random_graph(2 * self.balls, degree=self.degree, rng=edges)
        scm = SCM.random(graph, self.mechanism, names=names, rng=mechanisms)
        if isinstance(self.mechanism, RandomBoxed):
            high = torch.full((len(names),), self.mechanism.box)
            return Model(scm, -high, high)
        z = scm.sample(SAMPLE, rng=sample).float()
        return Model(scm, z.mean(0) - z.std(0), z.mean(0) + z.std(0))

    @property
    def scm(self) -> SCM:
        return self.model.scm

    @property
    def factors(self) -> tuple[Factor, ...]:
        """Positions, in the units of the causal model."""
        wide = 1.0 if isinstance(self.mechanism, RandomBoxed) else 4.0
        low, high = self.model.low, self.model.high
        middle, half = (low + high) / 2, wide * (high - low) / 2
        ends = torch.stack([middle - half, middle + half], 1).tolist()
        return tuple(Factor(name, "continuous", (a, b)) for name, (a, b) in zip(self.scm.names, ends, strict=True))

    @property
    def shape(self) -> tuple[int, ...]:
        return (3, self.side, self.side)

    @property
    def colours(self) -> Tensor:
        """(balls, 3): hues equally spaced, saturation and value .9."""
        return torch.tensor([colorsys.hsv_to_rgb(k / self.balls, 0.9, 0.9) for k in range(self.balls)])

    def centres(self, v: Tensor) -> Tensor:
        """(B, n) positions of the causal model -> (B, balls, 2) centres in pixels, x to the right, y down."""
        if v.ndim != 2 or v.shape[1] != 2 * self.balls:
            raise ValueError(f"{self.balls} balls need rows of {2 * self.balls} positions, got {tuple(v.shape)}.")
        low, high = self.model.low.to(v), self.model.high.to(v)
        t = (v - low) / (high - low)
        if not isinstance(self.mechanism, RandomBoxed):
            t = torch.sigmoid(4 * t - 2)
        t = t.unflatten(1, (self.balls, 2))
        first = torch.full((self.balls, 2), self.radius).to(v)
        last = self.side - first
        if self.apart:
            lane = torch.arange(self.balls).to(v) * (self.side / self.balls)
            first[:, 1] = lane + self.radius
            last[:, 1] = lane + self.side / self.balls - self.radius
        return first + t * (last - first)

    def observe(self, v: Tensor, rng: Generator | None = None) -> Tensor:
        """(B, n) -> (B, 3, side, side) in [0, 1], differentiable in v unless stepped."""
        c, colours = self.centres(v), self.colours.to(v)
        disc: Callable[[Tensor], Tensor] = self.hard if self.stepped else self.smooth
        if c.requires_grad:
            return paint(disc(c), colours)
        x = c.new_ones(len(c), *self.shape)  # once: fresh memory takes longer than drawing into it
        for part, at in zip(x.split(CHUNK), c.split(CHUNK), strict=True):
            paint_over(part, disc(at), colours)
        return x

    def smooth(self, c: Tensor) -> Tensor:
        r"""(B, balls, 2) -> (B, balls, side, side): :math:`\alpha = 1 / (1 + e^{(d^2 - r^2) / 2rw})`, an outer product
        of exponentials of the two coordinates."""
        pixel = torch.arange(self.side).to(c) + 0.5
        e = (pixel - c[..., None]).square() / (2 * self.radius * self.soft)
        x, y = (e[..., 0, :] - self.radius / (2 * self.soft)).clamp(max=FAR).exp(), e[..., 1, :].clamp(max=FAR).exp()
        return (y[..., :, None] * x[..., None, :]).add_(1).reciprocal_()

    def hard(self, c: Tensor) -> Tensor:
        """The same with whole pixels and without an edge."""
        pixel = torch.arange(self.side).to(c)
        d = (pixel - c.floor()[..., None]).square()
        return (d[..., 1, :, None] + d[..., 0, None, :] <= self.radius**2).to(c)

    def score_differences(self, **design: Any) -> BallScores:
        """The truth that score-based methods estimate: same arguments as `environments`."""
        return BallScores(self, Design(**design))


def paint(alpha: Tensor, colours: Tensor) -> Tensor:
    """Coverages (B, balls, H, W) and colours (balls, 3) -> pictures (B, 3, H, W) on white, later balls on top."""
    b, _, h, w = alpha.shape
    x = alpha.new_ones(b, 3, h, w)
    for a, colour in layers(x, alpha, colours):
        x = torch.lerp(x, colour, a)
    return x


def paint_over(x: Tensor, alpha: Tensor, colours: Tensor) -> None:
    """The same in place: quicker, and without gradients."""
    for a, colour in layers(x, alpha, colours):
        x.lerp_(colour, a)


def layers(x: Tensor, alpha: Tensor, colours: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    for a, colour in zip(alpha.unbind(1), colours, strict=True):
        yield a[:, None].expand_as(x), colour[:, None, None].expand_as(x)


@dataclass(frozen=True)
class BallScores:
    r"""True :math:`d_e = \nabla \log p - \nabla \log p_e` of each environment e, at latents and at their pictures."""

    world: Balls  #: whose truth it is
    design: Design = field(default_factory=Design)  #: the interventions

    def latent(self, v: Tensor) -> Tensor:
        """(B, n) -> (environments, B, n)."""
        return -torch.stack([self.world.scm.score_difference(v, do) for do in self.design.dos(self.world.scm)])

    def pictures(self, v: Tensor) -> Tensor:
        r"""(B, n) -> (environments, B, 3, side, side): :math:`(J^+)^\top d(v)`, the gradient along the manifold of
        pictures. It is undefined where a ball is hidden, and large where one nearly is."""
        v, d = v.double(), self.latent(v.double())
        n = v.shape[1]
        J = torch.stack(
            [torch.func.jvp(self.world.observe, (v,), (torch.eye(n)[j].to(v).expand_as(v),))[1] for j in range(n)]
        )  # (n, B, ...)
        flat = J.flatten(2)
        gram = torch.einsum("ibp,jbp->bij", flat, flat)
        weight = torch.linalg.solve(gram, d.permute(1, 2, 0))  # (B, n, E)
        return torch.einsum("jbp,bje->ebp", flat, weight).unflatten(2, self.world.shape)
