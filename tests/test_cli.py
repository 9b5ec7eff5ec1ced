"""The command line as a person types it, wrong things too."""

import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import whence
from whence.cli import main
from whence.nets import MLP

TINY = ["--steps", "4", "--batch", "8", "--every", "2", "--net", "mlp", "--net.hidden", "8", "--quiet"]


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def say(capsys, *words):
    """The exit code, and what was printed to both streams."""
    try:
        code = main(list(words))
    except SystemExit as end:
        code = end.code
    out = capsys.readouterr()
    return code, out.out + out.err


def test_fit_evaluate_report_cite(capsys):
    code, text = say(capsys, "fit", "beta_vae", "--beta", "8", *TINY, "--into", "runs/a")
    assert code == 0
    assert "whence evaluate runs/a" in text
    run = whence.load("runs/a")
    assert run.method == whence.BetaVAE(beta=8.0, net=MLP(hidden=(8,)))
    assert run.recipe is not None
    assert run.recipe.steps == 4
    code, text = say(capsys, "evaluate", "runs/a", "--samples", "1000", "--metrics", "mig,reconstruction")
    assert code == 0
    assert re.search(r"mig +\d\.\d{3} +\d\.\d{3} +\d\.\d{3} +1", text)
    code, text = say(capsys, "report", "runs/a")
    assert code == 0
    assert Path(text.strip()).is_file()
    code, text = say(capsys, "cite", "runs/a")
    assert code == 0
    assert all(key in text for key in ("higgins2017beta", "matthey2017dsprites", "chen2018isolating", "{whence,"))


def test_the_same_command_again_finds_the_run(capsys):
    words = ["fit", "pca", "--examples", "50", "--latents", "3"]
    assert say(capsys, *words)[0] == 0
    before = {p: p.stat().st_mtime_ns for p in Path("runs").rglob("*")}
    assert say(capsys, *words)[0] == 0
    assert before == {p: p.stat().st_mtime_ns for p in Path("runs").rglob("*")}


def test_world_view_and_recipe_options_arrive(capsys):
    words = ["--world.noise", "0.5", "--view.changing", "2", "--lr", "0.01", "--schedule", "cosine"]
    code, _ = say(capsys, "fit", "ada_gvae", *TINY, *words, "--schedule.warmup", "1", "--into", "r")
    assert code == 0
    run = whence.load("r")
    assert run.data["world"]["noise"] == 0.5
    assert run.data["changing"] == 2
    assert run.recipe is not None
    assert run.recipe.optimiser.lr == 0.01
    assert run.recipe.schedule == whence.Cosine(warmup=1)


def test_every_player_keeps_its_own_optimiser_and_gets_the_learning_rate(capsys):
    assert say(capsys, "fit", "factor_vae", *TINY, "--critic", "8", "--lr", "0.01", "--into", "r")[0] == 0
    recipe = whence.load("r").recipe
    assert recipe is not None
    assert recipe.players["critic"] == whence.Adam(lr=0.01, betas=(0.5, 0.9))


def test_an_array_of_ones_own(capsys):
    np.save("x.npy", np.random.default_rng(0).random((50, 6), dtype=np.float32))
    code, text = say(capsys, "fit", "vae", *TINY, "--latents", "2", "--data", "x.npy", "--into", "r")
    assert code == 0
    code, text = say(capsys, "evaluate", "r")
    assert code == 2
    assert "fitted on an array, so there is no truth to compare with" in text


SHORT = ("--scores.recipe.steps", "20", "--scores.recipe.batch", "32")


def cells(path="cells.csv", labels=("ctrl", "g1", "g2"), many=200, words=False):
    """Two genes that are mixtures of two independent causes, each of which one perturbation makes smaller."""
    rng = np.random.default_rng(0)
    lines = ["batch,perturbation,a,b" if words else "perturbation,a,b"]
    for label in labels:
        z = rng.normal(size=(many, 2)) * {"g1": (0.3, 1), "g2": (1, 0.3)}.get(label, (1, 1))
        rows = z @ [[1.0, 0.5], [-0.3, 1.0]]
        lines += [f"{'one,' if words else ''}{label},{a},{b}" for a, b in rows]
    Path(path).write_text("\n".join(lines) + "\n")


