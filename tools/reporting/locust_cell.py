"""A cell as a headless Locust run in a process of its own."""

from __future__ import annotations

import contextlib
import json
import math
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, Protocol

from pydantic import ValidationError

from loadtest.exit_codes import COULD_NOT_RUN
from loadtest.launching import free_port
from loadtest.options import LoadOptions
from loadtest.statistics.results import RunResult
from tools.bootstrap.interruption import interruption_held
from tools.bootstrap.processes import isolated
from tools.reporting.cells import LOG, RESULTS
from tools.reporting.errors import ReportError
from tools.serving.server import last_lines
from tools.wire.parent_death import dying_with_this_process

LOCUSTFILE: Final = "loadtest/locustfile.py"
_LOCUST: Final = (sys.executable, "-X", "utf8", "-m", "locust", "-f", LOCUSTFILE)
_START_S: Final = 60.0
_END_S: Final = 5.0
_TAIL_LINES: Final = 20
_SLA_MISSED: Final = 1


class RunLoad(Protocol):
    """Runs a load test and leaves its files in a folder. Raises ReportError when there are no results."""

    def __call__(self, options: LoadOptions, folder: Path, workers: int) -> None: ...


class LocustRun:
    """Runs load tests one at a time, with the interpreter that runs this."""

    def __init__(self, home: Path) -> None:
        """`home` is the repository's root."""
        self._home = home

    def __call__(self, options: LoadOptions, folder: Path, workers: int) -> None:
        # With a round of requests a stream, each may take as long as its deadline.
        rounds = -(-(options.requests or 1) // options.users)
        limit_s = _START_S + min(rounds * options.deadline_s, options.duration_s or math.inf)
        port = free_port() if workers else None
        with contextlib.ExitStack() as running:
            process = running.enter_context(self._started(locust_command(options, folder, workers, port), folder / LOG))
            for number in range(1, workers + 1):
                running.enter_context(self._started(_worker_command(port), folder / f"locust-worker-{number}.log"))
            try:
                code = process.wait(limit_s)
            except subprocess.TimeoutExpired:
                raise ReportError(f"the load test did not end within {limit_s:g} s") from None
        if code == COULD_NOT_RUN and options.duration_s is not None and _none_was_answered(folder / RESULTS):
            raise ReportError(
                f"no request was answered whole within the {options.duration_s:g} s of a cell: give it more with "
                "--cell-seconds"
            )
        # A load test that ran, and found failures, says so in its results.
        if code not in (0, _SLA_MISSED) or not (folder / RESULTS).is_file():
            raise ReportError(f"the load test ended with code {code}: {_last_words(folder / LOG)}")

    @contextlib.contextmanager
    def _started(self, command: Sequence[str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
        with contextlib.ExitStack() as ending:
            with log.open("wb") as output, interruption_held():
                process = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    cwd=self._home,
                    env=locust_environment(os.environ, self._home),
                    # A Ctrl-C is for the report, which then ends the load test.
                    start_new_session=True,
                    # Nothing that a report which is killed leaves behind may write into the cells of the next.
                    preexec_fn=dying_with_this_process(signal.SIGKILL),
                )
                ending.callback(_end, process)
            yield process


def locust_command(options: LoadOptions, folder: Path, workers: int = 0, port: int | None = None) -> list[str]:
    """The command line of a cell; it says everything, so that a cell can be repeated by hand.

    With `workers` it is that of their master, which waits for them at `port`.
    """
    return [
        *(*_LOCUST, "--headless"),
        *("--host", options.host, "--targets", ",".join(options.targets), "--protocol", options.protocol.value),
        *("--workload", options.workload, "--sampling", json.dumps(options.sampling)),
        *("--input-tokens", str(options.input_tokens), "--output-tokens", str(options.output_tokens)),
        # All at once: Locust's own pace takes seconds to bring many streams together.
        *("--users", str(options.users), "--spawn-rate", str(options.users), "--requests", str(options.requests)),
        *(["--tokenizer", options.tokenizer] if options.tokenizer else []),
        *("--deadline", f"{options.deadline_s:g}", "--seed", str(options.seed), "--out", str(folder)),
        # A time limit means what runs by then, too.
        *([] if options.duration_s is None else ["--run-time", f"{options.duration_s:g}", "--stop-timeout", "0"]),
        *(_master(workers, port) if workers else []),
    ]


def _master(workers: int, port: int | None) -> list[str]:
    return [
        *("--master", "--master-bind-host", "127.0.0.1", "--master-bind-port", str(port)),
        *("--expect-workers", str(workers), "--expect-workers-max-wait", f"{_START_S / 2:g}"),
    ]


def _worker_command(port: int | None) -> list[str]:
    return [*_LOCUST, "--worker", "--master-host", "127.0.0.1", "--master-port", str(port)]


def locust_environment(variables: Mapping[str, str], home: Path) -> dict[str, str]:
    """`variables` with the repository where Python looks; without Locust's own, which would change the run."""
    kept = {name: value for name, value in isolated(variables).items() if not name.startswith("LOCUST_")}
    return kept | {"PYTHONPATH": str(home), "LADDER_HOME": str(home)}


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ends a load test that still runs, with whatever it has started."""
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_END_S)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _none_was_answered(results: Path) -> bool:
    """Whether the load test ran, and did not come to the end of any request."""
    try:
        result = RunResult.model_validate_json(results.read_text(encoding="utf-8"))
    except (OSError, ValidationError):
        # Then it has said why.
        return False
    return not result.partial and not any(target.requests for target in result.targets)


def _last_words(log: Path) -> str:
    """The last line it wrote, which is the error's, and where the others are."""
    lines = [line.strip() for line in last_lines(log, _TAIL_LINES) if line.strip()]
    return f'{lines[-1]} (in "{log}")' if lines else f'it said nothing in "{log}"'
