"""Pages of the reference, from the code: one for each method, world and metric, and three tables."""

from __future__ import annotations

import dataclasses
import inspect
import re
import sys
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import cases
from formulas import cell, markdown, paragraphs

import whence.metrics
from whence import runs, values
from whence.descend import Recipe
from whence.evidence import Evidence, Guarantee, Reference
from whence.methods import METHODS, Gradient, Method
from whence.methods._divergence import DIVERGENCES
from whence.metrics import METRICS, RANKINGS, Metric, Part, Ranking
from whence.nets import ARCHITECTURES
from whence.representation import CAPABILITIES, HasPosterior, Representation, Samples
from whence.scores import ESTIMATORS, PictureRatio
from whence.terms.likelihood import LIKELIHOODS
from whence.terms.mmd import KERNELS
from whence.views import Label, Labelled, Spec
from whence.worlds import WORLDS, Sprites, World

#: Families in the order in which they are shown, with a title and what they have in common.
FAMILIES = {
    "baseline": ("Baselines", "What can be had without learning a generative model. Everything else should beat them."),
    "likelihood": ("From independent observations", "Autoencoders that maximise a bound on the likelihood."),
    "adversarial": (
        "Held to a prior",
        "Autoencoders whose codes, all together, are to look like draws of a prior: to a critic, or through a kernel.",
    ),
    "grouped": ("From groups and pairs", "Observations come in groups or pairs that share some causes."),
    "labelled": ("From labels", "Something else was observed beside each observation."),
    "score_based": (
        "From interventions",
        "One system, observed and under interventions. What distinguishes the environments, the differences of "
        "their scores, is sparse in the causes.",
    ),
}
#: What a capability lets one call.
CALLS = {
    "Decodes": "`decode(z)`",
    "HasPosterior": "`posterior(x)`",
    "Samples": "`sample(n, rng)`",
    "HasGraph": "`graph`",
    "HasInterventions": "`intervention_matrix`",
    "HasDensity": "`log_prob(x)`",
    "Intervenes": "`do(x, do)`",
    "HasConcepts": "`concepts(z)`",
}
#: What a required option of a world looks like in an example: files and folders that are published.
REQUIRED = {"folder": '"celeba"', "path": '"dsprites_ndarray_co1sh3sc6or40x32y32_64x64.npz"'}

ROOT = Path(__file__).parent.parent
Page = tuple[str, str]  # where below docs/, and its Markdown


def pages() -> list[Page]:
    """Everything below docs/reference."""
    return [
        ("reference/methods/index.md", methods_table()),
        *((f"reference/methods/{values.name_of(kind)}.md", method_page(kind)) for kind in METHODS),
        ("reference/worlds/index.md", worlds_table()),
        *((f"reference/worlds/{values.name_of(kind)}.md", world_page(kind)) for kind in WORLDS),
        ("reference/metrics/index.md", metrics_table()),
        *((f"reference/metrics/{values.name_of(kind)}.md", metric_page(kind)) for kind in (*METRICS, *RANKINGS)),
        ("reference/metrics/agreement.md", agreement_page()),
        ("reference/parts.md", parts_page()),
    ]


def write(docs: Path) -> dict[str, str]:
    """Write what has changed, remove what is no longer generated; titles by path, in the order of the navigation."""
    made = pages()
    for path, text in made:
        file = docs / path
        file.parent.mkdir(parents=True, exist_ok=True)
        if not file.is_file() or file.read_text(encoding="utf-8") != text:
            file.write_text(text, encoding="utf-8")
    (docs / "reference" / "agreement.svg").write_text(cases.heat_map(), encoding="utf-8")
    for stale in set((docs / "reference").rglob("*.md")) - {docs / path for path, _ in made}:
        stale.unlink()
    return {path: next(line[2:] for line in text.split("\n") if line.startswith("# ")) for path, text in made}


