"""A run that is killed, interrupted or out of disk ends as if nothing had happened."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from tests.killable import CASES
from whence import BetaVAE, Recipe, Singles, fit, load, storage
from whence.descend import Stopped
from whence.nets import MLP
from whence.runs import read_record

ROOT = Path(__file__).parent.parent


def start(*arguments: str | Path, code: str | None = None) -> subprocess.Popen[str]:
    what = ["-c", code] if code else ["-m", "tests.killable"]
    return subprocess.Popen(
        [sys.executable, *what, *map(str, arguments)],
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def finish(process: subprocess.Popen[str]) -> str:
    out, _ = process.communicate(timeout=120)
    assert process.returncode == 0, out
    return out


def checkpoint_step(folder: Path) -> int:
    path = folder / "checkpoint-train.safetensors"
    return storage.unpack(path.read_bytes(), str(path))[1]["step"]


def wait_for_checkpoints(process: subprocess.Popen[str], folder: Path, number: int) -> None:
    """Until that many were written since now; the moment of each is its file's."""
    path = folder / "checkpoint-train.safetensors"
    seen = {path.stat().st_mtime_ns} if path.exists() else set()
    already = len(seen)
    end = time.monotonic() + 60
    while len(seen) < already + number:
        assert process.poll() is None, f"ended before it could be killed: {process.communicate()[0]}"
        assert time.monotonic() < end, "no checkpoint in a minute"
        if path.exists():
            seen.add(path.stat().st_mtime_ns)
        time.sleep(0.001)


@pytest.mark.parametrize("case", CASES)
def test_a_run_killed_at_random_moments_ends_byte_for_byte_as_one_that_was_not(case, tmp_path):
    rng = random.Random(case)
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    undisturbed = start(case, whole)
    steps, before = CASES[case][1].steps, 0
    for _ in range(3):
        process = start(case, killed)
        wait_for_checkpoints(process, killed, rng.randint(1, 4))
        time.sleep(rng.uniform(0, 0.03))  # anywhere: in a step, or in the middle of writing the next checkpoint
        process.kill()
        process.communicate()
        assert process.returncode == -signal.SIGKILL
        assert read_record(killed)["status"] == "running"
        step = checkpoint_step(killed)
        assert before < step < steps
        before = step
    finish(start(case, killed))
    finish(undisturbed)
    for name in ("weights.safetensors", "curve.csv", "results.json"):
        assert (killed / name).read_bytes() == (whole / name).read_bytes(), name
    kept = {"run.json", "weights.safetensors", "curve.csv", "results.json"}
    assert {p.name for p in killed.iterdir()} == {p.name for p in whole.iterdir()} == kept


# --- in this process: a run that is quick to set up -------------------------------------------------------------------

DATA = torch.randn(50, 6, generator=torch.Generator().manual_seed(1))
METHOD = BetaVAE(latents=2, net=MLP(hidden=(8,)))
RECIPE = Recipe(steps=40, batch=8, every=10)


def small(folder: Path | None, *, method=METHOD, recipe=RECIPE, **options):
    return fit(method, Singles.of(DATA), recipe=recipe, into=folder, **{"save_every": 0.0, **options})


def interrupted(folder: Path, at: int = 17, number: int = signal.SIGINT, **options) -> None:
    """Run until a signal comes at a step."""

    class Interrupted(BetaVAE):
        def loss(self, nets, batch, t):
            if t == at:
                os.kill(os.getpid(), number)
            return super().loss(nets, batch, t)

    Interrupted.__name__ = "BetaVAE"  # so that the folder is the same run's
    method = Interrupted(latents=METHOD.latents, net=METHOD.net, beta=METHOD.beta)
    with pytest.raises(Stopped, match=rf"Stopped after step {at + 1} of 40; the run in .* can be resumed"):
        small(folder, method=method, save_every=1e9, **options)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_leaves_a_checkpoint_of_that_step_and_the_same_call_resumes(number, tmp_path):
    before = signal.getsignal(number)
    interrupted(tmp_path / "run", at=17, number=number)
    assert signal.getsignal(number) is before
    assert checkpoint_step(tmp_path / "run") == 18
    heard = []
    resumed = small(tmp_path / "run", watch=lambda p: heard.append(p.step))
    whole = small(tmp_path / "whole")
    assert 18 < heard[0] <= heard[-1] == 40
    assert resumed.curves == whole.curves
    assert (tmp_path / "run/weights.safetensors").read_bytes() == (tmp_path / "whole/weights.safetensors").read_bytes()
    assert not list((tmp_path / "run").glob("checkpoint-*"))


def test_ctrl_c_without_a_folder_stops_at_once_and_is_no_promise(tmp_path):
    class Interrupted(BetaVAE):
        def loss(self, nets, batch, t):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as stop:
        small(None, method=Interrupted(latents=2))
    assert not isinstance(stop.value, Stopped)


