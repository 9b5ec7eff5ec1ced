"""Locatello et al. (2019), theorem 1, made visible: a rotated model has the same likelihood, and pairs or interventions
tell it from the one that is not rotated."""

from __future__ import annotations

import io
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor
from torch.distributions import MultivariateNormal

from whence import runs, storage
from whence.descend import Adam, Cosine, Recipe
from whence.evidence import Reference
from whence.methods import ICA, PCA, UMNI, VAE, AdaGVAE, AdaMLVAE, BetaTCVAE
from whence.metrics import MCC, R2
from whence.nets import MLP
from whence.studies.study import Outcome, Row, Scale, Study
from whence.terms import Gaussian
from whence.worlds import Mixed

STEPS = {"smoke": 30, "cpu": 1_500, "paper": 30_000}
RESTARTS = 5  #: seeds that see the same world
SCALE = 0.25  #: what an intervention multiplies a latent's variance by


def rows(scale: Scale, seed: int) -> Iterator[Row]:
    world = Mixed(nodes=3, dims=6, density=0.0, model_seed=seed // RESTARTS)
    recipe = Recipe(steps=STEPS[scale], batch=128, optimiser=Adam(lr=1e-2), schedule=Cosine(), every=10)
    net, noise = MLP(hidden=()), Gaussian(scale=0.1)
    yield Row("PCA", PCA(latents=3), world)
    yield Row("ICA", ICA(latents=3), world)
    yield Row("VAE", VAE(latents=3, net=net, likelihood=noise), world, recipe)
    yield Row("β-TCVAE", BetaTCVAE(latents=3, net=net, likelihood=noise), world, recipe)
    yield Row("Ada-GVAE, pairs", AdaGVAE(latents=3, net=net, likelihood=noise), world, recipe)
    yield Row(
        "Ada-ML-VAE, pairs that tell one changed",
        AdaMLVAE(latents=3, net=net, likelihood=noise, changed=1),
        world,
        recipe,
        lambda world: world.pairs(changing=1),
    )
    yield Row("UMNI, interventions", UMNI(kind="hard", examples=5_000 if scale == "smoke" else 20_000), world)


class Likelihoods(NamedTuple):
    """Mean log-likelihoods of a model whose latents are turned by an angle, in nats."""

    observations: Tensor  #: (A,) of single observations
    pairs: Tensor  #: of pairs that share all latents but one
    interventions: Tensor  #: of two environments with an intervention on one latent each, it is not told on which


def likelihoods(angles: Tensor, *, n: int = 2_000, noise: float = 0.1, seed: int = 0) -> Likelihoods:
    r"""Two latents :math:`z \sim \mathcal{N}(0, 1)`, seen as :math:`x = W z + \epsilon`; the model has
    :math:`W R^\top` for W, and latents R z. All densities are Gaussian (of pairs, a mixture of two): nothing is fitted.

    Rows are standardised in all their moments of second order, so that what is left is the model and not the draw.
    """
    rng = torch.Generator().manual_seed(seed)
    w = torch.randn(4, 2, generator=rng, dtype=torch.float64)

    def seen(z: Tensor) -> Tensor:
        return z @ w.T + noise * torch.randn(len(z), 4, generator=rng, dtype=torch.float64)

    z, fresh = torch.randn(2, n, 2, generator=rng, dtype=torch.float64)
    k = torch.arange(n) % 2  # the latent that a pair changes, or an intervention hits
    hit = torch.eye(2, dtype=torch.bool)[k]
    x, x_ = seen(z), seen(torch.where(hit, fresh, z))
    under = seen(torch.where(hit, math.sqrt(SCALE) * fresh, fresh))
    eye = torch.eye(2, dtype=torch.float64)
    found = []
    for angle in angles.tolist():
        c, s = math.cos(angle), math.sin(angle)
        turned = w @ torch.tensor([[c, s], [-s, c]], dtype=torch.float64)
        own = noise**2 * torch.eye(4, dtype=torch.float64)
        single = density(turned @ turned.T + own).log_prob(x).mean()
        both, each = torch.cat([x, x_], 1), []
        for j in range(2):  # the changed one is not told: the mean of both
            kept = turned @ torch.diag(1 - eye[j]) @ turned.T
            whole = turned @ turned.T + own
            each.append(density(torch.cat([torch.cat([whole, kept], 1), torch.cat([kept, whole], 1)])).log_prob(both))
        pair = (torch.stack(each).logsumexp(0) - math.log(2)).mean()
        changed = [turned @ torch.diag(1 - (1 - SCALE) * eye[j]) @ turned.T + own for j in range(2)]
        hits = torch.stack([density(c).log_prob(under) for c in changed])
        either = torch.stack([torch.where(k == j, hits[0], hits[1]).mean() for j in range(2)])
        found.append(torch.stack([single, pair, either.amax()]))
    return Likelihoods(*torch.stack(found, 1))


def density(covariance: Tensor) -> MultivariateNormal:
    return MultivariateNormal(torch.zeros(len(covariance), dtype=covariance.dtype), covariance)


def least_loss(outcomes: Sequence[Outcome], folder: Path) -> set[str]:
    """Keys of the runs with the least loss at their end among the restarts of a row on one world, and of all runs of
    methods that have none."""
    kept, found = set(), dict[tuple[str, int], list[tuple[float, str]]]()
    for o in outcomes:
        curve = runs.load(folder / o.key).curves.get("train")
        if curve is None:
            kept.add(o.key)
        else:
            loss = sum(map(sum, curve.rows[-5:])) / len(curve.rows[-5:])
            found.setdefault((o.label, o.seed // RESTARTS), []).append((loss, o.key))
    return kept | {min(each)[1] for each in found.values()}


def draw(outcomes: Sequence[Outcome], folder: Path) -> None:
    """impossibility.png: what the likelihood can and cannot see, and what methods find."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    degrees = torch.linspace(-45, 135, 91)
    found = likelihoods(degrees.double().deg2rad())
    figure = Figure(figsize=(10, 3.8), layout="constrained")
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2)
    names = ("single observations", "pairs that share one of two latents", "two environments, one intervention each")
    for curve, name, style in zip(found, names, ("-", "--", "-."), strict=True):
        left.plot(degrees, curve - curve.max(), style, label=name)
    left.set_xlabel("the model's latents are turned by (degrees)", fontsize=9)
    left.set_ylabel("log-likelihood, nats below the best", fontsize=9)
    left.set_yscale("symlog", linthresh=0.1)
    left.set_xticks([-45, 0, 45, 90, 135])
    left.legend(fontsize=8, frameon=False, loc="lower center", bbox_to_anchor=(0.5, 1.0))
    good = [o for o in outcomes if not o.error and o.values.get("mcc.strong") is not None]
    labels = list(dict.fromkeys(o.label for o in good))
    best = least_loss(good, folder)
    for i, label in enumerate(labels):
        for filled in (False, True):
            mine = [o.values["mcc.strong"] for o in good if o.label == label and (o.key in best) == filled]
            face = "#1f6fb4" if filled else "none"
            right.plot(mine, [i] * len(mine), "o", markersize=5, alpha=0.7, color="#1f6fb4", markerfacecolor=face)
    right.set_yticks(range(len(labels)), labels=[label.replace(", ", "\n", 1) for label in labels], fontsize=8)
    right.invert_yaxis()
    right.set_xlabel("mean correlation of codes with latents (MCC)", fontsize=9)
    right.set_title("filled: the least loss of five restarts", fontsize=8)
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(labelsize=8)
    out = io.BytesIO()
    figure.savefig(out, format="png", dpi=120)
    storage.write(folder / "impossibility.png", out.getvalue())


STUDY = Study(
    name="impossibility",
    title="What a likelihood cannot see, and what pairs and interventions can",
    rows=rows,
    columns=(MCC(), R2()),
    reference=Reference(
        key="locatello2019challenging",
        authors='Locatello, Francesco and Bauer, Stefan and Lucic, Mario and R{\\"a}tsch, Gunnar and Gelly, Sylvain '
        'and Sch{\\"o}lkopf, Bernhard and Bachem, Olivier',
        title="Challenging Common Assumptions in the Unsupervised Learning of Disentangled Representations",
        venue="International Conference on Machine Learning",
        year=2019,
        url="https://arxiv.org/abs/1811.12359",
    ),
    seeds=20,
    samples={"smoke": 2_000, "cpu": 2_000, "paper": 10_000},
    draw=draw,
    notes=(
        "Three independent normal latents, seen through a linear map to six observations, another one for every five "
        "seeds, which are restarts. A rotation of the latents is a model of the same likelihood, so methods of single "
        "observations find the latents' space (`r2.linear`) and not the latents (`mcc.strong`). The table has all "
        "runs; the figure fills the dot of the restart with the least loss, a choice that needs no truth, because "
        "bounds of pairs have local optima that are rotated. The figure's likelihoods are exact: two latents, a model "
        "for each angle, nothing fitted. At 90 degrees the latents have changed places, which is no difference."
    ),
)
