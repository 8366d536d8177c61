"""`./ladder up` and what belongs to it, on a real tritonserver with small models that load in a moment."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from tests.serving.ladder import (
    MOCK_MODELS,
    SERVING,
    Foreground,
    assert_nothing_left,
    ladder,
    process_of,
    running,
    server_log,
    status,
    wait_for,
)

pytestmark = [pytest.mark.e2e, pytest.mark.light, pytest.mark.timeout(300)]

BASE = 18220
OTHER_BASE = 18224
# To the lint the mock's model.json is one of vLLM with an argument that vLLM does not have.
REPOSITORY = ("--repository", str(MOCK_MODELS), "--accept-lint-errors")
SERVED = ("--models", "mock_llm,slow,chain")

Up = Callable[..., Foreground]


@pytest.fixture
def up(tmp_path: Path) -> Iterator[Up]:
    started: list[Foreground] = []

    def up(base: int = BASE, *arguments: str) -> Foreground:
        log = tmp_path / f"up-{len(started)}.log"
        started.append(Foreground(log, "--port-base", str(base), *REPOSITORY, *(arguments or SERVED)))
        return started[-1]

    yield up
    for foreground in started:
        foreground.kill()
    for base in (BASE, OTHER_BASE):
        ladder("down", "--port-base", str(base))


def test_up_shows_every_model_and_ctrl_c_leaves_nothing(up: Up) -> None:
    server = up()
    server.wait_until(SERVING)
    instance = running(BASE)
    assert instance.phase == "running"
    ready = {(model.name, model.version) for model in instance.models if model.state == "READY"}
    assert ready == {("mock_llm", 1), ("slow", 1), ("chain", 1), ("echo", 1), ("echo", 2)}
    for role in ("supervisor", "tritonserver", "stub of mock_llm version 1", "stub of slow version 1", "engine"):
        assert process_of(instance, role)
    for name in ("mock_llm version 1", "slow version 1", "chain version 1"):
        assert f"{name}  READY" in server.output
    assert httpx.get(f"http://127.0.0.1:{BASE + 2}/metrics").status_code == 200
    server.interrupt()
    assert server.process.wait(60) == 130
    assert_nothing_left(BASE)
    assert status(BASE) is None


def test_ctrl_c_while_models_load_leaves_nothing(up: Up) -> None:
    server = up()
    server.wait_until("LOADING")
    server.interrupt()
    assert server.process.wait(60) == 130
    assert_nothing_left(BASE)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_other_signals_end_it_as_well(up: Up, number: signal.Signals) -> None:
    server = up()
    server.wait_until(SERVING)
    server.process.send_signal(number)
    assert server.process.wait(60) == 130
    assert_nothing_left(BASE)


def test_requests_in_flight_are_finished_before_the_end(up: Up) -> None:
    server = up(BASE, "--models", "slow")
    server.wait_until(SERVING)
    url = f"http://127.0.0.1:{BASE}/v2/models/slow/generate"
    answers: list[int] = []
    asking = threading.Thread(
        target=lambda: answers.append(httpx.post(url, json={"text_input": "4"}, timeout=30).status_code)
    )
    asking.start()
    assert wait_for(lambda: "slow: working" in server_log(BASE))
    server.interrupt()
    asking.join()
    assert answers == [200]
    assert server.process.wait(60) == 130
    assert_nothing_left(BASE)


def test_a_second_ctrl_c_does_not_wait_for_requests_in_flight(up: Up) -> None:
    server = up(BASE, "--models", "slow")
    server.wait_until(SERVING)
    with httpx.Client(timeout=60) as client:

        def ask() -> None:
            with pytest.raises(httpx.TransportError):
                client.post(f"http://127.0.0.1:{BASE}/v2/models/slow/generate", json={"text_input": "50"})

        asking = threading.Thread(target=ask)
        asking.start()
        assert wait_for(lambda: "slow: working" in server_log(BASE))
        server.interrupt()
        server.wait_until("Ctrl-C again does not wait for requests in flight")
        server.interrupt()
        assert server.process.wait(20) == 130
        asking.join()
    assert_nothing_left(BASE)


@pytest.mark.parametrize("role", ["tritonserver", "supervisor"])
def test_killing_what_serves_ends_up_with_the_reason(up: Up, role: str) -> None:
    server = up()
    server.wait_until(SERVING)
    os.kill(process_of(running(BASE), role), signal.SIGKILL)
    assert server.process.wait(60) == 1
    reason = {
        "tritonserver": "error: tritonserver was killed by SIGKILL",
        "supervisor": "error: the server's supervisor ended unexpectedly (code -9)",
    }[role]
    assert reason in server.output
    if role == "tritonserver":
        assert "The end of " in server.output
    assert_nothing_left(BASE)


@pytest.mark.parametrize("role", ["stub of mock_llm", "engine"])
def test_after_killing_what_is_below_the_server_it_still_ends_cleanly(up: Up, role: str) -> None:
    server = up()
    server.wait_until(SERVING)
    os.kill(process_of(running(BASE), role), signal.SIGKILL)
    assert running(BASE).phase == "running"
    server.interrupt()
    assert server.process.wait(60) == 130
    assert_nothing_left(BASE)


def test_killing_the_command_stops_the_server(up: Up) -> None:
    server = up()
    server.wait_until(SERVING)
    server.kill()
    assert wait_for(lambda: status(BASE) is None)
    assert_nothing_left(BASE)


def test_everything_killed_at_once_is_cleared_by_the_next_up(up: Up) -> None:
    first = up()
    first.wait_until(SERVING)
    instance = running(BASE)
    for pid in [process_of(instance, "supervisor"), process_of(instance, "tritonserver"), first.process.pid]:
        os.kill(pid, signal.SIGKILL)
    first.process.wait()
    assert running(BASE).phase == "orphaned"
    second = up()
    second.wait_until(SERVING)
    second.interrupt()
    assert second.process.wait(60) == 130
    assert_nothing_left(BASE)


def test_detached_it_serves_on_and_down_ends_it() -> None:
    started = ladder("up", "--detach", "--port-base", str(BASE), *REPOSITORY, *SERVED)
    try:
        assert started.returncode == 0, started.stderr
        assert f"Stop it: ./ladder down --port-base {BASE}" in " ".join(started.stderr.split())
        shown = ladder("status", "--port-base", str(BASE), "--json")
        assert shown.returncode == 0
        [instance] = json.loads(shown.stdout)
        assert (instance["phase"], instance["detached"]) == ("running", True)
        assert instance["ports"] == {"http": BASE, "grpc": BASE + 1, "metrics": BASE + 2}
        refused = ladder("up", "--port-base", str(BASE), *REPOSITORY)
        assert refused.returncode == 1
        assert f"./ladder down --port-base {BASE} stops it" in refused.stderr
        log = ladder("logs", "--port-base", str(BASE), "--lines", "5")
        assert len(log.stdout.splitlines()) == 5
    finally:
        stopped = ladder("down", "--port-base", str(BASE))
    assert stopped.returncode == 0
    assert f"Stopped: nothing of the server at port base {BASE} is left." in stopped.stderr
    assert_nothing_left(BASE)
    again = ladder("down", "--port-base", str(BASE))
    assert again.returncode == 0
    assert again.stderr.startswith(f"Nothing runs at port base {BASE}")
    assert ladder("status", "--port-base", str(BASE)).returncode == 1


def test_down_after_the_supervisor_of_a_detached_server_was_killed() -> None:
    started = ladder("up", "--detach", "--port-base", str(BASE), *REPOSITORY, *SERVED)
    try:
        assert started.returncode == 0, started.stderr
        os.kill(process_of(running(BASE), "supervisor"), signal.SIGKILL)
    finally:
        ladder("down", "--port-base", str(BASE))
    assert_nothing_left(BASE)


def test_instances_at_other_ports_do_not_disturb_each_other(up: Up) -> None:
    first = up(BASE, "--models", "slow")
    second = up(OTHER_BASE, "--models", "slow")
    first.wait_until(SERVING)
    second.wait_until(SERVING)
    first.interrupt()
    assert first.process.wait(60) == 130
    assert_nothing_left(BASE)
    answer = httpx.post(f"http://127.0.0.1:{OTHER_BASE}/v2/models/slow/generate", json={"text_input": "0"})
    assert answer.status_code == 200
    second.interrupt()
    assert second.process.wait(60) == 130
    assert_nothing_left(OTHER_BASE)


def test_a_model_that_cannot_load_says_why_and_the_rest_serves(up: Up) -> None:
    server = up(BASE, "--models", "broken_chain,slow")
    server.wait_until(SERVING)
    assert "broken version 1  UNAVAILABLE: Internal: RuntimeError: this model cannot start, on purpose" in server.output
    assert 'broken_chain  FAILED: step "broken" did not load' in server.output
    assert "2 of 3 could not be loaded (reasons above)." in server.output
    assert "slow version 1  READY" in server.output


def test_when_nothing_loads_up_fails_with_the_log() -> None:
    failed = ladder("up", "--port-base", str(BASE), *REPOSITORY, "--models", "broken")
    assert failed.returncode == 1
    assert "error: no model could be loaded (reasons above)" in failed.stderr
    assert "this model cannot start, on purpose" in failed.stderr
    assert "server.log" in failed.stderr
    assert_nothing_left(BASE)


def test_a_wrong_model_name_is_refused_before_anything_starts() -> None:
    refused = ladder("up", "--port-base", str(BASE), *REPOSITORY, "--models", "ecko")
    assert refused.returncode == 1
    # In front of it stand the lint's findings.
    assert refused.stderr.strip().splitlines()[-1] == 'error: no model "ecko": did you mean "echo"?'