def test_an_unfinished_run_cannot_be_loaded_and_says_how_to_finish_it(tmp_path):
    interrupted(tmp_path / "run")
    with pytest.raises(storage.StorageError, match=r"not finished. Finish it with: whence resume"):
        load(tmp_path / "run")


def test_a_run_with_other_settings_is_refused_by_the_first_setting_that_differs(tmp_path):
    interrupted(tmp_path / "run")
    with pytest.raises(storage.StorageError, match=r"holds another run .*beta=4.0.* 2.0.*Choose another folder"):
        small(tmp_path / "run", method=replace(METHOD, beta=2))
    with pytest.raises(storage.StorageError, match=r"holds another run .*seed"):
        small(tmp_path / "run", seed=1)
    with pytest.raises(storage.StorageError, match=r"holds another run .*steps"):
        small(tmp_path / "run", recipe=replace(RECIPE, steps=50))


def test_a_whole_number_and_the_same_decimal_are_the_same_run(tmp_path):
    first = small(tmp_path / "run", method=replace(METHOD, beta=4))
    again = small(tmp_path / "run", method=replace(METHOD, beta=4.0))
    assert first.fingerprint == again.fingerprint


def test_a_checkpoint_of_another_run_is_refused(tmp_path):
    interrupted(tmp_path / "run")
    interrupted(tmp_path / "other", seed=1)
    name = "checkpoint-train.safetensors"
    (tmp_path / "run" / name).write_bytes((tmp_path / "other" / name).read_bytes())
    with pytest.raises(storage.StorageError, match=r"checkpoint of a run with other settings, data or seed"):
        small(tmp_path / "run")


@pytest.mark.parametrize("keep", [0, 5, 100, 3000, -1])
def test_a_truncated_checkpoint_is_refused_with_its_name_and_the_cure(keep, tmp_path):
    interrupted(tmp_path / "run")
    path = tmp_path / "run/checkpoint-train.safetensors"
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(storage.StorageError, match=r"checkpoint-train.*truncated or changed. Remove it and start"):
        small(tmp_path / "run")


def test_one_changed_byte_anywhere_in_a_checkpoint_is_noticed(tmp_path):
    interrupted(tmp_path / "run")
    path = tmp_path / "run/checkpoint-train.safetensors"
    whole, rng = path.read_bytes(), random.Random(0)
    for place in [8, 60, len(whole) - 1, *(rng.randrange(len(whole)) for _ in range(20))]:
        changed = bytearray(whole)
        changed[place] ^= 1
        path.write_bytes(changed)
        with pytest.raises(storage.StorageError, match=r"checkpoint-train.*truncated or changed"):
            small(tmp_path / "run")
    path.unlink()  # the cure
    assert small(tmp_path / "run").curves == small(tmp_path / "whole").curves


def test_what_a_killed_process_left_half_written_is_removed(tmp_path):
    interrupted(tmp_path / "run")
    (tmp_path / "run/.checkpoint-train.safetensors.123.part").write_bytes(b"half")
    small(tmp_path / "run")
    assert not list((tmp_path / "run").glob(".*"))


# --- no room ----------------------------------------------------------------------------------------------------------

FULL_DISK = """
import os, resource, signal, sys
from pathlib import Path
from tests.killable import CASES
import torch
from whence import Sprites, fit
from whence.descend import Run
from whence.storage import StorageError
torch.set_num_threads(1)
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
folder = Path(sys.argv[1])
method, recipe = CASES["one"]

def full(p):
    if (folder / "checkpoint-train.safetensors").exists():  # from now on no file may grow beyond 100 kB
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, resource.RLIM_INFINITY))

try:
    fit(method, Sprites(), seed=3, recipe=recipe, into=folder, save_every=0.05, watch=full)
except StorageError as error:
    print(error)
else:
    sys.exit("the disk was not full")
"""


def test_a_full_disk_is_reported_with_the_cure_and_the_last_checkpoint_resumes(tmp_path):
    out = finish(start(tmp_path / "run", code=FULL_DISK))
    assert "checkpoint-train.safetensors' failed: File too large. What was there before is untouched." in out
    assert "Free some space" in out
    assert {p.name for p in (tmp_path / "run").iterdir()} == {"run.json", "checkpoint-train.safetensors"}
    assert 0 < checkpoint_step(tmp_path / "run") < CASES["one"][1].steps
    finish(start("one", tmp_path / "run"))
    assert load(tmp_path / "run").curves["train"].steps[-1] == CASES["one"][1].steps


def test_a_folder_that_cannot_be_is_refused_before_any_work(tmp_path):
    (tmp_path / "file").write_text("a file")

    class Never(BetaVAE):
        def init(self, spec):
            raise AssertionError("work was done")

    for place in (tmp_path / "file", tmp_path / "file" / "run", Path("/proc/nowhere")):
        with pytest.raises(storage.StorageError, match=r"needs a folder it can write.*Choose another place with into="):
            small(place, method=Never())
