"""Stopping an instance, whoever started it and whatever is left of it."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterator

from tools.serving.errors import ServingError
from tools.serving.instance import Instance, InstanceFiles
from tools.serving.supervisor import KILL_AFTER_S
from tools.serving.sweep import sweep

_POLL_S = 0.05
_REPORT_EVERY_S = 5
# The supervisor kills tritonserver after KILL_AFTER_S, and then sweeps for some seconds.
_GIVE_UP_S = KILL_AFTER_S + 15


def stop(files: InstanceFiles, report: Callable[[str], None]) -> bool:
    """Stops what runs and clears what is left; True when there was anything. `report` gets a line at each change.

    Raises ServingError when the supervisor does not end.
    """
    instance = Instance.read(files)
    if instance is None:
        return False
    if files.supervised():
        _ask_to_stop(instance.supervisor)
        wait_for_end(instance.supervisor, instance.port_base, lambda: not files.supervised(), report)
    clear_leftovers(files)
    return True


def clear_leftovers(files: InstanceFiles) -> None:
    """Ends processes and removes files of an instance whose supervisor is gone."""
    instance = Instance.read(files)
    if instance is None or files.supervised():
        return
    sweep(instance)
    files.state.unlink(missing_ok=True)


def describe(files: InstanceFiles) -> str:
    """One sentence on what runs."""
    instance = Instance.read(files)
    if instance is None:
        return "a server is just being started there"
    since = time.strftime("%H:%M:%S", time.localtime(instance.started))
    base = instance.port_base
    return (
        f"{instance.title}: {instance.phase} at ports {base} to {base + 2} since {since} "
        f"(tritonserver process {instance.server or 'not yet started'})"
    )


def wait_for_end(supervisor: int, port_base: int, ended: Callable[[], bool], report: Callable[[str], None]) -> None:
    """Returns once a supervisor that was asked to stop has ended; a Ctrl-C asks again. For the main thread.

    Raises ServingError when it does not end.
    """
    started = time.monotonic()
    report(f"stopping the server at port base {port_base}; Ctrl-C again does not wait for requests in flight")
    next_report = _REPORT_EVERY_S
    with _interruption_asking_again(supervisor):
        while not ended():
            waited = time.monotonic() - started
            if waited > _GIVE_UP_S:
                raise ServingError(
                    f"the supervisor (process {supervisor}) did not end within {_GIVE_UP_S} s: kill -9 {supervisor}, "
                    f"then ./ladder down --port-base {port_base}"
                )
            if waited > next_report:
                report(f"still stopping after {next_report} s, until {KILL_AFTER_S} s at most")
                next_report += _REPORT_EVERY_S
            time.sleep(_POLL_S)


@contextlib.contextmanager
def _interruption_asking_again(supervisor: int) -> Iterator[None]:
    # Asked twice, the supervisor does not wait for requests in flight.
    before = signal.signal(signal.SIGINT, lambda _number, _frame: _ask_to_stop(supervisor))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _ask_to_stop(supervisor: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(supervisor, signal.SIGTERM)
