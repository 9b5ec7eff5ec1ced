"""The page of a run: complete, one file, honest about what is missing, and safe with odd names."""

import base64
import io
import re
from dataclasses import dataclass, replace
from html.parser import HTMLParser
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Generator, Tensor

from whence import ICA, PCA, VAE, AdaGVAE, BetaVAE, FactorVAE, Pixels, Sprites, fit, load, runs, storage
from whence.descend import Curve, Recipe
from whence.evidence import Evidence, Guarantee, Reference
from whence.methods import UMNI, LinearGaussianCRL, Method
from whence.metrics import MIG, Reconstruction, evaluate, read_results
from whence.nets import MLP
from whence.report import Report, drawing, report, save_mutual_information, save_traversals, words
from whence.report.page import sizes_of_differences
from whence.report.traversals import probe_of, traversals
from whence.representation import Representation
from whence.scores import Oracle
from whence.views import Environments, Singles
from whence.worlds import Factor, Mixed, World

TINY = Recipe(steps=2, batch=4, every=1)
SMALL = MLP(hidden=(8,))
SECTIONS = ("results", "traversals", "factors", "reconstructions", "curves", "guarantee", "settings", "bibliography")


@dataclass(frozen=True)
class Little(World):
    """Two factors seen as a small picture or a vector."""

    channels: int = 1
    flat: bool = False
    label: str = ""

    @property
    def factors(self) -> tuple[Factor, ...]:
        return Factor("left & <right>", "ordinal", (0.0, 0.5, 1.0)), Factor("up", "ordinal", (0.0, 0.25, 0.5, 1.0))

    @property
    def shape(self) -> tuple[int, ...]:
        return (12,) if self.flat else (self.channels, 6, 8)

    def observe(self, v: Tensor, rng: Generator | None = None) -> Tensor:
        size = int(np.prod(self.shape))
        x = torch.cat([v[:, :1].expand(-1, size // 2), v[:, 1:].expand(-1, size - size // 2)], 1)
        return x.reshape(-1, *self.shape)


class Blind(Representation):
    """Encodes and does nothing else."""

    def codes(self, x: Tensor) -> Tensor:
        return x.flatten(1)[:, : self.dims]


@dataclass(frozen=True, kw_only=True)
class Looking(Method):
    """Takes the first two values & <calls> them codes."""

    word: str = "a"  #: <b>bold</b>

    needs = Singles
    reference: ClassVar[Reference] = Reference(
        key="evil",
        authors='B{\\"o}se, <i>Eve</i>',
        title="</pre><script>alert(1)</script>",
        venue="V & W",
        year=2020,
        url="javascript:alert(1)",
    )
    guarantee: ClassVar[Guarantee] = Guarantee("the sources <up>", ("x < y",))
    evidence: ClassVar[tuple[Evidence, ...]] = (Evidence("unverified"),)

    def fit(self, data, run):
        return self.skeleton(data.spec)

    def skeleton(self, spec):
        return Blind(spec, 2)


KNOWN = (Little, Looking)


class Page(HTMLParser):
    """Tags, links, loads and words of a page; refuses one whose tags do not close in order."""

    EMPTY = frozenset({"meta", "img", "input", "br", "link", "path", "circle"})

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.text = path.read_text("utf-8")
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words = ""
        self.feed(self.text)
        assert not self.open, f"left open: {self.open}"

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in self.EMPTY:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open, tag
        assert self.open.pop() == tag

    def handle_data(self, data):
        if not {"style", "script"} & set(self.open):
            self.words += data

    def all(self, tag: str, **having: str) -> list[dict[str, str | None]]:
        return [a for t, a in self.tags if t == tag and all(a.get(k.rstrip("_")) == v for k, v in having.items())]

    @property
    def ids(self) -> list[str]:
        return [a["id"] for _, a in self.tags if a.get("id")]


def page_of(folder: Path) -> Page:
    path = report(folder, known=KNOWN)
    assert path == folder / "report.html"
    return Page(path)


def picture(uri: str) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(uri.removeprefix("data:image/png;base64,")))))


@pytest.fixture(scope="module")
def little(tmp_path_factory) -> Path:
    """An evaluated run on small pictures."""
    folder = tmp_path_factory.mktemp("runs") / "little"
    fitted = fit(BetaVAE(latents=3, net=SMALL), Little(), recipe=TINY, into=folder)
    # Evaluated by hand, since the world is not one that results know how to build again.
    evaluate(fitted, Little(), metrics=[MIG(), Reconstruction(observations=50)], samples=300)
    return folder


