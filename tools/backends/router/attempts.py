"""One request on its way through the router, and its attempts at the engines of its targets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from tools.wire.messages import Delta, Failure, Request
from tools.wire.release import Target

from ..tensors import RoutedOutlet
from .metrics import Series
from .peers import EnginePeer
from .shadows import Copy

# A request that failed for one of these reasons may well be answered by another engine.
RETRIABLE: Final = frozenset({"engine_died", "queue_full", "unloading"})


class Stream:
    """A client's request. `targets` are left to try, in order; `tried` are engines that have failed it already.

    `attempt` is the one that is running, `copy` the one for the shadow. `arrived` is in `time.monotonic()` seconds.
    """

    __slots__ = (
        "arrived", "attempt", "cancelled", "copy", "outlet", "parameters", "request", "route", "sticky_key",
        "targets", "tried",
    )  # fmt: skip

    def __init__(self, request: Request, outlet: RoutedOutlet, parameters: Mapping[str, Any], arrived: float) -> None:
        """`parameters` are Triton's request parameters."""
        self.request = request
        self.outlet = outlet
        self.parameters = parameters
        self.arrived = arrived
        self.route = ""
        self.sticky_key = ""
        self.targets: tuple[Target, ...] = ()
        self.tried: set[EnginePeer] = set()
        self.attempt: Attempt | None = None
        self.copy: Copy | None = None
        self.cancelled = False

    def request_at(self, key: int, now: float) -> Request:
        """The request as an engine gets it that knows the stream as `key`, with the time that is left."""
        if key == self.request.key:
            return self.request
        left = self.time_left_us(now) if self.request.timeout_us else 0
        return msgspec.structs.replace(self.request, key=key, timeout_us=left)

    def time_left_us(self, now: float) -> int:
        """Microseconds to the deadline that the client set; negative when it has passed."""
        return self.request.timeout_us - round((now - self.arrived) * 1e6)

    def may_be_retried(self, failure: Failure, now: float) -> bool:
        """Whether another engine may still answer what failed before anything of it reached the client."""
        in_time = not self.request.timeout_us or self.time_left_us(now) > 0
        return failure.reason in RETRIABLE and not self.cancelled and in_time


class Attempt:
    """A request at one engine, which knows it as `key`. `passed` once anything of the answer has gone to the client."""

    __slots__ = (
        "began", "finish_reasons", "key", "last_token", "passed", "peer", "series", "stream", "streams", "target",
        "tokens",
    )  # fmt: skip

    def __init__(
        self, stream: Stream, key: int, target: Target, peer: EnginePeer, series: Series, began: float
    ) -> None:
        self.stream = stream
        self.streams = stream.request.stream
        self.key = key
        self.target = target
        self.peer = peer
        self.series = series
        self.began = began
        self.last_token = 0.0
        self.tokens = 0
        self.finish_reasons: dict[int, str] = {}
        self.passed = False

    def account(self, delta: Delta, now: float) -> None:
        """Write a delta into the metrics; called for every token.

        Without a stream there is one delta, and no time between tokens to be seen.
        """
        counts = delta.token_counts
        single = len(counts) == 1
        tokens = counts[0] if single else sum(counts)
        if tokens:
            self.tokens += tokens
            if self.streams:
                if self.last_token:
                    self.series.inter_token_latency(now - self.last_token)
                else:
                    self.series.ttft.append(now - self.began)
                self.last_token = now
        if delta.final or not single:
            # Sequences of one request end at different steps, and the last delta need not repeat the others' reasons.
            for sequence, reason in enumerate(delta.finish_reasons):
                if reason is not None:
                    self.finish_reasons[sequence] = reason
