"""The one loop: players, schedules, averages, precision, curves, NaN, watchers."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from whence import Adam, BetaVAE, Cosine, FactorVAE, Recipe, Singles, fit
from whence.descend import ALL, SGD, Constant, Curve, Diverged, Progress, Run, Terms, Turn, descend, mix
from whence.methods import Gradient
from whence.nets import MLP, Nets
from whence.representation import Representation
from whence.views import Spec

DATA = torch.randn(64, 3, generator=torch.Generator().manual_seed(0))
VIEW = Singles.of(DATA)


class Two(nn.Module):
    """Two players with one weight each."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(1, 1, bias=False), nn.Linear(1, 1, bias=False)
        for p in self.parameters():
            nn.init.ones_(p)


def train(turns, nets: nn.Module, recipe: Recipe, **options) -> Run:
    run = Run(recipe=recipe, **options)
    descend(turns, nets, VIEW, run)
    return run


def one_turn(loss, player=ALL):
    """Turns of a method whose loss needs only the networks and the step."""

    def turns(nets, batch, t):
        yield Turn(player, Terms(loss=loss(nets, batch, t)))

    return turns


# --- terms and turns --------------------------------------------------------------------------------------------------


def test_the_loss_is_the_sum_of_its_terms():
    assert Terms(nll=torch.tensor(2.0), kl=torch.tensor(0.5)).total == 2.5


def test_the_sum_is_float32_under_bfloat16_and_stays_float64():
    assert Terms(a=torch.tensor(1.0, dtype=torch.bfloat16)).total.dtype == torch.float32
    assert Terms(a=torch.tensor(1.0, dtype=torch.float64)).total.dtype == torch.float64


def test_a_turn_without_terms_is_refused():
    with pytest.raises(ValueError, match=r"at least one term"):
        _ = Terms().total


@pytest.mark.parametrize(("term", "got"), [(torch.ones(4), r"shape \(4,\)"), (0.5, "a float")])
def test_a_term_that_is_not_one_number_is_refused_by_name(term, got):
    with pytest.raises(ValueError, match=rf"one number, got {got} for 'kl'. Sum over the event"):
        _ = Terms(nll=torch.tensor(1.0), kl=term).total


def test_a_turn_cannot_move_another_player():
    nets = Two()
    turns = one_turn(lambda nets, batch, t: (nets.a.weight * nets.b.weight * 3).sum(), player="a")
    train(turns, nets, Recipe(steps=5, batch=4, optimiser=SGD(lr=0.1, momentum=0.0)))
    assert nets.b.weight.item() == 1.0
    assert nets.a.weight.item() == pytest.approx(1 - 5 * 0.1 * 3)
    assert nets.a.weight.grad is None
    assert nets.b.weight.grad is None


def test_alternating_players_see_each_others_moves():
    seen = []

    def turns(nets, batch, t):
        yield Turn("a", Terms(up=-nets.a.weight.sum()))
        seen.append(nets.a.weight.item())
        yield Turn("b", Terms(follow=(nets.b.weight - nets.a.weight).square().sum()))

    train(turns, Two(), Recipe(steps=2, batch=4, optimiser=SGD(lr=1.0, momentum=0.0)))
    assert seen == [2.0, 3.0]


def test_each_player_has_its_own_optimiser():
    def turns(nets, batch, t):
        yield Turn("a", Terms(a=nets.a.weight.sum()))
        yield Turn("b", Terms(b=nets.b.weight.sum()))

    nets = Two()
    players = {"b": SGD(lr=0.01, momentum=0.0)}
    train(turns, nets, Recipe(steps=3, batch=4, optimiser=SGD(lr=0.1, momentum=0.0), players=players))
    assert nets.a.weight.item() == pytest.approx(0.7)
    assert nets.b.weight.item() == pytest.approx(0.97)


def test_an_unknown_player_suggests_the_nearest():
    nets = Nets(critic=nn.Linear(1, 1), vae=nn.Linear(1, 1))
    with pytest.raises(KeyError, match=r"Unknown player 'critc'. Did you mean 'critic'"):
        train(one_turn(lambda nets, batch, t: nets.critic.weight.sum(), "critc"), nets, Recipe(steps=1, batch=4))


