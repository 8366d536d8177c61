"""Bringing environments up to date, side by side, once, however many launchers ask for it at the same time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

from tools.bootstrap.environments import ENVIRONMENTS, Environment, build, is_ready, lock_file
from tools.bootstrap.errors import BootstrapError
from tools.bootstrap.kit import Kit, install
from tools.bootstrap.layout import Layout
from tools.bootstrap.locking import exclusive, is_held
from tools.bootstrap.processes import CommandFailedError, InterruptedInstallationError, Runner
from tools.bootstrap.progress import Progress

DRAW_EVERY = 0.25


def prepare(wanted: Sequence[Environment], layout: Layout, progress: Progress | None = None) -> None:
    """Builds those of `wanted` that are not ready. Raises BootstrapError; an interruption ends what was started.

    `progress` is drawn on standard error unless one is given.
    """
    if all(is_ready(environment, layout) for environment in wanted):
        return
    progress = progress or Progress()
    with ExitStack() as held:
        descriptors = []
        for environment in wanted:
            lock = layout.environments / f"{environment.name}.lock"
            descriptors.append(held.enter_context(exclusive(lock, _announce(environment, progress))))
        missing = [environment for environment in wanted if not is_ready(environment, layout)]
        if not missing:
            return
        _refuse_while_running([environment for environment in missing if environment.serves], layout)
        _build_all(missing, layout, Runner(inherited=descriptors), progress)


def prepare_from_kit(folder: Path, layout: Layout) -> None:
    """Builds both environments from an offline kit, in place of what is there. Raises BootstrapError."""
    progress = Progress()

    def report(phase: str) -> None:
        progress.set("offline kit", phase, finished=phase == "ready")
        progress.draw()

    kit = Kit.read(folder.absolute())
    with ExitStack() as held:
        for environment in ENVIRONMENTS:
            lock = layout.environments / f"{environment.name}.lock"
            held.enter_context(exclusive(lock, _announce(environment, progress)))
        _refuse_while_running(ENVIRONMENTS, layout)
        install(kit, layout, report)


class _Build(threading.Thread):
    """One environment's build; `error` is what ended it, if anything did."""

    def __init__(self, environment: Environment, layout: Layout, runner: Runner, progress: Progress) -> None:
        super().__init__(name=f"build-{environment.name}", daemon=True)
        self.environment = environment
        self.error: Exception | None = None
        self._layout = layout
        self._runner = runner
        self._progress = progress

    def run(self) -> None:
        name = f"{self.environment.name} environment"
        try:
            build(self.environment, self._layout, self._runner, lambda phase: self._progress.set(name, phase))
        except (BootstrapError, CommandFailedError, OSError) as error:
            self.error = error
            self._progress.set(name, "failed", finished=True)
        except InterruptedInstallationError:
            self._progress.set(name, "interrupted", finished=True)
        else:
            self._progress.set(name, "ready", finished=True)


def _build_all(missing: Sequence[Environment], layout: Layout, runner: Runner, progress: Progress) -> None:
    builds = [_Build(environment, layout, runner, progress) for environment in missing]
    for build_thread in builds:
        build_thread.start()
    try:
        while any(build_thread.is_alive() for build_thread in builds):
            progress.draw()
            time.sleep(DRAW_EVERY)
            if any(build_thread.error for build_thread in builds):
                runner.stop()
    finally:
        runner.stop()
        for build_thread in builds:
            build_thread.join()
        progress.draw()
    errors = [str(build_thread.error) for build_thread in builds if build_thread.error]
    if errors:
        raise BootstrapError("\n".join(errors))


def _announce(environment: Environment, progress: Progress) -> Callable[[str], None]:
    def announce(holder: str) -> None:
        progress.set(f"{environment.name} environment", f"another ./ladder (process {holder}) is building it, waiting")
        progress.draw()

    return announce


def _refuse_while_running(missing: Sequence[Environment], layout: Layout) -> None:
    running = sorted(lock.parent.name for lock in layout.runs.glob("*/lock") if is_held(lock))
    if running and missing:
        locks = " and ".join(f'"{lock_file(environment, layout).name}"' for environment in missing)
        raise BootstrapError(
            f"{locks} changed since the environments were built, and the instance at port base {running[0]} runs from "
            f"them: ./ladder down --port-base {running[0]}, then again"
        )