# --- methods ---------------------------------------------------------------------------------------------------------


def family(kind: type) -> str:
    """The folder a method lives in."""
    return kind.__module__.split(".")[-2]


def methods_table() -> str:
    out = [
        "# Methods",
        "Each method is a value: a frozen dataclass of its hyper-parameters. A page says first what the method "
        "identifies, and under which assumptions. Most identify nothing, and say so.",
        "`whence list` prints the names and the strongest badge of each. The badges are explained [below](#evidence).",
    ]
    known = {family(kind) for kind in METHODS}
    for name in [*FAMILIES, *sorted(known - set(FAMILIES))]:
        if name not in known:
            continue
        title, common = FAMILIES.get(name, (name.replace("_", " ").capitalize(), ""))
        out += [f"## {title}", *([common] if common else [])]
        rows = []
        for kind in METHODS:
            if family(kind) == name:
                title = f"[{kind.__name__}]({values.name_of(kind)}.md)"
                rows.append(
                    [title, summary(kind), kind.needs.__name__, identifies(kind.guarantee), badges(kind.evidence)]
                )
        out.append(table(["Method", "In a sentence", "Needs", "Identifies", "Evidence"], rows))
    out += [
        "## Evidence",
        table(
            ["Badge", "What it says"],
            [
                [badge("reference-checked"), "compared with numbers from the authors' own code"],
                [badge("closed-form"), "a test against a result that can be worked out by hand"],
                [badge("benchmarked"), "a row of a published table, run here, with the published number beside it"],
                [badge("unverified"), "none of these yet"],
            ],
        ),
    ]
    return document(out)


def method_page(kind: type[Method]) -> str:
    name = values.name_of(kind)
    first, *rest = paragraphs(kind.__doc__)
    out = [f"# {kind.__name__}", first, guarantee(kind.guarantee), *rest]
    facts = [
        ["Learns from", f"[{kind.needs.__name__}](../../architecture.md#views)"],
        ["Evidence", badges(kind.evidence, where=True)],
        ["Source", f"`{kind.__module__}`"],
    ]
    if (code := skeleton(kind)) is not None:
        can = [CALLS[c.__name__] for c in CAPABILITIES if isinstance(code, c)]
        facts.insert(1, ["Returns", f"`{type(code).__name__}`: " + ", ".join(["`encode(x)`", *can])])
    out += [table(["", ""], facts), "## Hyper-parameters", fields(kind, "This method has none.")]
    if issubclass(kind, Gradient):
        out += [
            "## Recipe",
            "The budget and the optimisers it is trained with unless you give others "
            "([all fields](../parts.md#recipe)).",
            recipe(kind.recipe),
        ]
    out += ["## Use", code_block(method_example(kind)), shell(*method_commands(kind))]
    return document([*out, *reference(kind.reference, f"whence cite {name}")])


#: What a method refuses to go without, as Python and as flags, in examples.
MUST = {"CauCA": ('graph=("0->1", "0->2")', ' --graph "0->1,0->2"')}


def method_example(kind: type[Method]) -> str:
    must = [MUST[kind.__name__][0]] if kind.__name__ in MUST else []
    given = ", ".join([*must, *(f"{f.name}={show(f.default)}" for f in own_fields(kind)[:2])])
    world = suited_world(kind)
    lines = [
        f"from whence import {', '.join(sorted([kind.__name__, world, 'fit'], key=lambda n: (n.islower(), n)))}",
        "",
        f"world = {world}()",
        f'fitted = fit({kind.__name__}({given}), world, seed=0, into="runs/{values.name_of(kind)}")',
        f"x = world.{'pairs' if kind.needs.__name__ == 'Pairs' else 'singles'}().batch(16, torch.Generator()).x",
        "codes = fitted.representation.encode(x)   # (16, dims)",
    ]
    return "\n".join(["import torch", *lines])


