"""From tokens to text that can be shown: whole characters only, nothing past a stop string."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from tokenizers.decoders import DecodeStream

log = logging.getLogger(__name__)

# tokenizers' words for a token that changes text which was handed out already.
_INVALID_PREFIX = "Invalid prefix encountered"


class Detokenizer:
    """Text of a continuation, token by token. A token that ends inside a character gives "" and its bytes wait.

    The prompt's tokens come first, because the first word's leading space depends on what stands before it. Special
    tokens give no text. Bytes that never become a character are never shown.
    """

    def __init__(self, backend: Any, prompt_ids: Sequence[int]) -> None:
        self._backend = backend
        self._stream = DecodeStream(ids=list(prompt_ids), skip_special_tokens=True)

    def step(self, token: int) -> str:
        """Text that `token` adds."""
        try:
            return self._stream.step(self._backend, token) or ""
        except Exception as error:
            # tokenizers raises a plain Exception. Some byte sequences change text that went before; a fresh stream
            # goes on from here, which is what vLLM does.
            if not str(error).startswith(_INVALID_PREFIX):
                raise
            log.warning("a token changed earlier text: detokenizing starts afresh")
            self._stream = DecodeStream(skip_special_tokens=True)
            return self._stream.step(self._backend, token) or ""


class StopText:
    """A growing text that ends before the first of `stops`, and holds back what may turn out to be the start of one."""

    def __init__(self, stops: Sequence[str]) -> None:
        self._stops = stops
        self._held_back = max((len(stop) for stop in stops), default=1) - 1
        self._text = ""
        self._given = 0

    def add(self, piece: str, *, may_stop: bool) -> bool:
        """Append; True when the text has now reached a stop string, which `may_stop` false puts off."""
        self._text += piece
        if not may_stop or not piece:
            return False
        cut = self._first_stop(len(piece))
        if cut is None:
            return False
        self._text = self._text[:cut]
        return True

    def take(self, *, final: bool) -> str:
        """What can be shown now and was not yet; all of it when `final`."""
        end = len(self._text) if final else max(self._given, len(self._text) - self._held_back)
        piece, self._given = self._text[self._given : end], max(self._given, end)
        return piece

    def _first_stop(self, new_characters: int) -> int | None:
        """Where the stop string begins that is complete first, looking at the last `new_characters` only."""
        found = []
        for stop in self._stops:
            start = self._text.find(stop, max(0, len(self._text) - new_characters - len(stop) + 1))
            if start >= 0:
                found.append((start + len(stop), start))
        return min(found)[1] if found else None
