"""Ties the running test to Locust's events."""

from __future__ import annotations

import contextlib
import logging
import math
import os
import signal
import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any, Final

import gevent
import locust.runners
from locust import events
from locust.argument_parser import LocustArgumentParser
from locust.env import Environment
from locust.runners import Runner, WorkerRunner
from rich.console import Console
from rich.text import Text

from loadtest.arguments import RunRequest, add_arguments
from loadtest.errors import LoadTestError
from loadtest.exit_codes import COULD_NOT_RUN, KEPT
from loadtest.options import LoadOptions
from loadtest.statistics.files import require_writable
from loadtest.users.targets import check_targets
from loadtest.users.transport import open_transport
from loadtest.users.user_classes import LadderUser
from loadtest.webui.extension import install as install_web_ui
from loadtest.workloads.catalogue import load_workload
from loadtest.workloads.model_tokenizer import load_tokenizer
from loadtest.workloads.planned import Workload

from . import messages
from .conductor import DEFAULT_SPAWN_RATE, Conductor
from .ending import exit_code, print_result, write
from .exits import Exits, say_error
from .installed import install_conductor, install_worker
from .locust_files import LocustFiles
from .progress import print_progress, print_waiting
from .running import Run
from .web_form import check_form, require_web_port
from .worker import Worker

DEFAULT_STOP_TIMEOUT_S: Final = 30
"""Longer than Locust's none: the slowest answers are the ones that would be cut."""
_REPORT_EVERY_S: Final = 1.0


def install(user_classes: Sequence[type[LadderUser]]) -> None:
    """Listen to Locust's events; called once, by the locustfile."""
    exits, files = Exits(), LocustFiles()
    exits.install(events)
    files.install()
    locust.runners.WORKER_REPORT_INTERVAL = _REPORT_EVERY_S
    # It logs each request of the checks as information.
    logging.getLogger("httpx").setLevel(logging.WARNING)
    logging.getLogger("loadtest").setLevel(logging.INFO)

    def add_ours(parser: LocustArgumentParser, **_: Any) -> None:
        add_arguments(parser, sys.argv[1:])
        parser.set_defaults(stop_timeout=DEFAULT_STOP_TIMEOUT_S)

    def install_process(environment: Environment, runner: Runner, **_: Any) -> None:
        # Python would interrupt whatever runs, the writing of results or a request that Locust then takes for failed.
        gevent.signal_handler(signal.SIGINT, _throw_into_main, KeyboardInterrupt())
        if isinstance(runner, WorkerRunner):
            _install_worker(environment, runner)
        else:
            _Installation(environment, runner, user_classes, files)

    events.init_command_line_parser.add_listener(add_ours)
    events.init.add_listener(install_process)


def _install_worker(environment: Environment, runner: Runner) -> Worker:
    worker = Worker(environment, runner, open_transport=open_transport, load_workload=_load_workload)
    install_worker(environment, worker)

    def add_report(data: dict[str, Any], **_: Any) -> None:
        report = worker.report()
        if report is not None:
            data[messages.REPORT] = report

    def finish(**_: Any) -> None:
        worker.finish(environment.stop_timeout)

    environment.events.report_to_master.add_listener(add_report)
    environment.events.test_stopping.add_listener(finish)
    environment.events.quitting.add_listener(finish)
    if isinstance(runner, WorkerRunner):
        # What the figures are worth is said by the master.
        environment.process_exit_code = KEPT
        gevent.spawn(worker.announce)
    return worker


class _ResultConsole(Console):
    """One whose reader may go, as after `| head`: the files are written all the same, where rich would exit."""

    def on_broken_pipe(self) -> None:
        self.quiet = True
        # What Python flushes at its end goes nowhere, too.
        with Path(os.devnull).open("wb") as nowhere:
            os.dup2(nowhere.fileno(), self.file.fileno())


