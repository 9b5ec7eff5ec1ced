"""The large-scale study of Locatello et al. (2019) in small: do objectives, their weights or seeds decide?"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from whence import runs, storage
from whence.descend import Adam, Recipe
from whence.methods import DIPVAE, AnnealedVAE, BetaTCVAE, BetaVAE, FactorVAE, Method
from whence.metrics import UDR, ModelCentrality, rank
from whence.nets import MLP
from whence.studies import metric_agreement
from whence.studies.study import Outcome, Row, Scale, Study
from whence.terms import Bernoulli
from whence.worlds import Shrunk, Sprites, World

STEPS = {"smoke": 1_000, "cpu": 10_000, "paper": 300_000}
#: disentanglement_lib@86a644d (config/unsupervised_study_v1/sweep.py)
GRIDS: dict[str, tuple[Callable[..., Any], tuple[float, ...]]] = {
    "β-VAE": (lambda v, **o: BetaVAE(beta=v, **o), (1, 2, 4, 6, 8, 16)),
    "AnnealedVAE": (lambda v, **o: AnnealedVAE(capacity=v, **o), (5, 10, 25, 50, 75, 100)),
    "FactorVAE": (lambda v, **o: FactorVAE(gamma=v, **o), (10, 20, 30, 40, 50, 100)),
    "DIP-VAE-I": (lambda v, **o: DIPVAE(lambda_od=v, **o), (1, 2, 5, 10, 20, 50)),
    "DIP-VAE-II": (lambda v, **o: DIPVAE(covariance="codes", lambda_od=v, **o), (1, 2, 5, 10, 20, 50)),
    "β-TCVAE": (lambda v, **o: BetaTCVAE(beta=v, **o), (1, 2, 4, 6, 8, 10)),
}
HEADLINES = ("beta_vae_metric", "factor_vae_metric", "mig", "dci.disentanglement", "modularity", "sap")
SHRINK = 4
#: By which a run is chosen among the seeds of its setting, without the truth.
RULES = UDR(spearman=True), ModelCentrality(samples=1_000, train=500, test=500)


def made(name: str, value: float, scale: Scale) -> Method:
    """A method with one value of its grid; small pictures and networks but at the scale of the paper."""
    kind, _ = GRIDS[name]
    if scale == "paper":
        return kind(value)
    small: dict[str, Any] = {"net": MLP(hidden=(64, 64)), "likelihood": Bernoulli(copies=SHRINK**2)}
    if name == "FactorVAE":
        small["critic"] = (128, 128, 128)
    if name == "AnnealedVAE":
        small["ramp"] = STEPS[scale] // 3  # as 100,000 of 300,000
    return kind(value, **small)


def recipe(scale: Scale) -> Recipe:
    lr = 1e-4 if scale == "paper" else 1e-3
    critic = Adam(lr=lr, betas=(0.5, 0.9))
    return Recipe(steps=STEPS[scale], optimiser=Adam(lr=lr), players={"critic": critic})


def rows(scale: Scale, seed: int) -> Iterator[Row]:
    worlds: dict[str, World] = {"": Sprites()}
    if scale == "paper":
        worlds |= {"colour, ": Sprites(colour=True), "noise, ": Sprites(noise=1.0)}
    for dressed, of in worlds.items():
        for name, (_, grid) in GRIDS.items():
            for value in (grid[1], grid[-1]) if scale == "smoke" else grid:
                world = of if scale == "paper" else Shrunk(of=of, factor=SHRINK)
                budget = recipe(scale)
                if name != "FactorVAE":
                    budget = replace(budget, players={})
                yield Row(f"{dressed}{name} {value:g}", made(name, value, scale), world, budget)


# --- what decides -----------------------------------------------------------------------------------------------------


def method_of(label: str) -> str:
    return label.rpartition(" ")[0]


def shares(values: Sequence[float], labels: Sequence[str]) -> dict[str, float]:
    """How much of a metric's variance the method explains, its weight beyond that, and seeds beyond both.

    Variances within groups are divided by their degrees of freedom (adjusted R²): group means explain a part of any
    noise, which with few seeds is most of it. A share can then be a little below 0.
    """
    y = np.asarray(values, dtype=float)
    total = y.var(ddof=1)
    if len(y) < 3 or not total > 0:
        return dict.fromkeys(("method", "weight", "seed"), float("nan"))

    def explained(groups: Sequence[str]) -> float:
        kinds = sorted(set(groups))
        if len(y) <= len(kinds):
            return float("nan")
        within = sum(((own := y[[g == k for g in groups]]) - own.mean()) @ (own - own.mean()) for k in kinds)
        return 1 - within / (len(y) - len(kinds)) / total

    method, both = explained([method_of(label) for label in labels]), explained(labels)
    return {"method": method, "weight": both - method, "seed": 1 - both}


def selection(outcomes: Sequence[Outcome], folder: Path, seed: int = 0) -> list[dict[str, Any]]:
    """UDR (by rank correlations) and centrality of each run among the seeds of its own setting, without the truth;
    runs without a rival of their setting have none."""
    found = []
    for label in dict.fromkeys(o.label for o in outcomes):
        mine = [o for o in outcomes if o.label == label]
        fitted = [runs.load(folder / o.key) for o in mine]
        if len(fitted) < 2:
            continue
        ranked = rank(fitted, rankings=RULES, samples=1_000, seed=seed, chance=False)
        found += [
            {"outcome": o, "udr": r["udr"].value, "centrality": r["model_centrality"].value}
            for o, r in zip(mine, ranked, strict=True)
        ]
    return found


def chosen(found: Sequence[Mapping[str, Any]], names: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Metrics of the run that each rule chooses, beside the best by the truth and the mean of all."""
    everyone = [f["outcome"].values for f in found]
    out: dict[str, dict[str, Any]] = {}
    for rule in ("udr", "centrality"):
        best = max(found, key=lambda f: f[rule])["outcome"]
        out[rule] = {"run": f"{best.label}, seed {best.seed}", **{name: best.values[name] for name in names}}
    out["mean of all runs"] = {"run": "", **{name: float(np.mean([v[name] for v in everyone])) for name in names}}
    out["best by the truth"] = {"run": "", **{name: max(v[name] for v in everyone) for name in names}}
    return out


