"""ContrastiveCRL: environments are told apart by logits that only a linear Gaussian causal model could have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from whence.descend import Adam, Cosine, Recipe, Run, Terms
from whence.evidence import Evidence, Guarantee, Reference
from whence.methods._method import Gradient
from whence.nets import Architecture, Nets, suited
from whence.representation import Representation
from whence.views import Environments, Regimes, Spec, View


class Quadratics(nn.Module):
    r"""Logits :math:`\ell_t(z) = c_t + b_t z_t + (\lambda_t z_t)^2 - (s_t (z_t - A_t^\top z))^2`, row t of A being what
    latent t takes from the others."""

    def __init__(self, n: int) -> None:
        super().__init__()
        self.constant, self.slope = nn.Parameter(torch.zeros(n)), nn.Parameter(torch.zeros(n))
        self.own, self.scale = nn.Parameter(torch.ones(n)), nn.Parameter(torch.ones(n))
        self.weights = nn.Parameter(torch.zeros(n, n))

    @property
    def A(self) -> Tensor:
        return self.weights - torch.diag(self.weights.diagonal())

    def forward(self, z: Tensor) -> Tensor:
        """(..., n) -> (..., n): the log of the observational density over that of environment t."""
        rest = self.scale * (z - z @ self.A.T)
        return self.constant + self.slope * z + (self.own * z).square() - rest.square()


def cycles(A: Tensor) -> Tensor:
    r""":math:`\operatorname{tr} e^{A \circ A} - n`, which is zero for a graph without cycles and positive otherwise."""
    return torch.matrix_exp(A * A).diagonal().sum() - len(A)


class ContrastedCode(Representation):
    """Latents of unit variance, and the graph between them."""

    def __init__(self, spec: Spec, dims: int, encoder: nn.Module) -> None:
        super().__init__(spec, dims)
        self.encoder = encoder
        self.register_buffer("order", torch.arange(dims))
        self.register_buffer("mean", torch.zeros(dims))
        self.register_buffer("scale", torch.ones(dims))
        self.register_buffer("weights", torch.zeros(dims, dims))

    order: Tensor  #: the environment of each latent
    mean: Tensor
    scale: Tensor
    weights: Tensor  #: W[i, j]: the linear effect of latent i on latent j, both of unit variance

    def codes(self, x: Tensor) -> Tensor:
        return ((self.encoder(x) - self.mean) / self.scale)[:, self.order]

    @property
    def graph(self) -> Tensor:
        """A[i, j]: the confidence that i causes j; one half at a standardised weight of .3, the authors' threshold."""
        return self.weights.abs() / (self.weights.abs() + THRESHOLD)


THRESHOLD = 0.3