def test_a_recipe_for_an_unknown_player_suggests_the_nearest():
    recipe = Recipe(steps=1, batch=4, players={"kritic": Adam()})
    with pytest.raises(KeyError, match=r"Unknown player in the recipe 'kritic'. Did you mean 'critic'"):
        fit(FactorVAE(latents=2, net=MLP(hidden=(4,)), critic=(4,)), DATA, recipe=recipe)


def test_a_loss_that_does_not_depend_on_its_player_is_refused():
    with pytest.raises(ValueError, match=r"player 'a' depends on none of its parameters"):
        train(one_turn(lambda nets, batch, t: nets.b.weight.sum(), "a"), Two(), Recipe(steps=1, batch=4))


def test_a_player_without_parameters_is_refused():
    nets = Nets(a=nn.ReLU(), b=nn.Linear(1, 1))
    with pytest.raises(ValueError, match=r"'a' has no parameters to move"):
        train(one_turn(lambda nets, batch, t: nets.b.weight.sum(), "a"), nets, Recipe(steps=1, batch=4))


def test_terms_that_change_between_steps_are_refused():
    def turns(nets, batch, t):
        yield Turn("a", Terms(**{f"loss{t}": nets.a.weight.sum()}))

    with pytest.raises(ValueError, match=r"step 1 has \['a.loss1'\], the first had \['a.loss0'\]"):
        train(turns, Two(), Recipe(steps=2, batch=4))


# --- the recipe -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("change", [{"steps": 0}, {"batch": 0}, {"every": 0}])
def test_a_recipe_counts_from_one(change):
    with pytest.raises(ValueError, match=rf"A recipe's {next(iter(change))} is at least 1, got 0"):
        Recipe(**change)


@pytest.mark.parametrize("ema", [0.0, 1.0, 1.5])
def test_a_decay_lies_between_0_and_1(ema):
    with pytest.raises(ValueError, match=r"ema is a decay between 0 and 1"):
        Recipe(ema=ema)


def test_with_lr_reaches_every_player():
    recipe = FactorVAE.recipe.with_lr(3e-3)
    assert recipe.optimiser.lr == recipe.players["critic"].lr == 3e-3
    assert recipe.players["critic"].betas == (0.5, 0.9)


def test_a_cosine_rises_linearly_then_falls_to_its_floor():
    schedule = Cosine(warmup=4, floor=0.1)
    assert [schedule.factor(t, 104) for t in range(4)] == pytest.approx([0.25, 0.5, 0.75, 1.0])
    assert schedule.factor(4, 104) == pytest.approx(1.0)
    assert schedule.factor(54, 104) == pytest.approx(0.55)
    assert schedule.factor(104, 104) == pytest.approx(0.1)
    assert Constant().factor(9, 10) == 1.0


def test_the_loop_moves_by_the_schedule():
    nets, schedule = Two(), Cosine(warmup=3)
    recipe = Recipe(steps=9, batch=4, optimiser=SGD(lr=0.5, momentum=0.0), schedule=schedule)
    train(one_turn(lambda nets, batch, t: nets.a.weight.sum(), "a"), nets, recipe)
    assert nets.a.weight.item() == pytest.approx(1 - 0.5 * sum(schedule.factor(t, 9) for t in range(9)), abs=1e-6)


def test_clipping_bounds_the_norm_of_a_whole_move():
    nets = Two()
    recipe = Recipe(steps=1, batch=4, optimiser=SGD(lr=1.0, momentum=0.0), clip=0.5)
    train(one_turn(lambda nets, batch, t: 30 * nets.a.weight.sum() + 40 * nets.b.weight.sum()), nets, recipe)
    assert 1 - nets.a.weight.item() == pytest.approx(0.3, abs=1e-5)
    assert 1 - nets.b.weight.item() == pytest.approx(0.4, abs=1e-5)


def test_weight_decay_is_decoupled():
    nets, lr, decay = Two(), 0.1, 0.5
    recipe = Recipe(steps=1, batch=4, optimiser=Adam(lr=lr, weight_decay=decay))
    train(one_turn(lambda nets, batch, t: nets.a.weight.sum(), "a"), nets, recipe)
    assert nets.a.weight.item() == pytest.approx((1 - lr * decay) - lr, abs=1e-5)  # Adam's first step is lr


