"""A crowd in front of the router: streams that never end, and an account of every request that did not go well."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from types import TracebackType
from typing import Self

from tools.client.address import Endpoint
from tools.client.async_client import AsyncClient
from tools.client.errors import ClientError
from tools.client.request import GenerateRequest, Target
from tools.engine.adapters.mock import mock_tokens

ROUTER = Target("chat")
TOKENS = 12
_DEADLINE_S = 60.0


class Crowd:
    """Streams to the router, as many at once as it has members, for as long as the context lasts.

    The mock engines repeat the prompt's words, so the whole answer is known: `cut` are those that were something else.
    """

    def __init__(self, endpoint: Endpoint, members: int = 16) -> None:
        self.answered: Counter[str] = Counter()
        self.failed: list[ClientError] = []
        self.cut: list[str] = []
        self._endpoint = endpoint
        self._members = members
        self._leaving = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._come()), name="crowd")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._leaving.set()
        self._thread.join()

    async def _come(self) -> None:
        async with AsyncClient(self._endpoint) as client:
            await asyncio.gather(*(self._ask(client, number) for number in range(self._members)))

    async def _ask(self, client: AsyncClient, member: int) -> None:
        number = 0
        while not self._leaving.is_set():
            prompt = f"member {member} asks for the {number} time"
            number += 1
            request = GenerateRequest(
                prompt=prompt, sampling={"max_tokens": TOKENS}, deadline_s=_DEADLINE_S, stream=True
            )
            try:
                answer = await client.complete(ROUTER, request)
            except ClientError as error:
                self.failed.append(error)
                continue
            if answer.text != "".join(mock_tokens(prompt, TOKENS)) or answer.finish_reason != "length":
                self.cut.append(answer.text)
            self.answered[str(answer.served_by)] += 1
