"""6. The training loop: the only optimiser step in the library.

A method is a generator of turns. Each turn names a player (a child module of the networks, or ALL) and gives its
named terms; the loop moves that player's parameters along the gradient of their sum, and of nothing else.

The randomness of a step is a function of (seed, stage, step) alone. So a run can be killed at any moment and resumed
bit for bit, and processes that share a batch draw the same one.
"""

from __future__ import annotations

import atexit
import contextlib
import csv
import ctypes
import hashlib
import io
import math
import os
import signal
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

import torch
import torch.distributed as dist
from torch import Generator, Tensor, nn

from whence import storage, values
from whence.views import View

ALL = "all"


class Terms(dict[str, Tensor]):
    """The parts of a loss: named, already weighted. The loss is their sum, so what is logged is what is optimised."""

    @property
    def total(self) -> Tensor:
        if not self:
            raise ValueError("A turn needs at least one term to descend, got none.")
        for name, term in self.items():
            if not isinstance(term, Tensor) or term.ndim:
                got = f"shape {tuple(term.shape)}" if isinstance(term, Tensor) else f"a {type(term).__name__}"
                raise ValueError(
                    f"A term is a tensor of one number, got {got} for {name!r}. Sum over the event, then take the mean "
                    "over the batch."
                )
        return torch.stack([term.to(torch.promote_types(term.dtype, torch.float32)) for term in self.values()]).sum()


class Turn(NamedTuple):
    """One player's move."""

    player: str  #: a child module of the networks, or ALL
    terms: Terms


Turns = Callable[[nn.Module, Any, int], Iterator[Turn]]

# --- the recipe ------------------------------------------------------------------------------------------------------


class Optimiser(ABC):
    """An optimiser as a value."""

    lr: float

    @abstractmethod
    def make(self, parameters: Sequence[nn.Parameter]) -> torch.optim.Optimizer: ...


@dataclass(frozen=True, kw_only=True)
class Adam(Optimiser):
    """Adam; AdamW if there is weight decay."""

    lr: float = 1e-4  #: learning rate
    betas: tuple[float, float] = (0.9, 0.999)  #: decay of the first and second moment
    eps: float = 1e-8  #: added to the root of the second moment
    weight_decay: float = 0.0  #: decoupled weight decay

    def make(self, parameters: Sequence[nn.Parameter]) -> torch.optim.Optimizer:
        kind = torch.optim.AdamW if self.weight_decay else torch.optim.Adam
        fused = parameters[0].device.type in ("cpu", "cuda") and parameters[0].is_floating_point()
        return kind(parameters, lr=self.lr, betas=self.betas, eps=self.eps, weight_decay=self.weight_decay, fused=fused)


@dataclass(frozen=True, kw_only=True)
class SGD(Optimiser):
    """Stochastic gradient descent with momentum."""

    lr: float = 0.01  #: learning rate
    momentum: float = 0.9  #: of the moving average of gradients

    def make(self, parameters: Sequence[nn.Parameter]) -> torch.optim.Optimizer:
        return torch.optim.SGD(parameters, lr=self.lr, momentum=self.momentum)


class Schedule(ABC):
    """The learning rate over a run, as a factor of each optimiser's own."""

    @abstractmethod
    def factor(self, t: int, steps: int) -> float: ...


@dataclass(frozen=True, kw_only=True)
class Constant(Schedule):
    """The same throughout."""

    def factor(self, t: int, steps: int) -> float:
        return 1.0


