"""The router on a real tritonserver, with mock engines as targets.

The last test is a soak; LADDER_SOAK_S=300 makes it the full one of five minutes.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import psutil
import pytest

from tests.backends.router.served import (
    CANARY,
    CHAT,
    STABLE,
    RouterServer,
    outcome,
    request,
    router_server,
    weights,
)
from tests.e2e.asking import RefusedError, Way, grpc_request, http_body, text_of
from tests.e2e.metrics import Scrape
from tests.waiting import wait_until
from tools.benchmark.deployment import flood_process
from tools.benchmark.workload import Load, ServedLoad
from tools.bootstrap.layout import Layout

BASE = 18534
ENDLESS = 1000
PICKS = 20_000
SOAK_STREAMS = 200
SOAK_S = float(os.environ.get("LADDER_SOAK_S", "15"))
# What an allocator keeps of the largest moment; a leak of a stream's state is some kilobytes a request.
SOAK_GROWTH = 12 * 2**20

pytestmark = [pytest.mark.e2e, pytest.mark.light, pytest.mark.timeout(300 + SOAK_S)]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RouterServer]:
    with router_server(tmp_path_factory.mktemp("router"), BASE) as served:
        yield served


@pytest.fixture(autouse=True)
def _all_to_stable(server: RouterServer) -> None:
    server.all_to(STABLE)


def metric_settles(server: RouterServer, value: float, name: str, model: str, **labels: str) -> None:
    wait_until(lambda: server.counted(name, model, **labels) == value)


@pytest.mark.parametrize("way", Way, ids=lambda way: way.value)
def test_every_way_in_gets_the_answer_and_who_gave_it(server: RouterServer, way: Way) -> None:
    stream = way is not Way.GENERATE
    responses = server.triton.ask(way, CHAT, request(tokens=4, stream=stream, return_num_output_tokens=True))
    assert text_of(responses) == "one two three one "
    assert (responses[0]["served_model"], responses[0]["served_version"]) == ([STABLE], [1])
    assert sum(sum(response["num_output_tokens"]) for response in responses) == 4


def test_several_sequences_are_kept_apart(server: RouterServer) -> None:
    inputs = request(sampling_parameters='{"max_tokens": 3, "n": 2, "temperature": 0.5}')
    responses = server.triton.ask(Way.GRPC, CHAT, inputs)
    assert [text_of(responses, sequence) for sequence in (0, 1)] == ["one two three "] * 2


def test_metadata_chooses_the_route_and_over_http_a_key_of_the_body(server: RouterServer) -> None:
    server.release(
        f"""\
routes:
- name: team
  when: {{headers: {{X-Ladder-Team: red}}}}
  targets: [{{model: {CANARY}, version: 1, weight: 100}}]
- name: default
  targets: [{{model: {STABLE}, version: 1, weight: 100}}]