def suited_world(kind: type[Method]) -> str:
    return "Mixed" if kind.needs.__name__ == "Environments" else "Sprites"


def method_commands(kind: type[Method]) -> list[str]:
    name = values.name_of(kind)
    flags = "".join(f" --{f.name} {f.default}" for f in own_fields(kind)[:2] if plain(f.default))
    flags = MUST.get(kind.__name__, ("", ""))[1] + flags
    world = suited_world(kind).lower()
    return [f"whence fit {name}{flags} --world {world} --into runs/{name}", f"whence evaluate runs/{name}"]


def own_fields(kind: type) -> list[dataclasses.Field]:
    """The fields with simple defaults that the class adds itself; if none, the first inherited one."""
    simple = [f for f in dataclasses.fields(kind) if plain(f.default)]
    own = [f for f in simple if f.name in inspect.get_annotations(kind)]
    return own or simple[:1]


def plain(default: Any) -> bool:
    return isinstance(default, int | float | str) and not isinstance(default, bool)


def skeleton(kind: type[Method]) -> Representation | None:
    """What the method returns, for an image or, if it takes none, for a vector."""
    labels = (Label("one", 0.0, 1.0), Label("two", 0.0, 1.0)) if issubclass(kind.needs, Labelled) else ()
    for shape in ((1, 64, 64), (8,)):
        try:
            return kind().skeleton(Spec(shape, labels=labels))
        except (TypeError, ValueError, NotImplementedError):
            continue
    return None


def guarantee(g: Guarantee) -> str:
    if g.identifies == "nothing":
        return f'!!! no-guarantee "Identifies nothing"\n    {sentence(g.assumes[0])}'
    out = [f'!!! guarantee "What is identified"\n    {sentence(g.identifies)}']
    if g.assumes:
        out += ["    Only if all of this holds:", "\n".join(f"    - {a}" for a in g.assumes)]
    return "\n\n".join(out)


def identifies(g: Guarantee) -> str:
    return "nothing" if g.identifies == "nothing" else g.identifies.split(" (")[0]


def recipe(r: Recipe) -> str:
    default, help_ = Recipe(), values.field_help(Recipe)
    always = ("steps", "batch", "optimiser", "players")
    rows = []
    for f in dataclasses.fields(r):
        value = getattr(r, f.name)
        if (f.name in always and value) or value != getattr(default, f.name):
            rows.append([f"`{f.name}`", f"`{show(value, always=('lr',))}`", help_.get(f.name, "")])
    return table(["Field", "Value", "Meaning"], rows)


# --- worlds ----------------------------------------------------------------------------------------------------------


def worlds_table() -> str:
    out = [
        "# Worlds",
        "A world knows the causes of its observations. Learners never see it: they get a "
        "[view](../../architecture.md#views). Metrics see it again.",
    ]
    rows = []
    for kind in WORLDS:
        world = make(kind)
        factors, shape = ("of the file", "of the file") if world is None else (factor_names(world), size(world.shape))
        rows.append([f"[{kind.__name__}]({values.name_of(kind)}.md)", summary(kind), factors, shape])
    return document([*out, table(["World", "In a sentence", "Factors", "Observation"], rows)])


def world_page(kind: type[World]) -> str:
    first, *rest = paragraphs(kind.__doc__)
    out = [f"# {kind.__name__}", first, *rest]
    if own := module_notes(kind):
        out += own
    world = make(kind)
    if world is not None:
        rows = [[f"`{f.name}`", f.kind, str(f.size or "any"), span(f.values)] for f in world.factors]
        out += [
            "## Factors",
            f"An observation has shape {size(world.shape)}. Factors are independent and uniform.",
            table(["Factor", "Kind", "Values", "From, to"], rows),
        ]
    else:
        out += ["## Factors", "Those of the file it reads."]
    out += ["## Options", fields(kind, "This world has none.")]
    out += ["## Use", code_block(world_example(kind)), shell(world_command(kind))]
    return document(
        [*out, *(reference(kind.reference, f"whence cite {values.name_of(kind)}") if kind.reference else [])]
    )