@dataclass(frozen=True, kw_only=True)
class Cosine(Schedule):
    """A linear warm-up, then half a cosine down to `floor`."""

    warmup: int = 0  #: steps of linear increase at the start
    floor: float = 0.0  #: the factor at the end

    def factor(self, t: int, steps: int) -> float:
        if t < self.warmup:
            return (t + 1) / self.warmup
        done = (t - self.warmup) / max(steps - self.warmup, 1)
        return self.floor + (1 - self.floor) * 0.5 * (1 + math.cos(math.pi * done))


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """How long and with what to descend. Methods carry their paper's; every field can be overridden from outside."""

    steps: int = 300_000  #: batches to train on
    batch: int = 64  #: observations (or pairs) a step, over all processes
    optimiser: Optimiser = Adam()  #: for every player without one of its own
    players: Mapping[str, Optimiser] = field(default_factory=dict)  #: optimisers of single players
    schedule: Schedule = Constant()  #: the learning rate over time
    clip: float | None = None  #: largest gradient norm of a player's move
    ema: float | None = None  #: decay of the averaged weights that the representation gets
    precision: Literal["float32", "bfloat16"] = "float32"  #: bfloat16 autocasts the forward pass; weights stay float32
    channels_last: bool = True  #: memory layout of convolutions
    compile: bool = False  #: torch.compile the networks: slow to start, rarely worth it on a CPU
    every: int = 100  #: steps averaged into one row of the curve

    def __post_init__(self) -> None:
        for name in ("steps", "batch", "every"):
            if getattr(self, name) < 1:
                raise ValueError(f"A recipe's {name} is at least 1, got {getattr(self, name)}.")
        if self.ema is not None and not 0 < self.ema < 1:
            raise ValueError(f"A recipe's ema is a decay between 0 and 1, such as 0.999, got {self.ema}.")

    def with_lr(self, lr: float) -> Recipe:
        """The same with every player's learning rate replaced."""
        from dataclasses import replace

        players = {name: replace(o, lr=lr) for name, o in self.players.items()}  # type: ignore[type-var]
        return replace(self, optimiser=replace(self.optimiser, lr=lr), players=players)  # type: ignore[type-var]


RECIPE_PARTS = (Recipe, Adam, SGD, Constant, Cosine)

# --- what is watched -------------------------------------------------------------------------------------------------


@dataclass
class Curve:
    """Every term over time: each row is a mean over the steps up to `steps[row]`."""

    names: tuple[str, ...] = ()
    steps: list[int] = field(default_factory=list)
    rows: list[list[float]] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.steps)

    def __getitem__(self, name: str) -> list[float]:
        """One term's values.

        >>> Curve(("nll", "kl"), [100], [[3.0, 1.0]])["kl"]
        [1.0]
        """
        if name not in self.names:
            raise KeyError(values.unknown("term", name, self.names))
        return [row[self.names.index(name)] for row in self.rows]

    def csv(self) -> str:
        out = io.StringIO()
        table = csv.writer(out, lineterminator="\n")
        table.writerow(["step", *self.names])
        for step, row in zip(self.steps, self.rows, strict=True):
            table.writerow([step, *(repr(value) for value in row)])
        return out.getvalue()

    @classmethod
    def read(cls, text: str) -> Curve:
        header, *rows = csv.reader(io.StringIO(text))
        return cls(tuple(header[1:]), [int(r[0]) for r in rows], [[float(v) for v in r[1:]] for r in rows])


class Progress(NamedTuple):
    """What a watcher is told, at most a few times a second and at the end of a stage."""

    stage: str
    step: int
    steps: int
    seconds: float  #: since this process began the stage
    left: float  #: estimated seconds to the end of the stage
    curve: Curve


Watch = Callable[[Progress], None]


@dataclass
class Run:
    """What a method's `fit` is handed: the budget, the seed, the place, and who watches."""

    seed: int = 0
    device: str = "cpu"
    recipe: Recipe = field(default_factory=Recipe)
    into: Path | None = None
    watch: Sequence[Watch] = ()
    save_every: float = 30.0  #: seconds between checkpoints
    fingerprint: str = ""  #: of everything the result depends on; a checkpoint of another run is refused
    curves: dict[str, Curve] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)  #: of each stage, since it was last started
    stopped_at: int | None = None

    def checkpoint(self, stage: str) -> Path | None:
        return None if self.into is None else self.into / f"checkpoint-{stage}.safetensors"


class Diverged(ArithmeticError):
    """A term stopped being a finite number."""


class Stopped(KeyboardInterrupt):
    """Interrupted by the user after a checkpoint was written."""


# --- the loop --------------------------------------------------------------------------------------------------------


