"""One row of a batch: what a request has got so far, and when it has got enough."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tools.wire.messages import Delta

from ..adapters.base import Work
from .sampling import Sampling
from .text import Detokenizer, StopText


@dataclass(frozen=True)
class Prompt:
    """What `prepare` makes of a request. `max_new_tokens`: `max_tokens`, or less where the context ends earlier.

    `stop_ids` end the text: the model's EOS tokens, unless ignored, and the request's own.
    """

    token_ids: list[int]
    sampling: Sampling
    max_new_tokens: int
    stop_ids: frozenset[int]


class Row:
    """Takes one token after the other; ends by itself, while other rows of the batch go on."""

    def __init__(self, work: Work, backend: Any) -> None:
        self.work = work
        self.prompt: Prompt = work.params
        self.count = 0
        self.done = False
        self._detokenizer = Detokenizer(backend, self.prompt.token_ids)
        self._text = StopText(self.prompt.sampling.stop)

    def take(self, token: int) -> Delta:
        """Take the row's next token; what it adds. Its text may be empty, until a character or a word is whole."""
        self.count += 1
        finish_reason = self._finish_reason(token)
        self.done = finish_reason is not None
        return Delta(
            key=self.work.request.key,
            texts=[self._text.take(final=self.done)],
            token_counts=[1],
            finish_reasons=[finish_reason],
            num_input_tokens=len(self.prompt.token_ids),
            final=self.done,
        )

    def _finish_reason(self, token: int) -> str | None:
        if token in self.prompt.stop_ids:
            return "stop"
        may_stop = self.count > self.prompt.sampling.min_tokens
        if self._text.add(self._detokenizer.step(token), may_stop=may_stop):
            return "stop"
        return "length" if self.count >= self.prompt.max_new_tokens else None