class _Installation:
    """The conductor's process."""

    def __init__(
        self,
        environment: Environment,
        runner: Runner,
        user_classes: Sequence[type[LadderUser]],
        files: LocustFiles,
    ) -> None:
        self._environment = environment
        self._files = files
        files.lost = self._lose
        options = environment.parsed_options
        assert options is not None, "Locust's command line has been read"
        self._options = options
        # What is measured goes to stdout, unless Locust writes JSON there.
        self._console = _ResultConsole(stderr=bool(options.json), highlight=False)
        self._lost_file = False
        self._exit_code = COULD_NOT_RUN if options.headless or options.autostart else KEPT
        if options.spawn_rate is None:
            options.spawn_rate = DEFAULT_SPAWN_RATE
        is_master = isinstance(runner, locust.runners.MasterRunner)
        self._conductor = Conductor(
            environment,
            runner,
            {user_class.protocol: user_class for user_class in user_classes},
            worker=None if is_master else _install_worker(environment, runner),
            check=_check,
            conclude=self._conclude,
        )
        install_conductor(environment, self._conductor)
        environment.events.worker_report.add_listener(self._hear)
        environment.events.test_stopping.add_listener(self._finish)
        environment.events.quitting.add_listener(self._quit)
        files.take_html(options)
        if environment.web_ui is not None:
            _or_end(require_web_port, environment.web_ui)
            check_form(environment, self._conductor)
            install_web_ui(environment, self._conductor)
        if options.headless:
            # Locust waits for the run to end before it listens to SIGTERM; until then it would end without results.
            gevent.signal_handler(signal.SIGTERM, self._end_headless)
        if options.headless and options.only_summary:
            gevent.spawn(print_progress, Console(stderr=True, highlight=False), self._conductor)
        if options.headless or options.autostart:
            _or_end(self._check_now)
            if is_master:
                _or_end(self._await_workers, runner)

    def _end_headless(self) -> None:
        _throw_into_main(SystemExit(COULD_NOT_RUN) if self._conductor.running is None else KeyboardInterrupt())

    def _check_now(self) -> None:
        waiting = gevent.spawn(print_waiting, Console(stderr=True, highlight=False), str(self._options.host or ""))
        try:
            self._conductor.check(vars(self._options))
        finally:
            waiting.kill()
        if self._options.out:
            require_writable(Path(self._options.out))

    def _await_workers(self, runner: Runner) -> None:
        """Locust would wait, too, but say neither for how many nor, in its exit code, that it gave up."""
        console = Console(stderr=True, highlight=False)
        try:
            self._conductor.await_crew(
                self._options.expect_workers,
                self._options.expect_workers_max_wait or math.inf,
                lambda text: console.print(Text(text), soft_wrap=True),
            )
        except BaseException:
            # Those that came end with it.
            runner.quit()
            raise

    def _hear(self, client_id: str, data: dict[str, Any], **_: Any) -> None:
        self._conductor.hear(client_id, data)

    def _finish(self, **_: Any) -> None:
        self._conductor.finish()

    def _conclude(self, run: Run, request: RunRequest) -> None:
        result = run.result()
        self._exit_code = exit_code(result)
        try:
            print_result(self._console, result)
        except OSError as error:
            # Its disk is full, say: the files are written all the same.
            say_error(f"the figures cannot be printed: {(error.strerror or str(error)).lower()}")
        if request.out is None:
            return
        folder = self._folder(request.out)
        try:
            write(folder, result, run.timeline(), run.records())
        except LoadTestError as error:
            self._lose(error)
            return
        with contextlib.suppress(OSError):
            self._console.print(Text(f'results: "{folder}"'), soft_wrap=True)

    def _folder(self, out: Path) -> Path:
        """In the web UI run follows run, and each has its own."""
        return out if self._options.headless else out / datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")

    def _lose(self, error: LoadTestError) -> None:
        """A file could not be written: what else there is goes on, and the run counts as one that was not whole."""
        say_error(str(error))
        self._lost_file = True

    def _quit(self, **_: Any) -> None:
        self._conductor.finish()
        try:
            self._files.write_html(self._environment)
        except LoadTestError as error:
            self._lose(error)
        web_ui = self._environment.web_ui
        web_ui_failed = web_ui is not None and web_ui.greenlet is not None and web_ui.greenlet.exception is not None
        broken = self._lost_file or self._conductor.error or web_ui_failed
        self._environment.process_exit_code = COULD_NOT_RUN if broken else self._exit_code


def _or_end(step: Callable[..., None], *arguments: object) -> None:
    try:
        step(*arguments)
    except LoadTestError as error:
        say_error(str(error))
        sys.exit(COULD_NOT_RUN)


def _throw_into_main(error: BaseException) -> None:
    """The main greenlet is the one that Locust waits in."""
    gevent.get_hub().parent.throw(error)


def _check(options: LoadOptions) -> None:
    """Raises LoadTestError when the run could not work."""
    session = next(_load_workload(options).sessions(Random(options.seed)))  # noqa: S311  # prompts, not secrets
    sample = session.next(None)
    assert sample is not None, "a session has at least one turn"
    check_targets(options, sample)


def _load_workload(options: LoadOptions) -> Workload:
    count = None if options.tokenizer is None else load_tokenizer(Path(options.tokenizer))
    return load_workload(options, count_tokens=count)