def descend(turns: Turns, nets: nn.Module, data: View, run: Run, *, stage: str = "train") -> nn.Module:
    """Train `nets` in place by `run.recipe` and return them, with averaged weights if the recipe has an `ema`.

    A checkpoint in `run.into` is picked up; one of another run is refused. `run.curves[stage]` holds the terms.
    """
    recipe, place, begin = run.recipe, run.checkpoint(stage), time.monotonic()
    nets.to(run.device).train()
    if recipe.channels_last:
        nets.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    rank, workers = share()
    if recipe.batch % workers:
        raise ValueError(f"A batch is split evenly over processes: {recipe.batch} does not divide by {workers}.")
    state = State(nets, recipe)
    if place is not None and rank == 0:
        storage.tidy(place.parent)
    if place is not None and place.exists():
        state.load(place, run.fingerprint)
    broadcast(nets, workers)
    curve = run.curves[stage] = state.curve
    clock = Clock(state.step)
    autocast = torch.autocast(run.device.partition(":")[0], torch.bfloat16, enabled=recipe.precision == "bfloat16")
    shared, own = Generator(), Generator()

    def save() -> None:
        if place is not None and rank == 0:
            state.finite(stage)
            state.save(place, run.fingerprint)

    with (
        compiled(nets, recipe.compile),
        kept_memory(run.device),
        Interrupts(armed=place is not None and workers == 1) as interrupts,
    ):
        for t in range(state.step, recipe.steps):
            shared.manual_seed(mix(run.seed, stage, t))
            own.manual_seed(noise := mix(run.seed, stage, t, rank + 1))
            torch.manual_seed(noise)
            ticket = data.draw(recipe.batch, shared).chunk(workers)[rank]
            batch = on(run.device, data.gather(ticket, own))
            factor = recipe.schedule.factor(t, recipe.steps)
            moves: list[tuple[str, Terms]] = []
            generator = turns(nets, batch, t)
            while True:
                with autocast:
                    turn = next(generator, None)
                if turn is None:
                    break
                state.player(turn.player).move(turn.terms.total, factor, recipe.clip, workers)
                moves.append(turn)
            state.note(t, moves)
            if state.pending == recipe.every or t + 1 == recipe.steps:
                state.flush(stage, workers)
            if (told := clock.tell(t, recipe.steps)) is not None and rank == 0:
                for watch in run.watch:
                    watch(Progress(stage, t + 1, recipe.steps, *told, curve))
            # a row that is not full yet is this process's own: several processes save between rows
            if ((workers == 1 or not state.pending) and clock.due(run.save_every)) or interrupts.asked:
                save()
            if interrupts.asked:
                run.stopped_at = t + 1
                raise Stopped(
                    f"Stopped after step {t + 1:,} of {recipe.steps:,}; the run in {str(run.into)!r} can be resumed."
                )
    if state.loaded < recipe.steps:
        save()
    state.average_in()
    run.seconds[stage] = time.monotonic() - begin
    nets.to(memory_format=torch.contiguous_format)  # type: ignore[call-overload]  # so that it encodes as a loaded one does
    return nets.eval()


