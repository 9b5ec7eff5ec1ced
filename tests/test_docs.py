"""The documentation is executed: its examples run, its site builds, and what could break a page is refused."""

from __future__ import annotations

import dataclasses
import doctest
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import replace
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from xml.etree import ElementTree

import pytest
import torch

import whence
import whence.metrics
from whence import cli
from whence.methods import METHODS, Gradient, Method
from whence.metrics import METRICS, RANKINGS
from whence.runs import outside
from whence.worlds import WORLDS

pytest.importorskip("mkdocs", reason="the documentation's tools are in the extra: pip install '.[docs]'")
pytest.importorskip("latex2mathml")

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
sys.path.append(str(DOCS))  # last, because of its build.py
cases, formulas, generate = (import_module(name) for name in ("cases", "formulas", "generate"))
spec = spec_from_file_location("docs_build", DOCS / "build.py")
build = module_from_spec(spec)
spec.loader.exec_module(build)

PAGES = [page for page in (*sorted(DOCS.glob("*.md")), ROOT / "README.md") if page.is_file()]
GENERATED = dict(generate.pages())
BLOCK = re.compile(
    r"(?P<skip><!-- not run: [^>]+ -->\n+)?^```python(?: title=\"(?P<file>[^\"]+)\")?\n(?P<code>.*?)^```", re.S | re.M
)
COMMAND = re.compile(r"^\$ (?:torchrun .*--no-python )?whence (.+)$", re.M)


def blocks(text: str) -> list[tuple[int, str]]:
    """Line and source of every python block that is to be run."""
    return [(text.count("\n", 0, m.start("code")), m["code"]) for m in BLOCK.finditer(text) if not m["skip"]]


def run(text: str, name: str) -> None:
    """All blocks of a page, one after another, in one namespace. Errors are at the page's own lines."""
    space: dict = {"__name__": name}
    for line, code in blocks(text):
        exec(compile("\n" * line + code, name, "exec", dont_inherit=True), space)


@pytest.fixture(autouse=True)
def aside(tmp_path, monkeypatch):
    """In an empty folder, with one thread, and the random state left as it was."""
    monkeypatch.chdir(tmp_path)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    with torch.random.fork_rng():
        yield
    torch.set_num_threads(threads)


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page.read_text())], ids=lambda p: p.stem)
def test_the_examples_of_a_page_run(page, monkeypatch):
    fit = whence.fit

    def short(method, data, **options):
        """What a page lets run for minutes."""
        if isinstance(method, whence.GSCALE):
            method = replace(method, examples=min(method.examples, 100))
            options.setdefault("recipe", replace(method.recipe, steps=5))
        return fit(method, data, **options)

    monkeypatch.setattr(whence, "fit", short)
    run(page.read_text(), str(page))


@pytest.mark.parametrize("name", [*(p.name for p in PAGES), *GENERATED])
def test_the_commands_of_a_page_are_understood(name):
    """Commands exist, and `fit` knows every flag and value. Files with a title are there to be named."""
    page = GENERATED.get(name) or next(p.read_text() for p in PAGES if p.name == name)
    for block in BLOCK.finditer(page):
        if block["file"]:
            Path(block["file"]).write_text(block["code"])
    for line in COMMAND.findall(page):
        command, *words = shlex.split(line, comments=True)
        assert command in cli.COMMANDS, line
        if command == "fit":
            kind, flags, known = cli.fit_flags(words)
            flags.parsed(flags.read(words[1:]), known)
        elif command == "cite" and "/" not in words[0]:
            assert cli.main([command, *words]) == 0
        elif command == "check" and not issubclass(kind := outside(words[0], object), Method):  # methods take long
            assert cli.main([command, *words]) == 0, kind


@pytest.mark.parametrize("path", [path for path, text in GENERATED.items() if blocks(text)])
def test_the_example_of_a_reference_page_runs_with_a_tiny_budget(path, monkeypatch):
    fit, evaluate = whence.fit, whence.metrics.evaluate

    def tiny_fit(method, data, **options):
        if isinstance(method, Gradient):
            options["recipe"] = replace(method.recipe, steps=1, batch=4)
        elif hasattr(method, "examples"):
            method = replace(method, examples=32)
        return fit(method, data, **options)

    monkeypatch.setattr(whence, "fit", tiny_fit)
    monkeypatch.setattr(whence.metrics, "evaluate", lambda *a, **k: evaluate(*a, samples=200, chance=False, **k))
    published = [file.strip('"') for file in generate.REQUIRED.values() if f"={file})" in GENERATED[path]]
    if published:  # not there
        with pytest.raises(FileNotFoundError, match=published[0]):
            run(GENERATED[path], path)
    else:
        run(GENERATED[path], path)


def test_every_method_world_and_metric_has_a_page_with_what_it_must_say():
    for folder, kinds in (("methods", METHODS), ("worlds", WORLDS), ("metrics", (*METRICS, *RANKINGS))):
        for kind in kinds:
            text = GENERATED[f"reference/{folder}/{whence.values.name_of(kind)}.md"]
            assert generate.summary(kind) in text
            if folder != "worlds":
                assert kind.reference.bibtex() in text
                assert all(evidence.badge in text for evidence in kind.evidence)
            if folder == "methods":
                says = kind.guarantee.identifies
                assert ("Identifies nothing" in text) if says == "nothing" else (says[1:] in text)


