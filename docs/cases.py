"""What metrics say of cases whose answer is known, as figures, and in words what the figures show."""

from __future__ import annotations

import csv
import functools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from formulas import paragraphs
from torch import Tensor

from whence import metrics, values
from whence.metrics import Metric, Probe, Ranking, Unmeasurable
from whence.metrics.arrays import Codes
from whence.representation import Representation
from whence.views import Spec
from whence.worlds import Entangled, Pendulum, Sprites, Unmixed, World

TABLE = Path(__file__).parent.parent / "benchmarks" / "metric_agreement.csv"


class Figure(NamedTuple):
    """One bar for each case and number."""

    about: str  #: where the cases are from
    cases: tuple[str, ...]
    columns: tuple[tuple[str, tuple[float | None, ...]], ...]  #: titles, and a number for each case


#: What to read in the figure, by hand. What a metric misses is in its docstring.
SEES: Mapping[str, str] = {
    "beta_vae_metric": "Next to nothing of what is below: mixed and noisy codes do nearly as well as perfect ones, "
    "and a code without one of the factors quite as well. The factors that are there are named by the code that "
    "holds still, and the missing one by there being none; `tests/metrics/test_metrics.py` shows it.",
    "factor_vae_metric": "A missing factor costs its share of the groups, and strong mixing confuses the vote. Weak "
    "mixing and moderate noise pass, because the code that varies least is still the right one.",
    "mig": "Everything that is wrong: mixing, noise, a missing factor, and a second code for the same factor, which "
    "leaves no gap at all. The factors themselves do not reach 1, since 20 bins cannot hold 40 values apart.",
    "mig_posterior": "The same as MIG, and the width of the posterior besides: a code whose noise is as large as its "
    "factor tells little of it, although its mean tells everything.",
    "mig_sup": "A code that holds two factors, and noise. Codes that repeat each other and factors that nobody holds "
    "are as good as perfect.",
    "dcimig": "Mixing, noise and missing factors. A factor held twice costs nothing.",
    "jemmig": "Mixing, noise, missing factors and repetition, as MIG does, and besides whatever else is in the code.",
    "modularity": "Only strong mixing, and little of it: squared ratios of information are small. Noise takes no "
    "part once it is told from information.",
    "info_mec": "Modularity falls when codes mix factors, compactness when factors are spread over codes, "
    "explicitness when codes tell less or not linearly. So the three together say what is wrong, where MIG says that "
    "something is.",
    "mic": "Whether each factor has a code that depends on it, in any shape: a circle and a squashed code are as "
    "good as a straight one. Noise lowers it, and mixing as far as it acts as noise.",
    "concept_mic": "Whether each concept depends on its factor, however bent, and nothing else. A concept that holds "
    "an effect of its factor is as good as a noisy copy, and one that was regressed on labels as good as any.",
    "gaussian_total_correlation": "Linear dependence of codes on each other, and nothing else: pure noise is as good "
    "as the factors, and so is what a rotation has mixed. Codes that repeat each other make it infinite, which is "
    "shown as a dash.",
    "gaussian_wasserstein_correlation": "The same dependence, finite for repeated codes and in their squared units: "
    "compare the normalised number only.",
    "code_information": "Any dependence of two codes, so also that of sine and cosine, or of rotated factors that "
    "are uniform, which are all uncorrelated. Pure noise is as good as the factors.",
    "dci": "Disentanglement falls with mixing, completeness also with repetition, and both somewhat with noise. "
    "Informativeness falls with noise and with what is missing. Curved codes cost nothing.",
    "explicitness": "How much is known and how linearly: noise, a missing factor, strong squashing. It does not ask "
    "in which code, so that rotation is free.",
    "sap": "Mixing, noise, missing factors, and repetition, as MIG does; with thresholds instead of bins, so that "
    "the factors themselves reach the best.",
    "irs": "Whether something else moves a code: mixing, and noise above all. A missing factor moves nothing.",
    "mcc": "Strong: whether each factor has a code of its own that equals it up to scale. The maps undo rotation "
    "and, if nonlinear, some of the squashing; what no map undoes is noise and what is missing.",
    "r2": "What is lost to noise or missing. No rotation costs anything, and the network undoes squashing as well.",
    "ease_of_use": "What is lost, and how large a probe it takes to find the rest: straight codes are easier than "
    "squashed ones.",
    "code_size": "The number of codes, and nothing else.",
    "reconstruction": "How many pixels differ, and by how much. A move by one pixel costs as much as noise all over, "
    "and the mean picture, without any sprite, half of what another sprite costs.",
    "bernoulli_cross_entropy": "The same, with a price for being certain: pixels that are wrong outright cost most. "
    "The excess is the part that a better decoder could save.",
    "ssim": "Patterns. Noise that hardly changes a squared error destroys the similarity of empty areas, and blur "
    "costs little more than a move by a pixel.",
    "sample_discrepancy": "Differences of mean, width and shape, and dependence. Twenty draws, repeated, are nearer "
    "to the whole than new ones that are moved by half a deviation.",
    "prior_discrepancy": "Whether all codes together fill the prior: their mean, their width, and dependence between "
    "them.",
    "reader_frechet": "Samples whose factors come with other frequencies, or that no picture of the world looks like "
    "to the reader. At equal sample sizes a perfect model has the floor, never 0.",
    "interventional_discrepancy": "A model that does not hear an intervention, or draws its effects elsewhere than the "
    "world does, on average over all samples; not whether each single picture is the right one.",
    "shd": "Each wrong edge, once. The closure forgives edges to descendants that are ancestors already, and the "
    "skeleton forgives every direction.",
    "edge_recovery": "Precision falls with edges too many, recall with those missing. A turned edge lowers both.",
    "average_precision": "The same in one number, and without a threshold if edges have confidences.",
    "sid": "What errors do to computed effects. Edges too many in the right order cost nothing; a turned edge and a "
    "missing one cost more, the more depends on them.",
    "scale_mixing": "Any linear mixing, weak or strong. Noise averages out of a linear map and shows little.",
    "counterfactuals": "Whether what is set arrives (`hit`), whether its effects follow (`descendants`), and whether "
    "the rest stays (`others`): three failures that one pixel error would mix. The ratio to the reconstruction's own "
    "error is 1 for a model that intervenes as well as it reconstructs.",
    "udr": "Whether each code of a model is one code of the others. Noise and rotation lower it. Dead codes take no "
    "part, and a code too few costs little.",
    "model_centrality": "The same through what models make: others do not recognise the codes of a rotated model. It "
    "is coarse, as the vote of the FactorVAE metric is, and a code that its decoder ignores counts against its model.",
    "parent_mixing": "Mixing with anything but a factor's parents. With parents a code may be mixed at will.",
}