class State:
    """All that a run is at the end of a step: networks, optimisers, average, curve. Saved and loaded as one file."""

    def __init__(self, nets: nn.Module, recipe: Recipe) -> None:
        self.nets, self.recipe = nets, recipe
        self.names = [ALL, *dict(nets.named_children())]
        for name in recipe.players:
            if name not in self.names:
                raise KeyError(values.unknown("player in the recipe", name, self.names))
        self.step = self.loaded = 0
        self.players: dict[str, Player] = {}
        self.curve = Curve()
        self.buffer: Tensor | None = None
        self.pending = 0
        self.average = None if recipe.ema is None else {name: p.detach().clone() for name, p in nets.named_parameters()}
        self.stored: dict[str, dict[str, Tensor]] = {}

    def player(self, name: str) -> Player:
        if name not in self.players:
            if name not in self.names:
                raise KeyError(values.unknown("player", name, self.names))
            module = self.nets if name == ALL else self.nets.get_submodule(name)
            optimiser = self.recipe.players.get(name, self.recipe.optimiser)
            self.players[name] = Player(name, module, optimiser, self.stored.pop(name, {}))
        return self.players[name]

    def note(self, t: int, moves: Sequence[tuple[str, Terms]]) -> None:
        """Keep this step's terms, on their device: nothing waits for them."""
        names, numbers = [], []
        for player, terms in moves:
            for name, term in terms.items():
                names.append(name if player == ALL else f"{player}.{name}")
                numbers.append(term.detach().float())
        if not self.curve.names:
            self.curve.names = tuple(names)
        if tuple(names) != self.curve.names:
            raise ValueError(
                f"Every step has the same terms: step {t} has {names}, the first had {list(self.curve.names)}. "
                "A term that is off is a zero tensor."
            )
        if self.buffer is None:
            self.buffer = torch.zeros(self.recipe.every, len(names), device=numbers[0].device)
        torch.stack(numbers, out=self.buffer[self.pending])
        self.pending += 1
        self.step = t + 1
        if self.average is not None:
            assert self.recipe.ema is not None
            for name, p in self.nets.named_parameters():
                self.average[name].lerp_(p.detach(), 1 - self.recipe.ema)

    def flush(self, stage: str, workers: int) -> None:
        """The pending steps become one row of the curve."""
        assert self.buffer is not None
        if workers > 1:
            dist.all_reduce(self.buffer)
            self.buffer /= workers
        self.curve.rows.append(self.finite(stage).mean(0).tolist())
        self.curve.steps.append(self.step)
        self.pending = 0

    def finite(self, stage: str) -> Tensor:
        """The pending rows; a number among them that is not finite is reported by term and step."""
        if self.buffer is None:
            return torch.empty(0, 0)
        rows = self.buffer[: self.pending].double().cpu()
        if not torch.isfinite(rows).all():
            step, term = (~torch.isfinite(rows)).nonzero()[0].tolist()
            before = rows[step - 1].tolist() if step else (self.curve.rows or [[]])[-1]
            raise Diverged(
                f"Term {self.curve.names[term]!r} became {rows[step, term].item()} at step "
                f"{self.step - self.pending + step} of stage {stage!r}. Before it the terms were "
                f"{dict(zip(self.curve.names, (round(v, 4) for v in before), strict=False))}. Lower the learning rate "
                "(--lr), clip gradients (--clip 1), or check the data for extreme values."
            )
        return rows

    def average_in(self) -> None:
        """The networks get the averaged weights."""
        if self.average is not None:
            with torch.no_grad():
                for name, p in self.nets.named_parameters():
                    p.copy_(self.average[name])

    def save(self, path: Path, fingerprint: str) -> None:
        tensors = {f"net/{name}": tensor for name, tensor in self.nets.state_dict().items()}
        for name, average in (self.average or {}).items():
            tensors[f"average/{name}"] = average
        for player in self.players.values():
            tensors |= {f"player/{player.name}/{key}": tensor for key, tensor in player.state().items()}
        if self.buffer is not None:
            tensors["pending"] = self.buffer[: self.pending]
        tensors["curve/steps"] = torch.tensor(self.curve.steps, dtype=torch.int64)
        tensors["curve/rows"] = torch.tensor(self.curve.rows, dtype=torch.float64)
        about = {"step": self.step, "fingerprint": fingerprint, "names": self.curve.names}
        storage.write(path, storage.pack(tensors, about))

    def load(self, path: Path, fingerprint: str) -> None:
        tensors, about = storage.unpack(storage.read(path), str(path))
        if about.get("fingerprint") != fingerprint:
            raise storage.StorageError(
                f"{str(path)!r} is a checkpoint of a run with other settings, data or seed. "
                "Give this run another folder (into=...), or remove that one."
            )
        groups: dict[str, dict[str, Tensor]] = {}
        for name, tensor in tensors.items():
            head, _, rest = name.partition("/")
            groups.setdefault(head, {})[rest] = tensor
        storage.load_state(self.nets, groups.get("net", {}), str(path))
        if self.average is not None:
            for name, average in groups["average"].items():
                self.average[name].copy_(average)
        for key, tensor in groups.get("player", {}).items():
            player, _, rest = key.partition("/")
            self.stored.setdefault(player, {})[rest] = tensor
        self.curve.names = tuple(about["names"])
        self.curve.steps = groups["curve"]["steps"].tolist()
        self.curve.rows = groups["curve"]["rows"].tolist()
        if self.curve.names:
            device = next(self.nets.parameters()).device
            self.buffer = torch.zeros(self.recipe.every, len(self.curve.names), device=device)
            pending = groups["pending"][""]
            self.pending = len(pending)
            self.buffer[: self.pending] = pending.to(device)
        self.step = self.loaded = about["step"]