@pytest.mark.parametrize("method", ["umni", "linear_gaussian_crl"])
def test_a_table_of_perturbations_is_fitted_and_reported(capsys, method):
    cells()
    words = ["--data", "cells.csv", "--environment", "perturbation", "--control", "ctrl"]
    code, text = say(capsys, "fit", method, *words, "--into", "r")
    assert code == 0, text
    assert "Next: whence report r" in text
    found = whence.load("r").representation.intervention_matrix
    assert sorted(found.int().tolist()) == [[0, 1], [1, 0]]
    assert say(capsys, "report", "r")[0] == 0
    page = Path("r/report.html").read_text()
    assert "g1" in page
    assert "g2" in page
    assert "view = Environments.read(&#39;cells.csv&#39;, environment=&#39;perturbation&#39;" in page
    assert "on cells.csv" in page.replace("<span>", "")
    assert "Score differences" in page
    code, text = say(capsys, "evaluate", "r")
    assert code == 2
    assert "What it found is in its report: whence report RUN" in text


def test_scores_are_chosen_by_name_and_read_back(capsys):
    from whence.scores import MulticlassRatio

    cells()
    code, text = say(
        capsys, "fit", "umni", "--data", "cells.csv", "--scores", "multiclass_ratio", *SHORT, "--into", "r"
    )
    assert code == 0, text
    method = whence.load("r").method
    assert isinstance(method.scores, MulticlassRatio)
    assert method.scores.recipe.steps == 20
    code, text = say(capsys, "fit", "umni", "--data", "cells.csv", "--scores", "oracle")
    assert code == 2
    assert "Unknown scores 'oracle'" in text


def test_baselines_take_a_table_of_perturbations_too(capsys):
    cells()
    code, text = say(capsys, "fit", "pca", "--latents", "2", "--data", "cells.csv", "--skip", "g2", "--into", "r")
    assert code == 0, text
    assert list(whence.load("r").data["environments"]) == ["ctrl", "g1"]


@pytest.mark.parametrize(
    ("table", "words", "message"),
    [
        ({}, ["--environment", "gene"], "Unknown column 'gene'. There are: a, b, perturbation"),
        ({}, ["--enviroment", "gene"], "Unknown option '--enviroment'. Did you mean '--environment'?"),
        ({}, ["--control", "control"], "Unknown label 'control'. Did you mean 'ctrl'?"),
        ({}, ["--only", "g3"], "Unknown label 'g3'"),
        ({}, ["--ignore", "c"], "Unknown column 'c'"),
        ({}, ["--only", "g1"], "as many interventional environments as latents, got 1 for 2 latents"),
        ({"words": True}, [], "not numbers: batch ('one' near line 2). Leave them out (ignore)"),
        ({"labels": ("ctrl",)}, [], "at least one beside 'ctrl', got none in the column 'perturbation' of 'cells.csv'"),
        ({"many": 9}, [], "at least 30 rows, got fewer in ctrl (9), g1 (9), g2 (9)"),
        ({"labels": ()}, [], "has a header and no rows"),
    ],
)
def test_tables_that_cannot_be_used_are_answered_with_the_cure(capsys, table, words, message):
    cells(**table)
    code, text = say(capsys, "fit", "umni", "--data", "cells.csv", *words)
    assert code == 2
    assert message in text
    assert "Traceback" not in text


def test_warnings_are_lines_of_words():
    cells(labels=("ctrl", "g1", "g2", "ctrl2"))
    words = [sys.executable, "-m", "whence.cli", "fit", "umni", "--data", "cells.csv", "--into", "r"]
    text = subprocess.run(words, check=True, capture_output=True, text=True).stderr
    assert "whence: warning: No difference from ctrl is seen in ctrl2" in text
    assert "UserWarning" not in text