def world_example(kind: type[World]) -> str:
    given = ", ".join(f"{f.name}={REQUIRED.get(f.name, '...')}" for f in dataclasses.fields(kind) if required(f))
    return "\n".join(
        [
            "import torch",
            f"from whence.worlds import {kind.__name__}",
            "",
            f"world = {kind.__name__}({given})",
            "rng = torch.Generator().manual_seed(0)",
            "v = world.draw(16, rng=rng)       # true factors, (16, K)",
            "x = world.observe(v, rng)         # observations",
            "views = world.singles(), world.pairs(changing=1)",
        ]
    )


def world_command(kind: type[World]) -> str:
    flags = "".join(f" --world.{f.name} {REQUIRED.get(f.name, '...')}" for f in dataclasses.fields(kind) if required(f))
    return f"whence fit beta_vae --world {values.name_of(kind)}{flags}"


def required(f: dataclasses.Field) -> bool:
    return f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING


def make(kind: type[World]) -> World | None:
    """The world with its defaults, if it has defaults for everything."""
    return None if any(map(required, dataclasses.fields(kind))) else kind()


def module_notes(kind: type) -> list[str]:
    """The module's docstring after its title, where a world explains itself."""
    return paragraphs(sys.modules[kind.__module__].__doc__)[1:]


def factor_names(world: World) -> str:
    return ", ".join(f.name for f in world.factors)


def size(shape: tuple[int, ...]) -> str:
    return " × ".join(map(str, shape))


def span(numbers: tuple[float, ...]) -> str:
    return f"{numbers[0]:g}, {numbers[-1]:g}"


# --- metrics ---------------------------------------------------------------------------------------------------------


#: Questions, in the order in which they are shown, with the modules of the metrics that ask them.
QUESTIONS = {
    "Does each code stand for one factor, and each factor for one code?": (
        "beta_vae factor_vae mig mig_sup dcimig jemmig modularity infomec dci sap irs"
    ),
    "How much of the factors do the codes tell?": "explicitness r2 dci_es mic",
    "Were the true latents recovered?": "mcc mixing",
    "Was the causal graph recovered?": "shd edges sid",
    "What do the codes say of themselves, without the truth?": "unsupervised",
    "Are observations made well?": "reconstruction ssim samples",
    "Do several models agree with each other?": "udr model_centrality",
}


#: Modules whose metrics give the numbers of functions from other files.
GIVES = {"samples": ("mmd", "energy")}


def metrics_table() -> str:
    out = [
        "# Metrics",
        "Every result comes with its *best* value and its *chance* level: the value of the same codes dealt to other "
        "observations. A number without these two says little. [Which one to report](../../which_metric.md) depends on "
        "what is claimed.",
        "`evaluate` draws and encodes observations once for all of them. Each is a function on two arrays as well, and "
        "its page says what it sees and what it misses.",
    ]
    asked = {module: question for question, modules in QUESTIONS.items() for module in modules.split()}
    by_question: dict[str, list[list[str]]] = {question: [] for question in [*QUESTIONS, "Further"]}
    kinds: tuple[type[Metric] | type[Ranking], ...] = (*METRICS, *RANKINGS)
    for kind in kinds:
        title = f"[{kind.__name__}]({values.name_of(kind)}.md)"
        row = [title, summary(kind), f"{best(kind)} ({better(kind)})", badges(kind.evidence[:1])]
        by_question[asked.get(kind.__module__.split(".")[-1], "Further")].append(row)
    for question, rows in by_question.items():
        if rows:
            out += [f"## {question}", table(["Metric", "What it asks", "Best (better is)", "Evidence"], rows)]
    out += [
        "## Do metrics agree?",
        "Rank correlations of all of them: [the study](agreement.md), and [what follows](../../which_metric.md).",
    ]
    return document(out)


