"""World and Factor: observations with known causes. Only worlds know the truth; learners get views."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from torch import Generator, Tensor

from whence import values
from whence.evidence import Reference
from whence.scm import SCM
from whence.views import Environment, Environments, Groups, Label, Labelled, Pairs, Singles, View
from whence.worlds.design import Design, Told

Kind = Literal["categorical", "ordinal", "circular", "continuous"]


@dataclass(frozen=True)
class Factor:
    """A cause: its name, its kind, and the values it takes (a grid, or a range if continuous)."""

    name: str
    kind: Kind
    values: tuple[float, ...]  #: every value of a discrete factor; (low, high) of a continuous one

    @property
    def size(self) -> int | None:
        """How many values there are; None if continuous."""
        return None if self.kind == "continuous" else len(self.values)

    def draw(self, n: int, rng: Generator) -> Tensor:
        """Uniform over the values or the range."""
        if self.size is None:
            low, high = self.values
            return low + (high - low) * torch.rand(n, generator=rng)
        return torch.tensor(self.values)[torch.randint(self.size, (n,), generator=rng)]

    def index(self, v: Tensor) -> Tensor:
        """The position of each value in the grid (the nearest one)."""
        if self.size is None:
            raise TypeError(f"Factor {self.name!r} is continuous and has no grid to index. Bin its values first.")
        grid, v = torch.tensor(self.values, device=v.device), v.to(torch.float32)
        right = torch.searchsorted(grid, v.contiguous()).clamp(1, max(self.size - 1, 1))
        if self.size == 1:
            return torch.zeros_like(right)
        return torch.where(v - grid[right - 1] <= grid[right] - v, right - 1, right)


#: Factors set from outside: name or position -> one value, or one for each observation.
Do = Mapping[str | int, float | Tensor]


class World(ABC):
    """Observations x = g(v) of known factors v.

    Factor values are in their own units, float32, shape (B, K). A world is a frozen dataclass of its options, so a
    run can record it and build it again. Factors are independent and uniform, unless the world has an `scm`.
    """

    reference: ClassVar[Reference | None] = None  #: where the world was published

    @property
    @abstractmethod
    def factors(self) -> tuple[Factor, ...]: ...

    @property
    @abstractmethod
    def shape(self) -> tuple[int, ...]:
        """Of one observation; images are (channels, height, width)."""

    @abstractmethod
    def observe(self, v: Tensor, rng: Generator | None = None) -> Tensor:
        """(B, K) -> (B, *shape), float in [0, 1] for images. `rng` feeds nuisance noise, where a world has some."""

    @property
    def scm(self) -> SCM | None:
        """How the factors cause each other, its nodes in the order of `factors`; None if they are independent."""
        return None

    @property
    def graph(self) -> Tensor | None:
        """(K, K) bool, A[i, j]: factor i causes factor j; None if the world has no causal structure."""
        return None if self.scm is None else self.scm.graph

    # --- drawing -------------------------------------------------------------------------------------------------

    def draw(self, n: int, *, rng: Generator, do: Do | None = None) -> Tensor:
        """n rows of factor values, some set from outside by `do`; with an `scm`, their effects follow."""
        if self.scm is not None:
            return self.scm.sample(n, do=do, rng=rng).to(torch.float32)
        v = torch.stack([factor.draw(n, rng) for factor in self.factors], dim=1)
        for name, value in (do or {}).items():
            v[:, self.position(name)] = torch.as_tensor(value, dtype=v.dtype)
        return v

    def counterfactual(self, v: Tensor, do: Do) -> Tensor:
        """What the factors would have been, had some been set otherwise: abduct, act, predict. Exact."""
        if self.scm is not None:
            return self.scm.counterfactual(v.double(), do).to(v.dtype)
        out = v.clone()
        for name, value in do.items():
            out[:, self.position(name)] = torch.as_tensor(value, dtype=v.dtype)
        return out

    def index(self, v: Tensor) -> Tensor:
        """Factor values -> positions in each factor's grid, long."""
        return torch.stack([factor.index(v[:, k]) for k, factor in enumerate(self.factors)], dim=1)

    def labels(self, v: Tensor) -> Tensor:
        """What metrics compare codes with: grid positions if every factor is discrete, else the values."""
        return self.index(v) if all(factor.size for factor in self.factors) else v

    def position(self, name: str | int) -> int:
        """Column of a factor by its name (the nearest name is suggested) or position."""
        if isinstance(name, int):
            if not 0 <= name < len(self.factors):
                raise IndexError(f"Factors are numbered 0 to {len(self.factors) - 1}, got {name}.")
            return name
        names = [factor.name for factor in self.factors]
        if name not in names:
            raise KeyError(values.unknown("factor", name, names))
        return names.index(name)

    # --- views ---------------------------------------------------------------------------------------------------

    def view(self, kind: type[View], /, **options: Any) -> View:
        """The view a method needs, with its defaults but for the options given."""
        offers: dict[type[View], Callable[..., View]] = {
            Singles: self.singles,
            Pairs: self.pairs,
            Groups: self.groups,
            Labelled: self.labelled,
        }
        if self.scm is not None:
            offers[Environments] = self.environments
        if kind not in offers:
            names = ", ".join(offered.__name__ for offered in offers)
            raise TypeError(f"{type(self).__name__} offers {names}, not {kind.__name__}.")
        return offers[kind](**options)

    def singles(self) -> Singles:
        """Independent observations."""
        return Singles(
            shape=self.shape,
            draw_=lambda n, rng: self.draw(n, rng=rng),
            observe=self.observe,
            origin={"world": values.describe(self), "view": "singles"},
        )

    def pairs(self, *, changing: int | tuple[str, ...] | None = None, told: bool = False) -> Pairs:
        """Two observations that share all factors but `changing`: so many of them, drawn for each pair (None: between
        1 and K - 1), or those that are named. `told`: which ones were drawn anew.

        Changed factors are drawn anew, so they may coincide by chance, as in Locatello et al. (2020).
        """
        k = len(self.factors)
        if isinstance(changing, int) and not 1 <= changing <= k:
            raise ValueError(f"Pairs of this world change between 1 and {k} factors, got changing={changing}.")
        draw_changed = self.some(changing, "changing")

        def draw(n: int, rng: Generator) -> Tensor:
            v, fresh = self.draw(2 * n, rng=rng).chunk(2)
            changed = draw_changed(n, rng)
            halves = torch.cat([v, torch.where(changed, fresh, v)], dim=1)
            return torch.cat([halves, changed.to(v.dtype)], 1) if told else halves

        options = {"changing": names(changing), **({"told": True} if told else {})}
        return Pairs(
            shape=self.shape,
            draw_=draw,
            observe=self.observe,
            origin={"world": values.describe(self), "view": "pairs", **options},
            told=tuple(f.name for f in self.factors) if told else (),
        )

    def groups(
        self,
        *,
        shared: int | tuple[str, ...] | None = None,
        size: int = 2,
        told: bool = False,
        balanced: bool = False,
    ) -> Groups:
        """Groups of `size` observations that share factors and differ in the others: so many of them, drawn for each
        group (below 0: all but so many), or those that are named (None: the first factor). `told`: which ones are
        shared. `balanced`: the values of the one shared factor come equally often in a batch.

        With causal structure, shared factors are set, by an intervention, to values that nature gave another draw.
        """
        k = len(self.factors)
        shared = (self.factors[0].name,) if shared is None else shared
        if size < 1:
            raise ValueError(f"A group has one observation or more, got size={size}.")
        if isinstance(shared, int):
            shared = k + shared if shared < 0 else shared
            if not 1 <= shared <= k:
                raise ValueError(f"Groups of this world share between 1 and {k} factors, got shared={shared}.")
        fixed = [] if isinstance(shared, int) else [self.position(name) for name in shared]
        if balanced and (len(fixed) != 1 or self.factors[fixed[0]].size is None):
            raise ValueError(
                "Values come equally often if there is a grid of them and one factor is shared, by name: "
                "shared=('shape',), balanced=True."
            )
        draw_shared = self.some(shared, "shared")

        def draw(n: int, rng: Generator) -> Tensor:
            common = self.draw(n, rng=rng)
            if balanced:
                grid = torch.tensor(self.factors[fixed[0]].values)
                common[:, fixed[0]] = grid[(torch.arange(n) % len(grid))[torch.randperm(n, generator=rng)]]
            mask = draw_shared(n, rng)
            same, held = common.repeat_interleave(size, 0), mask.repeat_interleave(size, 0)
            if self.scm is None:
                v = torch.where(held, same, self.draw(n * size, rng=rng))
            else:
                v = torch.empty_like(same)
                for which in mask.unique(dim=0):
                    rows = (held == which).all(1)
                    do: Do = {i: same[rows, i] for i in which.nonzero()[:, 0].tolist()}
                    v[rows] = self.draw(int(rows.sum()), rng=rng, do=do)
            members = v.reshape(n, size * k)
            return torch.cat([members, mask.to(v.dtype)], 1) if told else members

        options = {"shared": names(shared), "size": size, "told": told, "balanced": balanced}
        return Groups(
            shape=self.shape,
            draw_=draw,
            observe=self.observe,
            origin={"world": values.describe(self), "view": "groups", **options},
            size=size,
            told=tuple(f.name for f in self.factors) if told else (),
        )

    def some(self, which: int | tuple[str, ...] | None, option: str) -> Callable[[int, Generator], Tensor]:
        """Draws of which factors: (n, rng) -> (n, K) bool."""
        k = len(self.factors)
        if isinstance(which, tuple | list):
            if not which:
                raise ValueError(f"{option} names at least one factor, got none.")
            mask = torch.zeros(k, dtype=torch.bool)
            mask[[self.position(name) for name in which]] = True
            return lambda n, rng: mask.repeat(n, 1)

        def draw(n: int, rng: Generator) -> Tensor:
            many = torch.randint(1, max(k, 2), (n, 1), generator=rng) if which is None else which
            rank = torch.rand(n, k, generator=rng).argsort(1).argsort(1)
            return rank < many

        return draw

    def labelled(
        self,
        *,
        of: tuple[str, ...] = (),
        fraction: float = 1.0,
        examples: int | None = None,
        noise: float = 0.0,
        balanced: str | None = None,
        seed: int = 0,
    ) -> Labelled:
        """Observations and the factors named in `of` as their labels (none: all of them).

        A row of a batch is labelled with probability `fraction`. Labelled rows are drawn anew for ever, or from
        `examples` of them that `seed` drew once. `noise`: a class is another one with this probability, a number moves
        by normal noise of this part of its range; of `examples` once and for all. `balanced`: values of this factor
        come equally often among the labelled rows; its effects follow, as under an intervention.
        """
        columns = [self.position(name) for name in (of or [f.name for f in self.factors])]
        chosen = [self.factors[i] for i in columns]
        even = None if balanced is None else self.position(balanced)
        if not 0 < fraction <= 1:
            raise ValueError(f"fraction is the labelled part of a batch, above 0 and at most 1, got {fraction}.")
        if not 0 <= noise <= 1:
            raise ValueError(
                f"noise is a probability of a wrong class, and a part of a range, from 0 to 1, got {noise}."
            )
        if examples is not None and examples < 1:
            raise ValueError(f"examples is how many labelled observations there are, at least 1, got {examples}.")
        if even is not None and self.factors[even].size is None:
            raise ValueError(f"Factor {balanced!r} is continuous: it has no values that could come equally often.")

        def labelled_rows(n: int, rng: Generator) -> Tensor:
            do: Do | None = None
            if even is not None:
                grid = torch.tensor(self.factors[even].values)
                do = {even: grid[(torch.arange(n) % len(grid))[torch.randperm(n, generator=rng)]]}
            v = self.draw(n, rng=rng, do=do)
            return torch.cat([v, disturbed(v[:, columns], chosen, noise, rng)], 1)

        pool = None if examples is None else labelled_rows(examples, Generator().manual_seed(seed))

        def draw(n: int, rng: Generator) -> Tensor:
            rows = labelled_rows(n, rng) if pool is None else pool[torch.randint(len(pool), (n,), generator=rng)]
            if fraction == 1:
                return rows
            free = torch.cat([self.draw(n, rng=rng), torch.full((n, len(columns)), torch.nan)], 1)
            return torch.where(torch.rand(n, 1, generator=rng) < fraction, rows, free)

        k = len(self.factors)
        options = {"fraction": fraction, "examples": examples, "noise": noise, "balanced": balanced, "seed": seed}
        return Labelled(
            shape=self.shape,
            draw_=draw,
            observe=lambda ticket, rng: self.observe(ticket[:, :k], rng),
            origin={"world": values.describe(self), "view": "labelled", "of": list(of), **options},
            labels=tuple(as_label(factor) for factor in chosen),
            label=lambda ticket: ticket[:, k:],
        )

    def environments(
        self,
        *,
        kind: Literal["hard", "soft", "do"] = "hard",
        per_node: int = 1,
        scale: float | tuple[float, float] = 0.25,
        change: Literal["scale", "increase"] = "scale",
        shift: float = 0.0,
        gain: float = 0.5,
        targets: Told = "known",
        points: tuple[float, ...] = (),
        multi_node: bool = False,
        shuffle: bool = False,
        seed: int = 0,
    ) -> Environments:
        """The world as it is, and under interventions on its causes; `Design` says what the options mean."""
        if self.scm is None:
            raise TypeError(
                f"{type(self).__name__} has no structural causal model to intervene on, so it has no environments. "
                "Use a world with one, such as Mixed, or Environments.of(...) with arrays."
            )
        options = {
            "kind": kind,
            "per_node": per_node,
            "scale": scale,
            "change": change,
            **({"shift": shift} if shift else {}),
            "gain": gain,
            "targets": targets,
            **({"points": points} if points else {}),
            "multi_node": multi_node,
            "shuffle": shuffle,
            "seed": seed,
        }
        design, scm = Design(**options), self.scm  # type: ignore[arg-type]
        dos, nothing = [None, *design.dos(scm)], torch.empty(0)
        return Environments(
            shape=self.shape,
            draw_=lambda n, rng: scm.sample_environments(n, dos, rng=rng).transpose(0, 1).to(torch.float32),
            observe=self.observe,
            origin={"world": values.describe(self), "view": "environments", **options},
            told=tuple(
                Environment(
                    nothing,
                    nodes if targets == "known" else None,
                    kind,
                    group,
                    value if kind == "do" and targets == "known" else None,
                )
                for (nodes, value), group in zip(design.environments(len(scm)), design.groups(len(scm)), strict=True)
            ),
            names=tuple(design.names(scm)),
        )


