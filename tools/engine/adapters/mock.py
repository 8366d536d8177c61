"""A generator without a model: tests and benches drive the real stub, server and sockets with it.

Its model.json may set `step_s` (seconds between steps, 0 for as fast as the loop turns), `max_num_seqs`,
`max_model_len`, `ttft_s`, `die_after_tokens` (the process exits, as a crashed engine would), `start_s` and
`tokens_per_step`. The answer to a prompt repeats its words, so a test can tell what it ought to be.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import time
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from tools.wire.messages import Delta, Request, Tokenize, Tokenized

from ..accounting import Accounting
from ..errors import LaunchError, invalid
from ..parameters import SAMPLING_RULES, limit_max_tokens, parse_parameters
from .base import Emit, EngineInfo, Work, cannot_tokenize


class MockArguments(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """model.json of a mock engine; times in seconds. `batching` is the baseline's stub's to read."""

    step_s: float = 0.0
    ttft_s: float = 0.0
    start_s: float = 0.0
    max_num_seqs: int = 256
    max_model_len: int = 4096
    tokens_per_step: int = 1
    die_after_tokens: int = 0
    batching: bool = False


def mock_tokens(prompt: str, count: int) -> list[str]:
    """The first `count` tokens of the mock's endless answer to `prompt`: its words, over and over."""
    return list(itertools.islice(_answer(prompt), count))


def _answer(prompt: str) -> Iterator[str]:
    return itertools.cycle([f"{word} " for word in prompt.split()] or ["ok "])


class _Stream:
    """One running request of the mock: its answer, how far it is, and the future that its end resolves."""

    def __init__(self, work: Work, emit: Emit, starts_at: float) -> None:
        self.work = work
        self.emit = emit
        self.starts_at = starts_at
        self.tokens = _answer(work.request.prompt)
        self.length: int = work.params.get("max_tokens", 16)
        self.num_input_tokens = len(work.request.prompt.split())
        self.position = 0
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def step(self, count: int) -> int:
        """Generate up to `count` tokens; returns how many it was."""
        produced = min(count, self.length - self.position)
        text = "".join(itertools.islice(self.tokens, produced))
        self.position += produced
        final = self.position == self.length
        n = self.work.sequences
        delta = Delta(
            key=self.work.request.key,
            texts=[text] * n,
            token_counts=[produced] * n,
            finish_reasons=["length" if final else None] * n,
            num_input_tokens=self.num_input_tokens,
            final=final,
        )
        self.emit(self.work, delta)
        if final and not self.ended.done():
            self.ended.set_result(None)
        return produced


class MockAdapter:
    """Streams words at a fixed pace; one loop drives all streams, as one engine step would."""

    def __init__(self, arguments: dict[str, Any], max_tokens_limit: int = 0) -> None:
        self._rules = limit_max_tokens(SAMPLING_RULES, max_tokens_limit)
        try:
            self._arguments = msgspec.convert(arguments, MockArguments)
        except msgspec.ValidationError as error:
            raise LaunchError(f"model.json of a mock engine: {error}") from error
        self._generated = 0
        self._streams: set[_Stream] = set()
        self._asked = asyncio.Event()
        self._stepping: asyncio.Task[None] | None = None
        self._accounting = Accounting()

    async def start(self, accounting: Accounting) -> EngineInfo:
        self._accounting = accounting
        await asyncio.sleep(self._arguments.start_s)
        self._stepping = asyncio.create_task(self._steps())
        return EngineInfo("mock", self._arguments.max_model_len, self._arguments.max_num_seqs)

    def prepare(self, request: Request) -> tuple[Any, int]:
        params = parse_parameters(request.parameters, request.parameters_source, self._rules)
        length = len(request.prompt.split())
        if length >= self._arguments.max_model_len:
            raise invalid(
                f'"text_input" has {length} tokens: the context takes at most {self._arguments.max_model_len - 1}'
            )
        return params, params.get("n", 1)

    async def generate(self, group: Sequence[Work], emit: Emit) -> None:
        await asyncio.gather(*(self._stream(work, emit) for work in group))

    async def _stream(self, work: Work, emit: Emit) -> None:
        stream = _Stream(work, emit, time.monotonic() + self._arguments.ttft_s)
        self._streams.add(stream)
        self._asked.set()
        try:
            await stream.ended
        finally:
            self._streams.discard(stream)

    async def _steps(self) -> None:
        while True:
            running = [stream for stream in self._streams if not stream.ended.done()]
            if not running:
                # As with a real engine, the first request after a pause waits for no step.
                self._asked.clear()
                await self._asked.wait()
                continue
            now = time.monotonic()
            for stream in running:
                if stream.work.cancelled:
                    # One of a group: the others go on.
                    stream.ended.set_result(None)
                elif now >= stream.starts_at:
                    self._count(stream.step(self._arguments.tokens_per_step))
            if not all(stream.ended.done() for stream in running):
                await asyncio.sleep(self._arguments.step_s)

    def _count(self, tokens: int) -> None:
        self._generated += tokens
        if self._arguments.die_after_tokens and self._generated >= self._arguments.die_after_tokens:
            os._exit(3)

    def tokenize(self, message: Tokenize) -> Tokenized:
        return cannot_tokenize("mock", message)

    async def check_health(self) -> None:
        """A mock is healthy as long as its process lives."""

    def refresh_gauges(self, waiting: int, running: int) -> None:
        for prefix in ("vllm:num_requests", "ladder_requests"):
            self._accounting.gauge(f"{prefix}_running", running)
            self._accounting.gauge(f"{prefix}_waiting", waiting)

    async def stop(self) -> None:
        if self._stepping:
            self._stepping.cancel()
