"""JSON as clients send it, read more strictly than Python does by default."""

from __future__ import annotations

import json
from typing import Any


def read_json(text: str) -> Any:
    """The value of `text`.

    Raises ValueError, also for what Python's own reader lets pass: NaN, Infinity, and half a surrogate pair, which is
    no character and could not be sent on. Raises RecursionError for what is nested too deeply.
    """
    parsed = json.loads(text, parse_constant=_no_constant)
    if "\\u" in text:
        try:
            json.dumps(parsed, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            raise ValueError("half a surrogate pair is no character, send both halves") from None
    return parsed


def _no_constant(word: str) -> float:
    raise ValueError(f"{word} is no JSON number")
