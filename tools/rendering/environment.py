"""The Jinja2 environment: undefined names fail, and values are quoted for the language they are written into."""

from __future__ import annotations

import functools
import json
from typing import Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined

_NAMED_ESCAPES: Final = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}


@functools.cache
def template_environment() -> Environment:
    """Environment over this package's templates, each compiled once."""
    environment = Environment(
        loader=PackageLoader(__package__ or "tools.rendering", "templates"),
        undefined=StrictUndefined,
        autoescape=False,  # noqa: S701  # no HTML is made here; each language has its own filter below
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["pbtxt"] = pbtxt_string
    environment.filters["json"] = json_text
    return environment


def pbtxt_string(text: str) -> str:
    """`text` as a quoted string of protobuf's text format. Raises UnicodeEncodeError for a lone surrogate."""
    text.encode("utf-8")
    return '"' + "".join(_NAMED_ESCAPES.get(character) or _escape(character) for character in text) + '"'


def json_text(value: Any) -> str:
    """`value` as indented JSON, keys in the order given. Raises ValueError for NaN and infinities, which JSON lacks."""
    text = json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False)
    text.encode("utf-8")
    return text


def _escape(character: str) -> str:
    # Three octal digits: fewer would swallow a digit that follows.
    return f"\\{ord(character):03o}" if character < " " or character == "\x7f" else character
