"""The supervisor with real engine processes: every way an engine can end, and what is left afterwards."""

from __future__ import annotations

import os
import signal
import sys
import textwrap
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.backends.engines import HASTY, ROOT, interpreter, is_running, starts
from tests.waiting import NEVER_S, wait_until
from tools.backends.supervisor import Patience, Place, State, Supervisor
from tools.wire.launch import EngineLaunch, endpoint_file
from tools.wire.messages import PROTOCOL, Delta, Request, Step, Submit, ToPeer

pytestmark = pytest.mark.slow


class Owner:
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.deltas: list[Delta] = []
        self.downs: list[tuple[str, State]] = []
        self.restarts: list[int] = []
        self.ended = threading.Event()

    def on_message(self, message: ToPeer) -> None:
        if isinstance(message, Step):
            self.deltas += message.deltas
            if any(delta.final for delta in message.deltas):
                self.ended.set()

    def on_down(self, reason: str, state: State) -> None:
        self.downs.append((reason, state))

    def on_ready(self, restarts: int) -> None:
        self.restarts.append(restarts)


class Supervised:
    """A supervisor with its owner; `ask` sends a request through the running engine."""

    def __init__(self, sockets: Path, python: str, patience: Patience, arguments: dict[str, Any]) -> None:
        self.sockets = sockets
        self.owner = Owner()
        launch = EngineLaunch("mock", "m", "1", "", "/", arguments)
        place = Place(python, ROOT, ROOT, sockets)
        self.supervisor = Supervisor(place, launch, {}, self.owner, patience)
        self.endpoint = endpoint_file(sockets, "m", "1", os.getpid())

    @property
    def pid(self) -> int:
        assert self.supervisor.welcome
        return self.supervisor.welcome.pid

    def ask(self, key: int) -> None:
        self.owner.ended.clear()
        self.supervisor.send(Submit([Request(key, "", "a b c")]))
        assert self.owner.ended.wait(NEVER_S)
        assert self.owner.deltas[-1].key == key
        assert self.owner.deltas[-1].failure is None

    def wait_for(self, state: State) -> None:
        wait_until(lambda: self.supervisor.state is state)


@pytest.fixture
def supervise(sockets: Path) -> Iterator[Any]:
    supervised: list[Supervised] = []

    def make(
        python: str = sys.executable, patience: Patience = HASTY, arguments: dict[str, Any] | None = None
    ) -> Supervised:
        supervised.append(Supervised(sockets, python, patience, arguments or {}))
        return supervised[-1]

    yield make
    for item in supervised:
        item.supervisor.stop(0)
    assert list(sockets.iterdir()) == []


def test_it_starts_publishes_and_ends_its_engine(supervise: Any) -> None:
    it = supervise()
    assert it.supervisor.state is State.STARTING
    it.supervisor.start()
    assert it.supervisor.state is State.READY
    welcome = it.supervisor.welcome
    assert welcome is not None
    assert (welcome.protocol, welcome.engine) == (PROTOCOL, "mock")
    socket = it.endpoint.read_text(encoding="utf-8")
    assert Path(socket + ".req").is_socket()
    it.ask(1)
    pid = it.pid
    it.supervisor.stop(5)
    assert (it.supervisor.state, it.supervisor.reason) == (State.STOPPED, "the model was unloaded")
    assert not is_running(pid)
    assert list(it.sockets.iterdir()) == []
    assert it.owner.downs == []


def test_an_engine_that_cannot_start_says_why(supervise: Any) -> None:
    it = supervise(arguments={"nonsense": 1})
    with pytest.raises(RuntimeError, match=r"^model\.json of a mock engine: Object contains unknown field `nonsense`$"):
        it.supervisor.start()
    assert it.supervisor.state is State.FAILED
    assert list(it.sockets.iterdir()) == []


def test_an_engine_that_ends_while_it_starts_is_not_tried_again(supervise: Any, tmp_path: Path) -> None:
    it = supervise(interpreter(tmp_path, "exit 5"))
    with pytest.raises(RuntimeError, match=r"^engine process \d+ ended with status 5$"):
        it.supervisor.start()
    assert starts(tmp_path) == 1