def test_the_page_of_an_evaluated_run_is_complete(little):
    page = page_of(little)
    assert set(SECTIONS) <= set(page.ids)
    assert not re.findall(r"class=\"empty\"", page.text)
    for told in ("BetaVAE", "Little", "seed 0", "Mutual information gap", "Reconstruction error", "chance", "best 1"):
        assert told in page.words
    assert "lower is better" in page.words.lower()
    for told in (
        "nll",
        "kl",
        "latents",
        "steps",
        "threads",
        "torch",
        "numpy",
        "weights",
        "Nothing is identified",
        "Locatello",
    ):
        assert told in page.words
    results = read_results(little)
    assert f"{results['mig'].value:.3f}" in page.words
    assert page.words.count("nats") >= 3
    assert "Higgins" in page.words
    assert "@misc{higgins2017beta" in page.words


def test_the_page_loads_nothing(little):
    page = page_of(little)
    for tag, attributes in page.tags:
        assert tag not in ("link", "iframe", "object", "embed", "base")
        assert (attributes.get("src") or "data:").startswith("data:")
        if "href" in attributes:
            assert tag == "a"
            assert attributes["href"].startswith(("#", "http"))
    policy = [a["content"] for a in page.all("meta") if a.get("http-equiv") == "Content-Security-Policy"]
    assert policy[0].startswith("default-src 'none'; img-src data:;")
    styles = re.search(r"<style>(.*?)</style>", page.text, re.S)[1]
    assert "url(" not in styles
    assert "@import" not in styles
    assert "fetch(" not in page.text
    works = page.text.index('id="bibliography"')
    assert all(m.start() > works for m in re.finditer(r"href=\"http", page.text))


def test_every_picture_has_words(little):
    page = page_of(little)
    assert page.all("img")
    assert all(a.get("alt") for a in page.all("img"))
    assert all(a.get("aria-label") or a.get("aria-hidden") for a in page.all("svg"))
    assert page.all("html", lang="en")
    assert "prefers-color-scheme: dark" in page.text


def test_the_same_run_gives_the_same_page(little):
    assert report(little, known=KNOWN).read_bytes() == report(little, known=KNOWN).read_bytes()


def test_strips_are_the_decoded_codes_in_the_order_of_their_divergence(little):
    fitted = load(little, known=KNOWN)
    kl = read_results(little).kl
    shown = Report.of(little, known=KNOWN).traversed
    assert [s.code for s in shown.strips] == sorted(range(3), key=lambda j: -kl[j])
    moved = traversals(fitted.representation, probe_of(fitted.representation, Little()), kl=kl)
    assert moved.at[:, 0] == pytest.approx(-2)
    assert moved.at[:, -1] == pytest.approx(2)
    z = torch.zeros(3)
    z[list(moved.codes)] = torch.from_numpy(moved.start)
    z[moved.codes[1]] = 2.0
    expected = fitted.representation.decode(z[None])[0]
    assert moved.x[1, -1] == pytest.approx(expected.numpy(), abs=1e-6)
    uri, width, height = shown.strips[1].image
    image = picture(uri)
    assert image.shape == (height, width, 2)
    assert np.abs(image[:, -8:, 0] / 255.0 - expected[0].numpy()).max() <= 0.5 / 255 + 1e-6


def test_the_matrix_frames_each_factors_best_code(little):
    matrix, results = Report.of(little, known=KNOWN).matrix, read_results(little)
    share = np.array(results.mutual_information)
    for k, (name, cells) in enumerate(matrix.rows):
        assert name == results.factors[k]
        assert [cell.value for cell in cells] == share[list(matrix.codes), k].tolist()
        framed = [j for j, cell in zip(matrix.codes, cells, strict=True) if cell.most]
        assert framed == [share[:, k].argmax()]


def test_a_metric_that_was_not_measured_says_why(tmp_path):
    fitted = fit(Looking(), Little(), into=tmp_path / "blind")
    evaluate(fitted, Little(), metrics=[MIG(), Reconstruction()], samples=300)
    page = page_of(tmp_path / "blind")
    assert "Not measured: needs Decodes, which Blind is not" in page.words
    assert "No traversals. Blind encodes only" in page.words
    assert "No reconstructions. Blind encodes only" in page.words


def test_not_evaluated_yet(tmp_path):
    fit(VAE(latents=2, net=SMALL), Little(), recipe=TINY, into=tmp_path / "fresh")
    page = page_of(tmp_path / "fresh")
    assert "whence evaluate fresh" in page.words
    assert "No matrix" in page.words
    assert page.all("img"), "strips and reconstructions need no results"
    assert "nats" in page.words