def test_the_average_is_that_of_the_weights_after_each_step():
    decay, seen = 0.9, []

    def turns(nets, batch, t):
        seen.append(nets.a.weight.item())
        yield Turn("a", Terms(loss=nets.a.weight.sum()))

    nets = Two()
    train(turns, nets, Recipe(steps=6, batch=4, optimiser=SGD(lr=0.1, momentum=0.0), ema=decay))
    average = seen[0]
    for weight in [*seen[1:], 1 - 6 * 0.1]:
        average = decay * average + (1 - decay) * weight
    assert nets.a.weight.item() == pytest.approx(average, abs=1e-6)
    assert nets.b.weight.item() == 1.0


# --- precision and compilation ----------------------------------------------------------------------------------------

TINY = BetaVAE(latents=2, net=MLP(hidden=(16,)))


def test_bfloat16_gives_nearly_the_same_loss_and_keeps_weights_in_float32():
    recipe = Recipe(steps=60, batch=32, optimiser=Adam(lr=1e-2), every=20)
    full, half = (fit(TINY, DATA, recipe=replace(recipe, precision=p)) for p in ("float32", "bfloat16"))
    assert {p.dtype for p in half.representation.parameters()} == {torch.float32}
    for name in ("nll", "kl"):
        assert half.curves["train"][name] == pytest.approx(full.curves["train"][name], rel=0.03, abs=0.03)
    assert half.curves["train"]["nll"] != full.curves["train"]["nll"]


