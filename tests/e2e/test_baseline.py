"""The baseline: Triton's dynamic batcher in front of transformers, with its queue and its limits."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import pytest

from tests.e2e.asking import Model, RefusedError, Triton, Way, grpc_request, http_body, text_of, tokens_of
from tests.e2e.rungs import BASELINES, sampling
from tests.waiting import wait_until
from tools.client.client import Client
from tools.client.request import Target

PROMPT = "The capital of France is"
BATCH = 8
QUEUE = 64

every_version = pytest.mark.parametrize("model", BASELINES, ids=lambda model: f"version {model.version}")
every_way = pytest.mark.parametrize("way", Way, ids=lambda way: way.value)
one_by_one, together = pytest.mark.parametrize("model", BASELINES[:2]), BASELINES[2]


def test_all_versions_give_the_same_greedy_answer(triton: Triton) -> None:
    inputs = {"text_input": PROMPT, "sampling_parameters": sampling(6), "exclude_input_in_output": True}
    answers = {text_of(triton.ask(Way.GRPC, model, inputs)) for model in BASELINES}
    assert answers == {" Paris.\n\nThe capital"} or len(answers) == 1
    assert answers.pop().startswith(" Paris.")


@every_version
@every_way
def test_the_contract_is_that_of_the_vllm_rungs(triton: Triton, model: Model, way: Way) -> None:
    inputs: dict[str, Any] = {
        "text_input": PROMPT,
        "stream": way is not Way.GENERATE,
        "sampling_parameters": sampling(3),
        "return_finish_reason": True,
        "return_num_input_tokens": True,
        "return_num_output_tokens": True,
    }
    responses = triton.ask(way, model, inputs)
    assert text_of(responses) == (PROMPT if way is Way.GENERATE else "") + " Paris.\n"
    assert tokens_of(responses) == 3
    assert {response["num_input_tokens"][0] for response in responses} == {5}
    assert [response["finish_reason"][0] for response in responses] == ["None"] * (len(responses) - 1) + ["length"]
    assert len(responses) > 1 or way is Way.GENERATE


@pytest.mark.parametrize(
    ("parameters", "text"),
    [
        ({"n": 2}, '"n"'),
        ({"logprobs": 1}, '"logprobs"'),
        ({"structured_outputs": {"choice": ["a"]}}, '"structured_outputs"'),
        ({"temprature": 1}, '"temprature" is unknown: did you mean "temperature"?'),
        ({"max_tokens": 1025}, '"max_tokens" is 1025: it takes a whole number, at least 1 and at most 1024'),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_what_it_does_not_do_is_refused_by_name(triton: Triton, parameters: dict[str, Any], text: str) -> None:
    with pytest.raises(RefusedError) as caught:
        triton.ask(Way.GRPC, together, {"text_input": PROMPT, "sampling_parameters": json.dumps(parameters)})
    assert caught.value.code in ("INVALID_ARGUMENT", "UNIMPLEMENTED")
    assert text in caught.value.message


def streamed(model: Model, tokens: int) -> Any:
    return grpc_request(
        model,
        {"text_input": PROMPT, "stream": True, "sampling_parameters": sampling(tokens, ignore_eos=True)},
    )


def order_of_arrival(triton: Triton, requests: Sequence[Any]) -> list[str]:
    """Request ids of all responses, as they came over one connection."""
    call = triton.grpc_call(*requests)
    ids = []
    for message in call:
        assert not message.error_message, message.error_message
        if message.infer_response.outputs:
            ids.append(message.infer_response.id)
    return ids


def turns(ids: Sequence[str]) -> int:
    """How often the stream that is served changes, the first one included."""
    return len(list(itertools.groupby(ids)))


def executions(client: Client, model: Model) -> tuple[int, int]:
    """Requests and batches that this version has ended; Triton counts a moment after the last response."""
    [statistics] = client.server.statistics(Target(model.name, int(model.version)))
    return statistics.inference_count, statistics.execution_count


def executions_since(client: Client, model: Model, before: tuple[int, int], requests: int) -> int:
    """How many batches it took, once all the requests are counted."""
    wait_until(lambda: executions(client, model)[0] >= before[0] + requests)
    after = executions(client, model)
    assert after[0] - before[0] == requests
    return after[1] - before[1]


def test_version_3_generates_what_came_together_as_one_batch(client: Client, triton: Triton) -> None:
    before = executions(client, together)
    requests = [streamed(together, 8) for _ in range(BATCH)]
    ids = order_of_arrival(triton, requests)
    assert all(ids.count(request.id) > 0 for request in requests)
    # All eight could come as one batch; a slow server may have cut them in two or three.
    assert 1 <= executions_since(client, together, before, BATCH) < BATCH
    # Their tokens are generated side by side.
    assert turns(ids) > 2 * BATCH


@pytest.mark.parametrize("model", BASELINES[:2], ids=lambda model: f"version {model.version}")
def test_versions_1_and_2_answer_one_after_the_other(client: Client, triton: Triton, model: Model) -> None:
    before = executions(client, model)
    requests = [streamed(model, 4) for _ in range(BATCH)]
    ids = order_of_arrival(triton, requests)
    assert turns(ids) == BATCH
    executions_since(client, model, before, BATCH)


def test_a_batch_gives_each_request_what_it_would_have_got_alone(triton: Triton) -> None:
    """Lengths, stop strings and ends differ within the batch."""
    mixed: list[dict[str, Any]] = [
        {"text_input": PROMPT, "sampling_parameters": sampling(6)},
        {"text_input": PROMPT, "sampling_parameters": sampling(12, stop=["\n"])},
        {"text_input": "One, two, three,", "sampling_parameters": sampling(3)},
        {"text_input": "a", "sampling_parameters": sampling(1)},
    ]
    common = {"return_num_output_tokens": True, "return_finish_reason": True, "exclude_input_in_output": True}
    alone = [triton.ask(Way.GRPC, together, inputs | common) for inputs in mixed]
    with ThreadPoolExecutor(len(mixed)) as pool:
        batched = list(pool.map(lambda inputs: triton.ask(Way.GRPC, together, inputs | common), mixed))
    # bf16 rounds differently in another batch shape, so only what does not hang on a near tie is compared.
    assert batched[0][0]["text_output"][0].startswith(" Paris.")
    assert batched[1] == alone[1]
    assert [tokens_of(answer) for answer in batched] == [tokens_of(answer) for answer in alone]
    assert [answer[0]["finish_reason"] for answer in batched] == [answer[0]["finish_reason"] for answer in alone]


def test_over_its_queue_triton_itself_refuses(triton: Triton) -> None:
    """The baseline holds its instance while it generates, so Triton's queue is real, and so is its 503."""
    model = BASELINES[0]
    occupying = triton.grpc_call(streamed(model, 1000))
    next(iter(occupying))
    # What the batcher takes out of the queue early waits beside it.
    calls = [triton.grpc_call(streamed(model, 1)) for _ in range(BATCH + QUEUE + 4)]
    try:
        with pytest.raises(RefusedError, match="Exceeds maximum queue size"):
            triton.ask(Way.GRPC, model, {"text_input": PROMPT, "sampling_parameters": sampling(1)})
        refused = triton.generate(model, http_body({"text_input": PROMPT, "sampling_parameters": sampling(1)}))
        assert refused.status_code == 503
        assert "Exceeds maximum queue size" in refused.json()["error"]
    finally:
        occupying.cancel()
    refusals = [refusal for call in calls if (refusal := _refusal(call))]
    assert all("Exceeds maximum queue size" in refusal for refusal in refusals)
    assert QUEUE <= len(calls) - len(refusals) < len(calls)
    assert text_of(triton.ask(Way.GENERATE, model, {"text_input": PROMPT, "sampling_parameters": sampling(2)}))


