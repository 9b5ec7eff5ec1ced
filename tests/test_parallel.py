"""Several processes that share a batch are one: torchrun with two of them on this machine."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import torch

from tests.parallel import DATA, Autoencoder
from whence import fit, load, storage

ROOT = Path(__file__).parent.parent


def torchrun(folder: Path, *numbers: int) -> subprocess.CompletedProcess[str]:
    """Two processes; --standalone picks a free port."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m"]
    return subprocess.run(
        [*command, "tests.parallel", str(folder), *map(str, numbers)],
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
    )


def test_two_processes_train_as_one_with_the_whole_batch(tmp_path):
    done = torchrun(tmp_path / "run", 8)
    assert done.returncode == 0, done.stdout
    alone = fit(Autoencoder(), DATA, seed=1)
    together = load(tmp_path / "run", known=[Autoencoder])
    for name, weight in alone.representation.state_dict().items():
        torch.testing.assert_close(together.representation.state_dict()[name], weight, atol=1e-6, rtol=1e-5)
    assert together.curves["train"].steps == [5, 10, 12]
    torch.testing.assert_close(
        torch.tensor(together.curves["train"]["error"]),
        torch.tensor(alone.curves["train"]["error"]),
        atol=1e-5,
        rtol=1e-5,
    )
    assert "rank 1 heard 0" in done.stdout
    assert "rank 0 heard 0" not in done.stdout
    assert {p.name for p in (tmp_path / "run").iterdir()} == {"run.json", "weights.safetensors", "curve.csv"}


def test_a_batch_that_cannot_be_shared_is_refused(tmp_path):
    done = torchrun(tmp_path / "run", 7)
    assert done.returncode != 0
    assert "A batch is split evenly over processes: 7 does not divide by 2." in done.stdout


def test_processes_that_were_stopped_resume_together_and_end_as_if_nothing_had_happened(tmp_path):
    stopped = torchrun(tmp_path / "run", 8, 9)
    assert stopped.returncode != 0
    assert "the power went" in stopped.stdout
    path = tmp_path / "run/checkpoint-train.safetensors"
    assert storage.unpack(path.read_bytes(), str(path))[1]["step"] == 5  # the last full row of the curve
    resumed, whole = torchrun(tmp_path / "run", 8), torchrun(tmp_path / "whole", 8)
    assert resumed.returncode == whole.returncode == 0, resumed.stdout + whole.stdout
    for name in ("weights.safetensors", "curve.csv"):
        assert (tmp_path / "run" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes(), name
