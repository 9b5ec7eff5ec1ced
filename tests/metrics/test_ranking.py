"""Several models beside each other: results of each, chance, intervals, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from whence import PCA, Sprites, cli, fit
from whence.metrics import UDR, ModelCentrality, rank, udr
from whence.representation import Representation
from whence.views import Spec
from whence.worlds import Unmixed

K = 5
FEW = ModelCentrality(samples=1_000, train=300, test=300)


class Turned(Representation):
    """Factors, turned."""

    def __init__(self, by: np.ndarray) -> None:
        super().__init__(Spec((K,)), by.shape[1])
        self.register_buffer("by", torch.as_tensor(by, dtype=torch.float32))

    def codes(self, x):
        return x @ self.by

    def decode(self, z):
        return z @ self.by.T


class Blind(Turned):
    """It cannot decode."""

    decode = None


def turn(seed: int) -> np.ndarray:
    return np.linalg.qr(np.random.default_rng(seed).normal(size=(K, K)))[0]


MODELS = [Turned(by).frozen() for by in (np.eye(K), -np.eye(K)[::-1], np.eye(K), turn(0))]


def test_models_that_agree_come_first_and_chance_is_far_below():
    found = rank(MODELS, Unmixed(), rankings=[UDR(), FEW], samples=2_000)
    assert len(found) == 4
    for name in ("udr", "model_centrality"):
        values, chances = ([getattr(r[name], what) for r in found] for what in ("value", "chance"))
        assert min(values[:3]) > values[3] + 0.05
        assert max(chances) < min(values) - 0.1
    assert found[0]["model_centrality"].chance == pytest.approx(1 / K, abs=0.1)
    assert found[0]["udr"].chance == pytest.approx(0, abs=0.05)
    assert found[0].world["type"] == "Unmixed"


def test_the_value_is_the_pure_function_of_the_same_codes():
    from whence.metrics import Probe

    codes = [Probe(model, Unmixed(), samples=500).pool.z for model in MODELS]
    found = rank(MODELS, Unmixed(), rankings=[UDR()], samples=500, chance=False)
    assert [r["udr"].value for r in found] == pytest.approx(udr(codes).models)
    assert found[0]["udr"].chance is None


def test_intervals_hold_the_value_and_narrow_with_the_rows():
    apart = [Turned(turn(seed)).frozen() for seed in range(3)]  # models that agree exactly have no spread

    def width(samples: int) -> float:
        found = rank(apart, Unmixed(), rankings=[UDR()], samples=samples, chance=False, bootstrap=20)
        for r in found:
            low, high = r["udr"].interval
            assert low < r["udr"].value < high
        return float(np.mean([np.diff(r["udr"].interval) for r in found]))

    assert width(4_000) < 0.7 * width(500)


def test_centrality_has_an_interval_from_new_codes():
    few = ModelCentrality(samples=300, train=100, test=100)
    for r in rank(MODELS[:2], Unmixed(), rankings=[few], samples=50, chance=False, bootstrap=5):
        low, high = r["model_centrality"].interval
        assert low <= r["model_centrality"].value <= high


def test_a_constant_code_takes_no_part():
    padded = Turned(np.hstack([np.eye(K), np.zeros((K, 2))])).frozen()
    alone, beside = (
        rank([MODELS[0], m], Unmixed(), rankings=[UDR()], samples=500, chance=False) for m in (MODELS[2], padded)
    )
    assert beside[0]["udr"].value == pytest.approx(alone[0]["udr"].value)


def test_a_model_that_cannot_decode_has_no_centrality_and_the_note_says_so():
    found = rank([MODELS[0], Blind(np.eye(K)).frozen()], Unmixed(), rankings=[FEW], samples=100)
    assert [r[0].value for r in found] == [None, None]
    assert found[0][0].note == "needs Decodes, which Blind is not"


def test_what_cannot_be_ranked_is_refused():
    with pytest.raises(ValueError, match=r"there must be two or more, got 1\."):
        rank(MODELS[:1], Unmixed())
    with pytest.raises(TypeError, match="does not know its world"):
        rank(MODELS)
    small = [fit(PCA(latents=2, examples=64), world, seed=0) for world in (Sprites(), Sprites(noise=0.1))]
    with pytest.raises(ValueError, match=r"were fitted on 2 worlds, such as .* Name one for all of them"):
        rank(small)


def test_the_command_ranks_runs_with_the_most_typical_first(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for name, latents in (("a", 3), ("b", 3), ("c", 2)):
        fit(PCA(latents=latents, examples=128), Sprites(), seed=0, into=f"runs/{name}")
    words = ["evaluate", "runs/a", "runs/b", "runs/c", "--metrics", "udr", "--samples", "200"]
    assert cli.main(words) == 0
    told = capsys.readouterr().out
    assert told.index("runs/a") < told.index("runs/c")
    assert "chance" in told
    assert "(best 1)" in told
    assert cli.main([*words, "--csv"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("run,metric,value")
    assert [line.split(",")[:2] for line in lines[1:4]] == [[f"runs/{name}", "udr"] for name in "abc"]
    assert cli.main(["evaluate", "runs/a", "--metrics", "udr"]) == 2
    assert (
        "udr compares several runs with each other: whence evaluate RUN RUN --metrics udr." in capsys.readouterr().err
    )
    assert cli.main(["evaluate", "runs/a", "runs/b", "--metrics", "mig"]) == 2
    assert "Unknown metric of several runs 'mig'" in capsys.readouterr().err
    assert cli.main(["check", "udr"]) == 0