def metric_page(kind: type[Metric] | type[Ranking]) -> str:
    name = values.name_of(kind)
    first, *rest = (text for text in paragraphs(kind.__doc__) if text not in cases.misses(kind))
    out = [f"# {kind.__name__}", first, *rest]
    facts = [
        ["Best", best(kind)],
        ["Better is", better(kind)],
        ["Needs of the representation", ", ".join(CALLS[c.__name__] for c in kind.asks) or "codes only"],
        ["Evidence", badges(kind.evidence, where=True)],
        ["Source", f"`{kind.__module__}`"],
    ]
    out.append(table(["", ""], facts))
    shown = [function] if (function := formula_of(kind)) is not None else []
    if not any("$" in text for f in shown for text in paragraphs(f.__doc__)):  # then it is said elsewhere
        shown += [f for f in public(kind) if f not in shown and any("$$" in text for text in paragraphs(f.__doc__))]
    out += ["## Formula"] if shown else []
    for f in shown:
        out += [f"`{call(f)}`", *paragraphs(f.__doc__)]
    out += [*cases.drawn(kind), "## Settings", fields(kind, "This metric has none.")]
    several = issubclass(kind, Ranking)
    example = ranking_example(kind) if several else metric_example(kind)
    folders = "runs/one runs/another runs/a-third" if several else "runs/my-run"
    out += ["## Use", code_block(example), shell(f"whence evaluate {folders} --metrics {name}")]
    if rows := [[f"`{call(f)}`", summary(f)] for f in public(kind) if f not in shown]:
        out += ["## Beside it", f"Public functions of `{kind.__module__}`:", table(["Function", "What it gives"], rows)]
    return document([*out, *reference(kind.reference, f"whence cite {name}")])


def agreement_page() -> str:
    seeds, means = cases.measured()
    repeated = ("duplicated", "circular")
    every, but = cases.neighbours(), cases.neighbours(repeated)
    rows = [
        [f"`{name}`", *(f"`{near}`, {r:.2f}" for near, r, _ in (every[name], but[name])), f"{but[name][2]:.2f}"]
        for name in every
    ]
    return document(
        [
            "# Agreement of metrics",
            f"Spearman's rank correlations, times 100, over {len({row for row, _ in means})} representations, known "
            f"and learned ({seeds} seed{'s' if seeds > 1 else ''}; `whence study metric_agreement`). What is better "
            "when lower is turned round.",
            "[![Rank correlations of all metrics as a heat map](../agreement.svg)](../agreement.svg)",
            "For each result the one that agrees with it most: over all representations, and without the two that hold "
            "a factor in two codes (every code twice; sine and cosine), with the median of all others.",
            table(["Result", "Nearest", "Nearest, but two", "Median, but two"], rows),
            "All numbers are in `benchmarks/metric_agreement.csv`, run by run.",
        ]
    )


def public(kind: type[Metric] | type[Ranking]) -> list[Callable]:
    """The public functions of a metric's module, in the order of the file; and those whose numbers it gives."""
    module = sys.modules[kind.__module__]
    own = (module.__name__, *(f"whence.metrics.{beside}" for beside in GIVES.get(kind.__module__.split(".")[-1], ())))
    return [
        f
        for name, f in vars(module).items()
        if inspect.isfunction(f) and f.__module__ in own and hasattr(whence.metrics, name)
    ]


def call(function: Callable) -> str:
    """How a function is called: its name and parameters with their defaults, without types."""
    signature = inspect.signature(function).replace(return_annotation=inspect.Signature.empty)
    bare = [p.replace(annotation=inspect.Parameter.empty) for p in signature.parameters.values()]
    return re.sub(r"<function (\w+) at \w+>", r"\1", f"{function.__name__}{signature.replace(parameters=bare)}")