def test_a_method_in_a_file_of_ones_own(capsys):
    Path("mine.py").write_text(
        "from dataclasses import dataclass\nfrom whence.methods import GaussianVAE, VAE\n\n\n"
        "@dataclass(frozen=True, kw_only=True)\nclass MyVAE(GaussianVAE):\n    '''Mine.'''\n\n    power: float = 2.0\n"
        "    reference, guarantee, evidence = VAE.reference, VAE.guarantee, VAE.evidence\n\n"
        "    def loss(self, nets, batch, t):\n        return self.elbo(nets, batch.x, self.power)[1]\n"
    )
    code, text = say(capsys, "check", "mine.py:MyVAE", "--net", "mlp", "--net.hidden", "8")
    assert code == 0, text
    assert "All promises are kept." in text
    code, text = say(capsys, "fit", "mine.py:MyVAE", "--power", "3", *TINY, "--into", "r")
    assert code == 0, text
    assert say(capsys, "evaluate", "r", "--samples", "500", "--metrics", "mig", "--method", "mine.py:MyVAE")[0] == 0
    code, text = say(capsys, "evaluate", "r")
    assert code == 2
    assert "MyVAE" in text


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["ft"], "Unknown command 'ft'. Did you mean 'fit'?"),
        (["fit", "beta_va"], "Unknown method 'beta_va'. Did you mean 'beta_vae'?"),
        (["fit", "beta_vae", "--bta", "3"], "Unknown option '--bta'. Did you mean '--beta'?"),
        (["fit", "beta_vae", "--beta", "x"], "--beta: needs a number, got 'x'"),
        (["fit", "beta_vae", "--beta"], "--beta needs a value: --beta 4.0"),
        (["fit", "beta_vae", "beta", "3"], "Did you mean --beta?"),
        (["fit", "beta_vae", "--world", "sprits"], "Did you mean 'sprites'?"),
        (["fit", "beta_vae", "--net", "conv"], "Did you mean 'conv64'?"),
        (["fit", "beta_vae", "--latents", "0"], "latents is at least 1, got 0"),
        (["fit", "beta_vae", "--steps", "0"], "steps is at least 1"),
        (["fit", "dip"], "Did you mean 'dipvae'?"),
        (["fit"], "fit needs a method"),
        (["fit", "vae", "--world", "dsprites"], "DSprites needs --world.path"),
        (["fit", "vae", "--world", "dsprites", "--world.path", "no.npz"], "is not a file"),
        (["fit", "vae", "--data", "x.xlsx"], "--data reads a .npy file of observations or a table"),
        (["fit", "vae", "--data", "x.csv"], "There is no file 'x.csv'"),
        (["fit", "vae", "--data", "x.npy", "--world", "sprites"], "not both"),
        (["fit", "ada_gvae", "--data", "x.npy"], "learns from Pairs"),
        (["fit", "ada_gvae", "--view.changing", "9"], "change between 1 and 5 factors"),
        (["fit", "nowhere.py:X"], "There is no file 'nowhere.py'"),
        (["evaluate", "runs/none"], "is not a run"),
        (["evaluate"], "which run?"),
        (["report", "runs/none"], "is not a run"),
        (["cite", "none"], "Unknown run, method, world or metric 'none'"),
        (["list", "method"], "Did you mean 'methods'?"),
        (["study", "beta"], "Unknown study 'beta'"),
        (["study", "beta_vae_metric", "--scale", "big"], "Unknown scale 'big'"),
        (["check", "mi"], "Did you mean 'mig'?"),
    ],
)
def test_wrong_words_are_answered_with_the_cure(capsys, words, message):
    code, text = say(capsys, *words)
    assert code == 2
    assert message in text
    assert "Traceback" not in text


@pytest.mark.parametrize("command", ["fit", "resume", "evaluate", "report", "list", "cite", "check", "study", "demo"])
def test_every_command_explains_itself(capsys, command):
    code, text = say(capsys, command, "--help")
    assert code == 0
    assert f"whence {command}" in text


def test_help_of_a_method_has_every_option_with_its_default_and_meaning(capsys):
    code, text = say(capsys, "fit", "factor_vae", "--help")
    assert code == 0
    assert re.search(r"--gamma 10\.0 +weight of the total correlation", text)
    assert re.search(r"--steps 300000 +batches to train on", text)
    assert "Identifies nothing" in text


def test_ctrl_c_leaves_a_run_that_resumes_to_the_same_end():
    words = [sys.executable, "-m", "whence.cli", "fit", "beta_vae", *TINY[:-1], "--steps", "600", "--into"]
    process = subprocess.Popen([*words, "broken", "--save_every", "0.05"], stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while not any(Path("broken").glob("checkpoint-*")) and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, text = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Resume it with: whence resume broken" in text
    subprocess.run([sys.executable, "-m", "whence.cli", "resume", "broken"], check=True, capture_output=True)
    subprocess.run([*words, "whole"], check=True, capture_output=True)
    for name in ("weights.safetensors", "curve.csv"):
        assert Path("broken", name).read_bytes() == Path("whole", name).read_bytes()


def test_a_list_without_commas_is_told_how_to_be_one(capsys):
    code, text = say(capsys, "evaluate", "run", "--metrics", "mig", "dci")
    assert code == 2
    assert "got 'dci'. Did you mean --dci? Or, for a list, --metrics mig,dci?" in text
