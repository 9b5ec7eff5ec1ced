"""1. What a learner may see. A view draws endless batches and holds no truth.

Drawing has two halves, so that several processes can share one batch and a run can be resumed anywhere:
``ticket = view.draw(n, rng)`` chooses *what* (indices or factor values, cheap), ``view.gather(ticket, rng)`` makes
the observations. Both are functions of their arguments alone.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from pathlib import Path
from typing import Any, Generic, Literal, NamedTuple, TypeVar, get_args

import numpy as np
import torch
from torch import Generator, Tensor

from whence import values

Batch = TypeVar("Batch", bound=tuple)

#: (number, rng) -> what to observe, one row each
Draw = Callable[[int, Generator], Tensor]
#: (rows of a ticket, rng for nuisance noise) -> observations in float, one each
Observe = Callable[[Tensor, Generator], Tensor]


class Label(NamedTuple):
    """What is known of a label beforehand: its name and its values, in its own units."""

    name: str
    low: float
    high: float
    classes: tuple[float, ...] = ()  #: every value, in order, of a label that names a class; empty for a number

    @property
    def width(self) -> int:
        """How many numbers stand for it in `as_inputs`."""
        return len(self.classes) or 1

    def position(self, u: Tensor) -> Tensor:
        """Values -> the number of the nearest class, -1 where the label is missing."""
        grid = torch.tensor(self.classes, dtype=u.dtype, device=u.device)
        nearest = (u[..., None] - grid).abs().nan_to_num(torch.inf).argmin(-1)
        return torch.where(u.isnan(), -1, nearest)

    def inputs(self, u: Tensor) -> Tensor:
        """(B,) -> (B, width): a class as one of its many, a number scaled to [-1, 1]; all 0 where it is missing."""
        if self.classes:
            index = self.position(u)
            return torch.eye(self.width, dtype=u.dtype, device=u.device)[index] * (index >= 0)[:, None]
        middle, half = (self.low + self.high) / 2, (self.high - self.low) / 2 or 1.0
        return ((u - middle) / half).nan_to_num(0.0)[:, None]


def as_inputs(u: Tensor, labels: Sequence[Label]) -> Tensor:
    """Labels (B, L) as a network takes them.

    >>> labels = Label("shape", 1, 3, (1, 2, 3)), Label("x", 0, 4)
    >>> as_inputs(torch.tensor([[2.0, 1.0], [torch.nan, 4.0]]), labels).tolist()
    [[0.0, 1.0, 0.0, -0.5], [0.0, 0.0, 0.0, 1.0]]
    """
    return torch.cat([label.inputs(column) for label, column in zip(labels, u.unbind(1), strict=True)], 1)


class Spec(NamedTuple):
    """What a method must know of the data to build its networks."""

    shape: tuple[int, ...]  #: of one observation; images are channels, height, width
    environments: int = 0  #: how many are interventional
    latents: int | None = None  #: how many codes there are, where a method learned that from the data
    labels: tuple[Label, ...] = ()  #: of labelled observations


@dataclass(frozen=True, kw_only=True)
class View(ABC, Generic[Batch]):
    """Endless batches of one kind. `origin` says in JSON where they come from, for the run's record."""

    shape: tuple[int, ...]
    draw_: Draw = field(repr=False)
    observe: Observe = field(repr=False)
    origin: Mapping[str, Any] = field(default_factory=dict)
    whole: Tensor | None = field(default=None, repr=False)  #: the ticket of everything, if the view is finite

    @property
    def spec(self) -> Spec:
        return Spec(self.shape)

    def draw(self, n: int, rng: Generator) -> Tensor:
        """What the next batch of n holds: one row an item."""
        return self.draw_(n, rng)

    @abstractmethod
    def gather(self, ticket: Tensor, rng: Generator) -> Batch:
        """The observations a ticket stands for; `rng` feeds nuisance noise."""

    def batch(self, n: int, rng: Generator) -> Batch:
        return self.gather(self.draw(n, rng), rng)

    def take(self, n: int, rng: Generator) -> Batch:
        """For methods that look once: all of a finite view if it has at most n items, else n drawn ones."""
        if self.whole is not None and len(self.whole) <= n:
            return self.gather(self.whole, rng)
        return self.batch(n, rng)


