"""Do metrics agree? Rank correlations of all of them over many representations, known ones and learned ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, get_args

import numpy as np

from whence import storage
from whence.descend import Adam, Recipe
from whence.evidence import Reference
from whence.methods import ICA, PCA, VAE, AdaGVAE, BetaVAE, FactorVAE, Pixels, RandomEncoder
from whence.metrics import METRICS, Metric
from whence.nets import Burgess
from whence.studies.study import Outcome, Row, Scale, Study
from whence.worlds import Entangled, Sprites, Unmixed
from whence.worlds.entangled import How

RECIPES = {
    "smoke": Recipe(steps=30, batch=16, optimiser=Adam(lr=1e-3), every=10),
    "cpu": Recipe(steps=2_000, optimiser=Adam(lr=1e-3), precision="bfloat16"),
    "paper": Recipe(steps=300_000, optimiser=Adam(lr=1e-4)),
}
AMOUNTS: dict[str, tuple[float, ...]] = {
    "rotated": (0.1, 0.3, 0.6, 1.0),
    "merged": (0.1, 0.3, 0.6, 1.0),
    "noisy": (0.1, 0.3, 1.0, 3.0),
    "squashed": (0.5, 2.0),
}


def rows(scale: Scale, seed: int) -> Iterator[Row]:
    world, recipe = Sprites(), RECIPES[scale]
    yield Row("factors", Pixels(), Unmixed(of=world))
    for how in get_args(How):
        for amount in AMOUNTS.get(how, (1.0,))[-1 if scale == "smoke" else 0 :]:
            label = f"{how} {amount:g}" if how in AMOUNTS else how
            yield Row(label, Pixels(), Entangled(of=world, how=how, amount=amount))
    yield Row("PCA", PCA(), world)
    yield Row("ICA", ICA(), world)
    yield Row("VAE untrained", RandomEncoder(net=Burgess()), world)
    yield Row("VAE", VAE(net=Burgess()), world, recipe)
    yield Row("β-VAE 4", BetaVAE(beta=4.0, net=Burgess()), world, recipe)
    yield Row("β-VAE 16", BetaVAE(beta=16.0, net=Burgess()), world, recipe)
    yield Row("FactorVAE 30", FactorVAE(gamma=30.0, critic=(256, 256, 256), net=Burgess()), world, recipe)
    yield Row("Ada-GVAE", AdaGVAE(net=Burgess()), world, recipe)


def compared() -> tuple[Metric, ...]:
    """All metrics that compare codes with factors, with their defaults."""
    return tuple(kind() for kind in METRICS if kind.compares and not kind.asks)


def agreement(outcomes: Sequence[Outcome]) -> tuple[list[str], np.ndarray]:
    """Names and Spearman's rank correlations of all pairs, over the representations that both could be measured on."""
    from scipy.stats import spearmanr

    names, signs = [], []
    for metric in compared():
        for name, part in zip(metric.names(), metric.parts, strict=True):
            if sum(o.values.get(name) is not None for o in outcomes) > 2:
                names.append(name)
                signs.append(1 if part.higher_is_better else -1)
    table = np.array([[np.nan if (x := o.values.get(name)) is None else x for name in names] for o in outcomes])
    table = table * np.array(signs)
    r = np.eye(len(names))
    for i in range(len(names)):
        for j in range(i):
            both = np.isfinite(table[:, i]) & np.isfinite(table[:, j])
            found = spearmanr(table[both, i], table[both, j]).statistic if both.sum() > 2 else np.nan
            r[i, j] = r[j, i] = found
    return names, r


def side_by_side(names: list[str], r: np.ndarray) -> tuple[list[str], np.ndarray]:
    """In the order of a dendrogram: metrics that say the same are neighbours."""
    from scipy.cluster.hierarchy import leaves_list, linkage
    from scipy.spatial.distance import squareform

    if len(names) < 3:
        return names, r
    order = leaves_list(linkage(squareform(1 - np.nan_to_num(r), checks=False), "average"))
    return [names[i] for i in order], r[np.ix_(order, order)]


def draw(outcomes: Sequence[Outcome], folder: Path) -> None:
    """agreement.csv and agreement.png: metrics that say the same lie side by side."""
    import csv
    import io

    names, r = side_by_side(*agreement([o for o in outcomes if not o.error]))
    if len(names) < 3:
        return
    out = io.StringIO()
    table = csv.writer(out, lineterminator="\n")
    table.writerow(["", *names])
    table.writerows([name, *(f"{x:.3f}" for x in row)] for name, row in zip(names, r, strict=True))
    storage.write(folder / "agreement.csv", out.getvalue())
    storage.write(folder / "agreement.png", heat_map(names, r))


def heat_map(names: Sequence[str], r: np.ndarray) -> bytes:
    import io

    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    side = 2.2 + 0.34 * len(names)
    figure = Figure(figsize=(side, side), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    axes.imshow(r, vmin=-1, vmax=1, cmap="RdBu")
    told: dict[str, Any] = {"labels": [name.replace("_", " ") for name in names], "fontsize": 8}
    axes.set_xticks(range(len(names)), rotation=90, **told)
    axes.set_yticks(range(len(names)), **told)
    for i, row in enumerate(r):
        for j, x in enumerate(row):
            if np.isfinite(x):
                axes.text(
                    j, i, f"{100 * x:.0f}", ha="center", va="center", fontsize=6, color="w" if abs(x) > 0.5 else "k"
                )
    axes.set_title("Rank correlation of metrics, times 100", fontsize=10)
    for spine in axes.spines.values():
        spine.set_visible(False)
    out = io.BytesIO()
    figure.savefig(out, format="png", dpi=130)
    return out.getvalue()


STUDY = Study(
    name="metric_agreement",
    title="Do metrics agree?",
    rows=rows,
    columns=compared(),
    reference=Reference(
        key="locatello2019challenging",
        authors='Locatello, Francesco and Bauer, Stefan and Lucic, Mario and R{\\"a}tsch, Gunnar and Gelly, Sylvain '
        'and Sch{\\"o}lkopf, Bernhard and Bachem, Olivier',
        title="Challenging Common Assumptions in the Unsupervised Learning of Disentangled Representations",
        venue="International Conference on Machine Learning",
        year=2019,
        url="https://arxiv.org/abs/1811.12359",
    ),
    seeds=3,
    draw=draw,
    notes=(
        "Rows are known representations (the factors themselves, spoiled in one way and to a known amount) and learned "
        "ones. `agreement.png` and `agreement.csv` hold Spearman's rank correlations over all runs; metrics that "
        "are better when lower are turned round. The study's authors compared their metrics over 10,800 trained models."
    ),
)