@dataclass(frozen=True, kw_only=True)
class ContrastiveCRL(Gradient):
    r"""A linear Gaussian causal model under any mixing, from one hard intervention a latent, by contrast.

    .. math:: \sum_t \mathbb{E}_0\, \zeta(-\ell_t) + \mathbb{E}_t\, \zeta(\ell_t)
              + \kappa \|\mathbb{E}_0 h\|^2 + \eta \|A\|_1 + \mu\, (\operatorname{tr} e^{A \circ A} - n),
              \qquad \ell_t = c_t + b_t z_t + (\lambda_t z_t)^2 - (s_t (z_t - A_t^\top z))^2

    for z = h(x) and the softplus :math:`\zeta`. A logit is the log-ratio of the observational density and that of
    environment t, which is quadratic in the latents of a linear Gaussian model. Terms are means over the batch.

    Departures from the authors' code (simonbing/CRLSanityCheck, crc/baselines/contrastive_crl): a cosine schedule in
    place of steps on a plateau, no choice of the best step on held-out data, codes of unit variance, and the graph's
    threshold is applied to weights between latents of unit variance.
    """

    net: Architecture | None = None  #: encoder; none: conv64 for 64x64 images, mlp for anything else
    centre: float = 0.1  #: :math:`\kappa`, of the mean code
    sparsity: float = 1e-4  #: :math:`\eta`, of the weights of edges
    acyclicity: float = 1e-5  #: :math:`\mu`, of cycles
    examples: int = 4_000  #: observations that codes are brought to unit variance with

    recipe: ClassVar[Recipe] = Recipe(steps=4_000, batch=512, optimiser=Adam(lr=5e-4), schedule=Cosine())
    needs: ClassVar[type[View]] = Environments
    reference: ClassVar[Reference] = Reference(
        key="buchholz2023learning",
        authors='Buchholz, Simon and Rajendran, Goutham and Rosenfeld, Elan and Aragam, Bryon and Sch{\\"o}lkopf, '
        "Bernhard and Ravikumar, Pradeep",
        title="Learning Linear Causal Representations from Interventions under General Nonlinear Mixing",
        venue="Advances in Neural Information Processing Systems",
        year=2023,
        url="https://arxiv.org/abs/2306.02235",
    )
    guarantee: ClassVar[Guarantee] = Guarantee(
        "latents up to order, sign and scale, and the graph",
        (
            "the causal model is linear and Gaussian",
            "one hard intervention on each latent, that changes more than its mean",
            "the mixing is injective",
            "the encoder can represent its inverse, and the objective is minimised",
        ),
    )
    evidence: ClassVar[tuple[Evidence, ...]] = (
        Evidence("closed-form", "tests/methods/test_interventional.py"),
        Evidence("benchmarked", "benchmarks/gscale_images.md"),
    )

    def init(self, spec: Spec) -> nn.Module:
        n = max(spec.environments, 1)
        return Nets(encoder=suited(self.net, spec).encoder(tuple(spec.shape), n), head=Quadratics(n))

    def loss(self, nets: Any, batch: Regimes, t: int) -> Terms:
        x = torch.cat([batch.observational, *(env.x for env in batch.interventional)])
        z = nets.encoder(x).unflatten(0, (1 + len(batch.interventional), -1))
        logit = nets.head(z)
        own = logit[1:].diagonal(dim1=0, dim2=2)  # (B, n)
        return Terms(
            observational=softplus(-logit[0]).mean(0).sum(),
            interventional=softplus(own).mean(0).sum(),
            centre=self.centre * z[0].mean(0).square().sum(),
            sparsity=self.sparsity * nets.head.A.abs().sum(),
            acyclicity=self.acyclicity * cycles(nets.head.A),
        )

    def fit(self, data: View, run: Run) -> Representation:
        if not isinstance(data, Environments):
            raise TypeError(f"ContrastiveCRL needs Environments, got {type(data).__name__}.")
        order = self.order_of(data)
        code = super().fit(data, run)
        assert isinstance(code, ContrastedCode)
        with torch.no_grad():
            rng = torch.Generator().manual_seed(run.seed)
            z = torch.cat([code.encoder(part.to(run.device)) for part in data.rows(0, self.examples, rng)])
            code.mean, code.scale = z.mean(0), z.std(0).clamp_min(1e-12)
            code.weights = code.weights * code.scale[:, None] / code.scale
        if order is not None:  # latents in the order of their told targets
            code.order = order
            code.weights = code.weights[order][:, order]
        return code

    def order_of(self, data: Environments) -> Tensor | None:
        """The environment of each latent, if targets are told."""
        for name, env in zip(data.names, data.told, strict=True):
            if env.kind in ("soft", "do"):
                raise ValueError(
                    f"ContrastiveCRL needs hard interventions with noise, and the view says that {name} is {env.kind}."
                )
        targets = [env.targets for env in data.told]
        told = [t for t in targets if t is not None]
        if len(set(told)) < len(told) or any(len(t) != 1 for t in told):
            raise ValueError(
                "ContrastiveCRL needs one intervention on each latent, and the view tells of several on one, or of one "
                "on several. Leave some out."
            )
        if len(told) < len(targets):
            return None
        return torch.tensor([min(t) for t in told]).argsort()

    def represent(self, nets: nn.Module, spec: Spec) -> ContrastedCode:
        n = max(spec.environments, 1)
        code = ContrastedCode(spec, n, nets.get_submodule("encoder"))
        code.weights = nets.get_submodule("head").A.detach().T.clone()  # type: ignore[operator]
        return code

    def skeleton(self, spec: Spec) -> ContrastedCode:
        return self.represent(self.init(spec), spec)
