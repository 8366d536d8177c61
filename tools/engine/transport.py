"""The engine's two sockets. Deltas that come up in one turn of the event loop leave as one message per peer."""

from __future__ import annotations

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import msgspec
import zmq
import zmq.asyncio

from tools.wire.launch import ANSWERS_SUFFIX, REQUESTS_SUFFIX, answers_endpoint, requests_endpoint
from tools.wire.messages import Delta, Step, ToEngine, ToPeer, decode_to_engine, encode


class Transport:
    """Receives from any peer, answers each by name. Used from the event loop's thread only."""

    def __init__(self, socket: str, on_lost: Callable[[str], None]) -> None:
        self._path = socket
        self._on_lost = on_lost
        self._buffers: defaultdict[str, list[Delta]] = defaultdict(list)
        self._context = zmq.asyncio.Context(io_threads=1)
        self._requests = self._context.socket(zmq.PULL)
        self._requests.setsockopt(zmq.RCVHWM, 0)
        # Only ever written to, so a plain socket does: there is no read event that a write could swallow.
        self._answers: zmq.Socket[bytes] = zmq.Context.shadow(self._context.underlying).socket(zmq.ROUTER)
        self._answers.setsockopt(zmq.SNDHWM, 0)
        self._answers.setsockopt(zmq.LINGER, 1000)
        self._answers.setsockopt(zmq.ROUTER_MANDATORY, 1)
        # A stub that is started again under the same name takes over from the one that died.
        self._answers.setsockopt(zmq.ROUTER_HANDOVER, 1)

    def bind(self) -> None:
        """Open both sockets. Raises ValueError for a path too long and zmq.ZMQError when it cannot be bound."""
        self._requests.bind(requests_endpoint(self._path))
        self._answers.bind(answers_endpoint(self._path))

    async def receive(self) -> tuple[str, ToEngine]:
        """Next message and its sender. Raises ValueError for a frame that is no message."""
        frames = await self._requests.recv_multipart()
        if len(frames) != 2:
            raise ValueError(f"got {len(frames)} frames, a message has 2: peer name and body")
        try:
            return frames[0].decode(), decode_to_engine(frames[1])
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise ValueError(f"cannot read a message: {error}") from error

    def push(self, peer: str, delta: Delta) -> None:
        """Queue a delta. It leaves with everything else that this turn of the loop produces for the peer."""
        if not self._buffers:
            asyncio.get_running_loop().call_soon(self.flush)
        self._buffers[peer].append(delta)

    def flush(self) -> None:
        """Send all queued deltas now."""
        buffers, self._buffers = self._buffers, defaultdict(list)
        for peer, deltas in buffers.items():
            self.send(peer, Step(deltas))

    def send(self, peer: str, message: ToPeer) -> None:
        """Send at once; a peer that is gone is reported to `on_lost`."""
        try:
            self._answers.send_multipart([peer.encode(), encode(message)], flags=zmq.NOBLOCK)
        except zmq.ZMQError as error:
            if error.errno not in (zmq.EHOSTUNREACH, zmq.EAGAIN):
                raise
            self._on_lost(peer)

    def close(self) -> None:
        """Send what is queued and remove the sockets."""
        self.flush()
        self._requests.close(linger=0)
        self._answers.close()
        self._context.term()
        for suffix in (REQUESTS_SUFFIX, ANSWERS_SUFFIX):
            with contextlib.suppress(FileNotFoundError):
                Path(self._path + suffix).unlink()
