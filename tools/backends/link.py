"""The stub's two sockets to one engine process."""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable

import msgspec
import zmq

from tools.wire.launch import answers_endpoint, requests_endpoint
from tools.wire.messages import PROTOCOL, Goodbye, Hello, ToEngine, ToPeer, Welcome, decode_to_peer, encode

log = logging.getLogger(__name__)

_HELLO_INTERVAL_MS = 200
# Steps that are read before any of them is handed on. They merge into fewer responses the more of them are there, and
# this bounds how long the first one waits, to some milliseconds.
_AT_ONCE = 256
# Python's own 5 ms let sender threads keep the interpreter while steps pile up unread: with 256 streams of a mock
# engine on 2 cores that cost two thirds of the tokens per second (`./ladder bench backend`).
_SWITCH_INTERVAL_S = 0.0005


class EngineLink:
    """Sends from any thread; a thread of its own receives and hands each message to `on_message`."""

    def __init__(self, socket: str, peer: str, on_message: Callable[[ToPeer], None], *, metrics: bool) -> None:
        self._peer = peer
        self._hello = Hello(PROTOCOL, peer, metrics)
        self._on_message = on_message
        self._context = zmq.Context(io_threads=1)
        self._requests = self._context.socket(zmq.PUSH)
        self._requests.setsockopt(zmq.SNDHWM, 0)
        self._requests.setsockopt(zmq.LINGER, 0)
        self._requests.connect(requests_endpoint(socket))
        # Held for one hand-over to ZeroMQ's own thread, some microseconds: it never waits for the engine.
        self._lock = threading.Lock()
        self._answers = self._context.socket(zmq.DEALER)
        self._answers.setsockopt(zmq.IDENTITY, peer.encode())
        self._answers.setsockopt(zmq.RCVHWM, 0)
        self._answers.setsockopt(zmq.LINGER, 0)
        self._answers.connect(answers_endpoint(socket))
        self._closing = False
        self._ready = threading.Event()
        self.welcome: Welcome | None = None
        # Why the engine will not serve this peer, or not any more.
        self.goodbye = ""
        sys.setswitchinterval(_SWITCH_INTERVAL_S)
        self._thread = threading.Thread(target=self._receive, name=f"link-{peer}", daemon=True)
        self._thread.start()

    def send(self, message: ToEngine) -> None:
        """Send without waiting; what is sent to an engine that has died is lost, and its streams fail anyway."""
        frames = [self._peer.encode(), encode(message)]
        with self._lock:
            if not self._closing:
                self._requests.send_multipart(frames, flags=zmq.NOBLOCK)

    def wait_ready(self, seconds: float) -> bool:
        """Whether the engine has said `Welcome` within `seconds`."""
        return self._ready.wait(seconds)

    def close(self) -> None:
        """Stop receiving and free the sockets."""
        with self._lock:
            self._closing = True
            self._requests.close()
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def _receive(self) -> None:
        try:
            while not self._closing:
                if self._answers.poll(_HELLO_INTERVAL_MS):
                    for frame in self._read():
                        self._take(frame)
                elif not self._ready.is_set():
                    self.send(self._hello)
        finally:
            self._answers.close()
            self._context.term()

    def _read(self) -> list[bytes]:
        """What has arrived by now, in order."""
        frames: list[bytes] = []
        try:
            while len(frames) < _AT_ONCE:
                frames.append(self._answers.recv(zmq.NOBLOCK))
        except zmq.Again:
            # Read to the end.
            pass
        return frames

    def _take(self, frame: bytes) -> None:
        try:
            message = decode_to_peer(frame)
        except msgspec.DecodeError as error:
            message = Goodbye(f"its message cannot be read ({error}): install engine and backend from one release")
        if isinstance(message, Welcome):
            if message.protocol != PROTOCOL:
                message = Goodbye(f"the engine speaks protocol {message.protocol}, this stub {PROTOCOL}")
            else:
                self.welcome = message
                self._ready.set()
        if isinstance(message, Goodbye):
            self.goodbye = message.reason
        try:
            self._on_message(message)
        except Exception:  # without this thread every stream would hang
            log.exception("a message of the engine could not be handled")