def test_a_killed_engine_is_replaced_and_serves_again(supervise: Any) -> None:
    it = supervise()
    it.supervisor.start()
    it.ask(1)
    pid = it.pid
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: it.owner.restarts == [1])
    assert it.owner.downs == [(f"engine process {pid} was killed by SIGKILL", State.RESTARTING)]
    assert it.pid != pid
    assert Path(it.endpoint.read_text(encoding="utf-8") + ".req").is_socket()
    it.ask(2)


def test_while_the_engine_is_down_nobody_is_sent_to_it(supervise: Any, tmp_path: Path) -> None:
    it = supervise(interpreter(tmp_path, "engine"), replace(HASTY, backoff_s=(600.0,)))
    it.supervisor.start()
    pid = it.pid
    os.kill(pid, signal.SIGKILL)
    it.wait_for(State.RESTARTING)
    wait_until(lambda: it.owner.downs)
    assert it.supervisor.reason == f"engine process {pid} was killed by SIGKILL"
    assert list(it.sockets.iterdir()) == []
    it.supervisor.send(Submit([]))
    # And stopping does not wait for the end of the pause.
    it.supervisor.stop(5)
    assert it.supervisor.state is State.STOPPED
    assert starts(tmp_path) == 1


def test_an_engine_that_does_not_answer_is_killed_and_replaced(supervise: Any) -> None:
    it = supervise(patience=replace(HASTY, silence_s=1.5))
    it.supervisor.start()
    pid = it.pid
    os.kill(pid, signal.SIGSTOP)
    wait_until(lambda: it.owner.restarts)
    assert it.owner.downs[0] == (f"engine process {pid} did not answer for 1.5 s and was killed", State.RESTARTING)
    assert not is_running(pid)


def test_after_repeated_deaths_it_gives_up_and_stays_quiet(supervise: Any, tmp_path: Path) -> None:
    it = supervise(interpreter(tmp_path, "engine", "exit 3"))
    it.supervisor.start()
    os.kill(it.pid, signal.SIGKILL)
    it.wait_for(State.FAILED)
    wait_until(lambda: len(it.owner.downs) == 4)
    assert [state for _, state in it.owner.downs] == [State.RESTARTING] * 3 + [State.FAILED]
    assert it.owner.downs[-1][0].endswith("ended with status 3")
    wait_until(lambda: "engine-watch" not in [thread.name for thread in threading.enumerate()])
    assert starts(tmp_path) == 4
    assert it.owner.restarts == []
    assert list(it.sockets.iterdir()) == []


def test_an_engine_that_recovered_starts_a_new_count(supervise: Any) -> None:
    """One restart is all it gets, and yet it is restarted twice."""
    it = supervise(patience=replace(HASTY, backoff_s=(0.05,), stable_s=0.0))
    it.supervisor.start()
    for death in (1, 2):
        os.kill(it.pid, signal.SIGKILL)
        wait_until(lambda death=death: it.owner.restarts == list(range(1, death + 1)))
    assert {state for _, state in it.owner.downs} == {State.RESTARTING}


def test_what_cannot_work_is_not_tried_again(supervise: Any, tmp_path: Path) -> None:
    it = supervise(interpreter(tmp_path, "engine", "exit 2"))
    it.supervisor.start()
    os.kill(it.pid, signal.SIGKILL)
    it.wait_for(State.FAILED)
    wait_until(lambda: len(it.owner.downs) == 2)
    assert it.owner.downs[-1][1] is State.FAILED
    assert starts(tmp_path) == 2


def test_an_interpreter_that_has_gone_counts_as_a_death(supervise: Any, tmp_path: Path) -> None:
    python = interpreter(tmp_path, "engine")
    it = supervise(python)
    it.supervisor.start()
    Path(python).unlink()
    os.kill(it.pid, signal.SIGKILL)
    it.wait_for(State.FAILED)
    wait_until(lambda: len(it.owner.downs) == 4)
    assert it.owner.downs[-1][0].startswith(f'the engine\'s interpreter "{python}" cannot be run')


