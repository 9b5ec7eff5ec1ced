"""A study is complete, resumable, and honest about failures."""

import csv
import os
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import pytest

from whence import PCA, Pixels, Sprites
from whence.metrics import MIG, Reconstruction
from whence.studies import STUDIES, Outcome, Published, Row, Study, engine, run_study
from whence.studies.metric_agreement import side_by_side
from whence.studies.study import mean_and_error
from whence.worlds import Unmixed


def rows(scale, seed):
    yield Row("truth", Pixels(), Unmixed())
    yield Row("pca", PCA(latents=3, examples=60), Sprites())
    yield Row("too many", PCA(latents=99, examples=60), Sprites())


TOY = Study(
    name="toy",
    title="A toy",
    rows=rows,
    columns=(MIG(), Reconstruction(observations=20)),
    published={("truth", "mig"): Published(0.9, 0.01)},
    reference=PCA.reference,
    seeds=2,
    samples={"smoke": 500},
)


@pytest.fixture
def study(monkeypatch):
    """Registered, and run in this process: a pool's workers would not know a study of a test."""

    def here(study, scale, missing, folder, device, jobs):
        for task in missing:
            yield task, engine.one(study, scale, task.row, task.seed, folder, device)

    monkeypatch.setattr(engine, "work_through", here)
    return TOY


def test_a_table_has_every_row_and_counts_failures(study, tmp_path):
    outcomes = run_study(study, into=tmp_path, say=lambda line: None)
    assert len(outcomes) == 6
    failed = [o for o in outcomes if o.error]
    assert {o.label for o in failed} == {"too many"}
    assert "at most 60 components" in failed[0].error
    table = (tmp_path / "toy-smoke" / "table.md").read_text()
    assert "| truth |" in table
    assert "0.9 ± 0.01" in table
    assert table.splitlines()[6].endswith("| 2 | 2 |")
    lines = list(csv.DictReader((tmp_path / "toy-smoke" / "table.csv").open()))
    assert len(lines) == 6
    assert sum(bool(line["error"]) for line in lines) == 2


def test_a_second_call_does_only_what_is_missing(study, tmp_path):
    run_study(study, seeds=1, into=tmp_path, say=lambda line: None)
    said = []
    run_study(study, seeds=2, into=tmp_path, say=said.append)
    assert "6 runs, 3 already there" in said[0]
    said.clear()
    again = run_study(study, seeds=2, into=tmp_path, say=said.append)
    assert "6 runs, 6 already there" in said[0]
    assert len(again) == 6
    run_study(study, seeds=2, into=tmp_path, retry=True, say=said.append)
    assert "6 runs, 4 already there" in said[2]


def test_rows_can_be_run_alone_and_the_table_says_what_is_not_there(study, tmp_path):
    said = []
    run_study(study, seeds=2, only=["pca"], into=tmp_path, say=said.append)
    assert "2 runs, 0 already there" in said[0]
    assert "2/2" in said[2]
    both = run_study(study, seeds=2, only=["truth"], into=tmp_path, say=said.append)
    assert [o.label for o in both] == ["truth", "truth", "pca", "pca"]
    table = (tmp_path / "toy-smoke" / "table.md").read_text()
    assert "- not run yet: too many (2)" in table
    with pytest.raises(ValueError, match=r"No row's label contains 'Truth'. The rows are: truth; pca; too many\."):
        run_study(study, only=["Truth"], into=tmp_path, say=said.append)
    run_study(study, seeds=2, into=tmp_path, say=said.append)
    assert "not run yet" not in (tmp_path / "toy-smoke" / "table.md").read_text()


def test_another_setting_is_another_run(study, tmp_path):
    run_study(study, seeds=1, into=tmp_path, say=lambda line: None)
    said = []
    run_study(replace(study, columns=(MIG(bins=10),)), seeds=1, into=tmp_path, say=said.append)
    assert "3 runs, 0 already there" in said[0]


