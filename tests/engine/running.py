"""An engine server in the test's own event loop, with a mock that can be held back."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from tests.engine.peer import Peer
from tests.waiting import NEVER_S
from tools.engine.adapters.base import Emit, Work
from tools.engine.adapters.mock import MockAdapter
from tools.engine.limits import Limits
from tools.engine.server import EngineServer
from tools.wire.messages import Drain, Request

PID = 4321


class HeldAdapter(MockAdapter):
    """A mock whose prompts that start with "hold" wait for `gate`. Keeps the groups it got."""

    def __init__(self, arguments: dict[str, Any]) -> None:
        super().__init__(arguments)
        self.gate = asyncio.Event()
        self.groups: list[list[Work]] = []
        self.running = 0

    async def generate(self, group: Sequence[Work], emit: Emit) -> None:
        self.groups.append(list(group))
        self.running += 1
        try:
            if group[0].request.prompt.startswith("hold"):
                await self.gate.wait()
            await super().generate(group, emit)
        finally:
            self.running -= 1


class Engine:
    """A running server, its adapter, and the task that serves."""

    def __init__(self, socket: str, adapter: MockAdapter, limits: Limits) -> None:
        self.socket = socket
        self.adapter = adapter
        self.server = EngineServer('"llm" version 1', socket, adapter, limits)
        self.task = asyncio.create_task(self.server.run(PID))

    def peer(self, name: str = "peer") -> Peer:
        return Peer(self.socket, name)

    async def end(self) -> None:
        """Wait until the server has returned, or raise what it raised."""
        await asyncio.wait_for(asyncio.shield(self.task), NEVER_S)


NO_LIMITS = Limits()


@asynccontextmanager
async def serving(
    socket: str, arguments: dict[str, Any] | None = None, limits: Limits = NO_LIMITS, adapter: MockAdapter | None = None
) -> AsyncIterator[Engine]:
    """Serve; afterwards a drain must end the server, unless it has ended already."""
    engine = Engine(socket, adapter or MockAdapter(arguments or {}), limits)
    try:
        # Bound before the first peer connects, or ZeroMQ waits for a while until it tries again.
        await asyncio.sleep(0)
        yield engine
        if not engine.task.done():
            async with engine.peer("closing") as peer:
                await peer.send(Drain(0))
                await engine.end()
    finally:
        engine.task.cancel()
        await asyncio.wait([engine.task])


def request(key: int, prompt: str = "one two three", **fields: Any) -> Request:
    """A streamed request; `max_tokens` and `n` go into its parameters."""
    numbers = {name: fields.pop(name) for name in ("max_tokens", "n") if name in fields}
    defaults = {"parameters": json.dumps(numbers), "stream": True, "request_id": ""}
    return Request(key=key, prompt=prompt, **{**defaults, **fields})


async def eventually(holds: Any) -> None:
    """Wait in the event loop until `holds()` is true."""
    async with asyncio.timeout(NEVER_S):
        while not holds():  # noqa: ASYNC110 - what it waits for has no event
            await asyncio.sleep(0.005)