def test_an_array_has_no_pictures_but_curves_and_settings(tmp_path):
    x = np.random.default_rng(0).normal(size=(40, 6)).astype("float32")
    fit(VAE(latents=2, net=SMALL), x, recipe=TINY, into=tmp_path / "array")
    page = page_of(tmp_path / "array")
    assert "40 observations" in page.words
    assert "keeps no data" in page.words
    assert not page.all("img")
    assert len(page.all("svg", role="img")) == 2
    assert "evaluate(fitted, world)" in page.words
    assert "mean of the prior" in page.words
    fit(ICA(latents=2), x, into=tmp_path / "ica")
    page = page_of(tmp_path / "ica")
    assert "No traversals" in page.words
    assert "No curves" in page.words
    assert "at most one source is Gaussian" in page.words


def test_an_array_evaluated_on_a_world_is_drawn_from_that_world(tmp_path):
    world = Little(flat=True)
    x = world.observe(world.draw(50, rng=Generator().manual_seed(0)))
    fitted = fit(PCA(latents=2), x, into=tmp_path / "run")
    evaluate(fitted, world, metrics=[MIG()], samples=300)
    page = page_of(tmp_path / "run")
    assert "300 observations of Little(flat=True)" in page.words
    assert "No traversals" not in page.words
    assert len(page.all("svg", class_="profile")) == 2 + 12


@pytest.mark.parametrize("channels", [1, 3])
def test_grey_and_colour(tmp_path, channels):
    fit(PCA(latents=2, examples=50), Little(channels=channels), into=tmp_path / "run")
    shown = Report.of(tmp_path / "run", known=KNOWN)
    assert picture(shown.traversed.strips[0].image[0]).shape[2] == channels + 1
    assert picture(shown.pictures[0][0]).shape == (2 * 6 + drawing.GAP, 6 * 8 + 5 * drawing.GAP, channels + 1)
    assert ("colour" if channels == 3 else "grey") in shown.summary


def test_vectors_are_lines(tmp_path):
    fit(VAE(latents=2, net=SMALL), Little(flat=True), recipe=TINY, into=tmp_path / "run")
    page = page_of(tmp_path / "run")
    assert not page.all("img")
    assert len(page.all("svg", class_="profile")) == 2 + 12
    assert "<script>" not in page.text


def test_many_codes_are_cut_and_the_page_says_so(tmp_path):
    fitted = fit(Pixels(), Sprites(), into=tmp_path / "pixels")
    evaluate(fitted, metrics=[Reconstruction(observations=20)], samples=50)
    page = page_of(tmp_path / "pixels")
    assert "The first 12 of 4,096 codes" in page.words
    assert "as many as 4,096 codes" in page.words
    assert len(page.text) < 500_000


def test_a_wide_matrix_keeps_each_factors_best():
    from whence.metrics import Results
    from whence.report import page

    share = np.zeros((60, 2))
    share[[50, 3], [0, 1]] = 0.9
    kl = np.arange(60)[::-1].astype(float).tolist()
    drawn = page.matrix(Results((), factors=("a", "b"), mutual_information=share.tolist(), kl=kl), None)
    assert len(drawn.codes) == page.WIDEST + 1
    assert {50, 3} <= set(drawn.codes)


def test_several_stages_and_players(tmp_path):
    fitted = fit(FactorVAE(latents=2, net=SMALL, critic=(4,)), Little(), recipe=TINY, into=tmp_path / "run")
    (curve,) = fitted.curves.values()
    runs.save(replace(fitted, curves={"warm & up": curve, "second": curve}), tmp_path / "run")
    page = page_of(tmp_path / "run")
    assert "Stage: warm & up" in page.words
    assert "Stage: second" in page.words
    assert page.words.count("critic.joint") == 2


def test_a_world_that_is_gone_is_told_and_the_rest_stands(tmp_path):
    fit(PCA(latents=2, examples=50), Little(), into=tmp_path / "run")
    page = Page(report(tmp_path / "run"))  # Little is not known here
    assert "The world could not be drawn from: Unknown recorded type 'Little'" in page.words
    assert "PCA" in page.words