@pytest.mark.slow
def test_compiled_networks_train_to_the_same_place():
    from torch._dynamo.utils import counters

    method = FactorVAE(latents=2, net=MLP(hidden=(8,)), critic=(8,))
    recipe = Recipe(steps=4, batch=8)
    counters.clear()
    plain, compiled = (fit(method, DATA, recipe=replace(recipe, compile=on)) for on in (False, True))
    assert counters["stats"]["unique_graphs"] == 3  # encoder, decoder, critic: it is not silently left out
    for name, p in plain.representation.state_dict().items():
        torch.testing.assert_close(compiled.representation.state_dict()[name], p, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(compiled.representation.encode(DATA), plain.representation.encode(DATA))
    assert counters["stats"]["unique_graphs"] == 3  # what is returned runs as written


def test_compile_reaches_networks_within_a_player(monkeypatch):
    asked = []
    monkeypatch.setattr(torch, "compile", lambda function: asked.append(function) or function)
    fit(FactorVAE(latents=2, net=MLP(hidden=(8,)), critic=(8,)), DATA, recipe=Recipe(steps=1, batch=8, compile=True))
    assert len(asked) == 3  # encoder, decoder, critic; the player "vae" only holds two of them


# --- curves -----------------------------------------------------------------------------------------------------------


def test_a_row_of_the_curve_is_the_mean_over_its_steps_and_the_last_may_be_shorter():
    def turns(nets, batch, t):
        zero = 0 * nets.a.weight.sum()
        yield Turn(ALL, Terms(t=zero + t, square=zero + t**2))

    curve = train(turns, Two(), Recipe(steps=10, batch=4, every=4)).curves["train"]
    assert curve.steps == [4, 8, 10]
    assert curve["t"] == [1.5, 5.5, 8.5]
    assert curve["square"] == [np.mean([t**2 for t in part]) for part in (range(4), range(4, 8), range(8, 10))]


def test_terms_of_named_players_carry_their_name():
    fitted = fit(FactorVAE(latents=2, net=MLP(hidden=(4,)), critic=(4,)), DATA, recipe=Recipe(steps=2, batch=8))
    assert fitted.curves["train"].names == ("vae.nll", "vae.kl", "vae.tc", "critic.joint", "critic.apart")


def test_an_unknown_term_suggests_the_nearest():
    with pytest.raises(KeyError, match=r"Unknown term 'nl'. Did you mean 'nll'"):
        _ = Curve(("nll", "kl"))["nl"]


def test_a_curve_survives_its_file_exactly():
    curve = Curve(("a", "b"), [3, 5], [[0.1, 1e-300], [1 / 3, math.inf]])
    assert Curve.read(curve.csv()) == curve


# --- NaN --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("every", [1, 5, 100])
def test_a_nan_is_reported_by_its_term_and_exact_step(every):
    def turns(nets, batch, t):
        fine = nets.a.weight.sum()
        yield Turn("a", Terms(fine=fine, wild=fine * (math.nan if t == 7 else 1)))

    with pytest.raises(Diverged, match=r"Term 'a.wild' became nan at step 7 of stage 'train'.*'a.fine'.*--lr"):
        train(turns, Two(), Recipe(steps=20, batch=4, every=every))


def test_weights_that_are_no_longer_numbers_are_never_saved(tmp_path):
    def turns(nets, batch, t):
        yield Turn("a", Terms(loss=nets.a.weight.sum() / (0.0 if t == 7 else 1.0)))

    with pytest.raises(Diverged, match=r"became inf at step 7"):
        train(turns, Two(), Recipe(steps=20, batch=4), into=tmp_path, save_every=0.0)
    tensors = load_file(tmp_path / "checkpoint-train.safetensors")
    assert all(torch.isfinite(tensor).all() for tensor in tensors.values())


# --- watchers ---------------------------------------------------------------------------------------------------------


def test_watchers_hear_of_progress_with_the_time_left(monkeypatch):
    now = iter(range(1000))
    monkeypatch.setattr("whence.descend.time.monotonic", lambda: float(next(now)))
    heard: list[Progress] = []
    train(one_turn(lambda nets, batch, t: nets.a.weight.sum()), Two(), Recipe(steps=5, batch=4), watch=[heard.append])
    assert [p.step for p in heard] == [2, 3, 4, 5]  # the first sets things up, and tells nothing of the others
    a_step = heard[1].seconds - heard[0].seconds
    assert heard[-1].left == 0
    for p in heard:
        assert (p.stage, p.steps) == ("train", 5)
        assert p.left == pytest.approx(a_step * (5 - p.step))


def test_a_watcher_is_told_a_few_times_a_second_and_at_the_end():
    heard = []
    train(one_turn(lambda nets, batch, t: nets.a.weight.sum()), Two(), Recipe(steps=300, batch=4), watch=[heard.append])
    assert heard[-1].step == 300
    assert len(heard) < 10


# --- randomness -------------------------------------------------------------------------------------------------------


def test_fit_leaves_the_callers_random_state_alone():
    torch.manual_seed(5)
    np.random.seed(5)  # noqa: NPY002
    random.seed(5)
    expected = torch.rand(3), np.random.rand(3), random.random()  # noqa: NPY002
    torch.manual_seed(5)
    np.random.seed(5)  # noqa: NPY002
    random.seed(5)
    fit(TINY, DATA, recipe=Recipe(steps=3, batch=4))
    assert torch.equal(torch.rand(3), expected[0])
    assert (np.random.rand(3) == expected[1]).all()  # noqa: NPY002
    assert random.random() == expected[2]


def test_the_result_depends_on_the_seed_and_not_on_the_callers_random_state():
    def weights(seed, callers):
        torch.manual_seed(callers)
        return fit(TINY, DATA, seed=seed, recipe=Recipe(steps=3, batch=4)).representation.encode(DATA)

    assert torch.equal(weights(0, 1), weights(0, 2))
    assert not torch.equal(weights(0, 1), weights(1, 1))


def test_seeds_are_well_spread():
    seeds = {mix(seed, "train", t) for seed in range(30) for t in range(30)}
    assert len(seeds) == 900
    assert all(0 <= seed < 2**63 for seed in seeds)
    assert mix(1, "a") == mix(1, "a") != mix("1", "a")


# --- a method of several stages ---------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Staged(Gradient):
    """First one weight, then the other."""

    needs = Singles
    recipe = Recipe(steps=4, batch=4)

    def init(self, spec: Spec) -> nn.Module:
        return Two()

    def represent(self, nets, spec):
        class Code(Representation):
            def __init__(self):
                super().__init__(spec, 1)
                self.nets = nets

            def codes(self, x):
                return x[:, :1] * self.nets.a.weight + self.nets.b.weight

        return Code()

    def fit(self, data, run):
        nets = self.init(data.spec)
        for player in ("a", "b"):
            loss = one_turn(lambda nets, batch, t, player=player: getattr(nets, player).weight.square().sum(), player)
            descend(loss, nets, data, run, stage=player)
        return self.represent(nets, data.spec)


def test_stages_have_their_own_curves_and_files(tmp_path):
    fitted = fit(Staged(), DATA, into=tmp_path / "run")
    assert list(fitted.curves) == ["a", "b"]
    assert {p.name for p in (tmp_path / "run").iterdir()} == {
        "run.json",
        "weights.safetensors",
        "curve-a.csv",
        "curve-b.csv",
    }
