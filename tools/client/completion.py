"""Chunks as they arrive, and the completion they add up to.

Definitions, the same for every rung and protocol (they are those of vLLM's serving benchmark, `vllm bench serve`):

* A response counts as soon as it carries a token, even if its text is empty (half a character is held back).
* TTFT: from sending the request to the first response that carries tokens.
* e2e: from sending the request to the last response that carries tokens.
* TPOT: (e2e - TTFT) / (n - 1) for n > 1 output tokens of one sequence.
* ITL: the gaps between consecutive responses that carry tokens; a response may carry several tokens.

The number of tokens is the sum of the server's `num_output_tokens`, never the number of responses.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from tools.client.request import Target


@dataclass(frozen=True, slots=True)
class Chunk:
    """One response of a stream.

    Attributes:
        texts: the new text of each of the `n` sequences.
        num_output_tokens: new tokens in this response, all sequences together; None if the server did not say.
        finish_reasons: per sequence, None while it is running or if the server did not say.
        num_input_tokens: length of the prompt in tokens; None if the server did not say.
        received_at: `time.perf_counter()` when the response was read.
        logprobs: per sequence, JSON text, if asked for.
        prompt_logprobs: JSON text, on one response of the stream, if asked for.
        cumulative_logprobs: per sequence, if asked for.
        served_by: the model and version that answered; None on an empty final response.
        routed: `served_by` is what a release router said, on its first response: whose answer it hands on.
        final: the server said that this is the last response.
    """

    texts: tuple[str, ...]
    num_output_tokens: int | None
    finish_reasons: tuple[str | None, ...]
    num_input_tokens: int | None
    received_at: float
    logprobs: tuple[str, ...] = ()
    prompt_logprobs: str | None = None
    cumulative_logprobs: tuple[float, ...] = ()
    served_by: Target | None = None
    routed: bool = False
    final: bool = False

    @classmethod
    def from_outputs(
        cls, outputs: Mapping[str, Sequence[Any]], received_at: float, served_by: Target | None, *, final: bool = False
    ) -> "Chunk":
        """Read a response's flat output tensors, as either protocol delivers them.

        `served_by` is the model that was asked; outputs of a release router name the one behind it instead.
        """
        counts = outputs.get("num_output_tokens")
        routed = "served_model" in outputs and "served_version" in outputs
        if routed:
            served_by = Target(outputs["served_model"][0], int(outputs["served_version"][0]))
        return cls(
            texts=tuple(outputs.get("text_output", ())),
            num_output_tokens=None if counts is None else sum(counts),
            finish_reasons=tuple(None if reason == "None" else reason for reason in outputs.get("finish_reason", ())),
            num_input_tokens=next(iter(outputs.get("num_input_tokens", ())), None),
            received_at=received_at,
            logprobs=tuple(outputs.get("logprobs", ())),
            prompt_logprobs=next(iter(outputs.get("prompt_logprobs", ())), None),
            cumulative_logprobs=tuple(outputs.get("cumulative_logprob", ())),
            served_by=served_by,
            routed=routed,
            final=final,
        )

    @property
    def text(self) -> str:
        """The new text of the first sequence."""
        return self.texts[0] if self.texts else ""

    @property
    def finish_reason(self) -> str | None:
        """Why the first sequence ended; None while it is running."""
        return self.finish_reasons[0] if self.finish_reasons else None

    @property
    def carries_tokens(self) -> bool:
        """Whether the response moves the clock of TTFT and ITL."""
        return any(self.texts) if self.num_output_tokens is None else self.num_output_tokens > 0


@dataclass(frozen=True, slots=True)
class Completion:
    """A whole answer and how long it took. Times are in seconds on this client's clock.

    Attributes:
        served_by: the model and version that answered.
        ttft_s: None for a request without streaming, and for an answer without tokens.
        tpot_s: None unless one sequence of at least two tokens was streamed.
        e2e_s: to the last response that carries tokens, or to the end of an answer without tokens.
        tokens_per_s: output tokens of this one request / e2e_s; None if the server did not count tokens.
        itl_s: gaps between responses that carry tokens.
        num_responses: how many responses carried them, and the empty ones around them.
        template_s: time the chat template took as a request of its own, before this one; not part of the other times.
        logprobs: every response's JSON text in order of arrival, one element per sequence.
        prompt_logprobs: JSON list with an entry per token of the prompt; None if the server sent none.
    """

    served_by: Target
    texts: tuple[str, ...]
    finish_reasons: tuple[str | None, ...]
    num_input_tokens: int | None
    num_output_tokens: int | None
    ttft_s: float | None
    tpot_s: float | None
    e2e_s: float
    tokens_per_s: float | None
    itl_s: tuple[float, ...]
    num_responses: int
    template_s: float | None = None
    logprobs: tuple[str, ...] = ()
    prompt_logprobs: str | None = None
    cumulative_logprobs: tuple[float, ...] = ()

    @property
    def text(self) -> str:
        """The text of the first sequence."""
        return self.texts[0] if self.texts else ""

    @property
    def finish_reason(self) -> str | None:
        """Why the first sequence ended: `stop`, `length`, ...; None if the server did not say."""
        return self.finish_reasons[0] if self.finish_reasons else None


class CompletionBuilder:
    """Adds up the chunks of one request."""

    def __init__(
        self, target: Target, *, streamed: bool, num_input_tokens: int | None, template_s: float | None
    ) -> None:
        self._target = target
        self._served_by: Target | None = None
        self._routed = False
        self._started_at = 0.0
        self._streamed = streamed
        self._num_input_tokens = num_input_tokens
        self._template_s = template_s
        self._texts: list[list[str]] = []
        self._finish_reasons: list[str | None] = []
        self._logprobs: list[str] = []
        self._prompt_logprobs: str | None = None
        self._cumulative_logprobs: tuple[float, ...] = ()
        self._num_output_tokens: int | None = None
        self._arrivals: list[float] = []
        self._last_received_at = 0.0
        self._num_responses = 0

    @property
    def served_by(self) -> Target | None:
        """Who answers, as far as the responses have said."""
        return self._served_by

    def start(self, at: float) -> None:
        """Start the clock, `time.perf_counter()`, just before the request is sent."""
        self._started_at = self._last_received_at = at

    def add(self, chunk: Chunk) -> None:
        """Take in the next response of the stream."""
        self._num_responses += 1
        self._last_received_at = chunk.received_at
        if chunk.served_by is not None and (chunk.routed or not self._routed):
            self._served_by = chunk.served_by
            self._routed = chunk.routed
        if chunk.num_input_tokens is not None:
            self._num_input_tokens = chunk.num_input_tokens
        if chunk.num_output_tokens is not None:
            self._num_output_tokens = (self._num_output_tokens or 0) + chunk.num_output_tokens
        if chunk.cumulative_logprobs:
            self._cumulative_logprobs = chunk.cumulative_logprobs
        self._logprobs.extend(chunk.logprobs)
        if chunk.prompt_logprobs is not None:
            self._prompt_logprobs = chunk.prompt_logprobs
        for index, text in enumerate(chunk.texts):
            if index == len(self._texts):
                self._texts.append([])
            self._texts[index].append(text)
        for index, reason in enumerate(chunk.finish_reasons):
            if index == len(self._finish_reasons):
                self._finish_reasons.append(None)
            if reason is not None:
                self._finish_reasons[index] = reason
        if chunk.carries_tokens:
            self._arrivals.append(chunk.received_at)

    def build(self) -> Completion:
        """The answer so far."""
        arrivals = self._arrivals
        ttft_s = arrivals[0] - self._started_at if arrivals and self._streamed else None
        e2e_s = (arrivals[-1] if arrivals else self._last_received_at) - self._started_at
        tokens = self._num_output_tokens
        tpot_s = None
        if ttft_s is not None and tokens is not None and tokens > 1 and len(self._texts) == 1:
            tpot_s = (e2e_s - ttft_s) / (tokens - 1)
        return Completion(
            served_by=self._served_by or self._target,
            texts=tuple("".join(pieces) for pieces in self._texts),
            finish_reasons=tuple(self._finish_reasons),
            num_input_tokens=self._num_input_tokens,
            num_output_tokens=tokens,
            ttft_s=ttft_s,
            tpot_s=tpot_s,
            e2e_s=e2e_s,
            tokens_per_s=tokens / e2e_s if tokens is not None and e2e_s > 0 else None,
            itl_s=tuple(later - earlier for earlier, later in pairwise(arrivals)),
            num_responses=self._num_responses,
            template_s=self._template_s,
            logprobs=tuple(self._logprobs),
            prompt_logprobs=self._prompt_logprobs,
            cumulative_logprobs=self._cumulative_logprobs,
        )