def test_the_pool_runs_a_study_of_the_library_in_processes_of_one_thread(tmp_path, monkeypatch):
    """The cheap rows of a real study, through real processes."""
    study = STUDIES[0]
    cheap = {"Ground truth", "PCA"}
    missing = [t for t in engine.tasks(study, "smoke", 1) if t.row.label in cheap]
    done = list(engine.work_through(study, "smoke", missing, tmp_path, "cpu", 2))
    assert {task.row.label for task, _ in done} == cheap
    assert not any(outcome.error for _, outcome in done)
    perfect = next(o for _, o in done if o.label == "Ground truth")
    assert perfect.values["beta_vae_metric"] == 1.0
    assert '"threads": 1' in (tmp_path / perfect.key / "run.json").read_text()


def alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def test_workers_end_with_a_parent_that_is_killed(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import multiprocessing, os, time\n"
        "from concurrent.futures import ProcessPoolExecutor\n"
        "from whence.studies.engine import follow_parent\n"
        "if __name__ == '__main__':\n"
        "    pool = ProcessPoolExecutor(1, multiprocessing.get_context('spawn'), initializer=follow_parent)\n"
        "    print(pool.submit(os.getpid).result(), flush=True)\n"
        "    time.sleep(60)\n"
    )
    parent = subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, text=True)
    worker = int(parent.stdout.readline())
    parent.kill()
    parent.wait()
    deadline = time.monotonic() + 20
    while alive(worker) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not alive(worker)


def test_mean_and_standard_error():
    assert mean_and_error([1.0, 3.0]) == (2.0, pytest.approx(1.0))
    assert mean_and_error([5.0]) == (5.0, None)


def test_every_study_has_rows_at_every_scale_and_published_numbers_of_its_rows():
    for study in STUDIES:
        for scale in ("smoke", "cpu", "paper"):
            labels = [row.label for row in study.rows(scale, 0)]
            assert len(labels) == len(set(labels)) > 0
            assert {label for label, _ in study.published} <= set(labels)


def test_the_filter_of_weak_models_keeps_those_whose_edges_can_be_seen():
    from torch import Generator

    from whence.scm import RandomMLP
    from whence.studies import lscale_table6
    from whence.worlds import Mixed

    model = lscale_table6.strong(0, 0.25)
    world = Mixed(nodes=5, dims=5, mechanism=RandomMLP(), model_seed=model)
    d = world.score_differences(kind="hard", scale=0.25).latent(world.scm.sample(2_000, rng=Generator().manual_seed(1)))
    assert float(d.square().mean(1).T[world.scm.graph].min()) > 0.01
    assert not all(lscale_table6.not_weak(seed, 0.25, RandomMLP()) for seed in range(5))


def test_the_fitted_rate_is_the_exponent_of_the_errors(tmp_path):
    from whence.studies import finite_sample

    outcomes = [
        Outcome(f"linear, n = 5, {many:,}", seed, "", {"scale_mixing": 3 * many**-0.5, "shd": None})
        for many in (100, 1_000, 10_000)
        for seed in range(2)
    ]
    finite_sample.draw(outcomes, tmp_path)
    assert (tmp_path / "rate.csv").read_text().splitlines()[1] == '"linear, n = 5",100,10000,-0.500,0.000'


def test_metrics_that_say_the_same_lie_side_by_side():
    """Correlations of three pairs of twins, given apart."""
    names = ["a", "b", "c", "a'", "b'", "c'"]
    twins = np.array([0, 1, 2, 0, 1, 2])
    r = np.where(twins[:, None] == twins, 0.9, 0.1)
    np.fill_diagonal(r, 1)
    order, turned = side_by_side(names, r)
    assert sorted(order) == sorted(names)
    assert all({x.strip("'") for x in order[i : i + 2]} == {order[i].strip("'")} for i in (0, 2, 4))
    np.testing.assert_array_equal(turned, r[np.ix_(at := [names.index(x) for x in order], at)])
