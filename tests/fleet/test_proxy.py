from __future__ import annotations

import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import httpx
import pytest
import yaml

from tests.fleet.conftest import CANARY, LIMITS, STABLE, Proxied, plan
from tests.fleet.upstreams import STREAM
from tests.waiting import wait_until
from tools.fleet import proxy
from tools.fleet.deployment import MONITORING, Deployment, deployment_files
from tools.fleet.errors import FleetError
from tools.fleet.plan import Limits
from tools.fleet.proxy import ProxyPaths
from tools.spec.loading import load_profile

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]

Make = Callable[..., Proxied]
# Of 1 degree of freedom, passed by chance once in a thousand times.
CHI_SQUARE_1 = 10.83


def send(fleet: Proxied, count: int, user: Callable[[int], str | None] = lambda _: None) -> Counter[int]:
    """Requests from 8 clients; status codes by how often they came."""

    def share(first: int) -> list[int]:
        with httpx.Client(timeout=30) as client:
            return [
                client.post(
                    fleet.url, json={}, headers={"x-ladder-user": name} if (name := user(number)) else {}
                ).status_code
                for number in range(first, count, 8)
            ]

    with ThreadPoolExecutor(8) as pool:
        return Counter(status for codes in pool.map(share, range(8)) for status in codes)


def stream(fleet: Proxied, user: str = "") -> Iterator[bytes]:
    """What a gRPC stream with one request answers."""
    with grpc.insecure_channel(f"127.0.0.1:{fleet.plan.http_port}") as channel:
        call = channel.stream_stream(STREAM)
        metadata = [("triton_grpc_error", "true"), *([("x-ladder-user", user)] if user else [])]
        yield from call(iter([b"hello"]), metadata=metadata, timeout=30)


# Weights


@pytest.mark.parametrize("canary", [0.0, 1.0, 25.0, 100.0])
def test_requests_without_a_user_are_divided_by_the_weights(proxied: Make, canary: float) -> None:
    fleet = proxied(weights={CANARY: canary, STABLE: 100 - canary})
    count = 2000
    assert send(fleet, count) == {200: count}
    expected = count * canary / 100
    found = fleet.asked(CANARY)
    if canary in (0, 100):
        assert found == expected
    else:
        others = count - expected
        chi_square = (found - expected) ** 2 / expected + (found - expected) ** 2 / others
        assert chi_square < CHI_SQUARE_1, f"{found} of {count} at {canary} %"


def test_a_user_stays_and_a_higher_weight_takes_nobody_back(proxied: Make) -> None:
    fleet = proxied()
    users = [f"user-{number}" for number in range(400)]
    on_canary: dict[float, set[str]] = {}
    for weight in (10.0, 25.0, 60.0):
        fleet.weigh({CANARY: weight, STABLE: 100 - weight})
        for upstream in fleet.upstreams.values():
            upstream.asked.clear()
        assert send(fleet, 2 * len(users), lambda number: users[number % len(users)]) == {200: 2 * len(users)}
        on_canary[weight] = set(fleet.of_canary.asked)
        assert all(count == 2 for count in fleet.of_canary.asked.values()), "a user was sent to both"
        assert abs(len(on_canary[weight]) / len(users) - weight / 100) < 0.07
    assert on_canary[10.0] < on_canary[25.0] < on_canary[60.0]


def test_http_and_grpc_agree_about_a_user(proxied: Make) -> None:
    fleet = proxied(weights={CANARY: 50.0, STABLE: 50.0})
    users = [f"user-{number}" for number in range(40)]
    send(fleet, len(users), lambda number: users[number])
    over_http = set(fleet.of_canary.asked)
    fleet.of_canary.asked.clear()
    for user in users:
        assert len(list(stream(fleet, user))) == 3
    assert set(fleet.of_canary.asked) == over_http
    assert 0 < len(over_http) < len(users)


def test_new_weights_are_in_force_within_2_s_and_cost_no_request(proxied: Make) -> None:
    fleet = proxied()
    stop = threading.Event()
    codes: Counter[int] = Counter()

    def ask() -> None:
        with httpx.Client(timeout=30) as client:
            while not stop.is_set():
                codes[client.post(fleet.url, json={}).status_code] += 1

    asking = [threading.Thread(target=ask) for _ in range(4)]
    for thread in asking:
        thread.start()
    waited = []
    for weight in (25.0, 100.0, 0.0):
        began = time.monotonic()
        fleet.weigh({CANARY: weight, STABLE: 100 - weight})
        waited.append(time.monotonic() - began)
    canary = fleet.asked(CANARY)
    wait_until(lambda: codes[200] > 200)
    stop.set()
    for thread in asking:
        thread.join()
    assert set(codes) == {200}
    assert canary > 0
    # At most those that were under way when the weight became 0.
    assert fleet.asked(CANARY) - canary <= len(asking)
    assert max(waited) < 2


