"""Clients that go away: their requests stop, and everything they held is free again."""

from __future__ import annotations

import http.client
from collections.abc import Callable
from typing import Any

import pytest

from tests.e2e.asking import Model, RefusedError, Triton, Way, grpc_request, http_body, tokens_of
from tests.e2e.deployment import Deployment
from tests.e2e.metrics import at_rest, is_idle, settled
from tests.e2e.rungs import BASELINES, LLM, sampling

# As many as the model may generate: minutes on a small machine.
ENDLESS: dict[str, Any] = {
    "text_input": "Tell me everything: ",
    "sampling_parameters": sampling(1000, ignore_eos=True),
    "exclude_input_in_output": True,
}
STREAM = ENDLESS | {"stream": True}

Abandon = Callable[[Deployment, Triton, Model], None]


def cancel_grpc(server: Deployment, triton: Triton, model: Model) -> None:
    call = triton.grpc_call(grpc_request(model, STREAM))
    next(iter(call))
    call.cancel()


def close_event_stream(server: Deployment, triton: Triton, model: Model) -> None:
    events = triton.sse(model, http_body(STREAM))
    next(events)
    events.close()  # type: ignore[attr-defined]


every_way_to_leave = pytest.mark.parametrize(
    "abandon", [cancel_grpc, close_event_stream], ids=["gRPC cancel", "SSE close"]
)


@every_way_to_leave
def test_an_abandoned_request_stops_and_frees_what_it_held(
    server: Deployment, triton: Triton, abandon: Abandon
) -> None:
    before = at_rest(server.address, LLM.name)
    abandon(server, triton, LLM)
    after = settled(
        server.address,
        LLM.name,
        lambda now: is_idle(now) and now["ladder_requests_cancelled_total"] > before["ladder_requests_cancelled_total"],
    )
    counted = after.since(before)
    assert counted["ladder_requests_cancelled_total"] == 1
    assert 0 < counted["vllm:generation_tokens_total"] < 1000
    assert counted["ladder_requests_failed_total"] == 0
    # It did not succeed, so it is not counted as if it had.
    assert counted["vllm:e2e_request_latency_seconds_count"] == 0


def test_others_are_not_disturbed(server: Deployment, triton: Triton) -> None:
    inputs = {**STREAM, "sampling_parameters": sampling(24, ignore_eos=True), "return_num_output_tokens": True}
    staying = triton.grpc_stream(grpc_request(LLM, inputs))
    first = next(staying)
    cancel_grpc(server, triton, LLM)
    close_event_stream(server, triton, LLM)
    assert tokens_of([first, *staying]) == 24


def test_many_that_leave_at_once(server: Deployment, triton: Triton) -> None:
    before = at_rest(server.address, LLM.name)
    calls = [triton.grpc_call(grpc_request(LLM, STREAM)) for _ in range(16)]
    for call in calls:
        next(iter(call))
    for call in calls:
        call.cancel()
    name = "ladder_requests_cancelled_total"
    after = settled(server.address, LLM.name, lambda now: is_idle(now) and now[name] - before[name] >= 16)
    assert after[name] - before[name] == 16


@pytest.mark.parametrize("model", BASELINES, ids=lambda model: f"version {model.version}")
def test_a_cancelled_request_of_the_baseline_lets_the_next_one_in(triton: Triton, model: Model) -> None:
    """It stops at its next token. If it ran on, the next one would wait for the rest of 1000 tokens."""
    call = triton.grpc_call(grpc_request(model, STREAM))
    next(iter(call))
    call.cancel()
    inputs = {**ENDLESS, "sampling_parameters": sampling(2), "stream": False, "return_num_output_tokens": True}
    # Far more than two tokens take, and less than a thousand.
    answer = triton.ask(Way.GRPC, model, inputs, {"timeout": 60_000_000})
    assert tokens_of(answer) == 2


def cancel_ensemble(server: Deployment, triton: Triton, parameters: dict[str, Any]) -> None:
    call = triton.grpc_call(grpc_request(Model("chat_bf16"), STREAM, parameters))
    next(iter(call))
    call.cancel()


def close_generate(server: Deployment, triton: Triton, parameters: dict[str, Any]) -> None:
    connection = http.client.HTTPConnection(server.address.host, server.address.http_port)
    connection.request("POST", f"{LLM.path}/generate", http_body(ENDLESS, parameters))
    # Nothing comes back before the end, so ask elsewhere whether it has begun.
    settled(server.address, LLM.name, lambda now: now["vllm:num_requests_running"] > 0)
    connection.close()


@pytest.mark.parametrize("leave", [cancel_ensemble, close_generate], ids=["ensemble", "generate close"])
def test_where_triton_does_not_notice_the_deadline_ends_it(
    server: Deployment, triton: Triton, leave: Callable[[Deployment, Triton, dict[str, Any]], None]
) -> None:
    """Triton tells no running step that the ensemble's client has gone, and reads nothing of a generate's connection.

    Should this fail because a later Triton passes the news on: rejoice, and say so in the README.
    """
    before = at_rest(server.address, LLM.name)
    leave(server, triton, {"timeout": 6_000_000})
    name = "ladder_requests_deadline_exceeded_total"
    after = settled(server.address, LLM.name, lambda now: now[name] > before[name] and is_idle(now))
    assert after.since(before)[name] == 1
    assert after.since(before)["ladder_requests_cancelled_total"] == 0


def test_an_ensemble_tells_a_client_that_stays_about_the_deadline(triton: Triton) -> None:
    with pytest.raises(RefusedError) as caught:
        triton.ask(Way.GRPC, Model("chat_bf16"), STREAM, {"timeout": 5_000_000})
    assert caught.value.code == "UNAVAILABLE"
    assert "in ensemble 'chat_bf16', the deadline of 5 s passed after" in caught.value.message
    assert caught.value.responses, "what was generated before is the client's"
