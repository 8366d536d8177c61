"""A started transformers adapter, its answers, and a rein on how many tokens it generates."""

from __future__ import annotations

import json
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

from tests.fixtures.tiny_model import CONTEXT
from tests.waiting import NEVER_S
from tools.engine.accounting import Accounting
from tools.engine.adapters.base import Work
from tools.engine.adapters.transformers import TransformersAdapter
from tools.engine.limits import Limits
from tools.wire.launch import EngineLaunch
from tools.wire.messages import Delta, Request


@dataclass
class Answer:
    """Everything that one request was sent."""

    deltas: list[Delta] = field(default_factory=list)

    @property
    def text(self) -> str:
        return "".join(delta.texts[0] for delta in self.deltas)

    @property
    def tokens(self) -> int:
        return sum(delta.token_counts[0] for delta in self.deltas)

    @property
    def finish_reason(self) -> str | None:
        return self.deltas[-1].finish_reasons[0] if self.deltas else None

    @property
    def ended(self) -> bool:
        return bool(self.deltas) and self.deltas[-1].final


class Baseline:
    """One adapter; answers by the key of their request."""

    def __init__(self, adapter: TransformersAdapter) -> None:
        self.adapter = adapter
        self.answers: dict[int, Answer] = {}
        self.order: list[int] = []

    @property
    def model(self) -> Any:
        return self.adapter._loaded.model

    @property
    def tokenizer(self) -> Any:
        return self.adapter._loaded.tokenizer

    def work(self, key: int, prompt: str, **parameters: Any) -> Work:
        request = Request(key, "", prompt, parameters=json.dumps(parameters), stream=True)
        params, sequences = self.adapter.prepare(request)
        return Work(request, f"request-{key}", params, sequences)

    async def run(self, works: Sequence[Work]) -> list[Answer]:
        for work in works:
            self.answers[work.request.key] = Answer()
        await self.adapter.generate(works, self._emit)
        return [self.answers[work.request.key] for work in works]

    async def ask(self, prompt: str, **parameters: Any) -> Answer:
        return (await self.run([self.work(1, prompt, **parameters)]))[0]

    def _emit(self, work: Work, delta: Delta) -> None:
        self.order.append(work.request.key)
        self.answers[work.request.key].deltas.append(delta)


@asynccontextmanager
async def baseline(
    folder: Path,
    *,
    batching: bool = True,
    attention: str = "sdpa",
    limits: Limits | None = None,
    max_model_len: int = CONTEXT,
    parameters: dict[str, str] | None = None,
) -> AsyncIterator[Baseline]:
    """An adapter in float32, where greedy answers do not depend on the batch."""
    arguments = {
        "model": str(folder),
        "dtype": "float32",
        "attention": attention,
        "batching": batching,
        "max_model_len": max_model_len,
    }
    launch = EngineLaunch("transformers", "llm_baseline", "3", "", str(folder), arguments, parameters or {})
    adapter = TransformersAdapter(launch, limits or Limits())
    # The model is so small that threads would only wait for each other.
    with mock.patch("tools.engine.generation.loading.usable_cpus", return_value=1):
        await adapter.start(Accounting())
    try:
        yield Baseline(adapter)
    finally:
        await adapter.stop()


class Rein:
    """Lets a model make one forward pass for each permit."""

    def __init__(self, model: Any) -> None:
        self._permits = threading.Semaphore(0)
        self._hook = model.register_forward_pre_hook(lambda *_: self._wait())
        self.waits = 0

    def allow(self, tokens: int) -> None:
        self._permits.release(tokens)

    def release(self) -> None:
        """From now on the model runs freely."""
        self._hook.remove()
        self._permits.release(1000)

    def _wait(self) -> None:
        self.waits += 1
        assert self._permits.acquire(timeout=NEVER_S)
