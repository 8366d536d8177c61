from __future__ import annotations

import sys
import threading
import time
from pathlib import Path

import pytest

from tools.bootstrap.processes import (
    CommandFailedError,
    InterruptedInstallationError,
    Runner,
    for_installing,
    isolated,
)


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def test_lines_go_to_the_log_and_to_the_listener(tmp_path: Path) -> None:
    log, lines = tmp_path / "log", list[str]()
    Runner().run(python("print('one'); import sys; print('two', file=sys.stderr)"), log, lines.append)
    assert sorted(lines) == ["one\n", "two\n"]
    assert {"one", "two"} <= set(log.read_text(encoding="utf-8").splitlines())
    assert log.read_text(encoding="utf-8").startswith(f"\n$ {sys.executable} -c ")


def test_a_failure_carries_its_code_and_last_lines(tmp_path: Path) -> None:
    with pytest.raises(CommandFailedError) as failure:
        Runner().run(python("print(*range(30), sep='\\n'); raise SystemExit(3)"), tmp_path / "log")
    assert failure.value.code == 3
    assert failure.value.tail == tuple(str(number) for number in range(18, 30))


def test_stopping_ends_a_command_with_what_it_has_started(tmp_path: Path) -> None:
    log, runner = tmp_path / "log", Runner()
    # The child keeps the output open: unless it ends as well, reading goes on.
    command = python("import subprocess; print('started', flush=True); subprocess.run(['sleep', '60'])")
    errors: list[BaseException] = []

    def run() -> None:
        try:
            runner.run(command, log)
        except InterruptedInstallationError as error:
            errors.append(error)

    running = threading.Thread(target=run)
    running.start()
    while not log.exists() or "\nstarted" not in log.read_text(encoding="utf-8"):
        time.sleep(0.01)
    runner.stop()
    running.join(20)
    assert not running.is_alive()
    assert len(errors) == 1
    with pytest.raises(InterruptedInstallationError):
        runner.run(python(""), log)


def test_pythons_settings_are_dropped_and_pips_kept_but_for_its_target() -> None:
    users = {
        "PYTHONPATH": "/x",
        "VIRTUAL_ENV": "/v",
        "PIP_TARGET": "/t",
        "PIP_FIND_LINKS": "/wheels",
        "HTTPS_PROXY": "p",
    }
    assert isolated(users) == {"PIP_TARGET": "/t", "PIP_FIND_LINKS": "/wheels", "HTTPS_PROXY": "p"}
    installing = for_installing(users)
    assert {"PIP_FIND_LINKS": "/wheels", "HTTPS_PROXY": "p", "PIP_USER": "0"}.items() <= installing.items()
    assert not {"PIP_TARGET", "PYTHONPATH", "VIRTUAL_ENV"} & set(installing)
