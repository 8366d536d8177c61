"""The release router: picks a target for each request and talks to that target's engine itself.

Requests come from Triton's thread, answers from one thread per engine, tokens and releases from the router's own
engine, cancellations from the sender threads. One lock guards what they share; nothing waits while it is held.
"""

from __future__ import annotations

import itertools
import json
import logging
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence

from tools.wire import release_metrics as names
from tools.wire.messages import Cancel, CancelReason, Delta, Failure, Submit, Tokenize, Tokenized, Welcome
from tools.wire.release import Release, Released, Target, parameter_text

from ..delivery import Delivery
from ..model_config import ModelConfig
from ..supervisor import Patience
from .attempts import Attempt, Stream
from .choosing import Facts, choose, counts_tokens, without_own
from .engine import RouterEngine
from .metrics import ReleaseMetrics, error_reason
from .peers import EnginePeer, EnginePeers, Identity
from .shadows import Shadows

log = logging.getLogger(__name__)

_SENDERS = 2
_DRAIN_S = 10.0
_METRICS_S = 0.25


class Router:
    """All requests of the model `chat` that are on their way; usable from any thread."""

    def __init__(
        self,
        config: ModelConfig,
        *,
        on_failed: Callable[[str], None],
        patience: Patience = Patience(),  # noqa: B008 - frozen
    ) -> None:
        """`on_failed` is told when the router's own engine is given up for good."""
        self._keys = itertools.count(1)
        self._random = random.Random()  # noqa: S311 - it spreads requests and keeps no secret
        self._lock = threading.Lock()
        self._release = Release([])
        self._streams: dict[int, Stream] = {}
        # Those that wait for their tokens.
        self._waiting: dict[int, Stream] = {}
        self._attempts: dict[int, Attempt] = {}
        self._in_flight: Counter[Identity] = Counter()
        self._metrics = ReleaseMetrics(config.name, config.version)
        self._delivery = Delivery(_SENDERS, lambda key: self._cancel([key], "client"))
        self._peers = EnginePeers(config.place().sockets, self)
        self._shadows = Shadows(self._peers, self._metrics, self.next_key)
        self._engine = RouterEngine(
            config,
            on_tokenized=self._on_tokenized,
            on_released=self._on_released,
            on_down=self._on_tokenizer_down,
            on_failed=on_failed,
            patience=patience,
        )
        self._stopping = threading.Event()
        self._reporting = threading.Thread(target=self._report, name="metrics", daemon=True)

    def start(self) -> Welcome:
        """Start the own engine, take its release, and look for the engines of targets.

        Raises what `RouterEngine.start` raises.
        """
        try:
            welcome = self._engine.start()
        except (RuntimeError, OSError, ValueError):
            self._delivery.close()
            raise
        self._peers.start()
        self._reporting.start()
        return welcome

    def next_key(self) -> int:
        """A stream key that was never used before."""
        return next(self._keys)

    @property
    def open_streams(self) -> int:
        """Streams whose final response has not been sent yet."""
        return self._delivery.open_streams

    def submit(self, stream: Stream, tokenize: Tokenize | None) -> None:
        """Take a request; its outlet gets the answer, the last delta with `final`, whatever happens to any engine.

        A plain prompt whose length nobody asks for is left to the target's engine, which spares it the way to the own
        one and back.
        """
        key = stream.request.key
        with self._lock:
            self._streams[key] = stream
            release = self._release
            if tokenize is not None and _is_plain(tokenize) and not counts_tokens(release):
                tokenize = None
            # Before anybody can end it: an answer to a stream that is not open yet is dropped.
            self._delivery.open(key, stream.outlet)
            if tokenize is not None:
                self._waiting[key] = stream
        if tokenize is None:
            self._route(stream, release)
        elif failure := self._engine.tokenize(tokenize):
            self._fail_waiting([key], failure)

    def retire(self) -> None:
        """The model is being unloaded: let what is in flight finish up to a limit, then cancel it."""
        if not self._delivery.wait_empty(_DRAIN_S):
            self._cancel(self._delivery.open_keys(), "unload")

    def stop(self) -> None:
        """Finish what is in flight up to a limit, then let go of all engines."""
        self.retire()
        self._delivery.wait_empty(1.0)
        self._delivery.fail_all(Failure("UNAVAILABLE", "the release router was unloaded", "unloading"))
        self._delivery.wait_empty(1.0)
        self._delivery.close()
        self._peers.stop()
        self._engine.stop()
        self._stopping.set()
        self._reporting.join()

    # From the router's own engine

    def _on_tokenized(self, tokenized: Tokenized) -> None:
        if tokenized.failure is not None:
            self._fail_waiting([tokenized.key], tokenized.failure)
            return
        with self._lock:
            stream = self._waiting.pop(tokenized.key, None)
            release = self._release
        if stream is not None:
            stream.request.prompt = tokenized.prompt
            stream.request.token_ids = tokenized.token_ids
            self._route(stream, release)

    def _on_tokenizer_down(self, failure: Failure) -> None:
        with self._lock:
            waiting = list(self._waiting)
        self._fail_waiting(waiting, failure)

    def _fail_waiting(self, keys: Sequence[int], failure: Failure) -> None:
        with self._lock:
            ended = [key for key in keys if self._waiting.pop(key, None)]
            for key in ended:
                del self._streams[key]
        self._delivery.push([_ending(key, failure) for key in ended])

    def _on_released(self, released: Released) -> None:
        release = released.release
        with self._lock:
            self._metrics.file_broken = bool(released.problem)
            changed = release is not None and release != self._release
            if release is not None:
                self._release = release
                self._metrics.weigh(release)
        if released.problem:
            log.error("the release file is broken, what was in force stays in force: %s", released.problem)
        elif changed:
            log.info('in force, from "%s": %s', released.source, _summary(self._release))

    # Choosing

    def _route(self, stream: Stream, release: Release) -> None:
        """Send a request, whose tokens are known by now if `release` asks for them, to the engine that is to answer."""
        request = stream.request
        with self._lock:
            choice = choose(release, _facts(stream), self._random.random)
            stream.route, stream.targets, stream.sticky_key = choice.route.name, choice.targets, choice.key
            if request.parameters_source == "request parameters" and stream.parameters:
                request.parameters = json.dumps(without_own(release, stream.parameters))
            failure = _CANCELLED if stream.cancelled else self._begin(stream)
            if failure is not None:
                del self._streams[request.key]
            elif choice.shadow is not None:
                stream.copy = self._shadows.send(request, stream.route, choice.shadow)
        if failure is not None:
            self._delivery.push([_ending(request.key, failure)])

    def _begin(self, stream: Stream, left_for: str = "") -> Failure | None:
        """Send a request to the first of its targets that is open; why not, when none is. Called with the lock held.

        `left_for` says why the stream leaves the first of them: another engine of that target may still take it.
        """
        reasons: list[str] = []
        for index, target in enumerate(stream.targets):
            peer, reason = self._open_peer(target, stream)
            if peer is None:
                reasons.append(left_for if left_for and not index else reason)
                continue
            for skipped, why in zip(stream.targets, reasons, strict=False):
                self._metrics.series(stream.route, skipped.identity).count(names.FALLBACKS, why)
            stream.targets = stream.targets[index:]
            self._send(stream, target, peer)
            return None
        if not left_for:
            self._metrics.series(stream.route, stream.targets[0].identity).count(names.ERRORS, reasons[0])
        return self._nobody(stream, reasons)

    def _open_peer(self, target: Target, stream: Stream) -> tuple[EnginePeer | None, str]:
        """The engine of `target` that is to take the stream, or why there is none."""
        ready = [peer for peer in self._peers.of(target.identity) if peer.ready and peer not in stream.tried]
        if not ready:
            return None, "not_ready"
        if target.max_in_flight and self._in_flight[target.identity] >= target.max_in_flight:
            return None, "by_load"
        return min(ready, key=lambda peer: peer.in_flight), ""

    def _send(self, stream: Stream, target: Target, peer: EnginePeer) -> None:
        now = time.monotonic()
        key = self.next_key() if stream.tried else stream.request.key
        series = self._metrics.series(stream.route, target.identity)
        self._attempts[key] = stream.attempt = Attempt(stream, key, target, peer, series, now)
        self._in_flight[target.identity] += 1
        peer.in_flight += 1
        series.in_flight += 1
        series.count(names.REQUESTS)
        if stream.sticky_key:
            series.users.saw(stream.sticky_key, now)
        stream.outlet.serve_by(target.model, target.version)
        # With the lock held, so that no cancellation can overtake it.
        peer.send(Submit([stream.request_at(key, now)]))

    def _nobody(self, stream: Stream, reasons: Sequence[str]) -> Failure:
        """What the client is told when no target takes a request."""
        said = "; ".join(
            f'"{target.model}:{target.version}" has {target.max_in_flight} requests in flight, its bound'
            if reason == "by_load"
            else f'"{target.model}:{target.version}" has no engine that is ready'
            for target, reason in zip(stream.targets, reasons, strict=True)
        )
        ready = ", ".join(f'"{model}:{version}"' for model, version in self._peers.ready_targets()) or "no model"
        return Failure(
            "UNAVAILABLE",
            f'no target of route "{stream.route}" takes the request: {said}. There are engines of {ready}: load what '
            "is missing, or name other targets in the release file",
        )

    # From the engines

    def on_step(self, peer: EnginePeer, deltas: list[Delta]) -> None:
        now = time.monotonic()
        passed: list[Delta] = []
        attempts = self._attempts
        with self._lock:
            for delta in deltas:
                attempt = attempts.get(delta.key)
                if attempt is None:
                    self._shadows.take(delta)
                    continue
                stream = attempt.stream
                attempt.account(delta, now)
                if stream.copy is not None:
                    stream.copy.keep_real(delta)
                if delta.final and self._goes_on(attempt, delta, now):
                    continue
                if stream.tried:
                    # The client's stream has kept its key, each engine knows it by another.
                    delta.key = stream.request.key
                attempt.passed = True
                passed.append(delta)
        if passed:
            self._delivery.push(passed)

    def on_lost(self, peer: EnginePeer) -> None:
        model, version = peer.identity
        failure = Failure("UNAVAILABLE", f'the engine of "{model}" version {version} died', "engine_died")
        with self._lock:
            keys = [key for key, attempt in self._attempts.items() if attempt.peer is peer]
            keys += self._shadows.keys_at(peer)
        self.on_step(peer, [_ending(key, failure) for key in keys])

    def _goes_on(self, attempt: Attempt, last: Delta, now: float) -> bool:
        """Close an attempt; whether its stream goes on at another engine. Called with the lock held."""
        stream, series, failure = attempt.stream, attempt.series, last.failure
        del self._attempts[attempt.key]
        stream.attempt = None
        self._in_flight[attempt.target.identity] -= 1
        attempt.peer.in_flight -= 1
        series.in_flight -= 1
        if failure is None:
            series.finished(now - attempt.began, attempt.tokens, attempt.finish_reasons.values())
        else:
            series.count(names.ERRORS, error_reason(failure.code, failure.reason))
            if not attempt.passed and stream.may_be_retried(failure, now):
                stream.tried.add(attempt.peer)
                if self._begin(stream, failure.reason) is None:
                    return True
        del self._streams[stream.request.key]
        if stream.copy is not None:
            self._shadows.real_ended(stream.copy, last)
        return False

    # Cancellation

    def _cancel(self, keys: Sequence[int], reason: CancelReason) -> None:
        with self._lock:
            for key in keys:
                if stream := self._streams.get(key):
                    stream.cancelled = True
                    if attempt := stream.attempt:
                        attempt.peer.send(Cancel([attempt.key], reason))
        self._fail_waiting(keys, _CANCELLED)

    # Upkeep

    def _report(self) -> None:
        while not self._stopping.wait(_METRICS_S):
            self._write_metrics()
        self._write_metrics()

    def _write_metrics(self) -> None:
        with self._lock:
            taken = self._metrics.take(time.monotonic())
        self._metrics.write(taken)


_CANCELLED = Failure("CANCELLED", "the request was cancelled before an engine had it")


def _is_plain(tokenize: Tokenize) -> bool:
    """Whether the prompt is a text that an engine can read as it is."""
    return tokenize.messages is None and bool(tokenize.text)


def _facts(stream: Stream) -> Facts:
    texts = {name: parameter_text(value) for name, value in stream.parameters.items()}
    return Facts(texts, len(stream.request.token_ids or ()))


def _summary(release: Release) -> str:
    """The release in one line, for the log."""
    return "; ".join(
        f"{route.name}: "
        + ", ".join(f"{target.model}:{target.version} {target.weight / 10:g} %" for target in route.targets)
        for route in release.routes
    )


def _ending(key: int, failure: Failure) -> Delta:
    return Delta(key, [], [], [], final=True, failure=failure)
