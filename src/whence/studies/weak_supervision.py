"""Groups, pairs and labels against nothing: Locatello et al. (2020) in small."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from whence.descend import Adam, Recipe
from whence.methods import GVAE, IVAE, MLVAE, AdaGVAE, AdaMLVAE, BetaTCVAE, BetaVAE
from whence.metrics import DCI, MCC, MIG, SAP, BetaVAEMetric, FactorVAEMetric, Modularity
from whence.nets import MLP
from whence.studies.study import Outcome, Row, Scale, Study
from whence.studies.unsupervised_sprites import SHRINK, STEPS, distributions
from whence.terms import Bernoulli
from whence.worlds import Shrunk, Sprites, World

BETAS = (1, 2, 4, 6, 8, 16)  #: of all methods that have one, as in the paper
NAMES = ("beta_vae_metric", "factor_vae_metric", "mig", "dci.disentanglement", "modularity", "mcc.strong")


def rows(scale: Scale, seed: int) -> Iterator[Row]:
    paper = scale == "paper"
    world: World = Sprites() if paper else Shrunk(factor=SHRINK)
    options: dict[str, Any] = {} if paper else {"net": MLP(hidden=(64, 64)), "likelihood": Bernoulli(copies=SHRINK**2)}
    recipe = Recipe(steps=STEPS[scale], optimiser=Adam(lr=1e-4 if paper else 1e-3))
    for beta in BETAS[::5] if scale == "smoke" else BETAS:
        yield Row(f"nothing: β-VAE {beta}", BetaVAE(beta=beta, **options), world, recipe)
        yield Row(f"nothing: β-TCVAE {beta}", BetaTCVAE(beta=beta, **options), world, recipe)
        for name, kind in (("Ada-GVAE", AdaGVAE), ("Ada-ML-VAE", AdaMLVAE)):
            for told in (None, 1):
                yield Row(
                    f"pairs: {name}{'' if told is None else ', one changed,'} {beta}",
                    kind(beta=beta, changed=told, **options),
                    world,
                    recipe,
                    lambda world, told=told: world.pairs(changing=told),  # type: ignore[misc]
                )
    for name, group in (("ML-VAE", MLVAE), ("GVAE", GVAE)):
        yield Row(f"groups that share the shape: {name}", group(content=3, **options), world, recipe, by_shape)
    yield Row("labels: iVAE", IVAE(latents=10, **options), world, recipe)


def by_shape(world: World) -> Any:
    return world.groups(shared=("shape",), size=4)


def supervision(label: str) -> str:
    """A row without its weight."""
    head, _, tail = label.rpartition(" ")
    return head.rstrip(",") if tail.isdigit() else label


def draw(outcomes: Sequence[Outcome], folder: Path) -> None:
    """supervision.png: every run, by what was told."""
    good = [o for o in outcomes if not o.error]
    names = [name for name in NAMES if any(o.values.get(name) is not None for o in good)]
    if names:
        distributions(good, names, folder / "supervision.png", of=supervision)


STUDY = Study(
    name="weak_supervision",
    title="What groups, pairs and labels buy",
    rows=rows,
    columns=(BetaVAEMetric(), FactorVAEMetric(), MIG(), DCI(), Modularity(), SAP(), MCC()),
    reference=AdaGVAE.reference,
    draw=draw,
    samples={"smoke": 1_000, "cpu": 10_000, "paper": 10_000},
    notes=(
        "Pairs change one to four factors of five, or one, which is then told; groups of four share the shape; iVAE is "
        "told all five factors and gives each latent a variance that follows them, although here it is the latents "
        "themselves that follow, so its assumption does not hold. World, networks and steps are those of "
        "`unsupervised_sprites`; the smoke scale has the first and the last β of the grid. One budget for all."
    ),
)
