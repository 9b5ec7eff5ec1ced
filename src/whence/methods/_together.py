"""Several seeds of a small network trained as one: every parameter gets a first axis, one slice a seed.

Nothing is mixed: the loss of all is the sum of theirs, so each slice's gradient is its own; Adam works number by
number; and each seed draws the batches and the noise that it draws alone. So `descend` trains them all in one go, with
results as one by one, up to the rounding of batched products.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Generator, Tensor, nn
from torch.func import functional_call, stack_module_state, vmap
from torch.nn.modules.conv import _ConvNd
from torch.overrides import TorchFunctionMode

from whence.descend import ALL, SGD, Adam, Curve, Recipe, Run, Terms, Turn, descend, mix, on
from whence.methods._method import Gradient, Method
from whence.views import Spec, View

STAGE = "train"  #: the stage that Gradient.fit descends, whose randomness this repeats


def may_train_together(method: Method, recipe: Recipe, spec: Spec) -> bool:
    """One player, fully connected, and nothing that looks at all parameters at once."""
    kind: Any = type(method)
    if not isinstance(method, Gradient) or kind.turns is not Gradient.turns or kind.fit is not Gradient.fit:
        return False
    plain = recipe.clip is None and recipe.precision == "float32" and not recipe.players and not recipe.compile
    if not plain or not isinstance(recipe.optimiser, Adam | SGD):
        return False
    with torch.random.fork_rng(), torch.device("meta"):
        nets = method.init(spec)
    return not any(isinstance(m, _ConvNd) for m in nets.modules()) and not list(nets.buffers())


def train_together(
    method: Gradient, nets: Sequence[nn.Module], data: View, run: Run, seeds: Sequence[int]
) -> list[Curve]:
    """Train networks of several seeds in place, in one descent. Returns their curves."""
    stage = f"together-{run.fingerprint[:8]}"
    together = Together(nets)
    recipe = replace(run.recipe, channels_last=False)

    def turns(together: nn.Module, batch: Any, t: int) -> Iterator[Turn]:
        batches, noise = [], []
        for seed in seeds:  # as descend draws them for each alone
            shared = Generator().manual_seed(mix(seed, STAGE, t))
            own = Generator().manual_seed(mix(seed, STAGE, t, 1))
            batches.append(on(run.device, data.gather(data.draw(recipe.batch, shared), own)))
            noise.append(Noise(mix(seed, STAGE, t, 1)))
        assert isinstance(together, Together)
        terms = together.each(lambda nets, batch: method.loss(nets, batch, t), batches, noise)
        yield Turn(ALL, Terms({f"{s}/{name}": x for name, many in terms.items() for s, x in enumerate(many.unbind())}))

    whole = replace(run, recipe=recipe, curves={})
    descend(
        turns,
        together,
        Nothing(shape=(), draw_=lambda n, rng: torch.empty(n), observe=lambda x, rng: x),
        whole,
        stage=stage,
    )
    together.hand_back(nets)
    return split(whole.curves[stage], len(seeds))


def split(curve: Curve, seeds: int) -> list[Curve]:
    """Each seed's columns under the terms' own names."""
    columns = [[i for i, name in enumerate(curve.names) if name.startswith(f"{s}/")] for s in range(seeds)]
    return [
        Curve(
            tuple(curve.names[i].partition("/")[2] for i in mine),
            list(curve.steps),
            [[row[i] for i in mine] for row in curve.rows],
        )
        for mine in columns
    ]


@dataclass(frozen=True, kw_only=True)
class Nothing(View):
    """Batches that are not looked at: each seed draws its own."""

    def gather(self, ticket: Tensor, rng: Generator) -> Any:
        return (ticket,)


class Together(nn.Module):
    """The networks of several seeds, stacked."""

    def __init__(self, nets: Sequence[nn.Module]) -> None:
        super().__init__()
        stacked, _ = stack_module_state(list(nets))
        self.names = list(stacked)
        self.stacked = nn.ParameterList(stacked.values())
        self.called = [Called(deepcopy(nets[0]).to("meta"))]  # in a list: its parameters are not ours
        self.asked: list[Callable[..., Tensor]] | None = None  #: the noise that a loss asks for, heard once

    def each(
        self, loss: Callable[[nn.Module, Any], Terms], batches: Sequence[Any], noise: Sequence[Noise]
    ) -> dict[str, Tensor]:
        """Terms of all seeds, (S,) each."""
        kind, first = type(batches[0]), batches[0]
        told = [name for name in first._fields if getattr(first, name) is not None]
        fields = {name: torch.stack([getattr(batch, name) for batch in batches]) for name in told}
        rest = dict.fromkeys(set(first._fields) - set(told))

        def one(parameters: dict[str, Tensor], fields: dict[str, Tensor], drawn: list[Tensor]) -> dict[str, Tensor]:
            with Told(drawn):
                return dict(functional_call(self.called[0], parameters, (loss, kind(**fields, **rest))))

        parameters = {f"nets.{name}": p for name, p in zip(self.names, self.stacked, strict=True)}
        if self.asked is None:
            row = {name: whole[0] for name, whole in fields.items()}
            with torch.no_grad(), Asked() as heard:
                functional_call(
                    self.called[0], {name: p[0] for name, p in parameters.items()}, (loss, kind(**row, **rest))
                )
            self.asked = heard.calls
        drawn = [torch.stack([own.draw(asked) for own in noise]) for asked in self.asked]
        return vmap(one)(parameters, fields, drawn)

    def hand_back(self, nets: Sequence[nn.Module]) -> None:
        """Each seed's networks get their slices."""
        with torch.no_grad():
            for name, p in zip(self.names, self.stacked, strict=True):
                for own, part in zip(nets, p, strict=True):
                    own.get_parameter(name).copy_(part)