def test_what_a_metric_sees_is_told_of_metrics_that_are_there_and_drawn_with_its_numbers():
    assert set(cases.SEES) == {whence.values.name_of(kind) for kind in (*METRICS, *RANKINGS)}
    text = GENERATED["reference/metrics/shd.md"]
    assert "**Sees.** Each wrong edge, once." in text
    assert "**Misses.** What the errors do to predictions." in text
    drawn = cases.svg(cases.Figure("", ("a", "b"), (("one", (1.0, None)), ("two", (-0.001, 0.25)))))
    assert re.findall(r">([^<]+)</text>", drawn) == ["a", "b", "one", "1.00", "–", "two", "0.00", "0.25"]


def test_tall_double_bars_are_bars():
    assert formulas.mathml(r"\Bigl\| x \Bigr\|_2 \,\Big\|\, y", display=True).count("‖") == 3


def test_the_heat_map_of_agreement_is_a_picture_with_every_correlation():
    names, r = cases.agreement()
    drawn = ElementTree.fromstring(cases.heat_map())
    told = [text.text for text in drawn.iter("{http://www.w3.org/2000/svg}text")]
    assert {name.replace("_", " ") for name in names} <= set(told)
    assert sum(text == "100" for text in told) >= len(names)
    assert len(told) == len(names) * (len(names) + 2)
    assert (r == r.T).all()
    near, r, _ = cases.neighbours()["beta_vae_metric"]
    assert near in names
    assert r < 1


def test_every_field_of_a_value_is_explained():
    bare = [
        f"{kind.__name__}.{field.name}"
        for kind in (*METHODS, *WORLDS, *METRICS, *RANKINGS)
        for field in dataclasses.fields(kind)
        if not whence.values.field_help(kind).get(field.name)
    ]
    assert not bare, f"fields without a #: comment: {bare}"


def copy(to: Path) -> Path:
    shutil.copytree(DOCS, to / "docs", ignore=shutil.ignore_patterns("__pycache__", "reference"))
    shutil.copytree(ROOT / "benchmarks", to / "benchmarks", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "mkdocs.yml", to)
    return to


def built(root: Path) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, str(root / "docs" / "build.py"), "--out", str(root / "site")], capture_output=True, text=True
    )


def test_the_site_builds_strictly_and_needs_no_network(tmp_path):
    done = built(copy(tmp_path))
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "site" / "reference" / "methods" / "beta_vae.html").read_text()
    assert '<math data-search-exclude="" xmlns="http://www.w3.org/1998/Math/MathML" display="block">' in page
    assert "arithmatex" not in page
    assert "class=no-guarantee" in page or 'class="admonition no-guarantee"' in page


@pytest.mark.parametrize(
    ("added", "messages"),
    [
        ("[gone](nowhere.md) [gone](index.md#no-such-place)", ("nowhere.md", "#no-such-place")),
        (r"A formula, $\frobnicate{x}$.", ("frobnicate",)),
        ("![far](https://example.org/a.png)", ("would load 'https://example.org/a.png'",)),
    ],
    ids=["links", "formula", "network"],
)
def test_the_build_fails_for(added, messages, tmp_path):
    page = copy(tmp_path) / "docs" / "extending.md"
    page.write_text(page.read_text() + "\n\n" + added + "\n")
    done = built(tmp_path)
    assert done.returncode == 1
    assert all(message in done.stderr for message in messages)
    assert "Traceback" not in done.stderr


def test_what_a_page_loads_is_found_and_what_one_clicks_is_not(tmp_path):
    page = tmp_path / "page.html"
    page.write_text(
        '<a href="https://example.org">fine</a><script src="//cdn.example.org/a.js"></script>'
        '<link rel="stylesheet" href="https://example.org/a.css"><p style="background: url(https://example.org/b.png)">'
        "<style>@import 'https://example.org/c.css';</style>"
    )
    errors = " ".join(build.check_page(page, tmp_path))
    assert [name in errors for name in ("a.js", "a.css", "b.png", "c.css")] == [True] * 4
    assert "'https://example.org'" not in errors


@pytest.mark.parametrize("latex", [r"\frac{1}{", "x_{", r"\foo", r"\begin{cases} a & b"])
def test_a_formula_that_would_show_as_source_is_refused(latex):
    with pytest.raises(formulas.Unrenderable, match="cannot be rendered"):
        formulas.mathml(latex, display=True)


def test_formulas_survive_tables():
    assert formulas.cell(r"$p(x|z) \,\|\, q$ and `a|b`, or p|q") == r"$p(x\vert z) \,\Vert \, q$ and `a|b`, or p&#124;q"


def test_doctests_of_the_tools():
    for module in (formulas, generate, build):
        assert not doctest.testmod(module).failed