#: Known representations of `worlds/entangled.py`, and what each is.
CODES = {
    "factors": "the factors themselves",
    "squashed 2": "each squashed by tanh",
    "padded": "with dead codes beside",
    "duplicated": "each twice",
    "circular": "each as sine and cosine",
    "noisy 1": "with as much noise",
    "missing": "without one factor",
    "rotated 0.3": "rotated a little",
    "rotated 1": "rotated",
    "merged 1": "each plus the next",
    "random": "noise only",
}


def figure(kind: type[Metric] | type[Ranking]) -> Figure | None:
    """What a metric says of known cases; None if there are none for it."""
    make = MADE.get(kind)
    return study(kind) if make is None else make(kind())


def rows(metric: Metric | Ranking, cases: Mapping[str, tuple[float | None, ...]], about: str) -> Figure:
    titles = [part.name.replace("_", " ") or "value" for part in metric.parts]
    columns = zip(titles, zip(*cases.values(), strict=True), strict=True)
    return Figure(about, tuple(cases), tuple((title, tuple(column)) for title, column in columns))


# --- codes and factors -----------------------------------------------------------------------------------------------


@functools.cache
def measured() -> tuple[int, dict[tuple[str, str], float]]:
    """Seeds, and means over them, of the study metric_agreement, by (row, result)."""
    numbers: dict[tuple[str, str], list[float]] = {}
    with TABLE.open(newline="") as file:
        for row in csv.DictReader(file):
            for name, text in row.items():
                if name not in ("row", "seed", "seconds", "error", "key") and text:
                    numbers.setdefault((row["row"], name), []).append(float(text))
    return max(map(len, numbers.values())), {key: sum(found) / len(found) for key, found in numbers.items()}


def study(kind: Any) -> Figure | None:
    """From the study, if the metric was part of it."""
    seeds, means = measured()
    cases = {told: tuple(means.get((row, name)) for name in kind.names()) for row, told in CODES.items()}
    if all(x is None for told in cases.values() for x in told):
        return None
    over = "one seed" if seeds == 1 else f"means over {seeds} seeds"
    return rows(
        kind(), cases, f"Codes made from the true factors of Sprites ({over}, from `benchmarks/metric_agreement.csv`)"
    )


