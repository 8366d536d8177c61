"""Exit codes: 1 is for a missed SLA alone, whatever ends Locust before there is a verdict."""

from __future__ import annotations

import errno
import socket
import sys
from pathlib import Path

import pytest
from locust.event import Events
from locust.exception import RPCError

from loadtest.errors import LoadTestError
from loadtest.run.exits import Exits
from tests.client.fakes.running import running
from tests.loadtest.run.locust_process import free_port, locust, slow_triton
from tools.client.address import Protocol


@pytest.fixture
def exits(monkeypatch: pytest.MonkeyPatch) -> tuple[Exits, Events]:
    monkeypatch.setattr(sys, "exit", sys.exit)
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
    monkeypatch.setattr("logging.raiseExceptions", True)
    exits, events = Exits(), Events()
    exits.install(events)
    return exits, events


@pytest.mark.parametrize(("given", "code"), [(None, None), (0, 0), (1, 2), (-1, 2), (2, 2), ("why", 2)])
def test_before_a_verdict_every_failure_is_2(
    exits: tuple[Exits, Events], given: object, code: int | None, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        sys.exit(given)  # type: ignore[arg-type]
    assert ended.value.code == code
    assert ("error: why" in capsys.readouterr().err) is (given == "why")


def test_a_verdict_is_handed_through(exits: tuple[Exits, Events]) -> None:
    exits[1].quit.fire(exit_code=1)
    with pytest.raises(SystemExit) as ended:
        sys.exit(1)
    assert ended.value.code == 1


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (LoadTestError('"x" cannot be written'), 'error: "x" cannot be written\n'),
        (
            OSError(errno.ENOSPC, "No space left on device", "a.csv"),
            'error: "a.csv" cannot be used: no space left on device\n',
        ),
        (RPCError("Socket bind failure"), "error: Socket bind failure\n"),
        (KeyboardInterrupt(), "error: interrupted before the run began\n"),
    ],
)
def test_an_error_after_the_verdict_is_2_and_a_line(
    exits: tuple[Exits, Events], error: BaseException, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    exits[1].quit.fire(exit_code=1)
    with pytest.raises(SystemExit) as ended:
        sys.excepthook(type(error), error, None)
    assert ended.value.code == 2
    assert capsys.readouterr().err == said


def test_an_error_of_the_program_keeps_its_traceback(
    exits: tuple[Exits, Events], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        sys.excepthook(ValueError, ValueError("a bug"), None)
    assert ended.value.code == 2
    assert "ValueError: a bug" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("NoSuchUser",), "Unknown User(s): NoSuchUser"),
        (("--autoquit", "3"), "--autoquit is only meaningful in combination with --autostart"),
        (("--csv", "/dev/null/x"), '"/dev/null" cannot be used: file exists'),
    ],
)
def test_what_locust_refuses_itself_is_exit_code_2(tmp_path: Path, arguments: tuple[str, ...], said: str) -> None:
    with locust(tmp_path, "--headless", "--host", "http://127.0.0.1:1", *arguments) as process:
        assert process.wait() == 2, process.said()
    assert said in process.said()
    assert "Traceback" not in process.said()


@pytest.mark.slow
@pytest.mark.parametrize("autostart", [False, True])
def test_a_web_port_that_is_taken_is_exit_code_2(tmp_path: Path, *, autostart: bool) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        given = ("--web-host", "127.0.0.1", "--web-port", str(port), *(["--autostart"] if autostart else []))
        with locust(tmp_path, *given, "--host", "http://127.0.0.1:1", "--targets", "a") as process:
            assert process.wait() == 2, process.said()
    assert (
        f'the web UI cannot have "127.0.0.1:{port}" (address already in use): '
        "give another with --web-port or --web-host" in process.said()
    )
    assert "Traceback" not in process.said()


@pytest.mark.slow
def test_a_master_port_that_is_taken_is_exit_code_2(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        bind = ("--master", "--master-bind-host", "127.0.0.1", "--master-bind-port", str(port))
        with locust(tmp_path, "--headless", *bind, "--host", "http://127.0.0.1:1", "--targets", "a") as process:
            assert process.wait() == 2, process.said()
    assert str(port) in process.said()
    assert "Traceback" not in process.said()


@pytest.mark.slow
def test_fewer_workers_than_expected_are_exit_code_2_and_those_that_came_end(tmp_path: Path) -> None:
    port = str(free_port())
    with running(slow_triton()) as server:
        given = ("--headless", "--only-summary", "--host", server.endpoint(Protocol.HTTP).url, "--targets", "quick")
        bind = ("--master", "--master-bind-host", "127.0.0.1", "--master-bind-port", port)
        wait = ("--expect-workers", "2", "--expect-workers-max-wait", "7")
        with (
            locust(tmp_path, *given, *bind, *wait, "-t", "5") as master,
            locust(tmp_path, "--worker", "--master-host", "127.0.0.1", "--master-port", port, name="worker") as worker,
        ):
            assert master.wait() == 2, master.said()
            assert worker.wait() == 0, worker.said()
    assert "of 7 s: 1 of 2 have connected" in master.said()
    assert "error: 1 of 2 workers connected within 7 s: look at why the others did not" in master.said()
    assert "Traceback" not in master.said()