class Noise:
    """A seed's stream of random numbers on each device, as `torch.manual_seed` begins it."""

    def __init__(self, seed: int) -> None:
        self.seed, self.generators = seed, dict[str, Generator]()

    def draw(self, asked: Callable[..., Tensor]) -> Tensor:
        device = str(asked.keywords.get("device") or "cpu")  # type: ignore[attr-defined]
        if device not in self.generators:
            self.generators[device] = Generator(device).manual_seed(self.seed)
        return asked(generator=self.generators[device])


class Called(nn.Module):
    """Lets a loss of networks be called with parameters put in for theirs."""

    def __init__(self, nets: nn.Module) -> None:
        super().__init__()
        self.nets = nets

    def forward(self, loss: Callable[[nn.Module, Any], Terms], batch: Any) -> Terms:
        return loss(self.nets, batch)


def asks_for(func: Any, args: Any, kwargs: Any) -> Callable[..., Tensor] | None:
    """The draw that a call of PyTorch asks for, to be made with a generator; None if it asks for no noise."""
    if func in (Tensor.normal_, torch.randn_like, torch.rand_like) and len(args) == 1 and not kwargs:
        draw = torch.rand if func is torch.rand_like else torch.randn
        return partial(draw, args[0].shape, dtype=args[0].dtype, device=args[0].device)
    if func in (torch.randn, torch.rand):
        return partial(func, *args, **(kwargs or {}))
    return None


class Asked(TorchFunctionMode):
    """Listens which noise is asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[Callable[..., Tensor]] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if (draw := asks_for(func, args, kwargs)) is not None:
            self.calls.append(draw)
            return draw()
        return func(*args, **(kwargs or {}))


class Told(TorchFunctionMode):
    """Answers with noise that was drawn before. Other kinds of noise are refused by vmap itself."""

    def __init__(self, drawn: Sequence[Tensor]) -> None:
        super().__init__()
        self.drawn = iter(drawn)

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in NOISE and asks_for(func, args, kwargs) is not None:
            return next(self.drawn)
        return func(*args, **(kwargs or {}))


NOISE = {Tensor.normal_, torch.randn_like, torch.rand_like, torch.randn, torch.rand}
