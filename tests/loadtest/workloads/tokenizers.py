"""Tokenizers that need no model, and options that need no server."""

from __future__ import annotations

import math
import re
from typing import Any

from loadtest.options import LoadOptions


def words_and_marks(text: str) -> int:
    """A token for each word, mark or Chinese character."""
    return len(re.findall(r"[A-Za-z0-9]+|[^\sA-Za-z0-9]", text))


def utf8_bytes(text: str) -> int:
    """A token a byte: three for a Chinese character."""
    return len(text.encode())


def runs_of_four(text: str) -> int:
    """A token for each four characters, across words."""
    return math.ceil(len(text) / 4)


def pieces_of_words(text: str) -> int:
    """Like byte-pair encoding: a word is a token for each three letters begun; one more stands at the beginning."""
    return 1 + sum(math.ceil(len(word) / 3) for word in re.findall(r"\s?[A-Za-z0-9]+|[^\sA-Za-z0-9]", text))


ALL = (words_and_marks, utf8_bytes, runs_of_four, pieces_of_words)


def options(workload: str, **others: Any) -> LoadOptions:
    return LoadOptions(host="http://localhost:8000", targets=("llm_bf16",), workload=workload, **others)