class Single(NamedTuple):
    x: Tensor


class Pair(NamedTuple):
    x: Tensor
    x_: Tensor  #: shares some causes with x
    changed: Tensor | None = None  #: (B, K) bool, which factors were drawn anew, if that is told


class Group(NamedTuple):
    x: Tensor  #: (B, G, *shape): G observations that share some causes
    shared: Tensor | None = None  #: (B, K) bool, which factors are the same in all of them, if that is told


class Labels(NamedTuple):
    x: Tensor
    u: Tensor  #: (B, L) in the labels' own units; NaN where one is missing


@dataclass(frozen=True, kw_only=True)
class Singles(View[Single]):
    """Independent observations."""

    def gather(self, ticket: Tensor, rng: Generator) -> Single:
        return Single(self.observe(ticket, rng))

    @classmethod
    def of(cls, x: Tensor | np.ndarray, name: str = "array") -> Singles:
        """Rows of an array kept resident as they are (uint8 stays uint8 and is scaled to [0, 1] batch by batch).

        >>> import torch
        >>> Singles.of(torch.zeros(10, 3)).batch(4, torch.Generator()).x.shape
        torch.Size([4, 3])
        """
        rows = resident(x)
        return cls(
            shape=tuple(rows.shape[1:]),
            draw_=lambda n, rng: torch.randint(len(rows), (n,), generator=rng),
            observe=lambda ticket, rng: as_float(rows[ticket]),
            origin=fingerprint(rows, name),
            whole=torch.arange(len(rows)),
        )


@dataclass(frozen=True, kw_only=True)
class Pairs(View[Pair]):
    """Two observations whose causes differ in a few factors; which ones is told of factors that are named.

    A row of a ticket is the two halves side by side, and behind them a 1 for each named factor that was drawn anew.
    """

    told: tuple[str, ...] = ()  #: factors of which it is told whether they were drawn anew

    def gather(self, ticket: Tensor, rng: Generator) -> Pair:
        halves, changed = ticket.split([ticket.shape[1] - len(self.told), len(self.told)], 1)
        x = self.observe(torch.cat(halves.chunk(2, dim=1)), rng)  # one call, so that renderers are batched
        first, second = x.chunk(2)
        return Pair(first, second, changed > 0 if self.told else None)

    @classmethod
    def of(
        cls,
        x: Tensor | np.ndarray,
        x_: Tensor | np.ndarray,
        changed: Tensor | np.ndarray | None = None,
        *,
        factors: Sequence[str] | None = None,
        name: str = "arrays",
    ) -> Pairs:
        """Row i of `x` is paired with row i of `x_`. `changed` (N, K) tells which of `factors` differ in a pair."""
        if len(x) != len(x_) or tuple(x.shape) != tuple(x_.shape):
            raise ValueError(
                f"Pairs need two arrays of the same shape, got {tuple(x.shape)} and {tuple(x_.shape)}. "
                "Row i of the first is paired with row i of the second."
            )
        first, second = resident(x), resident(x_)
        if first.dtype != second.dtype:
            raise ValueError(
                f"Pairs need two arrays of the same type, got {first.dtype} and {second.dtype}: "
                "only uint8 is scaled to [0, 1]. Convert one of them."
            )
        rows = torch.cat([first, second])
        half = len(rows) // 2
        mask = torch.zeros(half, 0) if changed is None else as_tensor(changed)
        if mask.ndim != 2 or len(mask) != half:
            raise ValueError(
                f"changed has a row for each of the {half} pairs and a column for each factor, got shape "
                f"{tuple(mask.shape)}."
            )
        whole = torch.stack([torch.arange(half), torch.arange(half) + half], 1)
        whole = torch.cat([whole, (mask != 0).long()], 1)
        return cls(
            shape=tuple(rows.shape[1:]),
            draw_=lambda n, rng: whole[torch.randint(half, (n, 1), generator=rng).flatten()],
            observe=lambda ticket, rng: as_float(rows[ticket.flatten()]),
            origin=fingerprint(rows, name) | ({} if changed is None else {"changed": fingerprint(mask, "mask")}),
            whole=whole,
            told=named("factor", mask.shape[1], factors),
        )


