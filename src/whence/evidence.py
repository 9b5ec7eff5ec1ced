"""What a method or metric rests on: where it was published, what it guarantees, how we know ours is right."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass

ACCENTS = {'"': "\u0308", "'": "\u0301", "`": "\u0300", "^": "\u0302", "~": "\u0303", "=": "\u0304", ".": "\u0307"}
ACCENTS |= {"c": "\u0327", "v": "\u030c", "u": "\u0306", "H": "\u030b", "k": "\u0328", "r": "\u030a"}
LETTERS = {"o": "ø", "O": "Ø", "l": "ł", "L": "Ł", "ss": "ß", "ae": "æ", "AE": "Æ", "aa": "å", "i": "ı"}


def untex(text: str) -> str:
    r"""BibTeX's spelling as Unicode.

    >>> untex('Hyv{\\"a}rinen, Aapo'), untex("Sch{\\\"o}lkopf -- {GAN}s"), untex(r"{\O}ksendal and Mil{\'e}n")
    ('Hyvärinen, Aapo', 'Schölkopf – GANs', 'Øksendal and Milén')
    """

    def accent(match: re.Match[str]) -> str:
        letter = {"\\i": "i", "\\j": "j"}.get(match[2], match[2])
        return unicodedata.normalize("NFC", letter + ACCENTS[match[1]])

    text = re.sub(r"\\([\"'`^~=.])\s*\{?(\\?[a-zA-Z])\}?", accent, text)
    text = re.sub(r"\\([cvuHkr])(?:\s+|\{)(\\?[a-zA-Z])\}?", accent, text)
    text = re.sub(r"\\(ss|ae|AE|aa|o|O|l|L|i)\b\s?", lambda m: LETTERS[m[1]], text)
    return text.replace("--", "–").replace("\\&", "&").replace("{", "").replace("}", "")


@dataclass(frozen=True, kw_only=True)
class Reference:
    """A publication, as data; docs, `whence cite` and report bibliographies derive from it."""

    key: str
    authors: str  #: "Family, Given and Family, Given", as BibTeX wants it
    title: str
    venue: str
    year: int
    url: str = ""

    def bibtex(self) -> str:
        fields = {
            "author": self.authors,
            "title": "{" + self.title + "}",
            "howpublished": self.venue,
            "year": str(self.year),
            "url": self.url,
        }
        body = ",\n".join(f"  {name} = {{{value}}}" for name, value in fields.items() if value)
        return f"@misc{{{self.key},\n{body}\n}}"

    def __str__(self) -> str:
        return untex(f"{self.authors}. {self.title}. {self.venue}, {self.year}.")


@dataclass(frozen=True)
class Guarantee:
    """What is identified, and what must hold for that. "Nothing" is an answer, and must say why."""

    identifies: str
    assumes: tuple[str, ...] = ()
    theorem: str = ""  #: which one says so, in words

    @classmethod
    def nothing(cls, because: str) -> Guarantee:
        return cls("nothing", (because,))

    def __str__(self) -> str:
        if self.identifies == "nothing":
            return f"Identifies nothing: {self.assumes[0]}"
        return f"Identifies {self.identifies}" + (f", if {'; '.join(self.assumes)}." if self.assumes else ".")


#: The badges of `whence list`, from strong to weak.
BADGES = ("reference-checked", "closed-form", "benchmarked", "unverified")


@dataclass(frozen=True)
class Evidence:
    """How we know that an implementation is right: a badge, and the test or result file that carries it."""

    badge: str
    where: str = ""

    def __post_init__(self) -> None:
        if self.badge not in BADGES:
            raise ValueError(f"A badge is one of {', '.join(BADGES)}, got {self.badge!r}.")
        if self.badge != "unverified" and not self.where:
            raise ValueError(f"The badge {self.badge!r} needs the test or result file that carries it (where=...).")