def names(which: int | tuple[str, ...] | None) -> int | list[str] | None:
    """As a run records it."""
    return list(which) if isinstance(which, tuple | list) else which


def as_label(factor: Factor) -> Label:
    """A factor as a label: categories are classes, all else are numbers of a range."""
    classes = tuple(sorted(factor.values)) if factor.kind == "categorical" else ()
    return Label(factor.name, min(factor.values), max(factor.values), classes)


def disturbed(u: Tensor, factors: Sequence[Factor], noise: float, rng: Generator) -> Tensor:
    """Labels, some of them wrong."""
    if not noise:
        return u
    columns = []
    for column, factor in zip(u.unbind(1), factors, strict=True):
        if factor.kind == "categorical":
            wrong = torch.rand(len(u), generator=rng) < noise
            step = torch.randint(1, max(len(factor.values), 2), (len(u),), generator=rng)
            other = torch.tensor(factor.values)[(factor.index(column) + step) % len(factor.values)]
            columns.append(torch.where(wrong, other, column))
        else:
            spread = noise * (max(factor.values) - min(factor.values))
            columns.append(column + spread * torch.randn(len(u), generator=rng))
    return torch.stack(columns, 1)


@dataclass(frozen=True)
class Grid:
    """The product of discrete factors, numbered in the order of the published files: the last factor varies fastest.

    >>> grid = Grid((2, 3))
    >>> grid.number(torch.tensor([[1, 2]])).item(), grid.unravel(torch.tensor([5])).tolist()
    (5, [[1, 2]])
    """

    sizes: tuple[int, ...]

    @property
    def strides(self) -> tuple[int, ...]:
        return tuple(math.prod(self.sizes[k + 1 :]) for k in range(len(self.sizes)))

    def __len__(self) -> int:
        return math.prod(self.sizes)

    def number(self, index: Tensor) -> Tensor:
        return (index * torch.tensor(self.strides)).sum(1)

    def unravel(self, number: Tensor) -> Tensor:
        return number[:, None] // torch.tensor(self.strides) % torch.tensor(self.sizes)