@dataclass(frozen=True, kw_only=True)
class Groups(View[Group]):
    """Several observations that share some factors; which ones is told of factors that are named.

    A row of a ticket is the members side by side, and behind them a 1 for each named factor that they share.
    """

    size: int  #: observations in a group
    told: tuple[str, ...] = ()  #: factors of which it is told whether they are shared

    def gather(self, ticket: Tensor, rng: Generator) -> Group:
        members, shared = ticket.split([ticket.shape[1] - len(self.told), len(self.told)], 1)
        flat = members.reshape(len(ticket) * self.size, -1)
        return Group(self.observe(flat, rng).unflatten(0, (-1, self.size)), shared > 0 if self.told else None)

    @classmethod
    def of(
        cls, x: Tensor | np.ndarray, group: Any, *, size: int = 2, balanced: bool = True, name: str = "arrays"
    ) -> Groups:
        """Observations with the same entry of `group` (N,), numbers or words, share causes.

        A group of a batch is `size` different members of one of them; of all of them equally often if `balanced`, else
        as often as an observation belongs to them. Those with fewer members are left out.

        >>> view = Groups.of(torch.arange(6.0)[:, None], ["a", "a", "b", "b", "b", "c"])
        >>> view.batch(4, torch.Generator()).x.shape
        torch.Size([4, 2, 1])
        """
        rows, names = resident(x), np.asarray(group)
        if names.shape != (len(rows),):
            raise ValueError(f"group has an entry for each of the {len(rows)} observations, got shape {names.shape}.")
        _, of, many = np.unique(names, return_inverse=True, return_counts=True)
        enough = many >= size
        if size < 1 or not enough.any():
            raise ValueError(
                f"Groups of size={size} need as many observations of one group, the largest has {many.max()}. "
                "Choose a smaller size."
            )
        order = torch.from_numpy(np.argsort(of, kind="stable"))
        first = torch.from_numpy((np.cumsum(many) - many)[enough])
        count = torch.from_numpy(many[enough])
        share = torch.ones(len(count)) if balanced else count.float()

        def draw(n: int, rng: Generator) -> Tensor:
            g = torch.multinomial(share, n, replacement=True, generator=rng)
            return order[first[g, None] + distinct(count[g], size, rng)]

        return cls(
            shape=tuple(rows.shape[1:]),
            draw_=draw,
            observe=lambda ticket, rng: as_float(rows[ticket.flatten()]),
            origin=fingerprint(rows, name)
            | {"group": fingerprint(torch.from_numpy(of), "groups"), "size": size, "balanced": balanced},
            size=size,
        )


def distinct(count: Tensor, size: int, rng: Generator) -> Tensor:
    """(n, size): different numbers below each count."""
    drawn = torch.empty(len(count), size, dtype=torch.long)
    for i in range(size):  # Floyd (1987): the i-th of a sample without replacement, one number each
        top = count - size + i
        j = (torch.rand(len(count), generator=rng, dtype=torch.float64) * (top + 1)).long().clamp(max=top)
        drawn[:, i] = torch.where((drawn[:, :i] == j[:, None]).any(1), top, j)
    return drawn