class Player:
    """The parameters one kind of turn may move, and their optimiser."""

    def __init__(self, name: str, module: nn.Module, optimiser: Optimiser, stored: Mapping[str, Tensor]) -> None:
        self.name = name
        self.parameters = [p for p in module.parameters() if p.requires_grad]
        if not self.parameters:
            raise ValueError(f"Player {name!r} has no parameters to move. A turn names a child module with weights.")
        self.optimiser = optimiser.make(self.parameters)
        self.lr = optimiser.lr
        if stored:
            template = self.optimiser.state_dict()
            state: dict[int, dict[str, Tensor]] = {}
            for key, tensor in stored.items():
                number, _, rest = key.partition("/")
                state.setdefault(int(number), {})[rest] = laid_out(tensor, self.parameters[int(number)])
            self.optimiser.load_state_dict({"state": state, "param_groups": template["param_groups"]})

    def move(self, loss: Tensor, factor: float, clip: float | None, workers: int) -> None:
        """One step of this player's parameters along the gradient of the loss; no other parameter feels it."""
        gradients = torch.autograd.grad(loss, self.parameters, allow_unused=True)
        used = [(p, g) for p, g in zip(self.parameters, gradients, strict=True) if g is not None]
        if not used:
            raise ValueError(f"The loss of player {self.name!r} depends on none of its parameters.")
        if workers > 1:
            flat = torch.cat([g.flatten() for _, g in used])
            dist.all_reduce(flat)
            parts = (flat / workers).split([g.numel() for _, g in used])
            used = [(p, part.view_as(g)) for (p, g), part in zip(used, parts, strict=True)]
        for p, g in used:
            p.grad = laid_out(g, p)
        if clip is not None:
            nn.utils.clip_grad_norm_(self.parameters, clip)
        for group in self.optimiser.param_groups:
            group["lr"] = self.lr * factor
        self.optimiser.step()
        for p in self.parameters:
            p.grad = None

    def state(self) -> dict[str, Tensor]:
        whole = self.optimiser.state_dict()["state"]
        return {f"{number}/{key}": t for number, entry in whole.items() for key, t in entry.items() if t is not None}


# --- the loop's small helpers ----------------------------------------------------------------------------------------


def mix(*parts: int | str) -> int:
    """A well-spread 63-bit seed from a few numbers and words."""
    return int.from_bytes(hashlib.blake2b(repr(parts).encode(), digest_size=8).digest(), "little") >> 1


def laid_out(tensor: Tensor, p: Tensor) -> Tensor:
    """A tensor of a parameter's shape in the parameter's memory layout: fused optimisers walk both in memory order,
    and neither a file nor a reduction over processes keeps channels_last."""
    if tensor.shape != p.shape or tensor.stride() == p.stride():
        return tensor
    return torch.empty_like(p, dtype=tensor.dtype).copy_(tensor)


@contextlib.contextmanager
def compiled(nets: nn.Module, wanted: bool) -> Iterator[None]:
    """Every network runs compiled within."""
    found = list(networks(nets)) if wanted else []
    for module in found:
        module.forward = torch.compile(inlined(module.forward))
    try:
        yield
    finally:
        for module in found:
            del module.forward


def networks(nets: nn.Module) -> Iterator[nn.Module]:
    """The children, or theirs where one only holds others, as Nets does, and has no forward of its own."""
    for child in nets.children():
        if type(child).forward is nn.Module.forward:
            yield from networks(child)
        else:
            yield child


