"""One request inside the engine process, from its arrival to its final delta."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from enum import Enum

from tools.wire.merging import merge
from tools.wire.messages import Delta, Failure, FailureReason

from .accounting import Accounting
from .adapters.base import Work


class Ending(Enum):
    """Why a request is being stopped before its answer is complete."""

    CLIENT = "the client cancelled the request"
    UNLOAD = "the model is being unloaded"
    DEADLINE = "deadline"


@dataclass(eq=False)
class Live:
    """A request that was accepted. Times are `time.monotonic()` seconds; `peer` is the name its answers go to.

    `held` is what a request that is not streamed has generated so far; `finish_reasons` are by sequence.
    """

    peer: str
    work: Work
    arrived: float
    deadline_s: float | None = None
    ticket: int | None = None
    task: asyncio.Task[None] | None = None
    timer: asyncio.TimerHandle | None = None
    first_token: float | None = None
    last_token: float | None = None
    tokens: int = 0
    num_input_tokens: int = 0
    finish_reasons: dict[int, str] = field(default_factory=dict)
    admitted: float = 0.0
    held: list[Delta] = field(default_factory=list)
    done: bool = False
    group: list[Live] = field(default_factory=list)

    def stop_failure(self, ending: Ending) -> Failure:
        """What the client of a stopped request is told."""
        if ending is Ending.DEADLINE:
            waited = "in the queue" if self.task is None else f"after {self.tokens} tokens"
            return Failure(
                "UNAVAILABLE",
                f"the deadline of {self.deadline_s or 0:g} s passed {waited}: "
                'allow more time with the request parameter "timeout" (microseconds) or ask for fewer tokens',
                "deadline",
            )
        reason: FailureReason = "unloading" if ending is Ending.UNLOAD else ""
        return Failure("CANCELLED", f"{ending.value} after {self.tokens} tokens", reason)

    def account(self, delta: Delta, now: float, accounting: Accounting) -> None:
        """Write this delta into the metrics."""
        new_tokens = sum(delta.token_counts)
        if new_tokens:
            if self.first_token is None:
                self.first_token = now
                accounting.observe("vllm:time_to_first_token_seconds", now - self.arrived)
            elif self.last_token is not None:
                accounting.inter_token_latency(now - self.last_token)
            self.last_token = now
            self.tokens += new_tokens
            accounting.count("vllm:generation_tokens_total", new_tokens)
        self.num_input_tokens = delta.num_input_tokens or self.num_input_tokens
        for sequence, reason in enumerate(delta.finish_reasons):
            # Sequences of one request end at different steps, and the last delta need not repeat the others' reasons.
            if reason is not None:
                self.finish_reasons[sequence] = reason
        if delta.final and delta.failure is None:
            self._account_end(now, accounting)

    def release(self, delta: Delta) -> Delta | None:
        """What leaves for the client now: a stream's delta as it is, else everything together at the end."""
        if self.work.request.stream:
            return delta
        self.held.append(delta)
        return merge(self.held) if delta.final else None

    def _account_end(self, now: float, accounting: Accounting) -> None:
        for reason in self.finish_reasons.values():
            accounting.count("vllm:request_success_total", label=reason)
        accounting.count("vllm:prompt_tokens_total", self.num_input_tokens)
        accounting.observe("vllm:request_queue_time_seconds", self.admitted - self.arrived + self.work.queued_s)
        accounting.observe("vllm:e2e_request_latency_seconds", now - self.arrived)
        accounting.observe("vllm:request_prompt_tokens", self.num_input_tokens)
        accounting.observe("vllm:request_generation_tokens", self.tokens)
        accounting.observe("vllm:request_params_n", self.work.sequences)
        per_sequence = self.tokens / self.work.sequences
        if self.first_token is not None and per_sequence > 1:
            accounting.observe(
                "vllm:request_time_per_output_token_seconds", (now - self.first_token) / (per_sequence - 1)
            )
