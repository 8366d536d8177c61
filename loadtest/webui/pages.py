"""The templates and static files of the pages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from loadtest.webui.target_table import headings

STATIC = Path(__file__).parent / "static"
_TEMPLATES = Environment(
    loader=FileSystemLoader(Path(__file__).parent / "templates"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)


def render(template: str, **values: Any) -> str:
    """A page out of `templates/`; every value is escaped."""
    return _TEMPLATES.get_template(template).render(headings=headings(), **values)


def inlined(name: str) -> Markup:
    """The text of a file in `static/`, to stand inside a page as it is."""
    return Markup((STATIC / name).read_text(encoding="utf-8"))  # noqa: S704 (our own files)
