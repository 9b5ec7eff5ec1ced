"""A run's folder gives back what was fitted, and refuses what is not whole."""

import json
from dataclasses import replace

import pytest
import torch

import whence
from whence import BetaVAE, Sprites, fit, load
from whence.descend import Recipe
from whence.metrics import MIG, evaluate, read_results
from whence.nets import MLP
from whence.storage import StorageError

METHOD = BetaVAE(latents=3, net=MLP(hidden=(8,)))
RECIPE = Recipe(steps=4, batch=4, every=2)


@pytest.fixture
def run(tmp_path):
    return fit(METHOD, Sprites(), recipe=RECIPE, into=tmp_path / "a")


def test_loading_gives_back_everything(run):
    back = load(run.folder)
    assert (back.method, back.seed, back.recipe, back.spec) == (run.method, run.seed, run.recipe, run.spec)
    assert back.curves["train"].rows == run.curves["train"].rows
    x = torch.rand(3, 1, 64, 64)
    assert torch.equal(back.representation.encode(x), run.representation.encode(x))


def test_a_folder_holds_only_text_and_safetensors(run):
    assert sorted(p.name for p in run.folder.iterdir()) == ["curve.csv", "run.json", "weights.safetensors"]


def test_fitting_again_into_the_folder_loads_it(run):
    before = (run.folder / "weights.safetensors").stat().st_mtime_ns
    again = fit(METHOD, Sprites(), recipe=RECIPE, into=run.folder)
    assert again.folder == run.folder
    assert (run.folder / "weights.safetensors").stat().st_mtime_ns == before


def test_another_runs_folder_is_refused_and_the_difference_named(run):
    with pytest.raises(StorageError, match=r"holds another run \(its method has beta=4.0, this one 8.0\)"):
        fit(replace(METHOD, beta=8.0), Sprites(), recipe=RECIPE, into=run.folder)
    with pytest.raises(StorageError, match=r"its seed is 0, this one's 1"):
        fit(METHOD, Sprites(), recipe=RECIPE, seed=1, into=run.folder)


@pytest.mark.parametrize("name", ["weights.safetensors", "curve.csv"])
def test_a_changed_file_is_refused(run, name):
    data = bytearray((run.folder / name).read_bytes())
    data[-2] ^= 1
    (run.folder / name).write_bytes(data)
    with pytest.raises(StorageError, match="sha256 differs"):
        load(run.folder)


def test_a_truncated_file_is_refused(run):
    path = run.folder / "weights.safetensors"
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(StorageError, match="changed or truncated"):
        load(run.folder)


def test_a_missing_file_is_refused(run):
    (run.folder / "weights.safetensors").unlink()
    with pytest.raises(StorageError, match=r"weights\.safetensors is missing"):
        load(run.folder)


def test_an_edited_record_is_refused(run):
    path = run.folder / "run.json"
    about = json.loads(path.read_text())
    about["method"]["beta"] = 16.0
    path.write_text(json.dumps(about))
    with pytest.raises(StorageError, match="was edited"):
        load(run.folder)


def test_a_truncated_record_is_refused(run):
    path = run.folder / "run.json"
    path.write_text(path.read_text()[:50])
    with pytest.raises(StorageError, match="not whole JSON"):
        load(run.folder)


def test_a_run_of_another_version_is_refused(run):
    path = run.folder / "run.json"
    about = json.loads(path.read_text())
    about["versions"]["whence"] = "9.9.0"
    path.write_text(json.dumps(about))
    with pytest.raises(StorageError, match=r"made by whence 9\.9\.0, and this is"):
        load(run.folder)


def test_an_unfinished_run_is_refused_with_the_cure(run):
    path = run.folder / "run.json"
    about = json.loads(path.read_text())
    about["status"] = "running"
    path.write_text(json.dumps(about))
    with pytest.raises(StorageError, match="whence resume"):
        load(run.folder)


def test_no_run_suggests_the_nearest(run):
    fit(METHOD, Sprites(), recipe=RECIPE, into=run.folder.parent / "alpha")
    with pytest.raises(StorageError, match="Did you mean 'alpha'"):
        load(run.folder.parent / "alpho")


def test_a_method_of_ones_own_must_be_listed(tmp_path):
    from dataclasses import dataclass

    @dataclass(frozen=True, kw_only=True)
    class Mine(BetaVAE):
        """Mine."""

    fit(Mine(net=MLP(hidden=(4,))), Sprites(), recipe=RECIPE, into=tmp_path / "m")
    with pytest.raises(ValueError, match="Unknown recorded type 'Mine'"):
        load(tmp_path / "m")
    assert load(tmp_path / "m", known=[Mine]).method == Mine(net=MLP(hidden=(4,)))


def test_results_are_kept_with_the_run_and_sealed(run):
    found = evaluate(load(run.folder), metrics=[MIG()], samples=500)
    assert read_results(run.folder) == found
    path = run.folder / "results.json"
    path.write_text(path.read_text().replace('"seed": 0', '"seed": 1'))
    with pytest.raises(StorageError, match="was edited"):
        read_results(run.folder)


def test_the_wrong_data_are_refused_with_the_cure():
    with pytest.raises(TypeError, match=r"learns from Pairs, got an array.*Pairs\.of"):
        fit(whence.AdaGVAE(), torch.rand(5, 3))
    with pytest.raises(TypeError, match=r"learns from Singles, got Pairs.*world\.singles\(\)"):
        fit(METHOD, Sprites().pairs())
    with pytest.raises(TypeError, match="Build it first"):
        fit(BetaVAE, Sprites())  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="takes no recipe"):
        fit(whence.PCA(), torch.rand(50, 20), recipe=RECIPE)
    with pytest.raises(ValueError, match=r"Bernoulli likelihood needs observations in \[0, 1\]"):
        fit(whence.VAE(), torch.rand(5, 1, 64, 64) * 3)
