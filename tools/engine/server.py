"""The engine process's heart: takes requests from peers, queues them, runs them, streams their deltas back."""

from __future__ import annotations

import asyncio
import functools
import gc
import itertools
import logging
import time
from collections.abc import Coroutine
from typing import Any

from tools.wire.messages import (
    PROTOCOL,
    Cancel,
    Delta,
    Drain,
    Failure,
    Goodbye,
    Hello,
    Metrics,
    Ping,
    Pong,
    Request,
    Submit,
    ToEngine,
    Tokenize,
    Welcome,
)
from tools.wire.release import WatchRelease

from .accounting import Accounting
from .adapters.base import Adapter, EngineInfo, ReleaseSource, Work
from .admission import DEFAULT_PRIORITY, Admission
from .errors import EngineDeadError, RequestError, invalid
from .limits import Limits
from .live import Ending, Live
from .transport import Transport

log = logging.getLogger(__name__)

METRICS_INTERVAL_S = 0.25
HEALTH_INTERVAL_S = 1.0


class EngineServer:
    """One adapter behind the two sockets. `run` returns after a `Drain`, or raises EngineDeadError."""

    def __init__(self, name: str, socket: str, adapter: Adapter, limits: Limits) -> None:
        """`name` is the model version as error texts call it: '"llm_bf16" version 1'."""
        self._name = name
        self._adapter = adapter
        self._limits = limits
        self._accounting = Accounting()
        self._transport = Transport(socket, self._peer_lost)
        self._info = EngineInfo("starting", 0, 0)
        self._admission: Admission[list[Live]] = Admission(0, 0)
        self._live: dict[tuple[str, int], Live] = {}
        self._request_ids: set[str] = set()
        self._pid = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._metrics_peer: str | None = None
        self._ended: asyncio.Future[None] | None = None
        self._draining = False

    async def run(self, pid: int) -> None:
        """Load the model, then serve. Raises LaunchError or EngineDeadError; peers have been told the reason."""
        self._transport.bind()
        self._ended = asyncio.get_running_loop().create_future()
        try:
            self._info = await self._adapter.start(self._accounting)
            # What has been imported stays. A full collection would walk through it and stop every stream meanwhile.
            gc.collect()
            gc.freeze()
            self._admission = Admission(self._info.max_num_seqs, self._limits.max_waiting_requests)
            self._pid = pid
            for job in (self._receive(), self._push_metrics(), self._watch_health()):
                self._spawn(job)
            await self._ended
        except Exception as error:
            self._tell_and_fail(str(error) or type(error).__name__)
            raise
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            await self._adapter.stop()
            self._transport.close()

    def _tell_and_fail(self, reason: str) -> None:
        """Every open stream fails with the reason, before the process ends."""
        for live in list(self._live.values()):
            self._accounting.count("ladder_requests_failed_total")
            self._finish(live, Failure("UNAVAILABLE", f"the engine of {self._name} died: {reason}", "engine_died"))
        self._transport.flush()
        if peer := self._metrics_peer:
            self._transport.send(peer, Metrics(self._accounting.take()))
            self._transport.send(peer, Goodbye(reason))

    def _spawn(self, job: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(job)
        self._tasks.add(task)
        task.add_done_callback(self._task_ended)
        return task

    def _task_ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) and self._ended and not self._ended.done():
            self._ended.set_exception(error)

    # Messages

    async def _receive(self) -> None:
        while True:
            try:
                peer, message = await self._transport.receive()
            except ValueError as error:
                log.warning("a message was dropped: %s", error)
                continue
            await self._handle(peer, message)

    async def _handle(self, peer: str, message: ToEngine) -> None:
        match message:
            case Submit(requests, together):
                self._submit(peer, requests, together)
            case Cancel(keys, reason):
                ending = Ending.CLIENT if reason == "client" else Ending.UNLOAD
                for key in keys:
                    self._stop(self._live.get((peer, key)), ending)
            case Hello():
                self._welcome(peer, message)
            case Ping(nonce):
                self._transport.send(peer, Pong(nonce))
            case Drain(grace_s):
                self._draining = True
                self._spawn(self._drain(grace_s))
            case Tokenize():
                self._transport.send(peer, self._adapter.tokenize(message))
            case WatchRelease():
                self._watch_release(peer)

    def _welcome(self, peer: str, hello: Hello) -> None:
        if hello.protocol != PROTOCOL:
            reason = f"peer speaks protocol {hello.protocol}, this engine {PROTOCOL}: install both from one release"
            self._transport.send(peer, Goodbye(reason))
            return
        if hello.metrics:
            self._metrics_peer = peer
            self._accounting.resend_gauges()
        info = self._info
        self._transport.send(
            peer,
            Welcome(PROTOCOL, info.engine, self._pid, info.max_model_len, info.max_num_seqs, info.description),
        )

    def _watch_release(self, peer: str) -> None:
        if isinstance(self._adapter, ReleaseSource):
            self._adapter.watch_release(peer, functools.partial(self._transport.send, peer))
        else:
            log.warning('peer "%s" asked %s for the release: only the engine of the router has one', peer, self._name)

    # Requests

    def _submit(self, peer: str, requests: list[Request], together: bool) -> None:
        if together:
            if group := [live for request in requests if (live := self._accept(peer, request))]:
                self._enqueue(group)
            return
        for request in requests:
            # One by one: each counts in the queue that the next one finds.
            if live := self._accept(peer, request):
                self._enqueue([live])

    def _accept(self, peer: str, request: Request) -> Live | None:
        try:
            self._check_room(request)
            params, sequences = self._adapter.prepare(request)
        except RequestError as error:
            self._reject(peer, request, error)
            return None
        except Exception as error:  # one request that an adapter stumbles over must not end the others
            log.exception("a request could not be read")
            self._accounting.count("ladder_requests_failed_total")
            problem = RequestError("INTERNAL", f"the request could not be read: {type(error).__name__}: {error}")
            self._transport.push(peer, _ending_delta(request.key, problem.as_failure()))
            return None
        priority = request.priority or DEFAULT_PRIORITY
        work = Work(request, self._unique_id(request), params, sequences, priority)
        live = Live(peer, work, time.monotonic())
        self._live[peer, request.key] = live
        return live

    def _reject(self, peer: str, request: Request, error: RequestError) -> None:
        full = "engine_down" if self._draining else "queue_full"
        reason = full if error.code == "UNAVAILABLE" else "invalid"
        self._accounting.count("ladder_requests_rejected_total", label=reason)
        self._transport.push(peer, _ending_delta(request.key, error.as_failure()))

    def _check_room(self, request: Request) -> None:
        if self._draining:
            raise RequestError(
                "UNAVAILABLE", "the model is being unloaded: send the request to another instance", "unloading"
            )
        if self._admission.is_full:
            raise RequestError(
                "UNAVAILABLE",
                f"the queue is full: {self._admission.waiting} requests wait and MAX_WAITING_REQUESTS is "
                f"{self._limits.max_waiting_requests}. Retry later or send the request to another instance",
                "queue_full",
            )
        size = len(request.prompt.encode())
        if self._limits.max_prompt_bytes and size > self._limits.max_prompt_bytes:
            raise invalid(
                f'"text_input" has {size} bytes: MAX_PROMPT_BYTES allows at most {self._limits.max_prompt_bytes}'
            )

    def _unique_id(self, request: Request) -> str:
        """The client's id, so that its logs and the engine's can be joined; told apart where two run at once."""
        base = request.request_id or f"ladder-{request.key}"
        names = itertools.chain([base], (f"{base}#{i}" for i in itertools.count(2)))
        unique = next(name for name in names if name not in self._request_ids)
        self._request_ids.add(unique)
        return unique

    def _enqueue(self, group: list[Live]) -> None:
        cost = sum(live.work.sequences for live in group)
        ticket = self._admission.enqueue(group, cost, min(live.work.priority for live in group), len(group))
        for live in group:
            live.group = group
            live.ticket = ticket
            timeout_us = live.work.request.timeout_us
            live.deadline_s = timeout_us / 1e6 if timeout_us else self._limits.default_deadline_ms / 1e3
            if live.deadline_s:
                loop = asyncio.get_running_loop()
                live.timer = loop.call_later(live.deadline_s, self._stop, live, Ending.DEADLINE)
        self._run_admitted()

    def _run_admitted(self) -> None:
        if self._ended is None or self._ended.done():
            return
        for group in self._admission.admit():
            task = self._spawn(self._run_group(group))
            # Not in the task itself: one that is cancelled before its first step never runs a line.
            task.add_done_callback(functools.partial(self._give_back, group))
            now = time.monotonic()
            for live in group:
                live.task = task
                live.admitted = now

    async def _run_group(self, group: list[Live]) -> None:
        by_work = {id(live.work): live for live in group}
        failure = Failure("INTERNAL", "the engine ended the stream without its last token: see the engine's log")
        try:
            await self._adapter.generate(
                [live.work for live in group], lambda work, delta: self._emit(by_work[id(work)], delta)
            )
        except RequestError as error:
            self._accounting.count("ladder_requests_rejected_total", label="invalid")
            failure = error.as_failure()
        except EngineDeadError:
            raise
        except asyncio.CancelledError:
            # Of this task, when nobody waits for the group any more; or out of the adapter, and then its streams fail.
            pass
        except Exception as error:
            log.exception("generation failed")
            failure = RequestError("INTERNAL", f"generation failed: {type(error).__name__}: {error}").as_failure()
        for live in group:
            if not live.done:
                if failure.code == "INTERNAL":
                    self._accounting.count("ladder_requests_failed_total")
                self._finish(live, failure)

    def _give_back(self, group: list[Live], _: asyncio.Task[None]) -> None:
        self._admission.release(sum(live.work.sequences for live in group))
        self._run_admitted()

    def _emit(self, live: Live, delta: Delta) -> None:
        if live.done:
            return
        live.account(delta, time.monotonic(), self._accounting)
        if released := live.release(delta):
            self._transport.push(live.peer, released)
        if delta.final:
            self._forget(live)

    def _stop(self, live: Live | None, ending: Ending) -> None:
        if live is None or live.done:
            return
        name = "deadline_exceeded" if ending is Ending.DEADLINE else "cancelled"
        self._accounting.count(f"ladder_requests_{name}_total")
        self._finish(live, live.stop_failure(ending))
        self._abandon(live)
        # It may have been the large one that smaller ones waited behind.
        self._run_admitted()

    def _abandon(self, live: Live) -> None:
        """Nobody wants this answer any more; a group goes on as long as it has one that somebody wants."""
        live.work.cancelled = True
        if all(member.done for member in live.group):
            if live.ticket is not None:
                self._admission.withdraw(live.ticket)
            if live.task:
                live.task.cancel()

    def _finish(self, live: Live, failure: Failure) -> None:
        self._transport.push(live.peer, _ending_delta(live.work.request.key, failure))
        self._forget(live)

    def _forget(self, live: Live) -> None:
        live.done = True
        if live.timer:
            live.timer.cancel()
        self._live.pop((live.peer, live.work.request.key), None)
        self._request_ids.discard(live.work.request_id)

    def _peer_lost(self, peer: str) -> None:
        """A peer that went away takes its requests with it: nobody would read the answers."""
        if peer == self._metrics_peer:
            self._metrics_peer = None
        for live in [live for live in self._live.values() if live.peer == peer]:
            self._accounting.count("ladder_requests_cancelled_total")
            self._forget(live)
            self._abandon(live)
        self._run_admitted()

    # Upkeep

    async def _push_metrics(self) -> None:
        while True:
            await asyncio.sleep(METRICS_INTERVAL_S)
            self._push_metrics_now()

    def _push_metrics_now(self) -> None:
        waiting = self._admission.waiting
        self._adapter.refresh_gauges(waiting, len(self._live) - waiting)
        # Taken even when nobody asks, or the observations would pile up.
        samples = self._accounting.take()
        if self._metrics_peer and samples:
            self._transport.send(self._metrics_peer, Metrics(samples))

    async def _watch_health(self) -> None:
        while True:
            await asyncio.sleep(HEALTH_INTERVAL_S)
            await self._adapter.check_health()

    def retire(self, grace_s: float) -> None:
        """The server is shutting down: take nothing new, and cancel what still runs after `grace_s` seconds.

        The process stays until its stub says `Drain`, for only then does Triton know that the streams have ended.
        """
        if not self._draining:
            self._draining = True
            self._spawn(self._finish_all(grace_s))

    async def _finish_all(self, grace_s: float) -> None:
        until = time.monotonic() + grace_s
        while self._live and time.monotonic() < until:  # noqa: ASYNC110 - an event per request costs more than a poll
            await asyncio.sleep(0.02)
        for live in list(self._live.values()):
            self._stop(live, Ending.UNLOAD)

    async def _drain(self, grace_s: float) -> None:
        """Let what runs finish for `grace_s`, then cancel it; `run` returns."""
        await self._finish_all(grace_s)
        self._push_metrics_now()
        if self._ended and not self._ended.done():
            self._ended.set_result(None)


def _ending_delta(key: int, failure: Failure) -> Delta:
    return Delta(key, [], [], [], final=True, failure=failure)