def metric_example(kind: type[Metric]) -> str:
    function = formula_of(kind)
    given = ", ".join(f"{f.name}={show(f.default)}" for f in own_fields(kind)[:1])
    imports = sorted(
        [kind.__name__, "evaluate", *([function.__name__] if function else [])], key=lambda n: (n.islower(), n)
    )
    imported, fitted = measurable(kind)
    lines = [
        *imported,
        f"from whence.metrics import {', '.join(imports)}",
        "",
        f"fitted = {fitted}",
        f"print(evaluate(fitted, metrics=[{kind.__name__}({given})]))",
    ]
    if function is not None and list(inspect.signature(function).parameters)[:2] == ["codes", "factors"]:
        lines = [
            "import torch",
            *lines,
            "",
            "# or on two arrays of your own: codes (N, D) and factors (N, K)",
            "factors = torch.randint(4, (1000, 3))",
            "codes = factors + 0.1 * torch.randn(1000, 3)",
            f"print({function.__name__}(codes, factors))",
        ]
    return "\n".join(lines)


def ranking_example(kind: type[Ranking]) -> str:
    return "\n".join(
        [
            "from whence import ICA, PCA, Sprites, fit",
            f"from whence.metrics import {kind.__name__}, rank",
            "",
            "world = Sprites()",
            "models = [fit(method, world, seed=0) for method in (PCA(), ICA(), PCA(latents=5))]",
            f"for method, results in zip(('PCA', 'ICA', 'PCA of 5'), rank(models, rankings=[{kind.__name__}()], "
            "samples=500), strict=True):",
            "    print(method, results)",
        ]
    )


def measurable(kind: type[Metric]) -> tuple[list[str], str]:
    """Imports, and a fit of something that has what the metric asks for."""
    if not kind().suits(Sprites()):
        return ["from whence import Mixed, UMNI, fit"], "fit(UMNI(), Mixed(), seed=0)"
    if any(capability in (HasPosterior, Samples) for capability in kind.asks):
        imports = ["from dataclasses import replace", "", "from whence import Sprites, VAE, fit"]
        return imports, "fit(VAE(), Sprites(), seed=0, recipe=replace(VAE.recipe, steps=2_000))"
    return ["from whence import PCA, Sprites, fit"], "fit(PCA(), Sprites(), seed=0)"


def formula_of(kind: type[Metric] | type[Ranking]) -> Callable | None:
    """The public pure function beside a metric: of its name, or of one that begins with it."""
    name, named = values.name_of(kind), {f.__name__: f for f in public(kind)}
    return named.get(name) or next((f for n, f in named.items() if n.startswith(name)), None)


def best(kind: type[Metric] | type[Ranking]) -> str:
    return each(kind, lambda part: f"{part.best:g}")


def better(kind: type[Metric] | type[Ranking]) -> str:
    return each(kind, lambda part: "higher" if part.higher_is_better else "lower")


def each(kind: type[Metric] | type[Ranking], say: Callable[[Part], str]) -> str:
    """What is true of every part, said once if it is the same."""
    said = {say(part) for part in kind.parts}
    return (
        said.pop() if len(said) == 1 else ", ".join(f"{part.name.replace('_', ' ')} {say(part)}" for part in kind.parts)
    )


# --- parts -----------------------------------------------------------------------------------------------------------


def parts_page() -> str:
    out = [
        "# Networks, likelihoods, scores and recipes",
        "Values that methods are given. Any field of a recipe can be overridden: "
        "`replace(BetaVAE.recipe, steps=1000)`, with `dataclasses.replace`.",
    ]
    for title, kinds in (
        ("Networks", ARCHITECTURES),
        ("Likelihoods", LIKELIHOODS),
        ("Divergences from a prior", DIVERGENCES),
        ("Kernels", KERNELS),
        ("Score estimators", (*ESTIMATORS, PictureRatio)),
    ):
        out.append(f"## {title}")
        for kind in kinds:
            out += [f"### {kind.__name__}", *paragraphs(kind.__doc__), fields(kind, "No options.")]
    out += ["## Recipe", *paragraphs(Recipe.__doc__), fields(Recipe, "")]
    for kind in runs.RECIPE_PARTS:
        if kind is not Recipe:
            out += [f"### {kind.__name__}", *paragraphs(kind.__doc__), fields(kind, "No options.")]
    return document(out)


