"""The conductor, in the master or the only process: Locust asks it how many users there are, and when a run is over."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any, Final

from gevent.event import Event
from locust import User
from locust.env import Environment
from locust.rpc import Message
from locust.runners import Runner

from loadtest.arguments import RunRequest, read_arguments
from loadtest.errors import LoadTestError
from loadtest.options import LoadOptions, Protocol, Shape
from loadtest.statistics.results import RunResult
from loadtest.statistics.timeline import Timeline

from . import messages
from .crew import LOCAL, Crew, await_workers
from .messages import Failed, Want
from .running import Run
from .worker import Worker

DEFAULT_SPAWN_RATE: Final = 100.0
"""Users a second; Locust warns of more."""

Tick = tuple[int, float] | None

logger = logging.getLogger("loadtest")


class Conductor:
    """At most one run at a time.

    Args:
        user_classes: by the protocol that their users speak.
        worker: in a process without workers, the one that generates the load.
        check: raises LoadTestError when the run could not work.
        conclude: is given each run when it has ended.

    Attributes:
        error: why the last run could not begin or go on; empty when it could.
    """

    def __init__(
        self,
        environment: Environment,
        runner: Runner,
        user_classes: Mapping[Protocol, type[User]],
        *,
        worker: Worker | None,
        check: Callable[[LoadOptions], None],
        conclude: Callable[[Run, RunRequest], None],
    ) -> None:
        self.error = ""
        self._environment = environment
        self._user_classes = user_classes
        self._named = [user_class for user_class in environment.user_classes if _is_named(user_class, environment)]
        self._crew = Crew(runner)
        self._worker = worker
        self._check_options = check
        self._conclude = conclude
        self._checked: RunRequest | None = None
        self._request: RunRequest | None = None
        self._run: Run | None = None
        self._last: Run | None = None
        self._finished: Event | None = None
        self._users: Tick = None
        runner.register_message(messages.WANT, self._on_want)
        runner.register_message(messages.DONE, self._on_done)
        runner.register_message(messages.FAILED, self._on_failed)

    @property
    def running(self) -> Run | None:
        """The run that is on."""
        return self._run

    def check(self, values: Mapping[str, Any]) -> None:
        """Check the run that `values` ask for, those of Locust's options or web form; it is the next to begin.

        Raises LoadTestError when it could not work.
        """
        request = read_arguments(self._with_named_class(values))
        self._check_options(request.options)
        self._checked = request

    def require_crew(self) -> None:
        """Raises LoadTestError when nobody is there to generate load."""
        if not self._crew.present():
            raise LoadTestError(
                "no worker has connected: start some first, with `locust -f loadtest/locustfile.py --worker`"
            )

    def await_crew(self, workers: int, seconds: float, say: Callable[[str], None]) -> None:
        """See `await_workers`."""
        await_workers(self._crew, workers, seconds, say)

    def tick(self) -> Tick:
        """Users and how many of them come a second; None when the run is over. Called once a second."""
        if self._finished is None:
            self._users = self._next_tick()
        return self._users

    def finish(self) -> None:
        """End the run that is on, if any: with its last requests and figures, within the stop timeout."""
        run, request = self._run, self._request
        if run is None or request is None:
            return
        if self._finished is not None:
            # It is being ended already: this is an interruption of that.
            run.cut()
            self._finished.wait()
            return
        finished = self._finished = Event()
        try:
            run.stop(self._environment.stop_timeout)
            self._last, self._run = run, None
            self._conclude(run, request)
        finally:
            self._finished = None
            finished.set()

    def hear(self, member: str, data: Mapping[str, Any]) -> None:
        """Data of one of Locust's worker reports."""
        if self._run is not None and messages.REPORT in data:
            self._run.hear(member, data[messages.REPORT])

    def result(self, *, with_histograms: bool = True) -> RunResult | None:
        """The figures so far, of the run that is on or of the last one."""
        run = self._run or self._last
        return None if run is None else run.result(with_histograms=with_histograms)

    def timeline(self, since: int = 0) -> Timeline | None:
        """Second by second, of the run that is on or of the last one."""
        run = self._run or self._last
        return None if run is None else run.timeline(since)

    def _next_tick(self) -> Tick:
        try:
            run = self._run or self._begin()
        except LoadTestError as error:
            self._give_up(str(error))
            return None
        if self._worker is not None and (report := self._worker.report()) is not None:
            run.hear(LOCAL, report)
        run.look_around()
        if not run.advance():
            if run.error:
                self._give_up(run.error)
            return None
        if run.options.shape is not Shape.USERS:
            return 0, DEFAULT_SPAWN_RATE
        options = self._environment.parsed_options
        return run.options.users, (options and options.spawn_rate) or DEFAULT_SPAWN_RATE

    def _begin(self) -> Run:
        self.require_crew()
        if self._checked is None:
            self.check(vars(self._environment.parsed_options))
        request, self._checked, self.error = self._checked, None, ""
        assert request is not None
        # Before Locust makes its dispatcher, which deals out users of all these classes.
        self._environment.user_classes = [self._user_classes[request.options.protocol]]
        self._request, self._run = request, Run(request.options, request.sla, self._crew)
        self._run.start()
        return self._run

    def _give_up(self, error: str) -> None:
        self.error = error
        logger.error(error)

    def _with_named_class(self, values: Mapping[str, Any]) -> Mapping[str, Any]:
        """The protocol of the user class on the command line, if there is one."""
        if not self._named:
            return values
        if len(self._named) > 1:
            names = ", ".join(sorted(user_class.__name__ for user_class in self._named))
            raise LoadTestError(f"{names} speak different protocols, and a run speaks one: name one of them")
        protocol = next(key for key, user_class in self._user_classes.items() if user_class is self._named[0])
        if values.get("protocol") not in (None, protocol.value, Protocol.GENERATE_STREAM.value):
            raise LoadTestError(
                f'{self._named[0].__name__} speaks {protocol}, but --protocol is "{values["protocol"]}": leave one out'
            )
        return {**values, "protocol": protocol.value}

    def _on_want(self, *, msg: Message, **_: Any) -> None:
        want = Want.model_validate(msg.data)
        if self._run is not None:
            self._run.grant(msg.node_id, want.requests)

    def _on_done(self, *, msg: Message, **_: Any) -> None:
        if self._run is not None:
            self._run.hear_done(msg.node_id, msg.data)

    def _on_failed(self, *, msg: Message, **_: Any) -> None:
        failed = Failed.model_validate(msg.data)
        if self._run is not None:
            self._run.fail(failed.run, msg.node_id, failed.message)


def _is_named(user_class: type[User], environment: Environment) -> bool:
    options = environment.parsed_options
    return options is not None and user_class.__name__ in (options.user_classes or [])
