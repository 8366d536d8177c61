"""From deltas to responses: what is pending for a stream is merged before each send, never reordered, never lost.

A few sender threads share the streams between them. Each stream belongs to one of them, so its order holds without a
lock around the send; a sender that falls behind finds more text pending and sends it in one response. The same thread
asks whether the stream's client is still there, so that no stream is asked about after its final response.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import Protocol

from tools.wire.merging import merge
from tools.wire.messages import Delta, Failure

log = logging.getLogger(__name__)

# Asking about one stream costs a round trip to the server's process of about 60 us: this bounds it to a few percent.
_CANCEL_CHECK_S = 0.1
_CANCEL_CHECKS_PER_S = 500


class Outlet(Protocol):
    """Where a stream's responses go."""

    def send(self, delta: Delta) -> None:
        """Send one response with what `delta` says; the last one of the stream when `delta.final`."""
        ...

    def is_cancelled(self) -> bool:
        """Whether the client has gone or has cancelled."""
        ...


class _Stream:
    __slots__ = ("cancelled", "ended", "key", "outlet", "pending", "queued")

    def __init__(self, key: int, outlet: Outlet) -> None:
        self.key = key
        self.outlet = outlet
        self.pending: list[Delta] = []
        self.queued = False
        self.cancelled = False
        self.ended = False


class _Sender:
    """One thread and the streams it serves."""

    def __init__(self, name: str, on_cancelled: Callable[[int], None], on_ended: Callable[[], None]) -> None:
        self._on_cancelled = on_cancelled
        self._on_ended = on_ended
        self._wake = threading.Condition(threading.Lock())
        self._streams: dict[int, _Stream] = {}
        self._ready: deque[_Stream] = deque()
        self._closing = False
        self._next_check = time.monotonic() + _CANCEL_CHECK_S
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def open(self, key: int, outlet: Outlet) -> None:
        with self._wake:
            if not self._streams:
                # Asleep without a limit: its client may go before the first delta comes.
                self._wake.notify()
            self._streams[key] = _Stream(key, outlet)

    def push(self, deltas: Iterable[Delta]) -> None:
        with self._wake:
            for delta in deltas:
                stream = self._streams.get(delta.key)
                if stream is None or stream.ended:
                    continue
                stream.ended = delta.final
                stream.pending.append(delta)
                if not stream.queued:
                    stream.queued = True
                    self._ready.append(stream)
            self._wake.notify()

    def open_keys(self) -> list[int]:
        with self._wake:
            return list(self._streams)

    def fail_all(self, failure: Failure) -> None:
        self.push(Delta(key, [], [], [], final=True, failure=failure) for key in self.open_keys())

    def close(self) -> None:
        with self._wake:
            self._closing = True
            self._wake.notify()
        self._thread.join()

    def _run(self) -> None:
        while (taken := self._take()) is not None:
            stream, delta = taken
            if stream is not None and delta is not None:
                self._deliver(stream, delta)
            if time.monotonic() >= self._next_check:
                self._check_cancelled()

    def _take(self) -> tuple[_Stream | None, Delta | None] | None:
        with self._wake:
            if not self._ready and not self._closing:
                wait = max(0.0, self._next_check - time.monotonic()) if self._streams else None
                self._wake.wait(wait)
            if not self._ready:
                return None if self._closing else (None, None)
            stream = self._ready.popleft()
            pending, stream.pending, stream.queued = stream.pending, [], False
        return stream, merge(pending)

    def _deliver(self, stream: _Stream, delta: Delta) -> None:
        try:
            stream.outlet.send(delta)
        except Exception as error:  # one broken stream must not take down the others that this thread serves
            log.exception('a response of stream "%s" could not be sent', stream.key)
            if not delta.final:
                self._give_up(stream, f"a response could not be sent: {type(error).__name__}: {error}")
                return
        if delta.final:
            with self._wake:
                self._streams.pop(stream.key, None)
            self._on_ended()

    def _give_up(self, stream: _Stream, reason: str) -> None:
        """End a stream that has lost a response: what follows would be read as if nothing were missing."""
        with self._wake:
            stream.ended = True
            stream.pending = [Delta(stream.key, [], [], [], final=True, failure=Failure("INTERNAL", reason))]
            if not stream.queued:
                stream.queued = True
                self._ready.append(stream)
        self._on_cancelled(stream.key)

    def _check_cancelled(self) -> None:
        with self._wake:
            streams = [stream for stream in self._streams.values() if not stream.cancelled]
        for stream in streams:
            if not stream.ended and self._is_cancelled(stream):
                stream.cancelled = True
                self._on_cancelled(stream.key)
        self._next_check = time.monotonic() + max(_CANCEL_CHECK_S, len(streams) / _CANCEL_CHECKS_PER_S)

    def _is_cancelled(self, stream: _Stream) -> bool:
        try:
            return stream.outlet.is_cancelled()
        except Exception:  # as in _deliver; a client that cannot be asked about is as good as gone
            log.exception('stream "%s" cannot be asked whether its client is still there', stream.key)
            return True


class Delivery:
    """All streams of one model instance, spread over its sender threads by key."""

    def __init__(self, senders: int, on_cancelled: Callable[[int], None]) -> None:
        self._open_streams = 0
        self._changed = threading.Condition(threading.Lock())
        self._senders = [_Sender(f"sender-{i}", on_cancelled, self._ended) for i in range(senders)]

    @property
    def open_streams(self) -> int:
        """Streams whose final response has not been sent yet."""
        return self._open_streams

    def open(self, key: int, outlet: Outlet) -> None:
        """Take in a stream; its deltas may come from now on."""
        with self._changed:
            self._open_streams += 1
        self._sender(key).open(key, outlet)

    def push(self, deltas: list[Delta]) -> None:
        """Queue deltas; those of streams that have ended are dropped."""
        count = len(self._senders)
        if len(deltas) == 1:
            self._sender(deltas[0].key).push(deltas)
            return
        for i, sender in enumerate(self._senders):
            if mine := [delta for delta in deltas if delta.key % count == i]:
                sender.push(mine)

    def fail_all(self, failure: Failure) -> None:
        """End every open stream with `failure`, after what is already pending for it."""
        for sender in self._senders:
            sender.fail_all(failure)

    def open_keys(self) -> list[int]:
        """Keys of the streams whose final response has not been sent yet."""
        return [key for sender in self._senders for key in sender.open_keys()]

    def wait_empty(self, seconds: float) -> bool:
        """Whether all streams have ended within `seconds`."""
        with self._changed:
            return self._changed.wait_for(lambda: self._open_streams == 0, seconds)

    def close(self) -> None:
        """Stop the threads; streams that are still open get nothing more."""
        for sender in self._senders:
            sender.close()

    def _sender(self, key: int) -> _Sender:
        return self._senders[key % len(self._senders)]

    def _ended(self) -> None:
        with self._changed:
            self._open_streams -= 1
            self._changed.notify_all()
