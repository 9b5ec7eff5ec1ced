"""Pairs, groups and labels: what is shared is shared, what is told is true, and rows go together."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from whence import Groups, Labelled, Pairs, Sprites
from whence.views import Label, as_inputs
from whence.worlds import Mixed, Unmixed

WORLD = Unmixed()  # observations are the factors themselves
NAMES = [factor.name for factor in WORLD.factors]


# --- pairs -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("changing", [1, 3, None, ("shape", "x")])
def test_what_is_told_of_a_pair_is_what_was_drawn_anew(changing, rng):
    batch = WORLD.pairs(changing=changing, told=True).batch(3000, rng)
    differ = batch.x != batch.x_
    assert not (differ & ~batch.changed).any()
    assert differ[:, 4].sum() == pytest.approx(float(batch.changed[:, 4].sum()) * 31 / 32, rel=0.05)
    many = batch.changed.sum(1)
    if isinstance(changing, int):
        assert (many == changing).all()
    elif changing is None:
        assert sorted(many.unique().tolist()) == [1, 2, 3, 4]
    else:
        assert batch.changed.all(0).tolist() == [name in changing for name in NAMES]


def test_pairs_tell_nothing_unless_asked(rng):
    assert WORLD.pairs().batch(2, rng).changed is None
    one, two = (WORLD.pairs(told=told).batch(50, torch.Generator().manual_seed(1)) for told in (False, True))
    assert torch.equal(one.x, two.x)
    assert torch.equal(one.x_, two.x_)


def test_pairs_from_arrays_keep_what_is_told_beside_them(rng):
    x, x_ = torch.arange(20.0)[:, None], torch.arange(100.0, 120.0)[:, None]
    changed = torch.arange(20)[:, None] % torch.tensor([2, 3]) == 0
    batch = Pairs.of(x, x_, changed, factors=["even", "third"]).batch(200, rng)
    row = batch.x[:, 0].long()
    assert torch.equal(batch.x_[:, 0].long(), row + 100)
    assert torch.equal(batch.changed, changed[row])
    with pytest.raises(ValueError, match=r"a row for each of the 20 pairs and a column for each factor, got shape"):
        Pairs.of(x, x_, changed[:3])
    with pytest.raises(ValueError, match=r"2 different names are needed, one for each factor, got even"):
        Pairs.of(x, x_, changed, factors=["even"])


# --- groups ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shared", [("shape",), ("shape", "y"), 2])
def test_members_of_a_group_share_what_is_said_and_differ_elsewhere(shared, rng):
    batch = WORLD.groups(shared=shared, size=4, told=True).batch(2000, rng)
    assert batch.x.shape == (2000, 4, 5)
    same = (batch.x == batch.x[:, :1]).all(1)
    assert same[batch.shared].all()
    assert same[~batch.shared].float().mean() < 0.1
    if isinstance(shared, tuple):
        assert [NAMES[i] for i in torch.nonzero(batch.shared[0]).flatten()] == list(shared)
    else:
        assert (batch.shared.sum(1) == 2).all()


def test_the_factor_of_balanced_groups_takes_its_values_equally_often(rng):
    batch = WORLD.groups(balanced=True).batch(60, rng)
    assert torch.bincount(batch.x[:, 0, 0].long()).tolist() == [0, 20, 20, 20]
    assert batch.shared is None


def test_groups_of_causes_set_what_is_shared_and_its_effects_follow(rng):
    world = Mixed()
    cause = int(world.graph.any(1).nonzero()[0])
    name = world.factors[cause].name
    v = world.groups(shared=(name,), size=3).draw(500, rng).reshape(500, 3, -1)
    assert (v[:, :, cause] == v[:, :1, cause]).all()
    effect = int(world.graph[cause].nonzero()[0])
    r = torch.corrcoef(torch.stack([v[:, 0, cause], v[:, 1, effect]]))[0, 1]
    assert r.abs() > 0.1  # the effect in one member still follows the cause it shares with another


def test_groups_of_causes_can_share_all_but_one_at_random(rng):
    world = Mixed()
    k = len(world.factors)
    view = world.groups(shared=-1, size=3, told=True)
    ticket = view.draw(400, rng)
    v, shared = ticket[:, : 3 * k].reshape(400, 3, k), ticket[:, 3 * k :] > 0
    assert (shared.sum(1) == k - 1).all()
    same = (v == v[:, :1]).all(1)
    assert (same == shared).all(), "also effects of the one that varies are held"
    assert (~shared).float().mean(0).min() > 0.5 / k


def test_groups_from_arrays_have_different_members_of_one_group(rng):
    group = np.array(["a"] * 50 + ["b"] * 5 + ["c"])
    x = torch.arange(56.0)[:, None]
    for balanced, share in ((True, 0.5), (False, 50 / 55)):
        drawn = Groups.of(x, group, size=3, balanced=balanced).batch(4000, rng).x[..., 0]
        of = (drawn >= 50).long()
        assert (of == of[:, :1]).all()
        assert (drawn < 55).all()
        assert all(len(set(row)) == 3 for row in drawn.tolist())
        assert (of[:, 0] == 0).float().mean() == pytest.approx(share, abs=0.03)
        counts = torch.bincount(drawn[of == 1].long() - 50).float()
        assert counts.min() > 0.85 * counts.mean()  # each member as often
    with pytest.raises(ValueError, match=r"Groups of size=60 need as many observations of one group, the largest has"):
        Groups.of(x, group, size=60)
    with pytest.raises(ValueError, match=r"group has an entry for each of the 56 observations, got shape \(3,\)"):
        Groups.of(x, [1, 2, 3])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"shared": 9}, r"Groups of this world share between 1 and 5 factors, got shared=9"),
        ({"shared": ("shapes",)}, r"Unknown factor 'shapes'. Did you mean 'shape'"),
        ({"shared": ()}, r"shared names at least one factor, got none"),
        ({"size": 0}, r"one observation or more, got size=0"),
        ({"shared": 2, "balanced": True}, r"one factor is shared, by name"),
    ],
)
def test_groups_that_cannot_be_are_refused(options, message):
    with pytest.raises((ValueError, KeyError), match=message):
        WORLD.groups(**options)


# --- labels ----------------------------------------------------------------------------------------------------------


def test_labels_are_the_named_factors_in_their_own_units(rng):
    view = WORLD.labelled(of=("orientation", "shape"))
    batch = view.batch(100, rng)
    assert torch.equal(batch.u, batch.x[:, [2, 0]])
    assert [label.name for label in view.labels] == ["orientation", "shape"]
    assert view.labels[1] == Label("shape", 1, 3, (1, 2, 3))
    assert view.labels[0].high == pytest.approx(2 * np.pi)
    assert view.spec.labels == view.labels


def test_all_factors_are_labels_unless_some_are_named(rng):
    batch = WORLD.labelled().batch(9, rng)
    assert torch.equal(batch.u, batch.x)


def test_a_part_of_the_labels_is_missing(rng):
    u = WORLD.labelled(fraction=0.25).batch(4000, rng).u
    missing = u.isnan()
    assert (missing.all(1) == missing.any(1)).all()
    assert missing.float().mean() == pytest.approx(0.75, abs=0.03)


def test_few_labelled_examples_are_the_same_for_ever(rng):
    view = WORLD.labelled(examples=7, noise=0.5, seed=3)
    batch = view.batch(500, rng)
    assert len(torch.cat([batch.x, batch.u], 1).unique(dim=0)) == 7
    again = WORLD.labelled(examples=7, noise=0.5, seed=3).batch(500, rng)
    assert torch.equal(batch.u.unique(dim=0), again.u.unique(dim=0))
    other = WORLD.labelled(examples=7, noise=0.5, seed=4).batch(500, rng)
    assert not torch.equal(batch.u.unique(dim=0), other.u.unique(dim=0))


def test_noise_makes_classes_wrong_and_moves_numbers(rng):
    batch = WORLD.labelled(of=("shape", "x"), noise=0.2).batch(5000, rng)
    wrong = batch.u[:, 0] != batch.x[:, 0]
    assert wrong.float().mean() == pytest.approx(0.2, abs=0.02)
    assert set(batch.u[:, 0].tolist()) == {1.0, 2.0, 3.0}
    error = batch.u[:, 1] - batch.x[:, 3]
    assert error.std() == pytest.approx(0.2, abs=0.01)
    assert error.mean() == pytest.approx(0, abs=0.02)


def test_a_balanced_factor_takes_its_values_equally_often(rng):
    u = WORLD.labelled(of=("shape",), balanced="shape").batch(30, rng).u
    assert torch.bincount(u[:, 0].long()).tolist() == [0, 10, 10, 10]


def test_labels_from_arrays_stay_beside_their_rows(rng):
    x, u = torch.arange(30.0)[:, None], torch.arange(60.0).reshape(30, 2)
    u[:20] = torch.nan
    view = Labelled.of(x, u, names=["a", "b"], fraction=0.5)
    batch = view.batch(2000, rng)
    row = batch.x[:, 0].long()
    torch.testing.assert_close(batch.u, u[row], equal_nan=True)
    assert (row >= 20).float().mean() == pytest.approx(0.5, abs=0.04)
    assert view.labels == (Label("a", 40, 58), Label("b", 41, 59))
    assert view.take(99, rng).x.shape == (30, 1)


def test_whole_numbers_are_classes_and_can_be_balanced(rng):
    u = torch.tensor([0] * 90 + [5] * 10)
    view = Labelled.of(torch.arange(100.0)[:, None], u, balanced="label 1")
    assert view.labels[0].classes == (0, 5)
    assert (view.batch(4000, rng).u == 5).float().mean() == pytest.approx(0.5, abs=0.03)
    numbers = Labelled.of(torch.zeros(100, 1), u.float())
    assert numbers.labels[0].classes == ()
    assert Labelled.of(torch.zeros(100, 1), u.float(), classes=["label 1"]).labels == view.labels


def test_missing_classes_stay_as_they_are_when_others_are_balanced(rng):
    u = torch.tensor([0.0] * 40 + [1.0] * 10 + [torch.nan] * 50)
    drawn = Labelled.of(torch.zeros(100, 1), u, classes=["label 1"], balanced="label 1").batch(8000, rng).u
    shares = [(drawn == 0).float().mean(), (drawn == 1).float().mean(), drawn.isnan().float().mean()]
    assert shares == [pytest.approx(0.25, abs=0.02), pytest.approx(0.25, abs=0.02), pytest.approx(0.5, abs=0.02)]


def test_the_inputs_of_labels_are_ones_and_scaled_numbers():
    labels = Label("c", 1, 3, (1, 2, 3)), Label("n", -1, 3)
    u = torch.tensor([[3.0, 3.0], [1.1, 1.0], [torch.nan, torch.nan]], dtype=torch.float64)
    assert as_inputs(u, labels).tolist() == [[0, 0, 1, 1], [1, 0, 0, 0], [0, 0, 0, 0]]
    assert labels[0].position(u[:, 0]).tolist() == [2, 0, -1]
    assert as_inputs(u, labels).dtype == torch.float64


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"of": ("shapes",)}, r"Unknown factor 'shapes'"),
        ({"fraction": 0.0}, r"above 0 and at most 1, got 0"),
        ({"noise": 2.0}, r"0 to 1, got 2"),
        ({"examples": 0}, r"at least 1, got 0"),
    ],
)
def test_labels_that_cannot_be_are_refused(options, message):
    with pytest.raises((ValueError, KeyError), match=message):
        WORLD.labelled(**options)


def test_labels_of_arrays_that_cannot_be_are_refused():
    x = torch.zeros(4, 2)
    with pytest.raises(ValueError, match=r"a finite label \(or NaN\) for each of the 4 observations"):
        Labelled.of(x, torch.zeros(3))
    with pytest.raises(ValueError, match=r"All rows have labels, so fraction is 1, got 0.5"):
        Labelled.of(x, torch.zeros(4), fraction=0.5)
    with pytest.raises(ValueError, match=r"fraction is the labelled part of a batch"):
        Labelled.of(x, torch.zeros(4), fraction=0.0)
    with pytest.raises(ValueError, match=r"Only classes come equally often, and 'label 1' is a number"):
        Labelled.of(x, torch.zeros(4), balanced="label 1")
    with pytest.raises(ValueError, match=r"Unknown label 'z'"):
        Labelled.of(x, torch.zeros(4), classes=["z"])
    with pytest.raises(ValueError, match=r"is continuous: it has no values that could come equally often"):
        Mixed().labelled(balanced=Mixed().factors[0].name)


# --- all of them -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    ["pairs", "groups", "labelled"],
)
def test_a_view_is_rebuilt_from_its_record(name):
    options = {
        "pairs": {"changing": ("shape", "x"), "told": True},
        "groups": {"shared": ("shape",), "size": 3},
        "labelled": {"of": ("x",), "examples": 5},
    }[name]
    world = Sprites()
    view = getattr(world, name)(**options)
    record = json.loads(json.dumps(view.origin))
    again = getattr(world, record.pop("view"))(**{k: v for k, v in record.items() if k != "world"})
    for one, two in zip(*(v.batch(8, torch.Generator().manual_seed(0)) for v in (view, again)), strict=True):
        assert one is two is None or torch.equal(one, two)
    assert again.origin == view.origin
    assert world.view(type(view)).shape == world.shape