@functools.cache
def known_codes() -> dict[str, Codes]:
    """A few of the same representations' codes."""
    found = {}
    for row, told in CODES.items():
        how, _, amount = row.partition(" ")
        world: Any = (
            Unmixed(of=Sprites()) if how == "factors" else Entangled(how=how, amount=float(amount or 1))  # type: ignore[arg-type]
        )
        rng = torch.Generator().manual_seed(0)
        v = world.draw(4_000, rng=rng)
        found[told] = Codes(world.observe(v, rng).numpy(), world.labels(v).numpy())
    return found


def of_codes(metric: Metric) -> Figure:
    from whence.methods import Pixels

    def measure(codes: Codes) -> tuple[float | None, ...]:
        probe = Probe(Pixels().skeleton(Spec((codes.z.shape[1],))).frozen(), Sprites(), samples=len(codes.z))
        try:
            return metric.numbers(probe.like(codes))
        except Unmeasurable:
            return (None,) * len(metric.parts)

    cases = {told: measure(codes) for told, codes in known_codes().items()}
    return rows(metric, cases, "Codes made from the true factors of 4,000 Sprites")


def of_posteriors(metric: Metric) -> Figure:
    rng = np.random.default_rng(0)
    v = rng.integers(6, size=(2_000, 3))
    s = (v - v.mean(0)) / v.std(0)
    turned = s @ np.linalg.qr(rng.normal(size=(3, 3)))[0]
    dead = np.zeros_like(s)
    cases = {
        "the factors, narrow posteriors": (s, 0.1),
        "posteriors half as wide as the factors": (s, 0.5),
        "posteriors as wide as the factors": (s, 1.0),
        "with collapsed codes beside": (np.hstack([s, dead]), np.where(np.arange(6) < 3, 0.1, 1.0)),
        "each twice": (np.hstack([s, s]), 0.1),
        "without one factor": (s[:, :2], 0.1),
        "rotated": (turned, 0.1),
        "collapsed codes only": (dead, 1.0),
    }
    found = {
        told: (metrics.mig_posterior(mean, np.broadcast_to(scale, mean.shape), v),)
        for told, (mean, scale) in cases.items()
    }
    return rows(metric, found, "Gaussian posteriors around three factors of six values")


def of_mixings(metric: Metric) -> Figure:
    chain = np.eye(4, k=1)  # 0 -> 1 -> 2 -> 3
    one = np.eye(4)
    turn = np.linalg.qr(np.random.default_rng(0).normal(size=(4, 4)))[0]
    cases = {
        "each its own factor": one,
        "in another order and scale": 2 * one[[2, 0, 3, 1]],
        "each plus half its parent": one + 0.5 * chain.T,
        "each plus its parent": one + chain.T,
        "each plus half its child": one + 0.5 * chain,
        "the first plus half the last": one + 0.5 * np.outer(one[0], one[3]),
        "rotated": turn,
    }
    allowed = metrics.with_parents(chain)
    found = {told: tuple(metrics.mixing_error(m, allowed, matched=True)) for told, m in cases.items()}
    return rows(metric, found, "Linear maps from four factors in a causal chain to codes")


def of_concepts(metric: Metric) -> Figure:
    rng = np.random.default_rng(0)
    u, other, noise = rng.normal(size=(3, 1_000))
    cases = {
        "the factor itself": u,
        "its cube": u**3,
        "its square": u**2,
        "with a third of noise": u + noise / 3,
        "with as much noise": u + noise,
        "an effect of it, by half": u + other,
        "another factor": other,
    }
    found = {told: tuple(float(np.mean(x)) for x in metrics.coefficients(z, u)) for told, z in cases.items()}
    return rows(metric, found, "One concept and 1,000 rows of its factor")


class Linear(Representation):
    """z = x W, and back."""

    def __init__(self, w: np.ndarray, noise: float = 0.0) -> None:
        super().__init__(Spec((len(w),)), w.shape[1])
        self.noise = noise
        self.register_buffer("w", torch.as_tensor(w, dtype=torch.float32))
        self.register_buffer("back", torch.linalg.pinv(self.w))

    def codes(self, x: Tensor) -> Tensor:
        z = x @ self.w
        return z + self.noise * torch.randn(z.shape, generator=torch.Generator().manual_seed(len(z)))

    def decode(self, z: Tensor) -> Tensor:
        return z @ self.back


