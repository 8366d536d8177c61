"""The transports on a real tritonserver with a mock engine: what the client counts is what the server counted."""

from __future__ import annotations

import contextlib
import os
import signal
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from loadtest.errors import LoadTestError
from loadtest.options import LoadOptions, Protocol
from loadtest.statistics.outcome import ErrorKind
from loadtest.users.targets import check_targets
from loadtest.workloads.planned import PlannedRequest
from tests.e2e.metrics import at_rest, is_idle, settled
from tests.loadtest.users.asking import Asker
from tools.benchmark.deployment import serving
from tools.benchmark.repository import write_mock_model
from tools.bootstrap.layout import Layout
from tools.client.address import ServerAddress
from tools.serving.server import Server
from tools.serving.sweep import processes_of
from tools.spec.loading import load_profile

pytestmark = [pytest.mark.e2e, pytest.mark.light, pytest.mark.timeout(300)]

MODEL = "llm_bf16"
KSERVE = [Protocol.GENERATE_STREAM, Protocol.GENERATE, Protocol.GRPC]
USERS = 8
STEP_S = 0.02
TOKENS_PER_STEP = 3
PROMPT = "the quick brown fox"
LONG: dict[str, Any] = {"prompt": PROMPT, "max_tokens": 1000}
REQUESTS: list[dict[str, Any]] = [
    {"prompt": PROMPT, "max_tokens": tokens, "exact": True} for tokens in (1, 2, 7, 40, 100)
]


@pytest.fixture(scope="module")
def server() -> Iterator[ServerAddress]:
    """Serves the mock at three tokens a step: responses and tokens are not the same number."""
    with mock_server() as started:
        yield started.address


@contextlib.contextmanager
def mock_server() -> Iterator[Server]:
    with tempfile.TemporaryDirectory(prefix="lt-") as folder:
        repository = Path(folder) / "models"
        write_mock_model(repository, load_profile(), MODEL, {"step_s": STEP_S, "tokens_per_step": TOKENS_PER_STEP})
        with serving(repository, (MODEL,), None, Layout.of_this_checkout(), lambda _: None) as started:
            yield started


def run(address: ServerAddress, protocol: Protocol, **changes: Any) -> LoadOptions:
    port, scheme = (address.grpc_port, "grpc") if protocol is Protocol.GRPC else (address.http_port, "http")
    return LoadOptions(host=f"{scheme}://{address.host}:{port}", targets=(MODEL,), protocol=protocol, **changes)


@pytest.mark.parametrize("protocol", KSERVE)
def test_the_clients_totals_are_the_servers(server: ServerAddress, asker: Asker, protocol: Protocol) -> None:
    before = at_rest(server, MODEL)

    outcomes = [answer.outcome for answer in asker.ask(run(server, protocol), *REQUESTS, at_once=USERS)]

    assert [outcome.failure for outcome in outcomes] == [None] * USERS * len(REQUESTS)
    tokens = sum(outcome.output_tokens for outcome in outcomes)
    assert tokens == USERS * sum(request["max_tokens"] for request in REQUESTS)
    counted = settled(
        server, MODEL, lambda now: is_idle(now) and now.since(before)["vllm:generation_tokens_total"] >= tokens
    ).since(before)
    assert counted["vllm:generation_tokens_total"] == tokens
    assert counted["vllm:prompt_tokens_total"] == sum(outcome.input_tokens for outcome in outcomes)
    assert counted["vllm:request_generation_tokens_count"] == len(outcomes)
    if protocol is not Protocol.GENERATE:
        assert sum(outcome.responses for outcome in outcomes) < tokens
        assert all(outcome.ttft_s is not None for outcome in outcomes)


@pytest.mark.parametrize("protocol", KSERVE)
def test_a_closed_transport_frees_the_server(server: ServerAddress, asker: Asker, protocol: Protocol) -> None:
    started_at = time.monotonic()

    answers = asker.ask(run(server, protocol), LONG, at_once=USERS, close_after_s=1.0)

    assert [answer.failure.kind for answer in answers] == [ErrorKind.CANCELLED] * USERS
    at_rest(server, MODEL)
    if protocol is Protocol.GENERATE:
        # tritonserver does not notice that nobody waits for the one answer of generate.
        return
    assert all(answer.outcome.output_tokens > 0 for answer in answers)
    # Less than they would have taken, left alone.
    assert time.monotonic() - started_at < LONG["max_tokens"] / TOKENS_PER_STEP * STEP_S


def test_the_engines_refusal_is_told(server: ServerAddress, asker: Asker) -> None:
    (answer,) = asker.ask(run(server, Protocol.GRPC, sampling={"temperature": -1}), REQUESTS[0])

    assert answer.failure.kind is ErrorKind.REFUSED
    assert "temperature" in answer.failure.message


@pytest.mark.parametrize("protocol", KSERVE)
def test_targets_are_checked(server: ServerAddress, protocol: Protocol) -> None:
    sample = PlannedRequest(max_tokens=1, prompt=PROMPT)

    check_targets(run(server, protocol), sample)
    with pytest.raises(LoadTestError, match=r'^model "llm_bf16": it takes a prompt, not messages'):
        check_targets(run(server, protocol))


@pytest.mark.parametrize("protocol", KSERVE)
def test_wrong_ports_of_a_tritonserver(server: ServerAddress, protocol: Protocol) -> None:
    scheme, wrong = ("grpc", server.http_port) if protocol is Protocol.GRPC else ("http", server.grpc_port)
    for port, text in ((wrong, "speaks"), (server.metrics_port, "speaks HTTP|is not a tritonserver")):
        options = LoadOptions(host=f"{scheme}://{server.host}:{port}", targets=(MODEL,), protocol=protocol)
        with pytest.raises(LoadTestError, match=text):
            check_targets(options)


@pytest.mark.parametrize("protocol", [Protocol.GENERATE_STREAM, Protocol.GRPC])
def test_a_server_killed_in_the_middle(asker: Asker, protocol: Protocol) -> None:
    """The answer that was coming is truncated, and the request after it finds nobody."""
    with mock_server() as started, ThreadPoolExecutor(1) as executor:
        asking = executor.submit(asker.ask, run(started.address, protocol), LONG, LONG, pause_s=1.0)
        settled(started.address, MODEL, lambda now: now["vllm:num_requests_running"] == 1)
        for process in list(processes_of(started.instance.id)):
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        first, second = asking.result(60)

    assert first.failure.kind is ErrorKind.TRUNCATED
    assert first.failure.message.startswith("the stream ended before its final response: the connection ")
    assert first.outcome.output_tokens > 0
    assert second.failure.kind is ErrorKind.UNREACHABLE
    assert "Connection refused" in second.failure.message