# --- figures ----------------------------------------------------------------------------------------------------------


def draw(outcomes: Sequence[Outcome], folder: Path) -> None:
    """Distributions, weights, shares of variance, rank correlations, and choices without the truth."""
    good = [o for o in outcomes if not o.error]
    names = [n for n in HEADLINES if good and all(o.values.get(n) is not None for o in good)]
    if len(good) < 3 or not names:
        return
    distributions(good, names, folder / "distributions.png")
    weights(good, names, folder / "weights.png")
    explained = {n: shares([o.values[n] or 0.0 for o in good], [o.label for o in good]) for n in names}
    lines = [[n, *s.values()] for n, s in explained.items()]
    write_csv(folder / "variance.csv", ["metric", "method", "weight", "seed"], lines)
    bars(explained, folder / "variance.png")
    metric_agreement.draw(outcomes, folder)
    ranked = selection(good, folder)
    if ranked:
        lines = [[rule, *row.values()] for rule, row in chosen(ranked, names).items()]
        write_csv(folder / "selection.csv", ["rule", "run", *names], lines)


def write_csv(path: Path, head: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    out = io.StringIO()
    table = csv.writer(out, lineterminator="\n")
    table.writerow(head)
    table.writerows([f"{x:.4f}" if isinstance(x, float) else x for x in row] for row in rows)
    storage.write(path, out.getvalue())


def panels(many: int, height: float = 2.8) -> tuple[Any, list[Any]]:
    """A figure with so many panels, three a row."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    lines = -(-many // 3)
    figure = Figure(figsize=(11, height * lines), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(lines, 3, squeeze=False).ravel().tolist()
    for empty in axes[many:]:
        empty.set_axis_off()
    for one in axes:
        one.spines[["top", "right"]].set_visible(False)
        one.tick_params(labelsize=8)
    return figure, axes


def save(figure: Any, path: Path) -> None:
    out = io.BytesIO()
    figure.savefig(out, format="png", dpi=110)
    storage.write(path, out.getvalue())


def distributions(outcomes: Sequence[Outcome], names: Sequence[str], path: Path, of: Any = method_of) -> None:
    """Each run a dot, by method; a line at the median."""
    methods = list(dict.fromkeys(of(o.label) for o in outcomes))
    figure, axes = panels(len(names), 0.9 + 0.3 * len(methods))
    for name, one in zip(names, axes, strict=False):
        for i, method in enumerate(methods):
            y = [v for o in outcomes if of(o.label) == method and (v := o.values.get(name)) is not None]
            one.plot(y, [i] * len(y), "o", markersize=4, alpha=0.5, color="#1f6fb4")
            if not y:
                continue
            one.plot([np.median(y)] * 2, [i - 0.3, i + 0.3], color="#b4451f")
        one.set_yticks(range(len(methods)), labels=methods, fontsize=8)
        one.invert_yaxis()
        one.set_title(name.replace("_", " "), fontsize=9)
    save(figure, path)


def weights(outcomes: Sequence[Outcome], names: Sequence[str], path: Path) -> None:
    """The mean over seeds along each method's grid, from its least to its largest weight."""
    figure, axes = panels(len(names))
    for name, one in zip(names, axes, strict=False):
        for method in dict.fromkeys(method_of(o.label) for o in outcomes):
            labels = list(dict.fromkeys(o.label for o in outcomes if method_of(o.label) == method))
            mean = [np.mean([o.values[name] for o in outcomes if o.label == label]) for label in labels]
            one.plot(np.linspace(0, 1, len(mean)), mean, "o-", markersize=3, label=method)
        one.set_xticks([0, 1], labels=["least weight", "largest"])
        one.set_title(name.replace("_", " "), fontsize=9)
    axes[0].legend(fontsize=7, frameon=False)
    save(figure, path)


def bars(explained: Mapping[str, Mapping[str, float]], path: Path) -> None:
    """Shares of variance, stacked; below 0 they are drawn as none."""
    figure, (one, *_) = panels(1, 3.0)
    left = np.zeros(len(explained))
    for part, colour in (("method", "#1f6fb4"), ("weight", "#7fb3dd"), ("seed", "#c9c9c9")):
        width = np.array([max(0.0, np.nan_to_num(s[part])) for s in explained.values()])
        one.barh(range(len(explained)), width, left=left, color=colour, label=part)
        left += width
    one.set_yticks(range(len(explained)), labels=[n.replace("_", " ") for n in explained], fontsize=8)
    one.invert_yaxis()
    one.set_xlabel("share of variance", fontsize=8)
    one.legend(fontsize=7, frameon=False, bbox_to_anchor=(1, 1))
    save(figure, path)


STUDY = Study(
    name="unsupervised_sprites",
    title="Objectives, weights or seeds? Six methods on Sprites",
    rows=rows,
    columns=metric_agreement.compared(),
    reference=metric_agreement.STUDY.reference,
    draw=draw,
    samples={"smoke": 1_000, "cpu": 10_000, "paper": 10_000},
    notes=(
        "The published grids of weights. At the scales smoke and cpu pictures are shrunk to 16x16 and networks have "
        "two layers of 64, with learning rate 1e-3 and 1,000 or 10,000 steps (the study: 64x64, convolutions, 1e-4, "
        "300,000 steps); each pixel counts as the 16 it stands for, so that weights mean what they mean there. Smoke "
        "has the second and the last value of each grid. `variance.csv`: shares of variance, adjusted for the number "
        "of groups. `selection.csv`: what UDR and ModelCentrality choose among runs, each ranked among the seeds of "
        "its own setting, beside the mean and the best. The paper scale has the variants colour and noise too."
    ),
)
