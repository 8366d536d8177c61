from __future__ import annotations

import os
import re
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.backends.engines import ROOT, interpreter, is_running
from tests.fixtures.sharing import SCRIPT
from tests.waiting import NEVER_S, wait_until
from tools.backends.process import EngineProcess
from tools.wire.launch import ANSWERS_SUFFIX, REASON_SUFFIX, EngineLaunch


def start(sockets: Path, python: str = sys.executable, **fields: Any) -> EngineProcess:
    environment = fields.pop("environment", {})
    home = fields.pop("home", ROOT)
    values: dict[str, Any] = {"adapter": "mock", "arguments": {}, **fields}
    launch = EngineLaunch(model="m", version="1", socket=str(sockets / "e"), model_directory="/", **values)
    return EngineProcess(python, ROOT, home, launch, environment)


def test_it_runs_until_it_is_stopped_and_leaves_no_files(sockets: Path) -> None:
    process = start(sockets)
    wait_until((sockets / f"e{ANSWERS_SUFFIX}").exists)
    assert not process.wait_for_end(0)
    process.stop()
    assert not is_running(process.pid)
    assert list(sockets.iterdir()) == []
    process.stop()


def test_it_says_by_which_signal_it_was_killed(sockets: Path) -> None:
    process = start(sockets)
    wait_until((sockets / f"e{ANSWERS_SUFFIX}").exists)
    os.kill(process.pid, signal.SIGKILL)
    assert process.wait() == f"engine process {process.pid} was killed by SIGKILL"
    assert not process.hopeless
    assert list(sockets.iterdir()) == []


def test_it_tells_the_reason_that_the_engine_left(sockets: Path) -> None:
    process = start(sockets, arguments={"nonsense": 1})
    assert process.wait() == "model.json of a mock engine: Object contains unknown field `nonsense`"
    assert process.hopeless
    assert list(sockets.iterdir()) == []


def test_a_reason_of_an_earlier_engine_is_not_its_own(sockets: Path, tmp_path: Path) -> None:
    (sockets / f"e{REASON_SUFFIX}").write_text("old news", encoding="utf-8")
    process = start(sockets, interpreter(tmp_path, "exit 7"))
    assert process.wait() == f"engine process {process.pid} ended with status 7"
    assert not process.hopeless


def test_what_it_started_ends_with_it(sockets: Path, tmp_path: Path) -> None:
    process = start(sockets, interpreter(tmp_path, f'sleep 600 & echo $! > "{tmp_path}/child"; exit 1'))
    process.wait()
    child = int((tmp_path / "child").read_text(encoding="utf-8"))
    wait_until(lambda: not is_running(child))


def test_what_a_killed_engine_shared_with_others_is_removed(sockets: Path, tmp_path: Path) -> None:
    (tmp_path / "engine.py").write_text(SCRIPT, encoding="utf-8")
    process = start(sockets, interpreter(tmp_path, f'exec "$PYTHON" "{tmp_path}/engine.py" > "{tmp_path}/memory"'))
    wait_until(lambda: (tmp_path / "memory").exists() and (tmp_path / "memory").read_text(encoding="utf-8"))
    memory = Path((tmp_path / "memory").read_text(encoding="utf-8").strip())
    assert memory.exists()
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert not memory.exists()


def test_a_stopped_process_can_be_taken_down(sockets: Path) -> None:
    process = start(sockets)
    os.kill(process.pid, signal.SIGSTOP)
    process.stop()
    assert not is_running(process.pid)


def test_an_engine_that_does_not_read_does_not_raise(sockets: Path, tmp_path: Path) -> None:
    process = start(sockets, interpreter(tmp_path, "exit 1"), arguments={"padding": "x" * 1_000_000})
    assert process.wait_for_end(NEVER_S)


def test_an_interpreter_that_cannot_be_run_is_named(sockets: Path, tmp_path: Path) -> None:
    with pytest.raises(OSError) as caught:
        start(sockets, "/no/such/python")
    assert str(caught.value) == (
        f'the engine\'s interpreter "/no/such/python" cannot be run in "{ROOT}" (No such file or directory): '
        "name another with LADDER_ENGINE_PYTHON in the environment or ENGINE_PYTHON in config.pbtxt"
    )
    with pytest.raises(OSError, match=re.escape(f'cannot be run in "{tmp_path}/gone" (No such file or directory)')):
        start(sockets, home=tmp_path / "gone")


def test_the_engine_has_an_environment_of_its_own(
    sockets: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", "/the/servers")
    monkeypatch.setenv("PYTHONHOME", "/the/servers")
    monkeypatch.setenv("PYTHONPATH", "/mine")
    monkeypatch.delenv("LADDER_ENGINE_LIBRARY_PATH", raising=False)
    python = interpreter(tmp_path, f'env > "{tmp_path}/environment"; pwd > "{tmp_path}/directory"')
    start(sockets, python, environment={"EXTRA": "a b"}, home=tmp_path).wait()
    lines = (tmp_path / "environment").read_text(encoding="utf-8").splitlines()
    environment = dict(line.split("=", 1) for line in lines if "=" in line)
    assert "LD_LIBRARY_PATH" not in environment
    assert "PYTHONHOME" not in environment
    assert environment["PYTHONPATH"] == f"{ROOT}:/mine"
    assert environment["PYTHONUTF8"] == "1"
    assert environment["EXTRA"] == "a b"
    assert (tmp_path / "directory").read_text(encoding="utf-8") == f"{tmp_path}\n"


def test_the_engines_library_path_can_be_given(sockets: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", "/the/servers")
    monkeypatch.setenv("LADDER_ENGINE_LIBRARY_PATH", "/the/engines")
    start(sockets, interpreter(tmp_path, f'echo "$LD_LIBRARY_PATH" > "{tmp_path}/path"')).wait()
    assert (tmp_path / "path").read_text(encoding="utf-8") == "/the/engines\n"
