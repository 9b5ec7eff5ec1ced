"""Seeds trained together end as seeds trained alone, and a call that was killed goes on."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
import torch

from whence import Adam, Recipe, Sprites, fit
from whence.descend import SGD, Diverged
from whence.fit import fit_many
from whence.methods import (
    AE,
    DIPVAE,
    GVAE,
    IVAE,
    METHODS,
    PCA,
    VAE,
    AdaMLVAE,
    AnnealedVAE,
    BetaTCVAE,
    BetaVAE,
    FactorVAE,
)
from whence.methods._together import may_train_together
from whence.metrics import MCC
from whence.nets import MLP, Burgess
from whence.storage import StorageError
from whence.studies import Row, Study, engine
from whence.views import Groups, Labelled, Pairs, Single, Singles, Spec
from whence.worlds import Mixed, Unmixed

NET = MLP(hidden=(12,))
RECIPE = Recipe(steps=12, batch=8, optimiser=Adam(lr=1e-3), every=5)


@pytest.fixture
def x(rng):
    return torch.rand(40, 6, generator=rng)


def view_of(method, x):
    if method.needs is Pairs:
        return Pairs.of(x, x.flip(0), (x[:, :3] > 0.5).float())
    if method.needs is Groups:
        return Groups.of(x, torch.arange(40) // 4)
    return Labelled.of(x, torch.arange(40) % 3) if method.needs is Labelled else Singles.of(x)


TOGETHER = [AE, VAE, BetaVAE, AnnealedVAE, BetaTCVAE, DIPVAE, GVAE, AdaMLVAE, IVAE]


@pytest.mark.parametrize("kind", TOGETHER, ids=lambda k: k.__name__)
def test_each_seed_ends_as_it_does_alone(kind, x):
    method = kind(latents=6, net=NET)
    view, seeds = view_of(method, x), (3, 0, 8)
    assert may_train_together(method, RECIPE, view.spec)
    before = torch.get_rng_state()
    many = fit_many(method, view, seeds=seeds, recipe=RECIPE)
    assert torch.equal(torch.get_rng_state(), before)
    for seed, fitted in zip(seeds, many, strict=True):
        alone = fit(method, view, seed=seed, recipe=RECIPE)
        ours, theirs = fitted.representation.state_dict(), alone.representation.state_dict()
        assert ours.keys() == theirs.keys()
        for name in ours:
            torch.testing.assert_close(ours[name], theirs[name], rtol=1e-4, atol=2e-5)
        assert fitted.curves["train"].names == alone.curves["train"].names
        assert fitted.curves["train"].steps == alone.curves["train"].steps == [5, 10, 12]
        torch.testing.assert_close(
            torch.tensor(fitted.curves["train"].rows), torch.tensor(alone.curves["train"].rows), rtol=1e-4, atol=1e-4
        )
        assert (fitted.seed, fitted.recipe, fitted.fingerprint) == (seed, RECIPE, alone.fingerprint)
        assert not any(p.requires_grad for p in fitted.representation.parameters())


@pytest.mark.parametrize(
    "recipe",
    [
        replace(RECIPE, ema=0.9),
        replace(RECIPE, optimiser=SGD(lr=1e-3)),
        replace(RECIPE, optimiser=Adam(weight_decay=0.1)),
    ],
    ids=["ema", "sgd", "adamw"],
)
def test_averaged_weights_and_other_optimisers_too(recipe, x):
    method = VAE(latents=2, net=NET)
    for seed, fitted in zip((0, 1), fit_many(method, x, seeds=(0, 1), recipe=recipe), strict=True):
        alone = fit(method, x, seed=seed, recipe=recipe).representation
        torch.testing.assert_close(fitted.representation.encode(x), alone.encode(x), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("method", "recipe"),
    [
        (FactorVAE(net=NET, critic=(4,)), RECIPE),
        (VAE(net=NET), replace(RECIPE, clip=1.0)),
        (VAE(net=NET), replace(RECIPE, precision="bfloat16")),
        (VAE(net=NET), replace(RECIPE, players={"encoder": Adam()})),
        (PCA(), RECIPE),
    ],
)
def test_what_looks_at_more_than_numbers_one_by_one_is_not_trained_together(method, recipe):
    assert not may_train_together(method, recipe, Spec((6,)))
    assert not may_train_together(VAE(net=Burgess()), RECIPE, Spec((1, 64, 64)))


def test_several_players_are_fitted_one_after_another_and_the_same(x):
    method = FactorVAE(latents=2, net=NET, critic=(4,))
    many = fit_many(method, x, seeds=(0, 1), recipe=RECIPE)
    assert torch.equal(many[1].representation.encode(x), fit(method, x, seed=1, recipe=RECIPE).representation.encode(x))
    assert [f.seed for f in fit_many(PCA(latents=2), x, seeds=(4, 5))] == [4, 5]


@dataclass(frozen=True, kw_only=True)
class Shuffles(VAE):
    """Its loss has noise of another kind, and looks at a number."""

    def loss(self, nets, batch, t):
        x = batch.x[torch.randperm(len(batch.x))]
        return super().loss(nets, Single(x if x.sum() > 0 else -x), t)


def test_a_loss_that_vmap_cannot_take_is_fitted_alone(x):
    method = Shuffles(latents=2, net=NET)
    assert may_train_together(method, RECIPE, Spec((6,)))
    many = fit_many(method, x, seeds=(0, 1), recipe=RECIPE)
    assert torch.equal(many[1].representation.encode(x), fit(method, x, seed=1, recipe=RECIPE).representation.encode(x))


def test_worlds_are_rendered_for_each_seed_and_the_callers_random_state_is_left():
    method, recipe = VAE(latents=2, net=MLP(hidden=(4,))), Recipe(steps=2, batch=4)
    many = fit_many(method, Sprites(), seeds=(0, 1), recipe=recipe)
    x = Sprites().singles().batch(3, torch.Generator()).x
    for seed in (0, 1):
        alone = fit(method, Sprites(), seed=seed, recipe=recipe).representation.encode(x)
        torch.testing.assert_close(many[seed].representation.encode(x), alone, rtol=1e-4, atol=1e-5)


def test_finished_seeds_are_loaded_and_a_killed_call_goes_on_bit_for_bit(x, tmp_path):
    method, view = VAE(latents=2, net=NET), Singles.of(x)
    calls = iter(range(1000))

    def stops(ticket, rng):
        if next(calls) == 3 * 7:
            raise InterruptedError
        return view.observe(ticket, rng)

    with pytest.raises(InterruptedError):
        fit_many(method, replace(view, observe=stops), seeds=range(3), recipe=RECIPE, into=tmp_path, save_every=0)
    assert len(list(tmp_path.glob("*/checkpoint-*"))) == 1
    resumed = fit_many(method, view, seeds=range(3), recipe=RECIPE, into=tmp_path)
    whole = fit_many(method, view, seeds=range(3), recipe=RECIPE)
    for one, other in zip(resumed, whole, strict=True):
        assert torch.equal(one.representation.encode(x), other.representation.encode(x))
        assert one.curves["train"].rows == other.curves["train"].rows
        assert one.folder is not None
        assert (one.folder / "weights.safetensors").is_file()
    assert not list(tmp_path.glob("*/checkpoint-*"))
    more = fit_many(method, view, seeds=range(5), recipe=RECIPE, into=tmp_path)
    assert [f.seconds for f in more[:3]] == [round(f.seconds, 3) for f in resumed]
    with pytest.raises(StorageError, match="holds another run"):
        fit_many(replace(method, latents=3), view, seeds=range(2), recipe=RECIPE, into=tmp_path)


def test_another_run_that_is_not_finished_is_refused_and_left_as_it_is(x, tmp_path):
    method, calls = VAE(latents=2, net=NET), iter(range(1000))
    view = Singles.of(x)

    def stops(ticket, rng):
        if next(calls) == 5:
            raise InterruptedError
        return view.observe(ticket, rng)

    with pytest.raises(InterruptedError):
        fit_many(method, replace(view, observe=stops), seeds=(0, 1), recipe=RECIPE, into=tmp_path, save_every=0)
    before = (tmp_path / "seed-0" / "run.json").read_bytes()
    with pytest.raises(StorageError, match="holds another run"):
        fit_many(replace(method, latents=3), view, seeds=(0, 1), recipe=RECIPE, into=tmp_path)
    assert (tmp_path / "seed-0" / "run.json").read_bytes() == before


def test_one_seed_that_diverges_takes_no_other_with_it_and_says_so_alone(x):
    method, recipe = VAE(latents=2, net=NET), replace(RECIPE, optimiser=Adam(lr=1e30))
    with pytest.raises(Diverged, match=r"^Term 'nll' became"):
        fit_many(method, x, seeds=(0, 1), recipe=recipe)


def test_seeds_are_different(x):
    with pytest.raises(ValueError, match=r"Seeds are all different, got \[1, 1\]"):
        fit_many(VAE(net=NET), x, seeds=(1, 1))


def test_the_methods_that_train_together_are_those_with_one_loss():
    allowed = {kind for kind in METHODS if kind in TOGETHER or kind.__name__ in ("MLVAE", "AdaGVAE")}
    spec = Spec((6,), labels=view_of(IVAE(), torch.rand(40, 6)).spec.labels)
    found = set()
    for kind in METHODS:
        method = replace(kind(), net=NET) if "net" in kind.__dataclass_fields__ else kind()
        if may_train_together(method, RECIPE, spec):
            found.add(kind)
    assert found >= allowed
    assert FactorVAE not in found


# --- studies ----------------------------------------------------------------------------------------------------------


def rows(scale, seed):
    yield Row("together", VAE(latents=2, net=MLP(hidden=(4,))), Unmixed(), RECIPE)
    yield Row("another", BetaVAE(latents=2, net=MLP(hidden=(4,))), Unmixed(), RECIPE)
    yield Row("alone", FactorVAE(latents=2, net=MLP(hidden=(4,)), critic=(4,)), Unmixed(), RECIPE)
    yield Row("drawn", VAE(latents=2, net=MLP(hidden=(4,))), Mixed(model_seed=seed), RECIPE)


def test_a_study_trains_the_seeds_of_a_row_together_and_records_each(tmp_path, monkeypatch):
    study = Study(
        name="toy", title="A toy", rows=rows, columns=(MCC(),), reference=VAE.reference, samples={"smoke": 200}
    )
    bundles = engine.bundles(engine.tasks(study, "smoke", 3))
    assert [[(t.row.label, t.seed) for t in bundle] for bundle in bundles if len(bundle) > 1] == [
        [("together", 0), ("together", 1), ("together", 2)],
        [("another", 0), ("another", 1), ("another", 2)],
    ]
    assert len(bundles) == 2 + 3 + 3  # seeds of worlds drawn at random see other data
    monkeypatch.setattr("whence.studies.STUDIES", (study,))
    outcomes = engine.work("toy", "smoke", [(t.row.label, t.seed) for t in bundles[0]], str(tmp_path), "cpu")
    for task, outcome in zip(bundles[0], outcomes, strict=True):
        again = engine.one(study, "smoke", task.row, task.seed, tmp_path, "cpu")
        assert outcome.values == again.values
        assert (outcome.error, outcome.key) == ("", task.key)
        assert (tmp_path / task.key / "run.json").is_file()
