"""Formulas: reStructuredText roles to dollars, and LaTeX to MathML while the site is built, without JavaScript."""

from __future__ import annotations

import html
import re
import textwrap

from latex2mathml.converter import convert

#: What latex2mathml does not know, in words that it does.
MACROS = (
    (r"\\arg\s*\\?(min|max)(?![a-zA-Z])", r"\\mathrm{arg}\\,\\\1"),
    (r"\\(begin|end)\{aligned\}", r"\\\1{align*}"),
    (r"\\([Bb]igg?[lr]?)\s*\\\|", r"\\\1‖"),
)
#: Functions written in upright letters: TeX leaves a thin space before an argument without brackets.
FUNCTIONS = r"(<mi>(?:log|exp|sin|cos|tan|det|ln)</mi>)(?!<mo[^>]*>&#x00028;|</)"


class Unrenderable(ValueError):
    """A formula that cannot become MathML."""


def mathml(latex: str, *, display: bool) -> str:
    """One formula as MathML; anything that would appear as raw LaTeX is refused.

    >>> "<msup><mi>x</mi><mn>2</mn></msup>" in mathml("x^2", display=False)
    True
    """
    source = latex.strip()
    for pattern, plain in MACROS:
        source = re.sub(pattern, plain, source)
    if display:
        source = re.sub(r"\\(min|max|inf|sup)_", r"\\\1\\limits_", source)
    try:
        out = convert(source, display="block" if display else "inline")
    except Exception as error:  # latex2mathml's errors have no common base
        raise Unrenderable(f"The formula {latex.strip()!r} cannot be rendered: {type(error).__name__}.") from error
    left = re.search(r"\\([a-zA-Z]+|\|)", html.unescape(out))
    if left or "<mi>&</mi>" in out:
        raise Unrenderable(
            f"The formula {latex.strip()!r} cannot be rendered: {left[0] if left else 'an alignment'} is not known to "
            "latex2mathml. Write it otherwise, or add it to MACROS in docs/formulas.py."
        )
    out = re.sub(FUNCTIONS, r'\1<mspace width="0.167em" />', out)
    return out.replace("<math ", '<math data-search-exclude="" ', 1)


def render(page: str) -> str:
    """HTML in which arithmatex has marked the formulas -> the same with MathML."""

    def one(match: re.Match[str]) -> str:
        latex = html.unescape(match["latex"])
        return mathml(latex, display=match["tag"] == "div")

    marked = r'<(?P<tag>span|div) class="arithmatex">\\[(\[](?P<latex>.*?)\\[)\]]</(?P=tag)>'
    return re.sub(marked, one, page, flags=re.S)


def markdown(docstring: str) -> str:
    """A docstring's reStructuredText, as far as this library uses it, as Markdown with dollars.

    >>> markdown("One :math:`x`.\\n\\n.. math:: y\\n          + z\\n\\nMore.")
    'One $x$.\\n\\n$$\\ny\\n+ z\\n$$\\n\\nMore.'
    """
    out: list[str] = []
    lines = docstring.split("\n")
    i = 0
    while i < len(lines):
        match = re.match(r"^(\s*)\.\. math::\s*(.*)$", lines[i])
        if match is None:
            out.append(lines[i])
            i += 1
            continue
        body, depth = [match[2]], len(match[1])
        i += 1
        while i < len(lines) and (not lines[i].strip() or len(lines[i]) - len(lines[i].lstrip()) > depth):
            if not lines[i].strip() and (
                i + 1 == len(lines)
                or len(lines[i + 1]) - len(lines[i + 1].lstrip()) <= depth
                or not lines[i + 1].strip()
            ):
                break
            body.append(lines[i])
            i += 1
        formula = "\n".join(line.strip() for line in body if line.strip())
        out += ["$$", formula, "$$"]
    text = "\n".join(out)
    text = re.sub(r":math:`([^`]+)`", lambda m: f"${m[1].strip()}$", text, flags=re.S)
    return text.replace("``", "`")


def cell(text: str) -> str:
    """Markdown for a table's cell: one line, and bars that do not end the cell, also within formulas and code."""
    line = " ".join(text.split())
    line = re.sub(r"\$[^$]+\$", lambda m: m[0].replace(r"\|", r"\Vert ").replace("|", r"\vert "), line)
    parts = re.split(r"(`[^`]*`)", line)
    return "".join(part if part.startswith("`") else part.replace("|", "&#124;") for part in parts)


def paragraphs(docstring: str | None) -> list[str]:
    """A docstring's paragraphs, as Markdown; the first is its summary."""
    first, _, rest = (docstring or "").strip().partition("\n")
    whole = first + "\n" + textwrap.dedent(rest)
    return [part.strip("\n") for part in re.split(r"\n\s*\n", markdown(whole)) if part.strip()]
