"""Values, docstrings and references as words for a page."""

from __future__ import annotations

import dataclasses
import inspect
import math
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from whence import values
from whence.evidence import Reference, untex

#: What the docstrings of this library say in TeX inside a sentence.
GREEK = "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi omicron pi rho _ sigma tau upsilon"
SYMBOLS = {name: chr(0x3B1 + number) for number, name in enumerate(f"{GREEK} phi chi psi omega".split())}
NAMED = "sum prod int infty nabla sqrt mid lVert rVert sim propto approx ne le ge in notin cup times cdot pm to"
NAMED += " leftarrow dots top ell varphi varepsilon Theta Sigma Lambda"
SYMBOLS |= dict(zip(NAMED.split(), "∑∏∫∞∇√|‖‖~∝≈≠≤≥∈∉∪×·±→←…ᵀℓφεΘΣΛ", strict=True))
SYMBOLS |= {"quad": " ", "qquad": " "}


def number(value: float, digits: int = 3) -> str:
    """
    >>> number(0.71349), number(-2.0), number(0.00123), number(12345.6)
    ('0.713', '−2.000', '0.00123', '12,346')
    """
    size = abs(value)
    if size >= 1000:
        text = f"{value:,.0f}"
    elif size >= 0.01 or size == 0:
        text = f"{value:.{digits}f}"
    else:
        text = f"{value:.{digits}g}"
    return text.replace("-", "−")


def short(value: float) -> str:
    """A tick's label.

    >>> short(300000), short(0.25), short(-1500), short(0)
    ('300k', '0.25', '−1.5k', '0')
    """
    for size, mark in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.4g}{mark}".replace("-", "−")
    return f"{value:.4g}".replace("-", "−")


def plain(text: str) -> str:
    r"""A sentence of a docstring without its markup.

    >>> plain(r"Weighs :math:`\beta` times as much as ``x``, see :func:`fit`.")
    'Weighs β times as much as x, see fit.'
    """

    text = re.sub(r":math:`([^`]*)`", lambda match: letters(match[1]), text)
    text = re.sub(r":\w+:`~?([^`]*)`", r"\1", text)
    return re.sub(r"\s+", " ", text.replace("``", "").replace("`", "")).strip()


def letters(tex: str) -> str:
    r"""A formula in the letters that a line of text has.

    >>> letters(r"\mathbb{E}_{q(z \mid x)} \log \frac{p}{q} + \beta \, \mathrm{KL}(q \,\|\, p)")
    'E_q(z | x) log p / q + β KL(q ‖ p)'
    """

    def ratio(match: re.Match[str]) -> str:
        return " / ".join(f"({part})" if re.search(r"[-+]", part) else part for part in match.groups())

    part = r"\{((?:[^{}]|\{[^{}]*\})*)\}"
    tex = re.sub(rf"\\[td]?frac{part}{part}", ratio, tex)
    tex = re.sub(
        r"\\(?:mathrm|mathbb|mathcal|widehat|hat|tilde|bar|overline|text|textstyle|operatorname)\b\s*", "", tex
    )
    tex = re.sub(r"\\(?:[bB]ig[lrg]*|left|right)(?![a-z])\s*", "", tex)
    tex = tex.replace("\\{", "⦃").replace("\\}", "⦄").replace("\\|", "‖").replace("\\,", " ").replace("^{-1}", "⁻¹")
    tex = re.sub(r"\\([a-zA-Z]+)", lambda m: SYMBOLS.get(m[1], m[1]), tex)
    tex = re.sub(r"\^\{?ᵀ\}?|(?<=⁻¹)ᵀ", "ᵀ", tex.replace("{", "").replace("}", ""))
    return re.sub(r"\s+", " ", tex).replace("⦃", "{").replace("⦄", "}").strip()


def paragraphs(kind: type) -> list[str]:
    """A class's docstring as paragraphs of words; a displayed formula is one of its own, indented."""
    told = []
    for part in re.split(r"\n\s*\n", inspect.getdoc(kind) or ""):
        head, formula, tex = part.partition(".. math::")
        told += [plain(head)] if head.strip() else []
        told += ["    " + letters(tex)] if formula else []
    return told


def sentence_of(kind: type) -> str:
    """The first paragraph of a class's own docstring; empty for dataclasses without one, whose docstring is code."""
    text = inspect.cleandoc(kind.__dict__.get("__doc__") or "")
    if text.startswith(f"{kind.__name__}("):
        return ""
    return plain(text.partition("\n\n")[0])


def capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def people(authors: str, most: int = 12) -> str:
    """
    >>> people("Kim, Hyunjik and Mnih, Andriy"), people("Higgins, Irina and others")
    ('H. Kim and A. Mnih', 'I. Higgins et al.')
    """
    names = []
    for author in re.split(r"\s+and\s+", untex(authors)):
        family, comma, given = author.partition(",")
        initials = " ".join("-".join(f"{part[0]}." for part in word.split("-") if part) for word in given.split())
        names.append(f"{initials} {family}".strip() if comma else family)
    if names[-1] == "others" or len(names) > most:
        return f"{', '.join(names[: min(most, len(names) - (names[-1] == 'others'))])} et al."
    if len(names) > 2:
        return f"{', '.join(names[:-1])} and {names[-1]}"
    return " and ".join(names)


@dataclasses.dataclass(frozen=True)
class Citation:
    """A reference as a reader wants it."""

    authors: str
    title: str
    venue: str
    year: int
    url: str
    bibtex: str

    @classmethod
    def of(cls, r: Reference) -> Citation:
        # Only links that a browser opens as a page: a reference is written by whoever wrote the method.
        url = r.url if re.match(r"https?://", r.url) else ""
        return cls(people(r.authors), untex(r.title), untex(r.venue), r.year, url, r.bibtex())


# --- values as Python ------------------------------------------------------------------------------------------------


def code(value: Any, used: set[type] | None = None) -> str:
    """A value as Python, without what equals its default. Classes it mentions are added to `used`.

    >>> from whence import Adam
    >>> code((Adam(lr=0.1), [1], None))
    '(Adam(lr=0.1), (1,), None)'
    """
    used = set() if used is None else used
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        used.add(type(value))
        given = {f.name: getattr(value, f.name) for f in dataclasses.fields(value) if f.init}
        told = (f"{f.name}={code(given[f.name], used)}" for f in fields_told(value))
        return f"{type(value).__name__}({', '.join(told)})"
    if isinstance(value, Path):
        used.add(Path)
        return f"Path({str(value)!r})"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key!r}: {code(item, used)}" for key, item in value.items()) + "}"
    if isinstance(value, tuple | list):
        parts = [code(item, used) for item in value]
        return f"({', '.join(parts)}{',' if len(parts) == 1 else ''})"
    return repr(value)


def fields_told(value: Any) -> list[dataclasses.Field]:
    """The fields whose value is not the default."""

    def default(f: dataclasses.Field) -> Any:
        if f.default_factory is not dataclasses.MISSING:
            return f.default_factory()
        return f.default

    # By description, since a path that was read from JSON is a string.
    def same(a: Any, b: Any) -> bool:
        return b is not dataclasses.MISSING and values.describe(a) == values.describe(b)

    return [f for f in dataclasses.fields(value) if f.init and not same(getattr(value, f.name), default(f))]


def imports(used: set[type], *functions: tuple[str, str]) -> list[str]:
    """Import lines for classes (from the shortest public place that has them) and for (module, name) pairs."""
    wanted: dict[str, set[str]] = {}
    for kind in used:
        wanted.setdefault(home(kind), set()).add(kind.__name__)
    for module, name in functions:
        wanted.setdefault(module, set()).add(name)

    def order(module: str) -> tuple[bool, str]:
        return module.partition(".")[0] not in sys.stdlib_module_names, module

    return [f"from {module} import {', '.join(sorted(wanted[module]))}" for module in sorted(wanted, key=order)]


def home(kind: type) -> str:
    """
    >>> import whence
    >>> from whence.nets import MLP
    >>> home(whence.BetaVAE), home(MLP), home(Path)
    ('whence', 'whence.nets', 'pathlib')
    """
    if kind is Path:
        return "pathlib"
    words = kind.__module__.split(".")
    for n in range(1, len(words) + 1):
        package = ".".join(words[:n])
        if getattr(sys.modules.get(package), kind.__name__, None) is kind:
            return package.removeprefix("whence_outside_")
    return kind.__module__


def duration(seconds: float) -> str:
    """
    >>> duration(0.031), duration(4.26), duration(75)
    ('31 ms', '4.3 s', '1 min 15 s')
    """
    from whence.fit import clock

    if seconds < 1:
        return f"{math.ceil(seconds * 1000)} ms"
    return f"{seconds:.1f} s" if seconds < 10 else clock(seconds)
