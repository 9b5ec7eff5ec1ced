"""Concepts: labels as latents with names, which are read, set and decoded. What causal methods with labels share.

A label u in its own units is anchored as :math:`a = (u - m) / h`, with m the middle and h half of its range, so that a
range is [-1, 1] for every concept.
"""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Generator, Tensor

from whence import values
from whence.methods._method import Gradient
from whence.representation import CHUNK, Representation, as_given
from whence.scm import from_edges
from whence.views import Label, Labelled, Spec, View, as_float, as_tensor

ARROW = "->"
LOOKED = 512  #: labels looked at before learning begins
LABEL = "Name some: world.labelled(of=...), or Labelled.of(x, u, names=...)."
BEYOND = 1.25  #: in halves of the range: labels further from its middle are told of

#: Concepts set from outside: name or position -> a value in the label's units, or one for each observation.
Do = Mapping[str | int, Any]


class Extrapolation(UserWarning):
    """A concept was set to a value that was not seen in learning."""


# --- labels and graphs -----------------------------------------------------------------------------------------------


def middle_and_half(labels: Sequence[Label]) -> tuple[Tensor, Tensor]:
    """Of every label's range."""
    low, high = (torch.tensor([getattr(label, end) for label in labels]) for end in ("low", "high"))
    return (low + high) / 2, (high - low) / 2


def anchored(u: Tensor, labels: Sequence[Label]) -> Tensor:
    """Labels (..., L) in their own units -> anchors; what is missing stays NaN.

    >>> anchored(torch.tensor([[60.0, 5.0], [147.0, torch.nan]]), [Label("light", 60, 147), Label("size", 0, 10)])
    tensor([[-1.,  0.],
            [ 1., nan]])
    """
    middle, half = (t.to(u) for t in middle_and_half(labels))
    return (u - middle) / half


def in_units(a: Tensor, labels: Sequence[Label]) -> Tensor:
    """The inverse of `anchored`."""
    middle, half = (t.to(a) for t in middle_and_half(labels))
    return middle + half * a


def known_mean(terms: Tensor, known: Tensor) -> Tensor:
    """Terms (B, L) of labels: the mean over the rows that have the label, summed over labels; 0 where none has it."""
    return (terms.where(known, torch.zeros_like(terms)).sum(0) / known.sum(0).clamp(min=1)).sum()


def graph_of(edges: Sequence[str], names: Sequence[str]) -> Tensor:
    """Edges such as "light->shadow" as a matrix, A[i, j]: i causes j; a wrong name or a cycle is refused.

    >>> graph_of(("rain->wet",), ("rain", "wet")).int().tolist()
    [[0, 1], [0, 0]]
    """
    pairs = []
    for edge in edges:
        cause, arrow, effect = edge.partition(ARROW)
        if not (arrow and cause.strip() and effect.strip()):
            raise ValueError(f"An edge is written cause{ARROW}effect with the labels' names, got {edge!r}.")
        pairs.append((cause.strip(), effect.strip()))
    return from_edges(pairs, list(names))


# --- what fitting returns --------------------------------------------------------------------------------------------


