"""The `embedding_request` tensor: what to embed and how, as JSON."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from .errors import invalid
from .json_text import read_json


@dataclass(frozen=True)
class EmbeddingRequest:
    """Text or token ids to embed; `dimensions` cuts the embedding, where the model knows how (Matryoshka)."""

    text: str | None
    token_ids: list[int] | None
    dimensions: int | None

    @classmethod
    def parse(cls, text: str) -> EmbeddingRequest:
        """Read {"input": text or token ids, "pooling_params": {"dimensions": n or [n]}}. Raises RequestError."""
        try:
            parsed = read_json(text)
        except (ValueError, RecursionError) as error:
            raise invalid(f'"embedding_request" is not valid JSON: {error}') from error
        if not isinstance(parsed, dict):
            raise invalid('"embedding_request" must be a JSON object such as {"input": "text"}')
        given = parsed.get("input")
        is_ids = isinstance(given, list) and bool(given) and all(_is_integer(item) for item in given)
        if not is_ids and not (isinstance(given, str) and given):
            raise invalid('"input" of "embedding_request" must be a text or a list of token ids, and not empty')
        dimensions = _dimensions(parsed.get("pooling_params", {}))
        return cls(given if isinstance(given, str) else None, given if is_ids else None, dimensions)


def _dimensions(pooling: Any) -> int | None:
    if not isinstance(pooling, dict):
        raise invalid('"pooling_params" of "embedding_request" must be a JSON object')
    value = pooling.get("dimensions")
    # Triton's OpenAI front end sends it as a list of one.
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    if value is not None and (not _is_integer(value) or value < 1):
        raise invalid(f'"dimensions" of "embedding_request" is {json.dumps(value)}: it takes a whole number, 1 or more')
    return value


def _is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