"""
    )
    inputs = request(tokens=1, stream=False)
    for parameters, served in (({"x-ladder-team": "red"}, CANARY), ({"x-ladder-team": "blue"}, STABLE), ({}, STABLE)):
        answer = server.triton.generate(CHAT, http_body(inputs, parameters))
        assert answer.json()["served_model"] == served
    call = server.triton.stub.ModelStreamInfer(
        iter([grpc_request(CHAT, request(tokens=1))]), metadata=(("x-ladder-team", "red"),), timeout=60
    )
    first = next(iter(call))
    assert CANARY.encode() in b"".join(first.infer_response.raw_output_contents)


@pytest.mark.parametrize("way", ["gRPC cancel", "SSE close"])
def test_a_client_that_goes_frees_the_engine(server: RouterServer, way: str) -> None:
    before = server.counted("ladder_release_errors_total", STABLE, reason="cancelled")
    wait_until(lambda: server.running(STABLE) == 0)
    if way == "gRPC cancel":
        with server.stream(tokens=ENDLESS) as responses:
            next(responses)
            wait_until(lambda: server.running(STABLE) == 1)
    else:
        events = server.triton.sse(CHAT, http_body(request(tokens=ENDLESS)))
        next(events)
        wait_until(lambda: server.running(STABLE) == 1)
        events.close()  # type: ignore[attr-defined]
    wait_until(lambda: server.running(STABLE) == 0)
    metric_settles(server, before + 1, "ladder_release_errors_total", STABLE, reason="cancelled")
    metric_settles(server, 0, "ladder_release_in_flight", STABLE)


def test_a_deadline_ends_a_stream(server: RouterServer) -> None:
    with pytest.raises(RefusedError, match=r"^UNAVAILABLE: the deadline of 0\.3 s passed after \d+ tokens") as caught:
        server.triton.ask(Way.GRPC, CHAT, request(tokens=ENDLESS), {"timeout": 300_000})
    assert caught.value.responses, "what was generated in time is the client's"


def test_a_killed_engine_fails_what_has_begun_and_the_rest_goes_on_elsewhere(server: RouterServer) -> None:
    server.all_to(CANARY, f"  fallback: [{{model: {STABLE}, version: 1}}]\n")
    with server.stream(tokens=ENDLESS) as begun, ThreadPoolExecutor() as pool:
        next(begun)
        waiting = pool.submit(lambda: outcome(server.triton.grpc_stream(grpc_request(CHAT, request(tokens=5)))))
        wait_until(lambda: server.running(CANARY) == 2)
        server.engine(CANARY).kill()
        _, error = outcome(begun)
        responses, nothing = waiting.result()
    assert error is not None
    assert (error.code, error.message) == ("UNAVAILABLE", f'the engine of "{CANARY}" version 1 died')
    assert nothing is None
    assert text_of(responses) == "one two three one two "
    assert responses[0]["served_model"] == [STABLE]
    with server.stream(tokens=1) as responses_meanwhile:
        found, error = outcome(responses_meanwhile)
    assert error is None
    assert found[0]["served_model"][0] in (STABLE, CANARY)
    wait_until(lambda: _served_by(server) == CANARY)


def _served_by(server: RouterServer, parameters: Mapping[str, str] | None = None) -> str:
    """Who answers a request with these parameters."""
    responses = server.triton.ask(Way.GRPC, CHAT, request(tokens=1), parameters)
    return str(responses[0]["served_model"][0])


def test_a_broken_file_changes_nothing_and_is_seen(server: RouterServer) -> None:
    def broken() -> float:
        return Scrape.of(server.deployment.address, CHAT.name)["ladder_release_file_broken"]

    server.release_file.write_text("routes: [\n", encoding="utf-8")
    wait_until(lambda: broken() == 1)
    assert _served_by(server) == STABLE
    assert "the release file is broken, what was in force stays in force: " in server.deployment.log
    server.release(weights({CANARY: 100}))
    wait_until(lambda: broken() == 0)
    assert _served_by(server) == CANARY


def test_a_shadow_changes_no_answer(server: RouterServer) -> None:
    server.all_to(STABLE, f"  shadow: {{model: {CANARY}, version: 1, share: 100}}\n")
    different = server.counted("ladder_release_shadow_differences_total", CANARY)
    wanted = server.counted("ladder_release_shadow_requests_total", CANARY) + 4

    def answered_and_copied() -> bool:
        with server.stream(tokens=3) as responses:
            found, error = outcome(responses)
        assert error is None
        assert (text_of(found), found[0]["served_model"]) == ("one two three ", [STABLE])
        return server.counted("ladder_release_shadow_requests_total", CANARY) >= wanted

    # The weights are those of before, so nothing tells from when on the shadow is in force.
    wait_until(answered_and_copied)
    wait_until(
        lambda: (
            server.counted("ladder_release_shadow_compared_total", CANARY)
            == server.counted("ladder_release_shadow_requests_total", CANARY)
        )
    )
    assert server.counted("ladder_release_shadow_differences_total", CANARY) == different


def test_users_stick_and_a_weight_that_grows_moves_only_those_it_must(server: RouterServer) -> None:
    users = [f"user {number}" for number in range(200)]

    def served_at(share: int) -> dict[str, str]:
        server.all_at(share, "  sticky: user\n")
        with ThreadPoolExecutor(32) as pool:
            answers = pool.map(lambda user: _served_by(server, {"user": user}), users)
            return dict(zip(users, answers, strict=True))

    low, high, again = served_at(10), served_at(40), served_at(10)
    assert again == low
    assert {high[user] for user, model in low.items() if model == CANARY} == {CANARY}
    moved = sum(model != low[user] for user, model in high.items())
    # Binomial with a share of 0.3: four standard deviations to either side.
    assert 34 <= moved <= 86


def test_a_release_walks_up_and_down_under_16_streams_and_loses_none(server: RouterServer) -> None:
    over = Event()

    def ask() -> Counter[str]:
        served: Counter[str] = Counter()
        while not over.is_set():
            with server.stream(tokens=10, return_num_output_tokens=True) as responses:
                found, error = outcome(responses)
            assert error is None, error
            assert sum(response["num_output_tokens"][0] for response in found) == 10, "a stream was cut"
            served[found[0]["served_model"][0]] += 1
        return served

    with ThreadPoolExecutor(16) as pool:
        clients = [pool.submit(ask) for _ in range(16)]
        try:
            for share in (1, 25, 50, 100, 50, 0):
                server.all_at(share)
                time.sleep(0.5)
        finally:
            over.set()
        served = sum((client.result() for client in clients), Counter[str]())
    assert served[STABLE] > 16
    assert served[CANARY] > 16
    metric_settles(server, 0, "ladder_release_in_flight", STABLE)
    metric_settles(server, 0, "ladder_release_in_flight", CANARY)


def test_200_streams_leave_no_growth_and_20_000_requests_are_divided_by_the_weights(
    server: RouterServer, tmp_path: Path
) -> None:
    server.all_at(10)
    processes = [server.deployment.stub_of(CHAT.name), server.engine(CHAT.name)]
    with flood_process(Layout.of_this_checkout(), tmp_path / "flood.log") as flood:
        flood.measure(_load(server, seconds=3), 120)
        before = [_held(process) for process in processes]
        requests = _requests(server)
        flood.measure(_load(server, seconds=SOAK_S), SOAK_S + 120)
        while (_requests(server) - requests).total() < PICKS:
            flood.measure(_load(server, seconds=5), 120)
    for process, (memory, threads, handles) in zip(processes, before, strict=True):
        now = _held(process)
        assert now[0] - memory < SOAK_GROWTH, f"{process} grew from {memory} to {now[0]} bytes"
        assert now[1] <= threads
        assert now[2] <= handles
    picked = _requests(server) - requests
    expected = {STABLE: 0.9 * picked.total(), CANARY: 0.1 * picked.total()}
    # Chi-square with one degree of freedom: one run in ten thousand is beyond its quantile 0.9999.
    assert sum((picked[model] - count) ** 2 / count for model, count in expected.items()) < 15.14, picked


def _load(server: RouterServer, seconds: float) -> ServedLoad:
    load = Load(streams=SOAK_STREAMS, tokens=4, seconds=seconds)
    return ServedLoad(load=load, port=server.deployment.address.grpc_port, model=CHAT.name, connections=16)


def _requests(server: RouterServer) -> Counter[str]:
    """How many each target was sent, once all have ended."""
    for model in (STABLE, CANARY):
        metric_settles(server, 0, "ladder_release_in_flight", model)
    return Counter({model: int(server.counted("ladder_release_requests_total", model)) for model in (STABLE, CANARY)})


def _held(process: psutil.Process) -> tuple[int, int, int]:
    """Memory in bytes, threads, and open files with sockets."""
    return process.memory_info().rss, process.num_threads(), process.num_fds()