# --- pieces of a page ------------------------------------------------------------------------------------------------


def document(parts: Iterable[str]) -> str:
    return "<!-- Generated by docs/generate.py from the code. Do not edit. -->\n\n" + "\n\n".join(parts) + "\n"


def summary(kind: type) -> str:
    """The first paragraph of a docstring."""
    return paragraphs(kind.__doc__)[0]


def sentence(text: str) -> str:
    """With a capital and a full stop."""
    text = markdown(" ".join(text.split())).rstrip(".")
    return f"{text[:1].upper()}{text[1:]}."


def fields(kind: type, none: str) -> str:
    help_ = values.field_help(kind)
    rows = []
    for f in dataclasses.fields(kind):
        default = f.default_factory() if f.default_factory is not dataclasses.MISSING else f.default
        shown = "required" if required(f) else f"`{show(default)}`"
        rows.append([f"`{f.name}`", shown, markdown(help_.get(f.name, ""))])
    return table(["Field", "Default", "Meaning"], rows) if rows else none


def show(value: Any, always: tuple[str, ...] = ()) -> str:
    """A value as one would write it, without the fields that are at their defaults, unless always shown."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        held = [(f.name, getattr(value, f.name), f.default) for f in dataclasses.fields(value)]
        given = [f"{name}={show(v)}" for name, v, default in held if v != default or name in always]
        return f"{type(value).__name__}({', '.join(given)})"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f'"{k}": {show(v, always)}' for k, v in value.items()) + "}"
    if isinstance(value, tuple) and len(value) > 3 and len(set(value)) == 1:
        return f"({show(value[0])},) * {len(value)}"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:_}" if value >= 10_000 else str(value)
    return f'"{value}"' if isinstance(value, str) else repr(value)


def badge(name: str) -> str:
    return f'<span class="badge badge-{name}">{name}</span>'


def badges(evidence: tuple[Evidence, ...], *, where: bool = False) -> str:
    if where:
        return "<br>".join(badge(e.badge) + (f" `{e.where}`" if e.where else "") for e in evidence)
    return " ".join(badge(e.badge) for e in evidence)


def table(header: list[str], rows: list[list[str]]) -> str:
    if not rows:
        return ""
    lines = ["| " + " | ".join(header) + " |", "|" + " --- |" * len(header)]
    return "\n".join(lines + ["| " + " | ".join(map(cell, row)) + " |" for row in rows])


def code_block(text: str) -> str:
    return f"```python\n{text}\n```"


def shell(*commands: str) -> str:
    return "On the command line:\n\n```console\n" + "\n".join(f"$ {command}" for command in commands) + "\n```"


def reference(ref: Reference, command: str) -> list[str]:
    link = f" [{ref.url.removeprefix('https://')}]({ref.url})" if ref.url else ""
    return [
        "## Reference",
        f"{plain_tex(str(ref))}{link}",
        f"```bibtex\n{ref.bibtex()}\n```",
        f"`{command}` prints the same.",
    ]


def plain_tex(text: str) -> str:
    """BibTeX accents as letters."""
    marks = {'"': "\u0308", "'": "\u0301", "`": "\u0300", "^": "\u0302", "~": "\u0303", "v": "\u030c", "c": "\u0327"}

    def letter(match: re.Match[str]) -> str:
        return unicodedata.normalize("NFC", match[2] + marks[match[1]])

    return re.sub(r"\{\\([\"'`^~vc])\s*\{?(\w)\}?\}", letter, text)
