"""The worker's side of a run: does what the conductor's messages say, and reports."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Any, Final

from gevent.event import Event
from locust.env import Environment
from locust.rpc import Message
from locust.runners import Runner

from loadtest.errors import LoadTestError
from loadtest.options import LoadOptions
from loadtest.users.answer import Answer
from loadtest.workloads.planned import Workload

from . import messages
from .generator import Generator
from .messages import Assignment, Failed, Grant, NewShare, Stop, Want
from .sending import OpenTransport

_ANNOUNCE_EVERY_S: Final = 0.5

LoadWorkload = Callable[[LoadOptions], Workload]


class RequestFailedError(Exception):
    """What Locust's table of failures shows."""


class Worker:
    """Has at most one run at a time. In a process without workers it is the only one, told by the same messages."""

    def __init__(
        self, environment: Environment, runner: Runner, *, open_transport: OpenTransport, load_workload: LoadWorkload
    ) -> None:
        self._environment = environment
        self._runner = runner
        self._open_transport = open_transport
        self._load_workload = load_workload
        self._generator: Generator | None = None
        self._assigned = Event()
        self._welcome = Event()
        for name, listener in (
            (messages.WELCOME, self._on_welcome),
            (messages.ASSIGNMENT, self._on_assignment),
            (messages.SHARE, self._on_share),
            (messages.GRANT, self._on_grant),
        ):
            runner.register_message(name, listener)
        # It waits for requests that run; other messages must get through meanwhile.
        runner.register_message(messages.STOP, self._on_stop, concurrent=True)

    def announce(self) -> None:
        """Tell the master that messages are listened to from now on; returns when it has heard so.

        Either side may connect before the other listens, and what it is told then is lost.
        """
        while not self._welcome.is_set():
            self._runner.send_message(messages.HERE, {})
            self._welcome.wait(_ANNOUNCE_EVERY_S)

    def generator(self) -> Generator:
        """The generator of the run that is on; waits for it, since Locust's users may come before its assignment."""
        while True:
            self._assigned.wait()
            if self._generator is not None:
                return self._generator

    def report(self) -> dict[str, Any] | None:
        """What came since the last report; None when no run is on."""
        return None if self._generator is None else self._generator.report()

    def finish(self, grace_s: float) -> None:
        """End the run that is on, if any, and hand over what is left to report."""
        generator = self._generator
        if generator is None:
            return
        generator.finish(grace_s)
        if self._generator is not generator:
            return
        self._generator = None
        self._assigned.clear()
        self._runner.send_message(messages.DONE, generator.report())

    def _on_welcome(self, **_: Any) -> None:
        self._welcome.set()

    def _on_assignment(self, *, msg: Message, **_: Any) -> None:
        received_at = time.time()
        assignment = Assignment.model_validate(msg.data)
        if self._generator is not None and self._generator.run == assignment.run:
            self._generator.next_stage(assignment.stage, received_at)
            return
        if self._generator is not None:
            self._generator.finish(0.0)
        try:
            workload = self._load_workload(assignment.options)
        except LoadTestError as error:
            self._failed(assignment.run, error)
            return
        self._generator = Generator(
            assignment,
            workload,
            received_at=received_at,
            open_transport=self._open_transport,
            observe=self._observe,
            want=lambda requests: self._want(assignment.run, requests),
            failed=lambda error: self._failed(assignment.run, error),
        )
        self._assigned.set()

    def _on_share(self, *, msg: Message, **_: Any) -> None:
        change = NewShare.model_validate(msg.data)
        if self._generator is not None and self._generator.run == change.run:
            self._generator.change_share(change)

    def _on_grant(self, *, msg: Message, **_: Any) -> None:
        grant = Grant.model_validate(msg.data)
        if self._generator is not None and self._generator.run == grant.run:
            self._generator.grant(grant)

    def _on_stop(self, *, msg: Message, **_: Any) -> None:
        stop = Stop.model_validate(msg.data)
        if self._generator is not None and self._generator.run == stop.run:
            self.finish(stop.grace_s)

    def _want(self, run: str, requests: int) -> None:
        self._runner.send_message(messages.WANT, Want(run=run, requests=requests).data())

    def _failed(self, run: str, error: BaseException) -> None:
        text = str(error) if isinstance(error, LoadTestError) else f"{type(error).__name__}: {error}"
        self._runner.send_message(messages.FAILED, Failed(run=run, message=text).data())

    def _observe(self, answer: Answer) -> None:
        """Locust's own table, CSV files and failures know the request as well."""
        outcome, failure = answer.outcome, answer.outcome.failure
        assert self._generator is not None
        self._environment.events.request.fire(
            request_type=self._generator.options.protocol.value,
            name=outcome.target,
            response_time=outcome.e2e_s * 1000,
            response_length=len(answer.text.encode()),
            exception=None if failure is None else RequestFailedError(_grouped(f"{failure.kind}: {failure.message}")),
            context={},
        )


def _grouped(message: str) -> str:
    """Locust counts each text by itself, so that texts with numbers in them would fill its table."""
    return re.sub(r"\d+", "#", message)
