"""The survey's studies: what their figures claim is computed, and holds."""

from __future__ import annotations

import csv
from dataclasses import replace

import numpy as np
import pytest
import torch

from whence import Recipe
from whence.metrics import MCC, MIG, SAP, FactorVAEMetric, Modularity
from whence.studies import engine, impossibility, unsupervised_sprites, weak_supervision
from whence.studies.study import Outcome
from whence.terms import Bernoulli


def test_rotated_models_have_one_likelihood_and_pairs_and_interventions_tell_them_apart():
    degrees = torch.tensor([-45.0, -20.0, -5.0, 0.0, 5.0, 20.0, 45.0, 90.0])
    found = impossibility.likelihoods(degrees.double().deg2rad())
    assert found.observations.max() - found.observations.min() < 1e-10
    for curve in (found.pairs, found.interventions):
        assert curve.argmax() in (3, 7)
        torch.testing.assert_close(curve[3], curve[7])  # latents that change places are the same model
        assert (curve[3] > curve[[2, 4]]).all()
        assert (curve[3] - curve[[0, 1, 5, 6]] > 0.1).all()


@pytest.mark.parametrize("label", ["VAE", "UMNI, interventions"])
def test_a_row_of_the_impossibility_runs(label, tmp_path):
    row = next(row for row in impossibility.rows("smoke", 0) if row.label == label)
    outcome = engine.one(impossibility.STUDY, "smoke", row, 0, tmp_path, "cpu")
    assert not outcome.error
    assert outcome.values["r2.linear"] > 0.99
    assert (outcome.values["mcc.strong"] > 0.99) == (label != "VAE")
    assert impossibility.least_loss([outcome], tmp_path) == {outcome.key}
    impossibility.draw([outcome, Outcome("failed", 0, "", {}, error="why")], tmp_path)
    assert (tmp_path / "impossibility.png").read_bytes().startswith(b"\x89PNG")


# --- many methods -----------------------------------------------------------------------------------------------------


def test_shares_of_variance_are_those_that_made_it():
    """Effects of known size, many seeds: each share is found, and noise alone is nobody's but the seeds'."""
    rng = np.random.default_rng(0)
    labels = [f"{m} {w}" for m in "abcdef" for w in range(6) for _ in range(200)]
    of_method, of_weight = (
        dict(zip(sorted(set(k)), rng.normal(size=len(set(k))), strict=True))
        for k in (
            [label.split()[0] for label in labels],
            labels,
        )
    )
    y = [of_method[label.split()[0]] + of_weight[label] + rng.normal() for label in labels]
    total = np.var(y)
    found = unsupervised_sprites.shares(y, labels)
    assert sum(found.values()) == pytest.approx(1.0)
    assert found["seed"] == pytest.approx(1.0 / total, abs=0.02)
    noise = [unsupervised_sprites.shares(rng.normal(size=36), labels[::200]) for _ in range(3)]
    assert all(np.isnan(s["seed"]) for s in noise)  # one run a group leaves nothing to compare with
    few = [unsupervised_sprites.shares(rng.normal(size=72), labels[::100]) for _ in range(300)]
    assert abs(np.mean([s["method"] for s in few])) < 0.02
    assert np.mean([s["seed"] for s in few]) == pytest.approx(1.0, abs=0.03)


def test_published_grids_and_small_pictures_keep_the_meaning_of_weights():
    labels = [row.label for row in unsupervised_sprites.rows("cpu", 0)]
    assert len(labels) == 36
    assert [label for label in labels if label.startswith("DIP-VAE-II")][-1] == "DIP-VAE-II 50"
    for row in unsupervised_sprites.rows("cpu", 0):
        assert row.method.likelihood == Bernoulli(copies=16)
        assert row.world.shape == (1, 16, 16)
    paper = list(unsupervised_sprites.rows("paper", 0))
    assert len(paper) == 3 * 36
    assert {row.world.shape for row in paper} == {(1, 64, 64), (3, 64, 64)}


def outcomes_of(study, rows, folder, scale="smoke"):
    return [engine.one(study, scale, row, seed, folder, "cpu") for row in rows for seed in range(2)]


def test_the_unsupervised_study_draws_its_figures_and_chooses_without_the_truth(tmp_path):
    study = replace(
        unsupervised_sprites.STUDY, columns=(MIG(), SAP(), FactorVAEMetric(), Modularity()), samples={"smoke": 300}
    )
    tiny = Recipe(steps=3, batch=8, every=3)
    rows = [
        row._replace(recipe=tiny)
        for row in unsupervised_sprites.rows("smoke", 0)
        if row.label in ("β-VAE 2", "β-VAE 16", "FactorVAE 100")
    ]
    outcomes = outcomes_of(study, rows, tmp_path)
    assert not any(o.error for o in outcomes), outcomes[0].error
    unsupervised_sprites.draw([*outcomes, Outcome("FactorVAE 20", 0, "", {}, error="why")], tmp_path)
    for name in ("distributions.png", "weights.png", "variance.png", "agreement.png"):
        assert (tmp_path / name).read_bytes().startswith(b"\x89PNG")
    lines = list(csv.DictReader((tmp_path / "selection.csv").open()))
    assert [line["rule"] for line in lines] == ["udr", "centrality", "mean of all runs", "best by the truth"]
    assert float(lines[3]["mig"]) >= float(lines[2]["mig"])
    assert lines[0]["run"].startswith(("β-VAE", "FactorVAE"))
    assert len(list(csv.DictReader((tmp_path / "variance.csv").open()))) == 4


def test_rows_of_weak_supervision_run_and_are_grouped_by_what_was_told(tmp_path):
    study = replace(weak_supervision.STUDY, columns=(MIG(), MCC()), samples={"smoke": 200})
    rows = list(weak_supervision.rows("smoke", 0))
    told = dict.fromkeys(weak_supervision.supervision(row.label) for row in rows)
    assert list(told) == [
        "nothing: β-VAE",
        "nothing: β-TCVAE",
        "pairs: Ada-GVAE",
        "pairs: Ada-GVAE, one changed",
        "pairs: Ada-ML-VAE",
        "pairs: Ada-ML-VAE, one changed",
        "groups that share the shape: ML-VAE",
        "groups that share the shape: GVAE",
        "labels: iVAE",
    ]
    one_each = list({weak_supervision.supervision(row.label): row for row in rows}.values())
    tiny = [row._replace(recipe=Recipe(steps=2, batch=8)) for row in one_each]
    outcomes = [engine.one(study, "smoke", row, 0, tmp_path, "cpu") for row in tiny]
    assert not any(o.error for o in outcomes), next(o.error for o in outcomes if o.error)
    weak_supervision.draw(outcomes, tmp_path)
    assert (tmp_path / "supervision.png").is_file()