def test_stopping_ends_an_engine_that_is_still_starting(supervise: Any, tmp_path: Path) -> None:
    it = supervise(interpreter(tmp_path, "engine", f'echo $$ > "{tmp_path}/pid"; exec sleep 600'))
    it.supervisor.start()
    os.kill(it.pid, signal.SIGKILL)
    wait_until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text(encoding="utf-8").strip())
    it.supervisor.stop(5)
    assert not is_running(int((tmp_path / "pid").read_text(encoding="utf-8")))
    assert it.supervisor.state is State.STOPPED
    assert len(it.owner.downs) == 1
    assert it.owner.restarts == []


def test_stopping_lets_what_runs_finish(supervise: Any) -> None:
    it = supervise(arguments={"step_s": 0.01})
    it.supervisor.start()
    it.supervisor.send(Submit([Request(1, "", "a", parameters='{"max_tokens": 30}', stream=True)]))
    wait_until(lambda: it.owner.deltas)
    it.supervisor.stop(NEVER_S)
    assert it.owner.deltas[-1].finish_reasons == ["length"]
    assert sum(delta.token_counts[0] for delta in it.owner.deltas) == 30


def test_an_engine_that_ignores_the_drain_is_killed(supervise: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    it = supervise()
    it.supervisor.start()
    pid = it.pid
    monkeypatch.setattr("tools.backends.supervisor._DRAIN_MARGIN_S", 0.1)
    os.kill(pid, signal.SIGSTOP)
    it.supervisor.stop(0)
    assert not is_running(pid)


# An engine that will not have this stub, or says goodbye and then does not go.
STRANGER = """
import json, sys, time
from tools.wire.launch import answers_endpoint, requests_endpoint
from tools.wire.messages import PROTOCOL, Goodbye, Submit, Welcome, decode_to_engine, encode
import zmq
socket = json.loads(sys.stdin.readline())["socket"]
context = zmq.Context()
requests, answers = context.socket(zmq.PULL), context.socket(zmq.ROUTER)
requests.bind(requests_endpoint(socket))
answers.bind(answers_endpoint(socket))
while True:
    peer, frame = requests.recv_multipart()
    if isinstance(decode_to_engine(frame), Submit):
        answers.send_multipart([peer, encode(Goodbye("the core is gone"))])
        time.sleep(600)
    answers.send_multipart([peer, encode(Welcome({protocol}, "stranger", 1, 2, 3))])
"""


def stranger(folder: Path, protocol: str, *later: str) -> str:
    script = folder / "stranger.py"
    script.write_text(textwrap.dedent(STRANGER).replace("{protocol}", protocol), encoding="utf-8")
    return interpreter(folder, f'exec "$PYTHON" "{script}"', *later)


def test_an_engine_of_another_release_is_refused_instead_of_waited_for(supervise: Any, tmp_path: Path) -> None:
    it = supervise(stranger(tmp_path, "99"))
    with pytest.raises(RuntimeError, match=f"^the engine speaks protocol 99, this stub {PROTOCOL}$"):
        it.supervisor.start()


def test_an_engine_that_said_goodbye_and_stays_is_killed(
    supervise: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tools.backends.supervisor._GOODBYE_S", 0.1)
    it = supervise(stranger(tmp_path, "PROTOCOL", "engine"))
    it.supervisor.start()
    it.supervisor.send(Submit([]))
    wait_until(lambda: it.owner.restarts == [1])
    assert it.owner.downs == [("the core is gone", State.RESTARTING)]
    it.ask(1)


def test_a_directory_that_is_too_deep_is_refused_before_a_process_starts(
    supervise: Any, sockets: Path, tmp_path: Path
) -> None:
    deep = sockets / ("d" * 90)
    deep.mkdir()
    python = interpreter(tmp_path, "engine")
    it = Supervised(deep, python, HASTY, {})
    with pytest.raises(ValueError, match="a Unix socket takes 107: set TMPDIR to a shorter directory"):
        it.supervisor.start()
    assert starts(tmp_path) == 0
    deep.rmdir()