def test_odd_names_are_escaped(tmp_path):
    odd = "</script><script>alert('x')</script>&\"quoted\""
    folder = tmp_path / "a&b<c>'\""
    fitted = fit(Looking(word=odd), Little(label=odd), into=folder)
    evaluate(fitted, Little(label=odd), metrics=[MIG()], samples=300)
    page = page_of(folder)
    assert "alert(" in page.words
    assert len(page.all("script")) == 0
    assert "<b>bold" not in page.text
    assert "left & <right>" in page.words
    assert "a&b<c>'\"" in page.words
    assert "Identifies the sources <up>" in page.words
    assert not [a for a in page.all("a") if "javascript" in (a.get("href") or "")]


def test_no_place_of_this_machine_is_on_the_page(little):
    assert str(little.parent) not in page_of(little).text


def test_the_command_makes_the_same_run(tmp_path):
    recipe = replace(TINY, optimiser=replace(TINY.optimiser, lr=0.01))
    fitted = fit(AdaGVAE(latents=2, net=SMALL), Sprites().pairs(changing=1), recipe=recipe, seed=3, into=tmp_path / "a")
    evaluate(fitted, metrics=[Reconstruction(observations=20)], samples=20)
    text = Report.of(tmp_path / "a").reproduce
    assert "Sprites().pairs(changing=1)" in text
    assert "metrics=[Reconstruction(observations=20)]" in text
    names: dict = {}
    exec(text.replace("into='a'", f"into={str(tmp_path / 'b')!r}"), names)
    assert names["fitted"].fingerprint == fitted.fingerprint
    assert names["fitted"].folder == tmp_path / "b"
    torch.testing.assert_close(
        names["fitted"].representation.state_dict(), fitted.representation.state_dict(), rtol=0, atol=0
    )


def test_what_is_not_a_finished_run_is_refused(tmp_path, little):
    with pytest.raises(storage.StorageError, match="is not a run"):
        report(tmp_path)
    with pytest.raises(ValueError, match="Unknown recorded type 'Looking'"):
        report(fit(Looking(), Little(), into=tmp_path / "own").folder)
    about = storage.read_json(little / "run.json")
    (tmp_path / "half").mkdir()
    storage.write_json(tmp_path / "half" / "run.json", {**about, "status": "running"})
    with pytest.raises(storage.StorageError, match="not finished"):
        report(tmp_path / "half")
    assert not (tmp_path / "half" / "report.html").exists()


# --- figures ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", ["png", "svg"])
def test_figures_are_saved(little, tmp_path, ending):
    fitted, results = load(little, known=KNOWN), read_results(little)
    for path in (
        save_traversals(fitted, tmp_path / f"t.{ending}", world=Little(), dpi=40),
        save_mutual_information(results, tmp_path / f"m.{ending}", dpi=40),
    ):
        if ending == "png":
            assert min(Image.open(path).size) > 20
        else:
            assert "<svg" in path.read_text()


def test_figures_that_cannot_be_drawn_say_why(little, tmp_path):
    results = read_results(little)
    with pytest.raises(ValueError, match=r"\.png, \.svg, \.pdf, got 'm\.gif'"):
        save_mutual_information(results, tmp_path / "m.gif")
    with pytest.raises(ValueError, match="more than 256 codes"):
        save_mutual_information(replace(results, mutual_information=None), tmp_path / "m.png")
    with pytest.raises(TypeError, match="needs a representation that decodes, got Blind"):
        save_traversals(fit(Looking(), Little()), tmp_path / "t.png")
    with pytest.raises(ValueError, match="a world to take one from or a prior"):
        save_traversals(fit(PCA(latents=2), np.eye(5, dtype="float32")), tmp_path / "t.png")


# --- parts -----------------------------------------------------------------------------------------------------------


def test_a_curve_of_one_step_and_a_constant_one_are_drawn():
    assert "<circle" in drawing.curve([1], [3.0], "nll")
    assert "NaN" not in drawing.curve([1, 2, 3], [0.0, 0.0, 0.0], "kl")
    assert "nan" not in drawing.curve([1, 2, 3], [-2.0, -2.0, -2.0], "kl")


def test_a_long_curve_is_thinned_and_keeps_its_extremes():
    values = np.ones(30_000)
    values[12_345] = 7.0
    t, mean, least, most = drawing.thin(np.arange(30_000.0), values)
    assert len(t) == len(mean) == drawing.POINTS
    assert most.max() == 7.0
    assert least.min() == 1.0
    assert t[-1] == 29_999
    assert len(drawing.curve(range(1, 30_001), values.tolist(), "nll")) < 20_000


