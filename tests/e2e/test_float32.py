"""In float32 no rounding depends on the batch: every way to an answer gives the same text as vLLM alone.

The engine of these tests has few places, so the same load also fills it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.e2e import repository
from tests.e2e.asking import Model, RefusedError, Triton, Way, grpc_request, text_of, tokens_of
from tests.e2e.bare_vllm import ask_bare_vllm
from tests.e2e.deployment import Deployment, extra_models
from tests.e2e.dying import below, check_that_it_comes_back, engine, shared_memory_of
from tests.e2e.metrics import Watch, at_rest, settled
from tests.e2e.rungs import sampling
from tools.bootstrap.layout import Layout
from tools.spec.loading import load_profile

FLOAT32 = Model(repository.FLOAT32)
BASELINES = [Model(repository.BASELINE_FLOAT32, version, batched=True) for version in ("1", "2", "3")]
TOKENS = 16
PROMPTS = [
    "The capital of France is",
    "<|im_start|>user\nName three colours.<|im_end|>\n<|im_start|>assistant\n",
    "def fibonacci(n):\n",
    "请用一句话介绍北京:",
    "1, 2, 3, 4,",
]


@pytest.fixture(scope="module")
def bare() -> list[str]:
    """Answers of vLLM alone, which has ended before the server loads the same model."""
    model_json = extra_models(Layout.of_this_checkout()) / FLOAT32.name / "1" / "model.json"
    profile = load_profile()
    answers = ask_bare_vllm(
        json.loads(model_json.read_text(encoding="utf-8")),
        PROMPTS,
        max_tokens=TOKENS,
        environment=profile.environment_of(profile.variants["llm_bf16"]),
    )
    assert all(answers.texts)
    return answers.texts


@pytest.fixture(scope="module")
def float32(server: Deployment, bare: list[str]) -> Iterator[None]:
    with server.loaded(FLOAT32.name):
        yield


@pytest.fixture(scope="module")
def baseline_float32(server: Deployment) -> Iterator[None]:
    with server.loaded(repository.BASELINE_FLOAT32):
        yield


def inputs(prompt: str, *, stream: bool) -> dict[str, Any]:
    return {
        "text_input": prompt,
        "stream": stream,
        "exclude_input_in_output": True,
        "sampling_parameters": sampling(TOKENS),
    }


@pytest.mark.usefixtures("float32")
@pytest.mark.parametrize(
    ("way", "stream"),
    [(Way.GRPC, True), (Way.SSE, True), (Way.GRPC, False), (Way.SSE, False), (Way.GENERATE, False)],
    ids=["gRPC streamed", "SSE streamed", "gRPC", "SSE", "generate"],
)
def test_every_way_gives_the_text_of_vllm_alone(triton: Triton, bare: list[str], way: Way, stream: bool) -> None:
    answers = [text_of(triton.ask(way, FLOAT32, inputs(prompt, stream=stream))) for prompt in PROMPTS]
    assert answers == bare


@pytest.mark.usefixtures("float32")
def test_so_do_all_prompts_at_once(triton: Triton, bare: list[str]) -> None:
    with ThreadPoolExecutor(len(PROMPTS)) as pool:
        answers = pool.map(lambda prompt: text_of(triton.ask(Way.GRPC, FLOAT32, inputs(prompt, stream=True))), PROMPTS)
        assert list(answers) == bare


@pytest.mark.usefixtures("baseline_float32")
@pytest.mark.parametrize("model", BASELINES, ids=lambda model: f"version {model.version}")
def test_so_does_every_version_of_the_baseline(triton: Triton, bare: list[str], model: Model) -> None:
    """Another implementation of the same model: equal up to ties, of which these prompts have none."""
    with ThreadPoolExecutor(len(PROMPTS)) as pool:
        answers = pool.map(lambda prompt: text_of(triton.ask(Way.GRPC, model, inputs(prompt, stream=True))), PROMPTS)
        assert list(answers) == bare


@pytest.mark.usefixtures("float32")
def test_more_than_running_and_waiting_together_are_refused_and_the_rest_is_served(
    server: Deployment, triton: Triton
) -> None:
    places, waiting = repository.FLOAT32_PLACES, repository.FLOAT32_MAX_WAITING
    # The engine is given one more than it runs, which is the next.
    room = places + 1 + waiting
    asked = room + 8

    def ask(number: int) -> int | RefusedError:
        """Tokens of the answer."""
        request = inputs(f"{number}: ", stream=True) | {"return_num_output_tokens": True}
        try:
            return tokens_of(triton.ask(Way.GRPC, FLOAT32, request))
        except RefusedError as error:
            return error

    before = at_rest(server.address, FLOAT32.name)
    with Watch(server.address, FLOAT32.name) as watch, ThreadPoolExecutor(asked) as pool:
        answers = list(pool.map(ask, range(asked)))
    refusals = [answer for answer in answers if isinstance(answer, RefusedError)]
    tokens = [answer for answer in answers if isinstance(answer, int)]
    assert 1 <= len(refusals) <= asked - room
    for refusal in refusals:
        assert refusal.code == "UNAVAILABLE"
        assert refusal.message.startswith(
            f"the queue is full: {waiting} requests wait and MAX_WAITING_REQUESTS is {waiting}. Retry later"
        )
    assert all(0 < count <= TOKENS for count in tokens)
    counted = at_rest(server.address, FLOAT32.name).since(before)
    assert counted.at("ladder_requests_rejected_total", reason="queue_full") == len(refusals)
    assert counted["vllm:generation_tokens_total"] == sum(tokens)
    # The one that the engine holds in readiness counts as running until vLLM has said that it waits.
    assert places <= watch.most("vllm:num_requests_running") <= places + 1
    assert 0 < watch.most("vllm:num_requests_waiting") <= waiting + 1


@pytest.mark.usefixtures("float32")
def test_the_context_ends_an_answer_and_refuses_a_prompt_that_leaves_no_room(triton: Triton) -> None:
    context = repository.FLOAT32_CONTEXT
    asked: dict[str, Any] = {
        "text_input": "",
        "input_ids": [260] * (context - 2),
        "sampling_parameters": sampling(100, ignore_eos=True),
        "return_finish_reason": True,
        "return_num_output_tokens": True,
    }
    [response] = triton.ask(Way.GRPC, FLOAT32, asked)
    assert response["num_output_tokens"] == [2]
    assert response["finish_reason"] == ["length"]
    with pytest.raises(RefusedError, match=f'"input_ids" has {context} tokens: the context takes {context}, of which'):
        triton.ask(Way.GRPC, FLOAT32, asked | {"input_ids": [260] * context})


@pytest.mark.usefixtures("float32")
def test_a_deadline_ends_what_waits_and_what_runs(server: Deployment, triton: Triton) -> None:
    endless = inputs("Tell me everything: ", stream=True) | {"sampling_parameters": sampling(1000, ignore_eos=True)}
    running = [triton.grpc_call(grpc_request(FLOAT32, endless)) for _ in range(repository.FLOAT32_PLACES + 1)]
    try:
        settled(server.address, FLOAT32.name, lambda now: now["vllm:num_requests_waiting"] == 1)
        with pytest.raises(RefusedError, match=r"^UNAVAILABLE: the deadline of 1 s passed in the queue: allow more"):
            triton.ask(Way.GRPC, FLOAT32, inputs("Hello", stream=True), {"timeout": 1_000_000})
    finally:
        for call in running:
            call.cancel()
    at_rest(server.address, FLOAT32.name)
    with pytest.raises(RefusedError, match=r"^UNAVAILABLE: the deadline of 4 s passed after \d+ tokens: allow more"):
        triton.ask(Way.GRPC, FLOAT32, endless, {"timeout": 4_000_000})


@pytest.mark.usefixtures("float32")
def test_a_worker_that_dies_takes_its_engine_with_it_and_a_new_one_comes(server: Deployment, triton: Triton) -> None:
    """As with several GPUs, this model's worker is a process of its own."""
    assert shared_memory_of(engine(server, FLOAT32).children(recursive=True)), "vLLM's message queues"
    worker = below(server, FLOAT32, "VLLM::Worker")
    check_that_it_comes_back(server, triton, FLOAT32, worker, repository.FLOAT32_PLACES)


def test_unloading_lets_the_real_engine_finish(server: Deployment, triton: Triton, float32: None) -> None:
    """The last test of this file: it takes the model away."""
    request = grpc_request(
        FLOAT32,
        inputs("Tell me everything: ", stream=True)
        | {"sampling_parameters": sampling(12, ignore_eos=True), "return_num_output_tokens": True},
    )
    running = triton.grpc_stream(request)
    first = next(running)
    process = server.engine_of(FLOAT32.name)
    assert process is not None
    server.unload(FLOAT32.name)
    assert tokens_of([first, *running]) == 12
    process.wait(60)
    assert not server.is_ready(FLOAT32.name)
