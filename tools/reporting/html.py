"""A document as one HTML file that needs nothing else: styles and charts are in it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from tools.reporting.blocks import Document
from tools.reporting.charts import inlined

_INLINE: Final = re.compile(r"`([^`]+)`|\*\*(.+?)\*\*")


def to_html(document: Document, charts: Mapping[str, str]) -> str:
    """`charts` are the SVGs by name."""
    environment = Environment(
        loader=PackageLoader("tools.reporting", "templates"),
        undefined=StrictUndefined,
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {"inline": _inline, "slug": slug, "kind_of_line": kind_of_line}
    # The charts are this project's own SVG, not somebody's text.
    svgs = {name: Markup(inlined(svg, name)) for name, svg in charts.items()}  # noqa: S704
    return environment.get_template("report.html.j2").render(document=document, charts=svgs)


def slug(text: str) -> str:
    """A heading's anchor."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def kind_of_line(line: str) -> str:
    """What a line of a unified diff is: file, place, added or removed."""
    if line.startswith(("+++", "---")):
        return "file"
    return {"@": "place", "+": "added", "-": "removed"}.get(line[:1], "")


def _inline(text: str) -> Markup:
    """Escaped text with its code and its strong words."""

    def element(match: re.Match[str]) -> str:
        code, strong = match.groups()
        return f"<code>{code}</code>" if code is not None else f"<strong>{strong}</strong>"

    return Markup(_INLINE.sub(element, str(escape(text))))  # noqa: S704 - it is escaped already