def test_axes_are_logarithmic_only_where_all_is_positive_and_far_apart():
    assert drawing.logarithmic([1000.0, 100.0, 10.0])
    assert not drawing.logarithmic([1000.0, 100.0, -10.0])
    assert not drawing.logarithmic([2.0, 1.5, 1.0])


@pytest.mark.parametrize(("low", "high"), [(0.0, 1.0), (-3e-5, 2e-5), (0.13, 0.87), (1e6, 3.3e7), (95.0, 1571.0)])
def test_ticks_span_the_range_and_are_few(low, high):
    ticks = drawing.linear_ticks(low, high)
    assert ticks[0] <= low + 1e-12
    assert ticks[-1] >= high - 1e-12
    assert 2 <= len(ticks) <= 6


def test_labels_in_a_drawing_are_escaped():
    assert "<b>" not in drawing.curve([1, 2], [1.0, 2.0], "<b>")


def test_values_as_code_build_the_same_value():
    import whence.nets
    import whence.terms

    value = BetaVAE(latents=3, net=whence.nets.MLP(hidden=(8, 9)), likelihood=whence.terms.Gaussian())
    used: set[type] = set()
    text = words.code(value, used)
    scope: dict = {}
    exec("\n".join(words.imports(used)), scope)
    assert eval(text, scope) == value
    assert words.code(BetaVAE()) == "BetaVAE()"


def test_curves_come_from_the_folder(little):
    shown = Report.of(little, known=KNOWN).curves
    curve = Curve.read((little / "curve.csv").read_text())
    assert [name for name, _ in shown[0][1]] == list(curve.names)


# --- causes ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["hard", "soft"])
def test_a_causal_run_shows_graph_interventions_score_differences_mixing_and_its_theorem(tmp_path, kind):
    world = Mixed(nodes=3, dims=5, density=1.0)
    view = world.environments(kind=kind, multi_node=True, targets="unknown", seed=2)
    fitted = fit(UMNI(kind=kind, examples=20_000), view, into=tmp_path / "run")
    page = Report.of(tmp_path / "run")
    assert page.causes is not None
    assert page.causes.edges == int((fitted.representation.graph > 0.5).sum())
    grids = {grid.title: np.array([row for _, row in grid.rows]) for grid in page.causes.grids}
    assert list(grids) == ["Confidence", "Interventions", "Score differences", "Effective mixing"]
    hits = grids["Interventions"]
    assert np.array_equal(hits, fitted.representation.hits.T.numpy())
    assert grids["Score differences"].max(1) == pytest.approx(1.0)
    a = grids["Confidence"] > 0.5
    touched = hits @ (np.eye(3) + a.T) > 0  # what is intervened on, and its causes
    assert grids["Score differences"][~touched].max(initial=0) < 0.15
    mixing = grids["Effective mixing"]
    assert np.allclose(np.linalg.norm(mixing, axis=1), 1)
    assert mixing.argmax(1).tolist() == [0, 1, 2]
    text = page.html()
    assert f"unknown multi-node {kind} interventions under a linear mixing" in text
    assert ("transitive closure" in text) == (kind == "soft")
    assert "true z" in text
    assert "oracle scores" not in text


def test_a_run_that_was_told_true_scores_is_stamped(tmp_path):
    world = Mixed(nodes=2, dims=3)
    fit(UMNI(scores=Oracle(world.score_differences()), examples=2_000), world, into=tmp_path / "run")
    assert ">oracle scores</li>" in Report.of(tmp_path / "run").html()


def test_environments_from_arrays_say_so(tmp_path):
    view = Mixed(nodes=2, dims=3).environments(targets="unknown")
    parts = view.batch(2_000, Generator().manual_seed(0))
    x = [part.x for part in parts.interventional]
    arrays = Environments.of(parts.observational, x, names=["a", "b"], control="c")
    fit(LinearGaussianCRL(), arrays, into=tmp_path / "run")
    page = Report.of(tmp_path / "run")
    assert page.source == "6,000 observations of 3 environments"
    assert "view = Environments.of(x[0], x[1:], names=('a', 'b'), control='c')" in page.reproduce
    assert "one perfect intervention a latent (Squires et al. 2023)" in page.html()
    assert [grid.title for grid in page.causes.grids] == ["Confidence", "Interventions"]


def test_what_is_set_by_do_has_no_score_differences(tmp_path):
    world = Mixed(nodes=2, dims=3)
    fitted = fit(LinearGaussianCRL(examples=2_000), world, into=tmp_path / "run")
    view = world.environments(kind="do", points=(1.0,))
    assert sizes_of_differences(fitted.representation, view) is None