@dataclass(frozen=True, kw_only=True)
class Labelled(View[Labels]):
    """Observations with labels, some of which may be missing, or wrong."""

    labels: tuple[Label, ...]
    label: Callable[[Tensor], Tensor] = field(repr=False)  #: rows of a ticket -> labels (B, L), NaN: missing

    @property
    def spec(self) -> Spec:
        return Spec(self.shape, labels=self.labels)

    def gather(self, ticket: Tensor, rng: Generator) -> Labels:
        return Labels(self.observe(ticket, rng), self.label(ticket))

    @classmethod
    def of(
        cls,
        x: Tensor | np.ndarray,
        u: Tensor | np.ndarray,
        *,
        names: Sequence[str] | None = None,
        classes: Sequence[str] | None = None,
        fraction: float | None = None,
        balanced: str | None = None,
        name: str = "arrays",
    ) -> Labelled:
        """Row i of `u`, (N,) or (N, L), has the labels of row i of `x`; NaN: missing.

        `classes` names the labels that are numbers of classes (None: all if `u` has whole numbers as its type, else
        none). `fraction` is the part of a batch that is drawn from rows with a label (None: as many as there are);
        `balanced` names a label whose classes come equally often among them.

        >>> view = Labelled.of(torch.zeros(4, 3), torch.tensor([0, 1, 1, 2]))
        >>> view.labels[0].classes, view.batch(2, torch.Generator()).u.shape
        ((0.0, 1.0, 2.0), torch.Size([2, 1]))
        """
        rows, given = resident(x), as_tensor(u)
        whole_numbers = not given.is_floating_point()
        v = given.to(torch.float32).reshape(len(given), -1)
        if len(v) != len(rows) or given.ndim > 2 or v.isinf().any() or v.isnan().all(0).any():
            raise ValueError(
                f"u has a finite label (or NaN) for each of the {len(rows)} observations, and at least one that is "
                f"not missing in every column, got shape {tuple(given.shape)}."
            )
        names = named("label", v.shape[1], names)
        chosen = (names if whole_numbers else ()) if classes is None else tuple(classes)
        for label in (*chosen, *([] if balanced is None else [balanced])):
            if label not in names:
                raise ValueError(values.unknown("label", label, names))
        known = ((label, column[~column.isnan()]) for label, column in zip(names, v.unbind(1), strict=True))
        labels = tuple(
            Label(label, float(c.min()), float(c.max()), tuple(c.unique().tolist()) if label in chosen else ())
            for label, c in known
        )
        weight = torch.ones(len(rows), dtype=torch.float64)
        has = ~v.isnan().all(1)
        if balanced is not None:
            if balanced not in chosen:
                raise ValueError(f"Only classes come equally often, and {balanced!r} is a number. Name it in classes.")
            index = labels[names.index(balanced)].position(v[:, names.index(balanced)])
            many = torch.bincount(index[index >= 0]).double()
            weight = torch.where(index >= 0, index.ge(0).sum() / len(many) / many[index.clamp(min=0)], weight)
        if fraction is not None:
            if not 0 < fraction <= 1:
                raise ValueError(f"fraction is the labelled part of a batch, above 0 and at most 1, got {fraction}.")
            if fraction < 1 and has.all():
                raise ValueError(f"All rows have labels, so fraction is 1, got {fraction}. Set some labels to NaN.")
            for mine, part in ((has, fraction), (~has, 1 - fraction)):
                weight = torch.where(mine, weight * part / weight[mine].sum().clamp(min=1e-300), weight)
        sums = weight.cumsum(0)

        def draw(n: int, rng: Generator) -> Tensor:
            at = torch.rand(n, generator=rng, dtype=torch.float64) * sums[-1]
            return torch.searchsorted(sums, at, right=True).clamp(max=len(rows) - 1)

        options = {"fraction": fraction, "balanced": balanced, "classes": list(chosen)}
        return cls(
            shape=tuple(rows.shape[1:]),
            draw_=draw,
            observe=lambda ticket, rng: as_float(rows[ticket]),
            origin=fingerprint(rows, name) | {"labels": fingerprint(v, "labels") | {"names": list(names)}} | options,
            whole=torch.arange(len(rows)),
            labels=labels,
            label=lambda ticket: v[ticket],
        )