def of_models(ranking: Ranking) -> Figure:
    d = 4
    one, half = np.eye(d), np.array([[1, 1], [1, -1]]) / np.sqrt(2)  # a turn by 45 degrees
    models = {
        "four factors": Linear(one),
        "in another order and sign": Linear(-one[::-1]),
        "in other units": Linear(one * [1, 2, 3, 4]),
        "with dead codes beside": Linear(np.hstack([one, 0 * one])),
        "without one of them": Linear(one[:, :3]),
        "with as much noise": Linear(one, 1.0),
        "two of them rotated": Linear(np.kron(np.diag([1, 0]), half) + np.diag([0, 0, 1, 1])),
        "all rotated": Linear(np.kron(half, half)),
    }
    rng = np.random.default_rng(1)
    v = rng.normal(size=(3_000, d)).astype(np.float32)

    def probe(model: Linear) -> Probe:
        found = Probe(model.frozen(), Unmixed(), samples=len(v))
        return found.like(Codes(model.encode(torch.from_numpy(v)).numpy(), v))

    found = ranking.measure([probe(model) for model in models.values()])
    return rows(
        ranking, {told: (x,) for told, x in zip(models, found, strict=True)}, "Eight models of one world together"
    )


# --- graphs ----------------------------------------------------------------------------------------------------------


def of_graphs(metric: Any) -> Figure:
    truth = np.zeros((5, 5))
    for i, j in ((0, 1), (0, 2), (1, 3), (2, 3), (3, 4)):
        truth[i, j] = 1

    def changed(*edges: tuple[int, int, int]) -> np.ndarray:
        estimate = truth.copy()
        for i, j, there in edges:
            estimate[i, j] = there
        return estimate

    cases = {
        "the graph itself": truth,
        "one edge too many": changed((0, 3, 1)),
        "every ancestor a parent": np.triu(np.ones((5, 5)), 1) - np.eye(5, k=1) * [0, 0, 1, 0, 0],
        "all joined, in the true order": np.triu(np.ones((5, 5)), 1),
        "one edge missing": changed((3, 4, 0)),
        "one edge turned round": changed((0, 1, 0), (1, 0, 1)),
        "the last edge turned round": changed((3, 4, 0), (4, 3, 1)),
        "no edges": np.zeros((5, 5)),
        "all edges turned round": truth.T,
    }
    found = {told: tuple(map(float, metric.compare(estimate, truth))) for told, estimate in cases.items()}
    return rows(metric, found, "Estimates of the graph 0 → 1, 0 → 2, 1 → 3, 2 → 3, 3 → 4")


# --- pictures and samples --------------------------------------------------------------------------------------------


@functools.cache
def pictures() -> dict[str, tuple[Tensor, Tensor]]:
    world, rng = Sprites(), torch.Generator().manual_seed(0)
    x = world.observe(world.draw(200, rng=rng), rng)
    blurred = torch.nn.functional.avg_pool2d(x, 5, stride=1, padding=2)
    noise = torch.randn(x.shape, generator=rng)
    return {
        told: (x, x_)
        for told, x_ in {
            "itself": x,
            "half as bright": x / 2,
            "with noise of .1": (x + 0.1 * noise).clamp(0, 1),
            "blurred over 5 pixels": blurred,
            "moved by a pixel": x.roll(1, -1),
            "moved by four pixels": x.roll(4, -1),
            "the mean of all": x.mean(0, keepdim=True).expand_as(x),
            "another one": x.roll(1, 0),
        }.items()
    }


def of_pictures(function: Callable[[Tensor, Tensor], Any]) -> Callable[[Metric], Figure]:
    def make(metric: Metric) -> Figure:
        found = {told: tuple(map(float, np.atleast_1d(function(*both)))) for told, both in pictures().items()}
        return rows(metric, found, "200 Sprites, each compared with")

    return make


class Told(Representation):
    """Knows the factors of the pictures it is shown, and answers interventions in a way of its own."""

    def __init__(self, world: World, v: Tensor, answer: Callable[[Tensor, int, Tensor], Tensor]) -> None:
        super().__init__(Spec(world.shape), len(world.factors))
        self.world, self.v, self.answer, self.after = world, v, answer, v

    def codes(self, x: Tensor) -> Tensor:
        return self.v

    def decode(self, z: Tensor) -> Tensor:
        return self.world.observe(z) + 0.05  # a reconstruction that is not quite right, as all are

    def do(self, x: Tensor, do: Mapping[str, Tensor]) -> Tensor:
        ((name, u),) = do.items()
        self.after = self.answer(self.v, self.world.position(name), u)
        return self.decode(self.after)


