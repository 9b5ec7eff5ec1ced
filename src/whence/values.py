"""Values as data. Methods, worlds, metrics, networks and recipes are frozen dataclasses; this is the one place that
turns them into JSON and back, names them on the command line, and finds the nearest right name for a wrong one.

Only dataclasses that the caller lists can be built, so reading a run never runs code.
"""

from __future__ import annotations

import dataclasses
import difflib
import hashlib
import json
import re
import types
import typing
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any


def name_of(kind: type) -> str:
    """The command-line name of a class.

    >>> [name_of(type(n, (), {})) for n in ("BetaVAE", "AdaGVAE", "DSprites", "ICA", "BetaVAEMetric", "Conv64")]
    ['beta_vae', 'ada_gvae', 'dsprites', 'ica', 'beta_vae_metric', 'conv64']
    """
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z]{2})(?=[A-Z][a-z])", "_", kind.__name__).lower()


def unknown(what: str, got: str, known: Iterable[str]) -> str:
    """The message for a wrong name: what was asked, the nearest right one, and all of them."""
    names = sorted(set(known))
    near = difflib.get_close_matches(got, names, n=1, cutoff=0.5)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    listed = (
        f" There are: {', '.join(names)}." if len(names) <= 15 else "" if near else f" There are {len(names)} of them."
    )
    return f"Unknown {what} {got!r}.{hint}{listed}"


def pick(what: str, got: str, known: Iterable[type]) -> type:
    """The class of a command-line name; case, hyphens and underscores do not matter: BetaVAE, beta-vae."""
    table = {name_of(kind): kind for kind in known}
    found = {name.replace("_", ""): kind for name, kind in table.items()}.get(re.sub("[-_]", "", got).lower())
    if found is None:
        raise ValueError(unknown(what, got, table))
    return found


def describe(value: Any) -> Any:
    """A value as JSON: dataclasses carry their class name under "type"."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {f.name: describe(_meant(f, getattr(value, f.name))) for f in dataclasses.fields(value) if f.init}
        return {"type": type(value).__name__, **fields}
    if isinstance(value, Mapping):
        return {str(key): describe(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [describe(item) for item in value]
    if isinstance(value, Path):
        return str(value)
    if value is None or isinstance(value, str | int | float | bool):
        return value
    raise TypeError(f"A recorded value is a number, string, path, tuple, mapping or dataclass of them, got {value!r}.")


def _meant(field: dataclasses.Field, value: Any) -> Any:
    """A field's value in the field's type, for the two that people write and JSON keeps otherwise: beta=4 and beta=4.0
    are one run, and a path comes back as a path."""
    annotation = str(field.type)
    if type(value) is int and "float" in annotation and "int" not in annotation:
        return float(value)
    if isinstance(value, str) and "Path" in annotation and "str" not in annotation:
        return Path(value)
    return value


def build(data: Any, known: Iterable[type]) -> Any:
    """The inverse of `describe`, for the listed dataclasses only."""
    table = {kind.__name__: kind for kind in known}
    return _build(data, table)


def _build(data: Any, table: Mapping[str, type]) -> Any:
    if isinstance(data, Mapping):
        if "type" not in data:
            return {key: _build(item, table) for key, item in data.items()}
        kind = table.get(data["type"])
        if kind is None:
            raise ValueError(unknown("recorded type", str(data["type"]), table))
        given = {key: item for key, item in data.items() if key != "type"}
        fields = {f.name: f for f in dataclasses.fields(kind) if f.init}
        if extra := set(given) - set(fields):
            raise ValueError(f"{kind.__name__} has no field {sorted(extra)[0]!r}: the record is of another version.")
        return kind(**{key: _meant(fields[key], _build(item, table)) for key, item in given.items()})
    if isinstance(data, list):
        return tuple(_build(item, table) for item in data)
    return data


def digest(value: Any) -> str:
    """A short content hash of a value, for caches and for "is this the same run?"."""
    text = json.dumps(describe(value), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def field_help(kind: type) -> dict[str, str]:
    """The `#:` comment of every field, the class's own and inherited, read from the source.

    >>> @dataclasses.dataclass
    ... class A:
    ...     b: int = 1  #: a number
    """
    import inspect

    found: dict[str, str] = {}
    for cls in reversed(kind.__mro__):
        if not (dataclasses.is_dataclass(cls) or hasattr(cls, "_fields")):  # a NamedTuple
            continue
        try:
            lines = inspect.getsource(cls).splitlines()
        except (OSError, TypeError):
            continue
        for line in lines:
            if match := re.match(r"\s+(\w+)\s*:[^#]*#:\s*(.+)", line):
                found[match[1]] = match[2].strip()
    return found


def parse(text: str, annotation: Any, known: Iterable[type] = ()) -> Any:
    """A command-line word as a field's type: numbers, words, paths, tuples as "32,64", None as "none", and
    a listed dataclass by its name.

    >>> parse("3", int), parse("1e-4", float), parse("none", int | None), parse("8,16", tuple[int, ...])
    (3, 0.0001, None, (8, 16))
    """
    origin, args = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (typing.Union, types.UnionType):
        if type(None) in args and text.lower() == "none":
            return None
        errors = []
        for option in (a for a in args if a is not type(None)):
            try:
                return parse(text, option, known)
            except ValueError as error:
                errors.append(str(error))
        raise ValueError(errors[-1])
    if origin is typing.Literal:
        choices = {str(choice): choice for choice in args}
        if text not in choices:
            raise ValueError(unknown("choice", text, choices))
        return choices[text]
    if origin is tuple:
        words = [word for word in text.split(",") if word]
        if len(args) == 2 and args[1] is Ellipsis:
            return tuple(parse(word, args[0], known) for word in words)
        if len(words) != len(args):
            raise ValueError(f"needs {len(args)} values with commas between, got {text!r}")
        return tuple(parse(word, arg, known) for word, arg in zip(words, args, strict=True))
    if annotation is bool:
        if text.lower() not in ("true", "false", "yes", "no", "1", "0"):
            raise ValueError(f"needs true or false, got {text!r}")
        return text.lower() in ("true", "yes", "1")
    if annotation in (int, float):
        try:
            return annotation(text)
        except ValueError:
            raise ValueError(f"needs {'a whole number' if annotation is int else 'a number'}, got {text!r}") from None
    if annotation in (str, Path):
        return annotation(text)
    if isinstance(annotation, type):
        options = [kind for kind in known if issubclass(kind, annotation)]
        return pick(name_of(annotation), text, options)()
    raise ValueError(f"cannot be set from the command line (its type is {annotation})")