def inlined(forward: Callable[..., Any]) -> Callable[..., Any]:
    """The same in a frame of ours: torch.compile silently skips frames of torch.nn, such as Sequential's forward."""
    return lambda *args: forward(*args)


@contextlib.contextmanager
def kept_memory(device: str) -> Iterator[None]:
    """On a CPU with glibc, memory that a step frees is kept for the next instead of going back to the system.

    A convolutional step otherwise spends a fifth of its time on page faults (benchmarks/training_speed.md).
    """
    trim, mmap, default = -1, -3, 128 * 1024  # malloc.h: M_TRIM_THRESHOLD, M_MMAP_THRESHOLD
    libc = None
    if device.startswith("cpu"):
        with contextlib.suppress(OSError, AttributeError, TypeError):  # another libc, another system
            libc = ctypes.CDLL(None)
            libc.mallopt(mmap, 1 << 30)
            libc.mallopt(trim, 1 << 30)
    try:
        yield
    finally:
        with contextlib.suppress(AttributeError):
            if libc is not None:
                libc.mallopt(mmap, default)
                libc.mallopt(trim, default)
                libc.malloc_trim(0)


def on(device: str, batch: Any) -> Any:
    """The batch on a device, whatever its fields; what is in none, such as names and numbers, stays."""
    if isinstance(batch, Tensor):
        return batch.to(device, non_blocking=True)
    if not isinstance(batch, tuple):
        return batch
    items = [on(device, item) for item in batch]
    return type(batch)(*items) if hasattr(batch, "_fields") else tuple(items)


def share() -> tuple[int, int]:
    """This process's number and how many share the batch, joining the group that `torchrun` announces."""
    if not dist.is_available() or int(os.environ.get("WORLD_SIZE", "1")) == 1:
        return 0, 1
    if not dist.is_initialized():
        dist.init_process_group("cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo")
        if torch.cuda.is_available():  # "cuda" is then a GPU of this process's own
            torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")) % torch.cuda.device_count())
        atexit.register(leave)
    return dist.get_rank(), dist.get_world_size()


def leave() -> None:
    """End the group that `share` joined: its threads abort a process that ends without joining them."""
    if dist.is_initialized():
        dist.destroy_process_group()


def broadcast(nets: nn.Module, workers: int) -> None:
    """Every process starts from the first one's weights."""
    if workers > 1:
        for tensor in nets.state_dict().values():
            dist.broadcast(tensor, 0)


class Clock:
    """Time left, when to speak, when to save."""

    def __init__(self, first: int, tick: float = 0.25) -> None:
        self.first, self.tick = first, tick
        self.begin = self.warm = self.spoken = self.saved = time.monotonic()

    def tell(self, t: int, steps: int) -> tuple[float, float] | None:
        """(seconds so far, seconds left) when a watcher should hear of it."""
        now = time.monotonic()
        if t == self.first:  # it sets things up, and says nothing of the time that others take
            self.warm = now
        if (t == self.first or now - self.spoken < self.tick) and t + 1 < steps:
            return None
        self.spoken = now
        return now - self.begin, (now - self.warm) / max(1, t - self.first) * (steps - t - 1)

    def due(self, seconds: float) -> bool:
        now = time.monotonic()
        if now - self.saved < seconds:
            return False
        self.saved = now
        return True


class Interrupts(contextlib.AbstractContextManager["Interrupts"]):
    """The first Ctrl-C (or SIGTERM) waits for the end of the step and a checkpoint; the second stops at once."""

    def __init__(self, armed: bool) -> None:
        self.armed = armed and threading.current_thread() is threading.main_thread()
        self.asked = False
        self.before: dict[int, Any] = {}

    def __enter__(self) -> Interrupts:
        if self.armed:
            for number in (signal.SIGINT, signal.SIGTERM):
                self.before[number] = signal.signal(number, self.ask)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self.before.items():
            signal.signal(number, handler)

    def ask(self, number: int, frame: object) -> None:
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True