def of_counterfactuals(metric: Metric) -> Figure:
    world, n = Pendulum(size=32), 100
    v = world.draw(n, rng=torch.Generator().manual_seed(0))

    def alone(v: Tensor, k: int, u: Tensor) -> Tensor:
        return torch.where(torch.arange(v.shape[1]) == k, u[:, None], v)

    def follow(v: Tensor, k: int, u: Tensor) -> Tensor:
        return world.counterfactual(v, {k: u})

    answers = {
        "what would have been": follow,
        "half of the way there": lambda v, k, u: (v + follow(v, k, u)) / 2,
        "nothing happens": lambda v, k, u: v,
        "the concept moves, not its effects": alone,
        "another picture with the concept": lambda v, k, u: follow(v.roll(1, 0), k, u),
    }
    found = {}
    for told, answer in answers.items():
        model = Told(world, v, answer).eval()
        effects = metrics.counterfactual_effects(
            model,  # type: ignore[arg-type]
            world,
            lambda x, model=model: model.after,
            concepts=[factor.name for factor in world.factors],
            observations=n,
            rng=torch.Generator().manual_seed(0),
        ).values()
        names = [name for name in metrics.Effect._fields if name != "reader"]  # who is told makes no error
        each = {name: [x for e in effects if (x := getattr(e, name)) is not None] for name in names}
        found[told] = (*((min if name == "ssim" else max)(x) for name, x in each.items()), 0.0)
    return rows(metric, found, "Answers to interventions on each concept of 100 pendulums, read without error")


def of_samples(metric: Any) -> Figure:
    rng = np.random.default_rng(0)
    x, z = rng.normal(size=(2, 800, 2))
    cases = {
        "drawn from the same": z,
        "moved by half a deviation": z + np.array([0.5, 0]),
        "half as wide": z / 2,
        "twice as wide": 2 * z,
        "correlated by .8": z @ np.linalg.cholesky([[1, 0.8], [0.8, 1]]).T,
        "on a ring": 1.41 * z / np.linalg.norm(z, axis=1, keepdims=True),
        "20 values, repeated": z[rng.integers(20, size=800)],
        "all at the mean": 0 * z,
    }
    kernel = metric.kernel(2)
    found = {told: (metrics.mmd(y, x, kernel=kernel), metrics.energy_distance(y, x)) for told, y in cases.items()}
    return rows(metric, found, "800 draws, compared with as many of a standard normal in two dimensions")


MADE: dict[Any, Callable[[Any], Figure]] = {
    metrics.ConceptMIC: of_concepts,
    metrics.Counterfactuals: of_counterfactuals,
    metrics.UDR: of_models,
    metrics.ModelCentrality: of_models,
    metrics.MIGPosterior: of_posteriors,
    metrics.GaussianTotalCorrelation: of_codes,
    metrics.GaussianWassersteinCorrelation: of_codes,
    metrics.CodeInformation: of_codes,
    metrics.CodeSize: of_codes,
    metrics.ParentMixing: of_mixings,
    metrics.SHD: of_graphs,
    metrics.EdgeRecovery: of_graphs,
    metrics.AveragePrecision: of_graphs,
    metrics.SID: of_graphs,
    metrics.Reconstruction: of_pictures(metrics.reconstruction_error),
    metrics.BernoulliCrossEntropy: of_pictures(metrics.bernoulli_cross_entropy),
    metrics.SSIM: of_pictures(metrics.ssim),
    metrics.SampleDiscrepancy: of_samples,
    metrics.PriorDiscrepancy: of_samples,
}


# --- do metrics agree? -----------------------------------------------------------------------------------------------


@functools.cache
def agreement(without: tuple[str, ...] = ()) -> tuple[list[str], np.ndarray]:
    """Results of the study and their rank correlations, over all representations but some; alike ones side by side."""
    from whence.studies.metric_agreement import agreement as correlations
    from whence.studies.metric_agreement import side_by_side
    from whence.studies.study import Outcome

    with TABLE.open(newline="") as file:
        runs = [
            Outcome(row["row"], int(row["seed"]), row["key"], {k: float(x) for k, x in row.items() if is_result(k, x)})
            for row in csv.DictReader(file)
            if row["row"] not in without and not row["error"]
        ]
    return side_by_side(*correlations(runs))