def _refusal(call: Any) -> str:
    """Why the call got no answer; empty where it got one."""
    try:
        messages = list(call)
    except grpc.RpcError as error:
        return str(error.details())
    return str(messages[0].error_message)


def test_a_deadline_ends_what_waits(triton: Triton) -> None:
    """In Triton's queue, which knows the timeout of a gRPC request; over HTTP only the config's own holds there."""
    model = BASELINES[0]
    occupying = triton.grpc_call(streamed(model, 1000))
    next(iter(occupying))
    try:
        with pytest.raises(RefusedError, match="Request timeout expired"):
            triton.ask(Way.GRPC, model, {"text_input": PROMPT, "stream": True}, {"timeout": 500_000})
    finally:
        occupying.cancel()


@every_way
def test_a_deadline_ends_what_runs(triton: Triton, way: Way) -> None:
    inputs = {"text_input": PROMPT, "sampling_parameters": sampling(1000, ignore_eos=True)}
    with pytest.raises(RefusedError) as caught:
        triton.ask(way, BASELINES[0], {**inputs, "stream": way is not Way.GENERATE}, {"timeout": 4_000_000})
    assert caught.value.message.startswith("the deadline of 4 s passed after ")
    assert caught.value.code == {Way.GRPC: "UNAVAILABLE", Way.SSE: "200", Way.GENERATE: "400"}[way]
