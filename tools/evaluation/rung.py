"""One served model as the suites ask it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import replace
from typing import Any, Final, Protocol, TypeVar

from tools.client.async_client import AsyncClient
from tools.client.completion import Completion
from tools.client.contract import ModelContract
from tools.client.errors import UnavailableError
from tools.client.request import Request, Target

Step = Callable[[], None]
T = TypeVar("T")

# An engine that died is back after a minute or two.
PAUSES_S: Final = (1.0, 2.0, 5.0, 10.0, 20.0, 40.0, 60.0)


class Rung(Protocol):
    """What the suites need of a served model. Every method raises ClientError when the server does not answer."""

    @property
    def contract(self) -> ModelContract:
        """The model's tensors."""
        ...

    async def complete(self, request: Request) -> Completion:
        """The whole answer to one request."""
        ...

    async def complete_all(self, requests: Sequence[Request], step: Step) -> list[Completion]:
        """The answers in the order of the requests; `step` is called as each one ends."""
        ...

    async def tokenize(self, text: str) -> list[int]:
        """The tokens of a text, as the server's `chat_tokenizer` makes them, its leading special tokens included."""
        ...


class ServedRung:
    """A model behind a client, with at most `concurrency` requests at once, each given up after `deadline_s`."""

    def __init__(
        self, client: AsyncClient, target: Target, contract: ModelContract, concurrency: int, deadline_s: float
    ) -> None:
        self.target = target
        self._client = client
        self._contract = contract
        self._deadline_s = deadline_s
        self._turns = asyncio.Semaphore(concurrency)

    @property
    def contract(self) -> ModelContract:
        """See `Rung.contract`."""
        return self._contract

    async def complete(self, request: Request) -> Completion:
        """See `Rung.complete`."""
        timed = replace(request, deadline_s=self._deadline_s)
        async with self._turns:
            return await _patiently(lambda: self._client.complete(self.target, timed), self._deadline_s)

    async def complete_all(self, requests: Sequence[Request], step: Step) -> list[Completion]:
        """See `Rung.complete_all`."""
        return await all_of([self.complete(request) for request in requests], step)

    async def tokenize(self, text: str) -> list[int]:
        """See `Rung.tokenize`."""
        prompt = await _patiently(lambda: self._client.tokenize(text, self._deadline_s), self._deadline_s)
        return list(prompt.input_ids)


async def _patiently(ask: Callable[[], Awaitable[T]], deadline_s: float) -> T:
    """What `ask` gives, asked again while the model takes no work: its queue is full, or its engine is starting again.

    A request that ran into its deadline is not repeated, it would do so again.
    """
    loop = asyncio.get_running_loop()
    for pause_s in PAUSES_S:
        started = loop.time()
        try:
            return await ask()
        except UnavailableError:
            if loop.time() - started >= deadline_s:
                raise
        await asyncio.sleep(pause_s)
    return await ask()


async def leading_tokens(rung: Rung) -> list[int]:
    """What the tokenizer puts before every text: what two texts have in common that have no character in common."""
    one, other = await rung.tokenize("a"), await rung.tokenize("b")
    return [a for a, b in zip(one, other, strict=False) if a == b]


async def all_of(answers: Sequence[Coroutine[Any, Any, T]], step: Step) -> list[T]:
    """The results in their order, all awaited at once; the first failure cancels the others and is raised."""

    async def counted(answer: Coroutine[Any, Any, T]) -> T:
        result = await answer
        step()
        return result

    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(counted(answer)) for answer in answers]
    except ExceptionGroup as failed:
        raise failed.exceptions[0] from None
    return [task.result() for task in tasks]