class ConceptCode(Representation):
    """Codes of concepts with names. `do` encodes, abducts what is exogenous, sets concepts, and decodes the effects."""

    def __init__(self, spec: Spec, dims: int, graph: Tensor) -> None:
        super().__init__(spec, dims)
        self.register_buffer("confidence", graph.to(torch.float32))
        self.confidence: Tensor

    # --- what a method says of its codes --------------------------------------------------------------------------

    @abstractmethod
    def abduct(self, x: Tensor) -> Tensor:
        """Observations -> what is exogenous of each, (B, ...)."""

    @abstractmethod
    def predict(self, e: Tensor, do: Mapping[int, Tensor]) -> Tensor:
        """What is exogenous, and concepts set to anchors (B,) -> codes (B, dims), effects following their causes."""

    @abstractmethod
    def values(self, z: Tensor) -> Tensor:
        """Codes -> the concepts' anchors (B, L)."""

    @abstractmethod
    def picture(self, z: Tensor) -> Tensor:
        """Codes -> the expected observation."""

    @abstractmethod
    def noise(self, n: int, rng: Generator) -> Tensor:
        """n draws of what is exogenous."""

    # --- what everybody can ask -----------------------------------------------------------------------------------

    @property
    def labels(self) -> tuple[Label, ...]:
        return self.spec.labels

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(label.name for label in self.labels)

    @property
    def graph(self) -> Tensor:
        """(L, L): confidence that concept i causes concept j; above one half it is an edge."""
        return self.confidence

    def codes(self, x: Tensor) -> Tensor:
        return self.predict(self.abduct(x), {})

    @as_given
    def decode(self, z: Tensor) -> Tensor:
        """(N, dims) -> (N, *shape)."""
        return self.picture(z)

    @as_given
    def read(self, x: Tensor) -> Tensor:
        """(N, *shape) -> (N, L): the concepts that are seen in observations, in the labels' units."""
        self.check(x)
        return in_units(self.values(self.codes(x)), self.labels)

    @as_given
    def concepts(self, z: Tensor) -> Tensor:
        """(N, dims) -> (N, L): the concepts of codes, in the labels' units."""
        return in_units(self.values(z), self.labels)

    def position(self, name: str | int) -> int:
        """A concept's number, by its name (the nearest name is suggested) or number."""
        if isinstance(name, str):
            if name not in self.names:
                raise KeyError(values.unknown("concept", name, self.names))
            return self.names.index(name)
        if not 0 <= name < len(self.names):
            raise IndexError(f"Concepts are numbered 0 to {len(self.names) - 1}, got {name}.")
        return int(name)

    def acted(self, do: Do | None, n: int) -> dict[int, Tensor]:
        """What is set, as anchors (n,), by number; checked against the ranges that were seen."""
        found: dict[int, Tensor] = {}
        for name, value in (do or {}).items():
            i = self.position(name)
            label = self.labels[i]
            if i in found:
                raise ValueError(f"Concept {label.name!r} is set twice, by name and by number.")
            given = torch.as_tensor(np.asarray(value) if not isinstance(value, Tensor) else value)
            u = given.detach().to("cpu", torch.float32)
            if u.ndim > 1 or (u.ndim == 1 and len(u) != n) or not torch.isfinite(u).all():
                raise ValueError(
                    f"{label.name!r} is set to a finite number, or to one for each of the {n} observations, got shape "
                    f"{tuple(u.shape)}. For several values of one observation use grid."
                )
            outside = (u < label.low) | (u > label.high)
            if outside.any():
                worst = float(u.reshape(-1)[outside.reshape(-1)][0])
                warnings.warn(
                    f"do({label.name} = {worst:g}) lies outside of what was seen in learning, {label.low:g} to "
                    f"{label.high:g}: the picture is an extrapolation.",
                    Extrapolation,
                    stacklevel=3,
                )
            middle, half = (label.low + label.high) / 2, (label.high - label.low) / 2
            found[i] = ((u - middle) / half).expand(n)
        return found

    def do(self, x: Tensor | np.ndarray, do: Do) -> Any:
        """What x would have been, had concepts been set otherwise: `do(x, {"light": 90})`, in the label's own units.

        NumPy in, NumPy out. Effects of what is set follow, everything else stays. Several concepts can be set at once,
        each to one value or to one for each observation.
        """
        given = as_tensor(x)
        whole = as_float(given) if given.dtype == torch.uint8 else given.to(torch.float32)
        self.check(whole)
        acted = self.acted(do, len(whole))
        out = []
        with torch.no_grad():
            for at in torch.arange(len(whole)).split(CHUNK):
                part = whole[at].to(self.confidence.device)
                set_ = {i: a[at].to(part) for i, a in acted.items()}
                out.append(self.picture(self.predict(self.abduct(part), set_)))
        found = torch.cat(out or [whole])
        return found.to(given.device) if isinstance(x, Tensor) else found.cpu().numpy()

    def grid(self, x: Tensor, concept: str | int, at: Sequence[float] | Tensor) -> Tensor:
        """(N, F, *shape): every observation under do(concept = value), for F values."""
        u = torch.as_tensor(at, dtype=torch.float32)
        n, f = len(x), len(u)
        out = self.do(x.repeat_interleave(f, 0), {concept: u.repeat(n)})
        return out.unflatten(0, (n, f))

    def sample(self, n: int, rng: Generator, do: Do | None = None) -> Tensor:
        """(n, *shape): new observations, under an intervention if one is given."""
        device = self.confidence.device
        acted = {i: a.to(device) for i, a in self.acted(do, n).items()}
        with torch.no_grad():
            return self.picture(self.predict(self.noise(n, rng).to(device), acted))


# --- what methods share ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class ConceptMethod(Gradient):
    """A method that learns concepts from labels."""

    needs: ClassVar[type[View]] = Labelled

    def names(self, spec: Spec) -> tuple[str, ...]:
        """Of the concepts."""
        if not spec.labels:
            raise ValueError(f"{type(self).__name__} learns concepts from labels, and there are none. {LABEL}")
        return tuple(label.name for label in spec.labels)


def check_labels(data: Labelled) -> None:
    """Labels that nothing can be learned from are refused; labels beyond their range are told of."""
    if not data.labels:
        raise ValueError(f"Concepts are learned from labels, and this view has none. {LABEL}")
    u = data.label(data.draw(LOOKED, Generator().manual_seed(0)))
    if u.shape[1] != len(data.labels):
        raise ValueError(f"The view has {len(data.labels)} labels and gives {u.shape[1]} columns.")
    for label, column in zip(data.labels, u.unbind(1), strict=True):
        there = column[~column.isnan()]
        if not len(there):
            raise ValueError(
                f"Label {label.name!r} is missing in all of {LOOKED} rows: nothing can be learned of it. Leave it out, "
                "or raise the labelled fraction."
            )
        if label.low == label.high or (len(there) > 1 and (there == there[0]).all()):
            raise ValueError(
                f"Label {label.name!r} is {float(there[0]):g} in every row: a concept must vary to be learned. Leave "
                "it out."
            )
        middle, half = (label.low + label.high) / 2, (label.high - label.low) / 2
        if ((there - middle).abs() > BEYOND * half).any():
            far = float(there[(there - middle).abs().argmax()])
            warnings.warn(
                f"Label {label.name!r} is said to lie between {label.low:g} and {label.high:g}, and has values such as "
                f"{far:g}: are the columns in order?",
                stacklevel=4,
            )


def check_pictures(data: View) -> None:
    """Cross-entropies and composed pictures need values in [0, 1]."""
    x = data.batch(16, Generator().manual_seed(0))[0]
    if x.min() < 0 or x.max() > 1:
        raise ValueError(
            f"Concepts are decoded to observations in [0, 1], got values from {x.min():.3g} to {x.max():.3g}. Scale "
            "them."
        )
