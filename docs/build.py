"""Builds the documentation into a folder that works without a server and without a network.

    python docs/build.py [--out site]

Strict: a broken link or anchor, a page outside the navigation, a formula that cannot be rendered, or a page that
would load anything from the network ends the build with a message and status 1.
"""

from __future__ import annotations

import argparse
import functools
import logging
import os
import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

HERE = Path(__file__).parent
#: Attributes that make a browser load something, by tag. A link that one has to click is not among them.
LOADS = {
    "script": ("src",),
    "img": ("src", "srcset"),
    "source": ("src", "srcset"),
    "iframe": ("src",),
    "video": ("src", "poster"),
    "audio": ("src",),
    "embed": ("src",),
    "object": ("data",),
    "use": ("href", "xlink:href"),
    "image": ("href", "xlink:href"),
    "link": ("href",),
}
FAR = re.compile(r"^\s*(https?:)?//", re.I)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Build the documentation, offline and strictly.")
    parser.add_argument("--out", type=Path, default=HERE.parent / "site", help="folder of the site (default: site)")
    out = parser.parse_args(argv).out.resolve()
    if (problem := build(out)) is not None:
        print(f"docs: {problem}", file=sys.stderr)
        return 1
    found = [error for page in sorted(out.rglob("*.html")) for error in check_page(page, out)]
    found += [error for sheet in sorted(out.rglob("*.css")) for error in check_style(sheet.read_text(), sheet, out)]
    for error in found:
        print(f"docs: {error}", file=sys.stderr)
    if found:
        return 1
    print(f"docs: {len(list(out.rglob('*.html')))} pages in {out}")
    return 0


def build(out: Path) -> str | None:
    """Run mkdocs in strict mode; what is wrong, or None."""
    os.environ.setdefault("NO_MKDOCS_2_WARNING", "1")  # mkdocs-material's advertisement, not a warning about this site
    from mkdocs.commands.build import build as mkdocs_build
    from mkdocs.config import load_config
    from mkdocs.exceptions import MkDocsException

    logging.basicConfig(format="docs: %(message)s", level=logging.WARNING, stream=sys.stderr)
    try:
        config = load_config(str(HERE.parent / "mkdocs.yml"), site_dir=str(out), strict=True)
        config.plugins.on_startup(command="build", dirty=False)
        mkdocs_build(config)
        config.plugins.on_shutdown()
    except MkDocsException as error:
        return str(error) or type(error).__name__
    return None


class Page(HTMLParser):
    """What a page loads, links to and can be linked at."""

    def __init__(self) -> None:
        super().__init__()
        self.loads: list[tuple[str, str]] = []
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.styles: list[str] = []
        self.within = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.within = tag
        self.loads += [
            (tag, given[name]) for name in LOADS.get(tag, ()) if name in given and given.get("rel") != "canonical"
        ]
        self.anchors |= {given[name] for name in ("id", "name") if name in given}
        if "style" in given:
            self.styles.append(given["style"])
        if tag == "a" and "href" in given:
            self.links.append(given["href"])

    def handle_data(self, data: str) -> None:
        if self.within == "style":
            self.styles.append(data)


@functools.cache
def read(page: Path) -> Page:
    parsed = Page()
    parsed.feed(page.read_text(encoding="utf-8"))
    return parsed


def check_page(page: Path, out: Path) -> list[str]:
    """Loads from elsewhere, and links within the site that lead nowhere, in the finished HTML."""
    name, parsed = page.relative_to(out), read(page)
    errors = [f"{name} would load {url!r} (<{tag}>)" for tag, url in parsed.loads if FAR.match(url)]
    errors += [error for style in parsed.styles for error in check_style(style, page, out)]
    if page.name == "404.html":  # served for any address, so its links start at the root
        return errors
    for url in [*parsed.links, *(url for _, url in parsed.loads)]:
        parts = urlsplit(url)
        if parts.scheme or FAR.match(url) or url == "#" or not (parts.path or parts.fragment):
            continue
        target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
        if target.is_dir():
            target /= "index.html"
        if not target.exists():
            errors.append(f"{name} links to {url!r}, which is not in the site")
        elif target.suffix == ".html" and unquote(parts.fragment) not in {"", *read(target).anchors}:
            errors.append(f"{name} links to {url!r}, and that page has no such anchor")
    return errors


def check_style(text: str, where: Path, out: Path) -> list[str]:
    far = re.findall(r"(?:url\(|@import\s+)['\"]?((?:https?:)?//[^'\")\s]+)", text)
    return [f"{where.relative_to(out)} would load {url!r}" for url in far]


if __name__ == "__main__":
    sys.exit(main())