def is_result(name: str, text: str) -> bool:
    return bool(text) and name not in ("row", "seed", "seconds", "error", "key")


def neighbours(without: tuple[str, ...] = ()) -> dict[str, tuple[str, float, float]]:
    """For each result the one it agrees with most, how far, and the median with all others."""
    names, r = agreement(without)
    found = {}
    for i, name in enumerate(names):
        others = np.delete(r[i], i)
        best = int(np.nanargmax(others))
        found[name] = (np.delete(names, i)[best], float(others[best]), float(np.nanmedian(others)))
    return found


def heat_map() -> str:
    """Rank correlations of all results, as a picture that stands alone."""
    names, r = agreement()
    left, top, side = 150, 24, 26
    size = (left + side * len(names) + 10, top + side * len(names) + left)
    out = [f'<rect width="{size[0]}" height="{size[1]}" fill="white"/>']
    for i, name in enumerate(names):
        told, at = name.replace("_", " "), side * i + side // 2
        out.append(f'<text x="{left - 8}" y="{top + at + 4}" text-anchor="end">{told}</text>')
        x, y = left + at + 4, top + side * len(names) + 8
        out.append(f'<text x="{x}" y="{y}" text-anchor="end" transform="rotate(-90 {x} {y})">{told}</text>')
        for j, c in enumerate(r[i]):
            x, y = left + side * j, top + side * i
            fill, ink = ("#1f6f8b" if c > 0 else "#b5432f"), ("white" if abs(c) > 0.6 else "black")
            out.append(
                f'<rect x="{x}" y="{y}" width="{side}" height="{side}" fill="{fill}" fill-opacity="{c * c:.3f}"/>'
                f'<text x="{x + side / 2}" y="{y + 17}" text-anchor="middle" font-size="10" fill="{ink}">'
                f"{100 * c:.0f}</text>"
            )
    inner = "".join(out)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size[0]} {size[1]}" width="{size[0]}" '
        f'height="{size[1]}" font-family="sans-serif" font-size="12">{inner}</svg>\n'
    )


# --- drawing ---------------------------------------------------------------------------------------------------------


def drawn(kind: type[Metric] | type[Ranking]) -> list[str]:
    """Words and figure of one metric, as paragraphs of Markdown."""
    name, found = values.name_of(kind), figure(kind)
    out = [f"**Sees.** {text}"] if (text := SEES.get(name)) else []
    out += [f"**Misses.** {text[8].upper()}{text[9:]}" for text in misses(kind)]
    if found is not None:
        out += [f"{found.about}, and what {kind.__name__} says:", svg(found)]
    return ["## What it sees, what it misses", *out] if out else []


def misses(kind: type[Metric] | type[Ranking]) -> list[str]:
    """The paragraphs of a metric's docstring that say what it misses."""
    return [text for text in paragraphs(kind.__doc__) if text.startswith("Misses: ")]


def svg(figure: Figure) -> str:
    left = 20 + 7 * max(map(len, figure.cases))
    wide, high = 150, 20
    out, size = [], (left + wide * len(figure.columns), high * (len(figure.cases) + 1) + 4)
    for i, text in enumerate(figure.cases):
        out.append(f'<text x="{left - 10}" y="{high * (i + 2) - 6}" text-anchor="end">{text}</text>')
    for c, (title, column) in enumerate(figure.columns):
        x0, most = left + wide * c, max([abs(x) for x in column if x is not None] + [1e-9])
        most = 1.0 if 0.2 < most < 1 else most
        out.append(f'<text x="{x0}" y="14" font-weight="bold">{title}</text>')
        digits = 2 if most < 100 else 0
        for i, x in enumerate(column):
            y = high * (i + 1)
            length = 0 if x is None else max(x, 0) / most * (wide - 60)
            told = "–" if x is None else f"{x:.{digits if most > 0.2 else 4}f}"
            told = told.lstrip("-") if float(told.replace("–", "1")) == 0 else told
            out.append(f'<rect x="{x0}" y="{y + 4}" width="{length:.1f}" height="{high - 8}" opacity="0.55"/>')
            out.append(f'<text x="{x0 + length + 5:.1f}" y="{y + 14}">{told}</text>')
    inner = "".join(out)
    return (
        f'<figure style="overflow-x:auto;margin:0"><svg viewBox="0 0 {size[0]} {size[1]}" width="{size[0]}" role="img" '
        f'fill="currentColor" font-size="12">{inner}</svg></figure>'
    )