def named(what: str, many: int, names: Sequence[str] | None) -> tuple[str, ...]:
    """The names given, or numbered ones."""
    found = tuple(f"{what} {k}" for k in range(1, many + 1)) if names is None else tuple(names)
    if len(found) != many or len(set(found)) != many:
        raise ValueError(f"{many} different names are needed, one for each {what}, got {', '.join(found) or 'none'}.")
    return found


Kind = Literal["do", "hard", "soft"]
Targets = int | Iterable[int] | None
CHUNK = 2**22  # numbers that `rows` makes at once


class Environment(NamedTuple):
    """Observations under one intervention, and what is told of it; None: not told."""

    x: Tensor
    targets: frozenset[int] | None = None  #: latents intervened on
    kind: Kind | None = None
    group: int | None = None  #: environments with the same number have the same targets, told or not
    value: float | None = None  #: what a do sets its targets to


class Regimes(NamedTuple):
    """Observations as nature gives them, and under interventions; rows of different environments are not paired."""

    observational: Tensor
    interventional: tuple[Environment, ...]


@dataclass(frozen=True, kw_only=True)
class Environments(View[Regimes]):
    """One causal system, observed and under interventions.

    A batch of n has n observations of each environment. Column e of a ticket belongs to environment e, the
    observational one being 0. `told` says what is known of the interventional ones, without their observations.
    """

    told: tuple[Environment, ...]  #: x is empty
    names: tuple[str, ...]  #: of the interventional environments, for reports
    control: str = "observational"  #: name of the observational one
    blocks: tuple[Tensor, ...] | None = field(default=None, repr=False)  #: all rows, observational first, if finite

    @property
    def spec(self) -> Spec:
        return Spec(self.shape, environments=len(self.told))

    def regimes(self, x: Iterable[Tensor]) -> Regimes:
        first, *rest = x
        return Regimes(first, tuple(about._replace(x=own) for about, own in zip(self.told, rest, strict=True)))

    def gather(self, ticket: Tensor, rng: Generator) -> Regimes:
        return self.regimes(self.observe(column, rng) for column in ticket.unbind(1))

    def take(self, n: int, rng: Generator) -> Regimes:
        """All rows of an environment that has at most n (without a copy, unless uint8), else n of them."""
        if self.blocks is None:
            return self.batch(n, rng)
        return self.regimes(
            as_float(rows if len(rows) <= n else rows[torch.randperm(len(rows), generator=rng)[:n]])
            for rows in self.blocks
        )

    def rows(self, e: int, n: int, rng: Generator) -> Iterator[Tensor]:
        """At most n rows of environment e (0: observational), in chunks, for what is too large to be held at once."""
        size = max(1, CHUNK // int(np.prod(self.shape)))
        if self.blocks is not None:
            yield from (as_float(rows) for rows in self.blocks[e][:n].split(size))
            return
        for start in range(0, n, size):
            yield self.observe(self.draw(min(size, n - start), rng)[:, e], rng)

    def pooled(self) -> Singles:
        """The observations of all environments, and no word on which one they are from: each equally often, or if
        they are finite as often as they are."""
        if self.blocks is not None:
            many = sum(map(len, self.blocks))
            return Singles(
                shape=self.shape,
                draw_=lambda n, rng: torch.randint(many, (n,), generator=rng),
                observe=self.observe,
                origin=self.origin,
                whole=torch.arange(many),
            )

        def draw(n: int, rng: Generator) -> Tensor:
            tickets = self.draw(n, rng)
            return tickets[torch.arange(n), torch.randint(tickets.shape[1], (n,), generator=rng)]

        return Singles(shape=self.shape, draw_=draw, observe=self.observe, origin=self.origin)

    @classmethod
    def of(
        cls,
        observational: Tensor | np.ndarray,
        interventional: Sequence[Tensor | np.ndarray],
        *,
        targets: Sequence[Targets] | None = None,
        kinds: Kind | Sequence[Kind | None] | None = None,
        groups: Sequence[int | None] | None = None,
        names: Sequence[str] | None = None,
        control: str = "observational",
        name: str = "arrays",
    ) -> Environments:
        """An array for each environment, of different lengths if need be, kept resident as they are.

        What is not told is None: `targets` (a number or several for each environment), `kinds` (one for all, or one
        for each) and `groups` (equal numbers: the same targets).

        >>> import torch
        >>> view = Environments.of(torch.zeros(9, 3), [torch.ones(4, 3), torch.ones(5, 3)], targets=[0, {0, 1}])
        >>> view.batch(2, torch.Generator()).interventional[1].targets
        frozenset({0, 1})
        """
        m = len(interventional)
        if not m:
            raise ValueError("Environments need at least one under intervention, got none. Singles.of takes one array.")
        names = tuple(f"environment {e}" for e in range(1, m + 1)) if names is None else tuple(names)
        told = abouts(m, targets, kinds, groups)
        if len(names) != m or len({control, *names}) != m + 1:
            raise ValueError(f"Environments need {m} names, all different and not {control!r}, got {', '.join(names)}.")
        blocks = tuple(resident(x) for x in (observational, *interventional))
        for label, rows in zip(names, blocks[1:], strict=True):
            if rows.shape[1:] != blocks[0].shape[1:] or rows.dtype != blocks[0].dtype:
                raise ValueError(
                    "Environments need observations of one shape and type (only uint8 is scaled to [0, 1]), got "
                    f"{tuple(blocks[0].shape[1:])} {blocks[0].dtype} in {control!r} and {tuple(rows.shape[1:])} "
                    f"{rows.dtype} in {label!r}."
                )
        stack = Stack(blocks)
        described = {
            "view": name,
            "environments": {
                label: about(rows, label_told)
                for label, rows, label_told in zip((control, *names), blocks, (None, *told), strict=True)
            },
        }
        return cls(
            shape=tuple(blocks[0].shape[1:]),
            draw_=stack.draw,
            observe=stack.observe,
            origin=described,
            told=told,
            names=names,
            control=control,
            blocks=blocks,
        )

    @classmethod
    def read(
        cls,
        path: str | Path,
        environment: str = "perturbation",
        control: str = "ctrl",
        *,
        columns: tuple[str, ...] | None = None,
        ignore: tuple[str, ...] = (),
        only: tuple[str, ...] = (),
        skip: tuple[str, ...] = (),
        least: int = 30,
    ) -> Environments:
        """A table, .csv, .tsv or .parquet: a row an observation, a column of environment labels, else numbers.

        Rows labelled `control` are the observational environment. Targets are not told. `columns` chooses among the
        columns of numbers, or `ignore` leaves some out; `only` chooses among the environments beside the control, or
        `skip` leaves some out; `least` is how many rows one must have. A first column without a name numbers the rows
        and is left out.
        """
        from whence.tables import read_table

        labels, x = read_table(Path(path), environment, columns, ignore)
        where = f"the column {environment!r}", f" of {str(path)!r}"
        names = chosen_labels(Counter(labels.tolist()), control, only, skip, least, where)
        view = cls.of(
            x[labels == control], [x[labels == label] for label in names], names=names, control=control, name=str(path)
        )
        asked = {"columns": columns, "ignore": ignore, "only": only, "skip": skip}
        how = {"environment": environment, "control": control, **{k: list(v) for k, v in asked.items() if v}}
        return replace(view, origin={**view.origin, "read": how})

    @classmethod
    def pictures(
        cls,
        folder: str | Path,
        control: str = "ctrl",
        *,
        environment: str = "environment",
        labels: str = "environments.csv",
        size: int | None = None,
        fit: Literal["crop", "stretch"] = "crop",
        mode: Literal["RGB", "L"] = "RGB",
        only: tuple[str, ...] = (),
        skip: tuple[str, ...] = (),
        least: int = 30,
    ) -> Environments:
        """A folder of pictures with a file of labels: columns file and environment, and targets, kind and group of an
        environment where somebody knows them. Without that file, folders of the folder are the environments.

        Pictures labelled `control` are the observational environment. All are held as uint8, at `size` pixels a side:
        the middle is cut out (`fit="crop"`), or they are stretched; without a size they have to be of one. `only`,
        `skip` and `least` are those of `read`. `whence data check FOLDER` says what is there and what is missing.
        """
        from whence.folders import read_labels, read_pictures

        found = read_labels(Path(folder), environment, labels)
        many = {label: len(files) for label, files in found.files.items()}
        names = chosen_labels(many, control, only, skip, least, (f"{str(folder)!r}", ""), "pictures")
        if absent := [n for n in found.absent() if any(n in found.files[label] for label in (control, *names))]:
            listed = ", ".join(absent[:3]) + (f" and {len(absent) - 3} more" if len(absent) > 3 else "")
            raise FileNotFoundError(
                f"{str(folder)!r} has labels of pictures that are not there: {listed}. Bring them, or take out their "
                "lines."
            )
        files = [found.files[label] for label in (control, *names)]
        rows = read_pictures(found.folder, [n for own in files for n in own], size=size, fit=fit, mode=mode)
        blocks = torch.from_numpy(rows).split([len(own) for own in files])
        told = [found.told.get(label) for label in names]
        view = cls.of(
            blocks[0],
            blocks[1:],
            targets=[about and about.targets for about in told],
            kinds=[about and about.kind for about in told],  # type: ignore[misc]
            groups=[about and about.group for about in told],
            names=names,
            control=control,
            name=str(folder),
        )
        options = {"environment": environment, "labels": labels, "size": size, "fit": fit, "mode": mode}
        asked = {k: list(v) for k, v in {"only": only, "skip": skip}.items() if v}
        return replace(view, origin={**view.origin, "pictures": {"control": control, **options, **asked}})


def chosen_labels(
    many: Mapping[str, int],
    control: str,
    only: Sequence[str],
    skip: Sequence[str],
    least: int,
    where: tuple[str, str],
    noun: str = "rows",
) -> list[str]:
    """The environments beside the control that are asked for, of those that are there with so many observations."""
    for label in (control, *only, *skip):
        if label not in many:
            raise ValueError(f"In {where[0]}: {values.unknown('label', label, many)}")
    names = [label for label in many if label != control and label not in skip and (not only or label in only)]
    if not names:
        raise ValueError(
            f"Environments need at least one beside {control!r}, got none in {''.join(where)}. Give {noun} under "
            "interventions, each with its label."
        )
    if few := {label: many[label] for label in (control, *names) if many[label] < least}:
        listed = ", ".join(f"{label} ({n})" for label, n in few.items())
        raise ValueError(
            f"An environment needs at least {least} {noun}, got fewer in {listed}. "
            f"Leave them out (skip), or ask for fewer (least)."
        )
    return names


def abouts(
    m: int,
    targets: Sequence[Targets] | None,
    kinds: Kind | Sequence[Kind | None] | None,
    groups: Sequence[int | None] | None,
) -> tuple[Environment, ...]:
    """What is told of m environments."""
    told: dict[str, Sequence] = {
        "targets": [None] * m if targets is None else targets,
        "kinds": [kinds] * m if kinds is None or isinstance(kinds, str) else kinds,
        "groups": [None] * m if groups is None else groups,
    }
    for what, given in told.items():
        if len(given) != m:
            raise ValueError(f"{what} has one entry for each of the {m} interventional environments, got {len(given)}.")
    for kind in told["kinds"]:
        if kind not in (None, *get_args(Kind)):
            raise ValueError(values.unknown("kind of intervention", str(kind), get_args(Kind)))
    sets = [None if t is None else frozenset([t] if isinstance(t, int) else map(int, t)) for t in told["targets"]]
    if any(t is not None and min(t, default=0) < 0 for t in sets):
        raise ValueError(f"Targets are numbers of latents from 0 on, got {list(told['targets'])}.")
    nothing = torch.empty(0)
    return tuple(Environment(nothing, *about) for about in zip(sets, told["kinds"], told["groups"], strict=True))


def about(rows: Tensor, told: Environment | None) -> dict[str, Any]:
    """An environment in the record of a run."""
    known = {} if told is None else {"targets": told.targets and sorted(told.targets), "kind": told.kind}
    group = {} if told is None or told.group is None else {"group": told.group}
    return {**fingerprint(rows, "rows"), **{k: v for k, v in known.items() if v is not None}, **group}


class Stack(NamedTuple):
    """Arrays of different lengths, their rows numbered through."""

    blocks: tuple[Tensor, ...]

    @property
    def starts(self) -> list[int]:
        return list(accumulate((len(rows) for rows in self.blocks), initial=0))

    def draw(self, n: int, rng: Generator) -> Tensor:
        columns = [
            start + torch.randint(len(rows), (n,), generator=rng)
            for start, rows in zip(self.starts, self.blocks, strict=False)
        ]
        return torch.stack(columns, 1)

    def observe(self, numbers: Tensor, rng: Generator) -> Tensor:
        """Rows by their numbers; those of a column of a ticket are of one array, and are gathered there."""
        if not len(numbers):
            return as_float(self.blocks[0][:0])
        first, last = (bisect_right(self.starts, int(end)) - 1 for end in (numbers.min(), numbers.max()))
        if first == last:
            return as_float(self.blocks[first][numbers - self.starts[first]])
        out = self.blocks[0].new_empty(len(numbers), *self.blocks[0].shape[1:])
        for start, rows in zip(self.starts, self.blocks, strict=False):
            mine = (numbers >= start) & (numbers < start + len(rows))
            out[mine] = rows[numbers[mine] - start]
        return as_float(out)


def resident(x: Tensor | np.ndarray) -> Tensor:
    """Rows to keep in memory: checked, and copied only when the type must change."""
    rows = as_tensor(x)
    if rows.ndim < 2 or not len(rows):
        raise ValueError(
            f"Observations need a first axis of items and at least one of values, got shape {tuple(rows.shape)}. "
            "Reshape a single observation to (1, ...)."
        )
    if rows.dtype == torch.uint8:
        return rows
    rows = rows.to(torch.float32)
    if not torch.isfinite(rows).all():
        bad = int((~torch.isfinite(rows.flatten(1))).any(1).sum())
        raise ValueError(
            f"Observations must be finite, got NaN or infinity in {bad} of {len(rows)} rows. Drop or impute them."
        )
    return rows


def as_tensor(x: Tensor | np.ndarray) -> Tensor:
    """Without a copy where torch can share the memory: it cannot share what is read-only."""
    return torch.as_tensor(x.copy() if isinstance(x, np.ndarray) and not x.flags.writeable else x)


def as_float(x: Tensor) -> Tensor:
    """uint8 becomes [0, 1]; floats pass."""
    return x.to(torch.float32).div_(255) if x.dtype == torch.uint8 else x


def fingerprint(rows: Tensor, name: str) -> dict[str, Any]:
    """Enough of an array to recognise it again: a resumed run must see the same data."""
    import hashlib

    digest = hashlib.sha256(rows.contiguous().cpu().numpy()).hexdigest()[:16]  # type: ignore[arg-type]
    return {"view": name, "shape": list(rows.shape), "dtype": str(rows.dtype).removeprefix("torch."), "sha256": digest}
