"""A peer of an engine, as the stub or the router is one, for tests in one event loop."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from types import TracebackType
from typing import TypeVar

import zmq
import zmq.asyncio

from tests.waiting import NEVER_S
from tools.wire.launch import answers_endpoint, requests_endpoint
from tools.wire.messages import (
    PROTOCOL,
    Delta,
    Hello,
    Request,
    Step,
    Submit,
    ToEngine,
    ToPeer,
    Welcome,
    decode_to_peer,
    encode,
)

M = TypeVar("M", bound=ToPeer)


class Peer:
    """Sends what it is told; keeps the steps it got, and their deltas by stream."""

    def __init__(self, socket: str, name: str = "peer") -> None:
        self.name = name
        self.deltas: defaultdict[int, list[Delta]] = defaultdict(list)
        self.steps: list[Step] = []
        self.others: list[ToPeer] = []
        self._context = zmq.asyncio.Context()
        self._requests = self._context.socket(zmq.PUSH)
        self._requests.setsockopt(zmq.LINGER, 0)
        self._requests.connect(requests_endpoint(socket))
        self._answers = self._context.socket(zmq.DEALER)
        self._answers.setsockopt(zmq.IDENTITY, name.encode())
        self._answers.setsockopt(zmq.LINGER, 0)
        self._answers.connect(answers_endpoint(socket))

    async def __aenter__(self) -> Peer:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Go away without a word."""
        self._requests.close()
        self._answers.close()
        self._context.term()

    async def send(self, message: ToEngine) -> None:
        await self.send_frames(self.name.encode(), encode(message))

    async def send_frames(self, *frames: bytes) -> None:
        await self._requests.send_multipart(frames)

    async def hello(self, *, metrics: bool = False, protocol: int = PROTOCOL) -> Welcome:
        """Say hello until the engine says welcome."""
        welcome: Welcome | None = None
        for _ in range(int(NEVER_S / 0.05)):
            await self.send(Hello(protocol, self.name, metrics))
            if welcome := await self.next(Welcome, 0.05):
                return welcome
        raise AssertionError("no welcome")

    async def submit(self, *requests: Request, together: bool = False) -> None:
        await self.send(Submit(list(requests), together))

    async def next(self, kind: type[M], seconds: float = NEVER_S) -> M | None:
        """The next message of a kind that has not been handed out; None after `seconds`."""
        while not (found := [message for message in self.others if isinstance(message, kind)]):
            if not await self._read(seconds):
                return None
        self.others.remove(found[0])
        return found[0]

    async def expect(self, kind: type[M]) -> M:
        message = await self.next(kind)
        assert message is not None, f"no {kind.__name__} came"
        return message

    async def ended(self, key: int) -> Delta:
        """The final delta of a stream."""
        while not (self.deltas[key] and self.deltas[key][-1].final):
            assert await self._read(NEVER_S), f"stream {key} has not ended: {self.deltas[key]}"
        return self.deltas[key][-1]

    async def begun(self, key: int) -> Delta:
        """The first delta of a stream."""
        while not self.deltas[key]:
            assert await self._read(NEVER_S), f"stream {key} has not begun"
        return self.deltas[key][0]

    async def failure(self, key: int) -> tuple[str, str]:
        """Code and message that a stream ended with."""
        failure = (await self.ended(key)).failure
        assert failure is not None
        return failure.code, failure.message

    def text(self, key: int, sequence: int = 0) -> str:
        return "".join(delta.texts[sequence] for delta in self.deltas[key])

    async def _read(self, seconds: float) -> bool:
        try:
            frame = await asyncio.wait_for(self._answers.recv(), seconds)
        except TimeoutError:
            return False
        message = decode_to_peer(frame)
        if isinstance(message, Step):
            self.steps.append(message)
            for delta in message.deltas:
                self.deltas[delta.key].append(delta)
        else:
            self.others.append(message)
        return True
