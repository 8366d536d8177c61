"""`python -m tools.engine` as the stub starts it: exit status, reason file, lifeline."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import psutil
import pytest

from tests.engine.peer import Peer
from tests.engine.running import request
from tests.waiting import NEVER_S, wait_until
from tools.wire.launch import ANSWERS_SUFFIX, REASON_SUFFIX, EngineLaunch
from tools.wire.messages import Drain

ROOT = Path(__file__).resolve().parents[2]
COMMAND = [sys.executable, "-m", "tools.engine"]


def launch(socket: str, arguments: dict[str, Any] | None = None, **fields: Any) -> bytes:
    values = {"adapter": "mock", "model": "m", "version": "1", "model_directory": "/nowhere", **fields}
    return msgspec.json.encode(EngineLaunch(socket=socket, arguments=arguments or {}, **values)) + b"\n"


@contextmanager
def engine(line: bytes) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(COMMAND, cwd=ROOT, stdin=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
    assert process.stdin
    try:
        process.stdin.write(line)
        process.stdin.flush()
        yield process
    finally:
        process.kill()
        process.communicate()


def reason(socket: str) -> str:
    return Path(socket + REASON_SUFFIX).read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.anyio
async def test_after_a_drain_it_ends_with_0_and_leaves_nothing(socket: str) -> None:
    with engine(launch(socket)) as process:
        async with Peer(socket) as peer:
            welcome = await peer.hello()
            assert welcome.pid == process.pid
            await peer.submit(request(1))
            assert (await peer.ended(1)).failure is None
            await peer.send(Drain(0))
            assert process.wait(NEVER_S) == 0
    assert list(Path(socket).parent.iterdir()) == []


@pytest.mark.slow
@pytest.mark.anyio
async def test_a_sigterm_makes_it_refuse_and_a_drain_ends_it(socket: str) -> None:
    with engine(launch(socket)) as process:
        async with Peer(socket) as peer:
            await peer.hello()
            process.send_signal(signal.SIGINT)
            process.send_signal(signal.SIGTERM)
            key, message = 0, ""
            while not message.startswith("the model is being unloaded"):
                key += 1
                await peer.submit(request(key, max_tokens=1))
                failure = (await peer.ended(key)).failure
                message = failure.message if failure else ""
            await peer.send(Drain(0))
            assert process.wait(NEVER_S) == 0


@pytest.mark.parametrize(
    ("arguments", "fields", "why"),
    [
        ({"step": 1}, {}, "model.json of a mock engine: Object contains unknown field `step`"),
        (
            {},
            {"parameters": {"MAX_PROMPT_BYTES": "lots"}},
            'parameter "MAX_PROMPT_BYTES" in config.pbtxt is "lots": write a whole number, 0 or more',
        ),
    ],
)
def test_what_cannot_work_ends_with_2_and_the_reason(
    socket: str, arguments: dict[str, Any], fields: dict[str, Any], why: str
) -> None:
    with engine(launch(socket, arguments, **fields)) as process:
        assert process.wait(NEVER_S) == 2
    assert reason(socket) == why


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b"\n", b"Input data was truncated"),
        (b"{]\n", b"JSON is malformed"),
        (b'{"adapter": "gpt"}\n', b"Invalid enum value 'gpt'"),
    ],
)
def test_a_launch_that_cannot_be_read_ends_with_2(line: bytes, why: bytes) -> None:
    with engine(line) as process:
        assert process.wait(NEVER_S) == 2
        _, log = process.communicate()
    assert b"standard input must hold one line, an EngineLaunch as JSON: " in log
    assert why in log
    assert b"Traceback" not in log


def test_what_might_work_the_next_time_ends_with_1_and_the_reason(socket: str) -> None:
    Path(socket + ANSWERS_SUFFIX).mkdir()
    with engine(launch(socket)) as process:
        assert process.wait(NEVER_S) == 1
    assert reason(socket).startswith("ZMQError: Address already in use")


# The engine's own children, such as vLLM's engine core, are in its process group.
PARENT = """
import subprocess, sys, time
child = subprocess.Popen(["sleep", "600"])
print(child.pid, flush=True)
sys.argv = ["tools.engine"]
import runpy
runpy.run_module("tools.engine", run_name="__main__")
"""


def gone(pid: int) -> bool:
    return not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


def test_the_end_of_its_standard_input_takes_it_down_with_its_children(socket: str) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", PARENT], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    )
    assert process.stdin
    assert process.stdout
    process.stdin.write(launch(socket))
    process.stdin.flush()
    child = int(process.stdout.readline())
    wait_until(Path(socket + ANSWERS_SUFFIX).exists)
    assert not gone(child)
    process.stdin.close()
    assert process.wait(NEVER_S) == 1
    wait_until(lambda: gone(child))
    process.stdout.close()


# As a stub does, which then is killed and closes nothing by itself.
STUB = f"""
import subprocess, sys, time
engine = subprocess.Popen({COMMAND!r}, stdin=subprocess.PIPE, start_new_session=True)
engine.stdin.write(sys.stdin.buffer.readline())
engine.stdin.flush()
print(engine.pid, flush=True)
time.sleep(600)
"""


def test_a_killed_stub_takes_its_engine_along(socket: str) -> None:
    stub = subprocess.Popen([sys.executable, "-c", STUB], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert stub.stdin
    assert stub.stdout
    stub.stdin.write(launch(socket))
    stub.stdin.flush()
    pid = int(stub.stdout.readline())
    wait_until(Path(socket + ANSWERS_SUFFIX).exists)
    assert not gone(pid)
    os.kill(stub.pid, signal.SIGKILL)
    stub.wait()
    wait_until(lambda: gone(pid))
    stub.stdin.close()
    stub.stdout.close()
