"""Command-line flags straight from dataclass fields: `--beta 4 --net mlp --net.hidden 64,64 --world.noise 0.5`.

A field that holds another dataclass is a flag for its kind and dotted flags for its fields. Help comes from the
`#:` comments. A wrong flag suggests the nearest right one.
"""

from __future__ import annotations

import dataclasses
import inspect
import types
import typing
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from whence import values


@dataclass(frozen=True)
class Flag:
    """One option of a command."""

    name: str
    annotation: Any
    default: Any
    help: str = ""
    group: str = ""


class Flags(dict[str, Flag]):
    """The options of a command, by name."""

    def add(self, name: str, annotation: Any, default: Any, help: str = "", group: str = "options") -> None:
        self[name] = Flag(name, annotation, default, help, group)

    def add_fields(self, kind: type, known: Sequence[type], given: Mapping[str, Any], prefix: str = "") -> None:
        """The fields of a dataclass; for one that holds a dataclass, also the fields of the chosen (or default) one."""
        help = values.field_help(kind)
        for field, annotation in fields_of(kind):
            name, default = prefix + field.name, default_of(field)
            if isinstance(default, Mapping):
                continue  # such as a recipe's players: for Python, not for the command line
            options = holds(annotation, known)
            text = help.get(field.name, "")
            if options:
                text += f" ({', '.join(values.name_of(option) for option in options)})"
            self.add(name, annotation, default, text, values.name_of(kind))
            if options:
                chosen = type(default) if default is not None else None
                if word := given.get(name):
                    chosen = values.pick(field.name, word, options)
                if chosen in options:
                    self.add_fields(chosen, known, given, prefix=f"{name}.")

    def add_arguments(self, call: Any, prefix: str, group: str) -> None:
        """The keyword arguments of a function, such as a view's."""
        for name, parameter in list(inspect.signature(call, eval_str=True).parameters.items())[1:]:  # not self
            self.add(prefix + name, parameter.annotation, parameter.default, "", group)

    def read(self, words: Sequence[str]) -> dict[str, Any]:
        """Words after the command -> values by flag name."""
        found: dict[str, Any] = {}
        for name, text in split(words, bare={f.name for f in self.values() if f.annotation is bool}).items():
            if name not in self:
                raise ValueError(values.unknown("option", f"--{name}", [f"--{flag}" for flag in self]))
            flag = self[name]
            if text is None:
                raise ValueError(f"--{name} needs a value: --{name} {example(flag)}.")
            found[name] = text
        return found

    def parsed(self, found: Mapping[str, str], known: Sequence[type] = ()) -> dict[str, Any]:
        """Texts as values of their flags' types."""
        parsed = {}
        for name, text in found.items():
            try:
                parsed[name] = values.parse(text, self[name].annotation, known)
            except ValueError as error:
                raise ValueError(f"--{name}: {error}.".replace("..", ".")) from None
        return parsed

    def help(self) -> str:
        lines: list[str] = []
        for group in dict.fromkeys(flag.group for flag in self.values()):
            lines += ["", f"{group}:"]
            for flag in self.values():
                if flag.group == group:
                    head = f"  --{flag.name} {example(flag)}".rstrip()
                    lines.append(f"{head:<34}{'' if len(head) < 34 else chr(10) + ' ' * 34}{flag.help}".rstrip())
        return "\n".join(lines)


def fields_of(kind: type) -> list[tuple[dataclasses.Field, Any]]:
    """A dataclass's own options with their resolved types."""
    hints = typing.get_type_hints(kind)
    return [(field, hints[field.name]) for field in dataclasses.fields(kind) if field.init]


def default_of(field: dataclasses.Field) -> Any:
    if field.default is not dataclasses.MISSING:
        return field.default
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return dataclasses.MISSING


def holds(annotation: Any, known: Sequence[type]) -> list[type]:
    """The listed dataclasses that a field of this type can hold."""
    parts = typing.get_args(annotation) if typing.get_origin(annotation) in UNIONS else (annotation,)
    bases = tuple(part for part in parts if isinstance(part, type) and part.__module__.startswith("whence."))
    return [kind for kind in known if bases and issubclass(kind, bases)]


UNIONS = (typing.Union, types.UnionType)


def make(kind: type, known: Sequence[type], found: Mapping[str, str], flags: Flags, prefix: str = "") -> Any:
    """A dataclass from the flags that were given; the others keep their defaults."""
    given: dict[str, Any] = {}
    for field, annotation in fields_of(kind):
        name = prefix + field.name
        nested = {key: text for key, text in found.items() if key.startswith(f"{name}.")}
        options = holds(annotation, known)
        if options and (name in found or nested):
            default = default_of(field)
            if found.get(name, "").lower() == "none":
                given[field.name] = None
                continue
            chosen = values.pick(field.name, found[name], options) if name in found else type(default)
            given[field.name] = make(chosen, known, found, flags, prefix=f"{name}.")
        elif name in found:
            given[field.name] = flags.parsed({name: found[name]})[name]
        elif default_of(field) is dataclasses.MISSING:
            raise ValueError(f"{kind.__name__} needs --{name}: {values.field_help(kind).get(field.name, 'a value')}.")
    return kind(**given)


def split(words: Sequence[str], bare: Iterable[str] = ()) -> dict[str, str | None]:
    """`--a 1 --b=2 --c` -> texts by name; a flag named in `bare` may stand without a value."""
    found: dict[str, str | None] = {}
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if not word.startswith("--"):
            last, text = next(reversed(found.items()), ("", None))
            list_ = f" Or, for a list, --{last} {text},{word}?" if text else ""
            raise ValueError(f"Options start with --, got {word!r}. Did you mean --{word}?{list_}")
        name, equals, text = word[2:].partition("=")
        name = name.replace("-", "_")
        negative = rest and rest[0].startswith("-") and rest[0][1:2].isdigit()
        if equals:
            found[name] = text
        elif rest and (not rest[0].startswith("--") or negative) and not (name in bare and not is_truth(rest[0])):
            found[name] = rest.pop(0)
        else:
            found[name] = "true" if name in bare else None
    return found


def is_truth(word: str) -> bool:
    return word.lower() in ("true", "false", "yes", "no", "1", "0")


def example(flag: Flag) -> str:
    """What stands behind a flag in the help: its default, or the kind of thing it needs."""
    default = flag.default
    if default is dataclasses.MISSING or default is inspect.Parameter.empty:
        return "…"
    if dataclasses.is_dataclass(default) and not isinstance(default, type):
        return values.name_of(type(default))
    if isinstance(default, tuple):
        return ",".join(map(str, default))
    if isinstance(default, bool):
        return str(default).lower()
    return "none" if default is None else str(default)