def test_a_broken_weights_file_leaves_the_weights_and_is_counted(proxied: Make) -> None:
    fleet = proxied(weights={CANARY: 100.0, STABLE: 0.0})
    draft = Path(fleet.paths.weights).with_suffix(".new")
    draft.write_text('{"resources": [{"@type": "nonsense"}]}', encoding="utf-8")
    draft.replace(fleet.paths.weights)
    wait_until(lambda: fleet.stat("runtime.update_failure") == 1)
    assert send(fleet, 50) == {200: 50}
    assert fleet.asked(CANARY) == 50


# Streams


def test_a_streamed_answer_is_passed_on_chunk_by_chunk(proxied: Make) -> None:
    fleet = proxied(stable=1, canary=0)
    seen = []
    url = f"{fleet.url}_stream"
    with httpx.stream("POST", url, json={}, timeout=30) as answer:
        for line in answer.iter_lines():
            if line:
                # The server sends the next one only now: a proxy that waits for more would wait for ever.
                seen.append(line)
                fleet.upstreams["stable-0"].held.release()
    assert seen == ["data: 0", "data: 1", "data: 2"]
    assert answer.headers["x-ladder-server"] == "stable-0"


def test_a_grpc_stream_is_passed_on_both_ways_and_loses_the_header_that_ends_servers(proxied: Make) -> None:
    fleet = proxied(stable=1, canary=0)
    assert list(stream(fleet)) == [b"hello"] * 3
    (metadata,) = fleet.upstreams["stable-0"].metadata
    assert "triton_grpc_error" not in metadata


# What goes wrong


def test_a_request_is_sent_to_another_server_when_the_connection_breaks_before_the_first_byte(proxied: Make) -> None:
    fleet = proxied(canary=0)
    fleet.upstreams["stable-0"].mode = "reset"
    assert send(fleet, 40) == {200: 40}
    assert 0 < fleet.upstreams["stable-0"].asked.total() < 40
    assert fleet.upstreams["stable-1"].asked.total() == 40


def test_an_answer_that_has_begun_is_not_asked_again(proxied: Make) -> None:
    fleet = proxied(canary=0)
    for upstream in fleet.upstreams.values():
        upstream.mode = "reset_late"
    with pytest.raises(httpx.RemoteProtocolError):
        httpx.post(f"{fleet.url}_stream", json={}, timeout=30)
    assert fleet.asked(STABLE) == 1


def test_a_canary_that_breaks_is_stood_in_for_by_the_stable_servers(proxied: Make) -> None:
    fleet = proxied(weights={CANARY: 100.0, STABLE: 0.0})
    fleet.of_canary.mode = "reset"
    assert send(fleet, 20) == {200: 20}
    fleet.of_canary.stop()
    assert send(fleet, 20) == {200: 20}


def test_a_server_that_fails_again_and_again_gets_nothing_for_a_while(proxied: Make) -> None:
    fleet = proxied(canary=0, limits=LIMITS.model_copy(update={"ejection_s": 300}))
    bad = fleet.upstreams["stable-0"]
    bad.mode = "fail"
    send(fleet, 40)
    wait_until(lambda: fleet.stat("cluster.stable_http.outlier_detection.ejections_active") == 1)
    bad.asked.clear()
    assert send(fleet, 40) == {200: 40}
    assert bad.asked.total() == 0


def test_a_server_that_has_mended_gets_requests_again(proxied: Make) -> None:
    fleet = proxied(canary=0)
    server = fleet.upstreams["stable-0"]
    server.mode = "fail"
    send(fleet, 40)
    wait_until(lambda: fleet.stat("cluster.stable_http.outlier_detection.ejections_enforced_total") > 0)
    server.mode = "answer"
    server.asked.clear()
    wait_until(lambda: send(fleet, 8) and server.asked.total() > 0)


def test_a_server_that_is_killed_costs_no_request(proxied: Make) -> None:
    fleet = proxied(canary=0)
    stop = threading.Event()
    codes: Counter[int] = Counter()

    def ask() -> None:
        with httpx.Client(timeout=30) as client:
            while not stop.is_set():
                codes[client.post(fleet.url, json={}).status_code] += 1

    # Several at once: the server that is left is the busier one then, and the dead one is the first choice.
    asking = [threading.Thread(target=ask) for _ in range(4)]
    for thread in asking:
        thread.start()
    wait_until(lambda: codes[200] > 50)
    fleet.upstreams["stable-0"].stop()
    wait_until(lambda: fleet.stat("cluster.stable_http.membership_healthy") == 1)
    stop.set()
    for thread in asking:
        thread.join()
    assert set(codes) == {200}


def test_a_full_queue_is_429_with_retry_after(proxied: Make) -> None:
    fleet = proxied(stable=1, canary=0)
    fleet.upstreams["stable-0"].mode = "full"
    answer = httpx.post(fleet.url, json={}, timeout=30)
    assert (answer.status_code, answer.headers["retry-after"]) == (429, "1")
    assert answer.json()["error"].startswith("the queue is full")


