"""Stopping an instance, whoever started it and whatever is left of it."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable

from tools.serving.errors import ServingError
from tools.serving.instance import Instance, InstanceFiles
from tools.serving.supervisor import KILL_AFTER_S
from tools.serving.sweep import processes_of, sweep

_POLL_S = 0.05
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
        _stop_supervisor(files, instance, report)
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
        f'profile "{instance.profile}" is {instance.phase} at ports {base} to {base + 2} since {since} '
        f"(tritonserver process {instance.server or 'not yet started'})"
    )


def _stop_supervisor(files: InstanceFiles, instance: Instance, report: Callable[[str], None]) -> None:
    _ask_to_stop(instance)
    started = time.monotonic()
    shown = -1
    while files.supervised():
        waited = time.monotonic() - started
        if waited > _GIVE_UP_S:
            raise ServingError(
                f"the supervisor (process {instance.supervisor}) did not end within {_GIVE_UP_S} s; left are processes "
                f"{', '.join(map(str, processes_of(instance.id))) or 'none'}: kill -9 {instance.supervisor}, then again"
            )
        if int(waited) > shown:
            shown = int(waited)
            report(f"stopping the server at {instance.port_base}: requests in flight are finished first ({shown} s)")
        try:
            time.sleep(_POLL_S)
        except KeyboardInterrupt:
            # Asked twice, the supervisor does not wait for requests in flight.
            _ask_to_stop(instance)


def _ask_to_stop(instance: Instance) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(instance.supervisor, signal.SIGTERM)
