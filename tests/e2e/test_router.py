"""`chat` with the real model behind it: what comes out is what the target itself would have said."""

from __future__ import annotations

from typing import Any

import pytest

from tests.e2e.asking import Model, Outputs, RefusedError, Triton, Way, text_of
from tests.e2e.rungs import LLM, ROUTER, conversation, sampling
from tests.e2e.test_contract import FLAGS, PROMPT, TOKENS

SERVED = {"served_model": [LLM.name], "served_version": [1]}

every_way = pytest.mark.parametrize("way", Way, ids=lambda way: way.value)


def both(
    triton: Triton, way: Way, inputs: dict[str, Any], parameters: Any = None
) -> tuple[list[Outputs], list[Outputs]]:
    """What the target and what the router answers; the router's without the target's name."""
    direct = triton.ask(way, LLM, inputs, parameters)
    routed = triton.ask(way, ROUTER, inputs, parameters)
    assert {name: routed[0][name] for name in SERVED} == SERVED
    return direct, [{name: value for name, value in outputs.items() if name not in SERVED} for outputs in routed]


def prompt(max_tokens: int = TOKENS, *, stream: bool = False, **parameters: object) -> dict[str, Any]:
    return {
        "text_input": PROMPT,
        "sampling_parameters": sampling(max_tokens, **parameters),
        "exclude_input_in_output": True,
        "stream": stream,
    }


@every_way
@pytest.mark.parametrize("flag", FLAGS)
def test_each_optional_output_is_the_targets(triton: Triton, way: Way, flag: str) -> None:
    direct, routed = both(triton, way, prompt() | {flag: True})
    assert set(direct[0]) == {"text_output", FLAGS[flag]}
    assert routed == direct


@every_way
def test_all_outputs_together_are_the_targets(triton: Triton, way: Way) -> None:
    inputs = prompt(logprobs=2, prompt_logprobs=1) | dict.fromkeys(FLAGS, True)
    direct, routed = both(triton, way, inputs)
    assert set(direct[0]) == {"text_output", "prompt_logprobs", *FLAGS.values()}
    assert routed == direct


@every_way
def test_several_sequences_are_the_targets(triton: Triton, way: Way) -> None:
    inputs = prompt(n=3, temperature=0.8, seed=5) | dict.fromkeys(FLAGS, True)
    direct, routed = both(triton, way, inputs)
    assert len(direct[0]["text_output"]) == 3
    assert routed == direct


@pytest.mark.parametrize("way", [Way.GRPC, Way.SSE], ids=lambda way: way.value)
def test_a_stream_says_the_same_in_the_end(triton: Triton, way: Way) -> None:
    direct, routed = both(triton, way, prompt(12, stream=True) | dict.fromkeys(FLAGS, True))
    assert text_of(routed) == text_of(direct)
    assert len(routed) > 1
    assert sum(outputs["num_output_tokens"][0] for outputs in routed) == 12
    assert routed[-1]["finish_reason"] == direct[-1]["finish_reason"] == ["length"]


def test_a_prompt_as_tokens_is_taken_as_it_is(triton: Triton) -> None:
    inputs = {"text_input": "", "input_ids": [504, 3575, 282, 4649, 314], "return_num_input_tokens": True}
    direct, routed = both(triton, Way.GRPC, inputs | {"sampling_parameters": sampling(TOKENS)})
    assert routed == direct
    assert direct[0]["num_input_tokens"] == [5]


@every_way
def test_a_conversation_gets_what_the_ensemble_says(triton: Triton, way: Way) -> None:
    inputs = {
        "messages": conversation("What is the capital of France? Answer in one sentence."),
        "sampling_parameters": sampling(12),
    }
    [ensemble] = triton.ask(way, Model("chat_bf16"), inputs)
    [routed] = triton.ask(way, ROUTER, inputs)
    assert routed == ensemble | SERVED
    assert "Paris" in routed["text_output"][0]


@every_way
@pytest.mark.parametrize(
    "inputs",
    [
        {"sampling_parameters": sampling(-1)},
        {"sampling_parameters": "{"},
        {"sampling_parameters": sampling(1, temprature=1)},
        {"stream": True, "exclude_input_in_output": False},
        {"embedding_request": '{"input": "x"}'},
    ],
    ids=["out of range", "no JSON", "misspelt", "contradiction", "embedding"],
)
def test_what_the_target_refuses_is_refused_in_its_words(triton: Triton, way: Way, inputs: dict[str, Any]) -> None:
    said = []
    for model in (LLM, ROUTER):
        with pytest.raises(RefusedError) as caught:
            triton.ask(way, model, {"text_input": PROMPT} | inputs)
        said.append((caught.value.code, caught.value.message))
    assert said[0] == said[1]


def test_request_parameters_are_read_beside_those_of_the_router(triton: Triton) -> None:
    inputs = {"text_input": PROMPT, "exclude_input_in_output": True, "return_num_output_tokens": True}
    direct, routed = both(triton, Way.GRPC, inputs, {"max_tokens": 3, "temperature": 0.0, "user": "ann"})
    assert routed == direct
    assert routed[0]["num_output_tokens"] == [3]