def test_other_errors_of_a_model_stay_what_they_are(proxied: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    fleet = proxied(stable=1, canary=0)
    monkeypatch.setattr("tests.fleet.upstreams.FULL", b'{"error":"max_tokens is wrong"}')
    fleet.upstreams["stable-0"].mode = "full"
    answer = httpx.post(fleet.url, json={}, timeout=30)
    assert (answer.status_code, answer.json()) == (400, {"error": "max_tokens is wrong"})


def test_more_requests_than_may_be_in_flight_are_429_at_once(proxied: Make) -> None:
    fleet = proxied(stable=1, canary=0, limits=Limits(in_flight_per_server=4))
    server = fleet.upstreams["stable-0"]
    server.mode = "hold"
    with ThreadPoolExecutor(4) as pool:
        running = [pool.submit(httpx.post, fleet.url, json={}, timeout=30) for _ in range(4)]
        for _ in running:
            assert server.held.acquire(timeout=30)
        answer = httpx.post(fleet.url, json={}, timeout=30)
        assert (answer.status_code, answer.headers["retry-after"]) == (429, "1")
        assert answer.json() == {"error": "the fleet is full, which is 4 requests per server: try again later"}
        server.let_go.set()
        assert [done.result().status_code for done in running] == [200] * 4


def test_over_grpc_a_full_fleet_is_unavailable(proxied: Make) -> None:
    fleet = proxied(stable=1, canary=0, limits=Limits(in_flight_per_server=1))
    server = fleet.upstreams["stable-0"]
    server.mode = "hold"
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(lambda: list(stream(fleet)))
        assert server.held.acquire(timeout=30)
        with pytest.raises(grpc.RpcError) as refused:
            list(stream(fleet))
        assert refused.value.code() is grpc.StatusCode.UNAVAILABLE
        server.let_go.set()
        assert len(running.result()) == 3


@pytest.mark.parametrize(
    "path",
    [
        "repository/models/chat/load",
        "/repository/models/chat/load",
        "repository/models/chat/unload",
        "systemsharedmemory/register",
        "trace/setting",
        "models/chat/trace/setting",
        "logging",
    ],
)
def test_what_changes_one_server_is_refused(proxied: Make, path: str) -> None:
    fleet = proxied(stable=1, canary=0)
    answer = httpx.post(f"http://127.0.0.1:{fleet.plan.http_port}/v2/{path}", json={}, timeout=30)
    assert answer.status_code == 403
    assert answer.json()["error"].startswith("this would change one server of several")
    assert fleet.asked(STABLE) == 0


def test_the_metrics_port_shows_the_proxys_metrics_and_nothing_else(proxied: Make) -> None:
    fleet = proxied(stable=1, canary=0)
    url = f"http://127.0.0.1:{fleet.plan.metrics_port}"
    page = httpx.get(f"{url}/metrics").text
    alerts = deployment_files(Deployment(), load_profile())[MONITORING / "alerts.yml"]
    for name in re.findall(r"\benvoy_cluster_circuit\w+", alerts):
        assert f'{name}{{envoy_cluster_name="stable_grpc"}} 0' in page
    assert httpx.post(f"{url}/metrics").status_code == 404
    assert httpx.post(f"{url}/quitquitquit").status_code == 404
    assert fleet.process.poll() is None


# Configuration


@pytest.mark.parametrize("canary", [0, 2])
def test_envoy_takes_the_configuration(envoy: Path, tmp_path: Path, canary: int) -> None:
    config = tmp_path / "envoy.yaml"
    config.write_text(proxy.render_config(plan(canary=canary), paths(tmp_path)), encoding="utf-8")
    proxy.validate(envoy, config)


def test_what_envoy_refuses_is_said(envoy: Path, tmp_path: Path) -> None:
    config = tmp_path / "envoy.yaml"
    text = proxy.render_config(plan(), paths(tmp_path)).replace("use_hash_policy", "use_hash_polity")
    config.write_text(text, encoding="utf-8")
    with pytest.raises(FleetError, match="use_hash_polity"):
        proxy.validate(envoy, config)


def paths(folder: Path) -> ProxyPaths:
    (folder / "weights").mkdir()
    (folder / "weights" / "runtime.json").write_text('{"resources": []}', encoding="utf-8")
    return ProxyPaths(
        str(folder / "admin.sock"), str(folder / "weights" / "runtime.json"), str(folder / "weights"),
        str(folder / "access.log"),
    )  # fmt: skip


def test_the_configuration_is_yaml_and_listens_on_loopback_alone(tmp_path: Path) -> None:
    text = proxy.render_config(plan(), paths(tmp_path))
    assert yaml.safe_load(text)["static_resources"]["listeners"]
    assert "0.0.0.0" not in text
