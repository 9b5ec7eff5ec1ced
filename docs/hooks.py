"""What mkdocs calls: the reference is generated before pages are collected, formulas become MathML after."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from mkdocs.exceptions import PluginError

sys.path.insert(0, str(Path(__file__).parent))

import formulas
import generate


def on_config(config: Any) -> Any:
    """Generate docs/reference and put it into the navigation."""
    docs = Path(config.docs_dir)
    made = generate.write(docs)

    def under(folder: str) -> list[Any]:
        pages = {path: title for path, title in made.items() if path.startswith(f"reference/{folder}/")}
        return [path if path.endswith("/index.md") else {title: path} for path, title in pages.items()]

    places = {"METHODS": "methods", "WORLDS": "worlds", "METRICS": "metrics"}
    config.nav = [
        {title: under(places[entry])} if entry in places else {title: entry}
        for item in config.nav
        for title, entry in item.items()
    ]
    return config


def on_page_content(html: str, *, page: Any, config: Any, files: Any) -> str:
    try:
        return formulas.render(html)
    except formulas.Unrenderable as error:
        raise PluginError(f"{page.file.src_uri}: {error}") from error
