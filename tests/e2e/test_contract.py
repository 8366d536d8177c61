"""The tensor contract of the vLLM backend, on all three ways to it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.e2e.asking import Outputs, RefusedError, Triton, Way, grpc_request, text_of, tokens_of
from tests.e2e.rungs import LLM, TOKENIZER, sampling

PROMPT = "The capital of France is"
TOKENS = 4

FLAGS = {
    "return_finish_reason": "finish_reason",
    "return_cumulative_logprob": "cumulative_logprob",
    "return_logprobs": "logprobs",
    "return_num_input_tokens": "num_input_tokens",
    "return_num_output_tokens": "num_output_tokens",
}
"""Each optional output by the input that asks for it."""

every_way = pytest.mark.parametrize("way", Way, ids=lambda way: way.value)
every_streaming_way = pytest.mark.parametrize("way", [Way.GRPC, Way.SSE], ids=lambda way: way.value)


@pytest.fixture(scope="module")
def answer(triton: Triton) -> str:
    """What the model says to PROMPT, greedy."""
    inputs = {"text_input": PROMPT, "sampling_parameters": sampling(TOKENS), "exclude_input_in_output": True}
    return text_of(triton.ask(Way.GRPC, LLM, inputs))


@every_way
def test_text_alone_is_one_response_that_repeats_the_prompt(triton: Triton, answer: str, way: Way) -> None:
    responses = triton.ask(way, LLM, {"text_input": PROMPT, "sampling_parameters": sampling(TOKENS)})
    assert responses == [{"text_output": [PROMPT + answer]}]


@every_way
@pytest.mark.parametrize("exclude", [True, False])
def test_the_prompt_is_repeated_unless_excluded(triton: Triton, answer: str, way: Way, exclude: bool) -> None:
    inputs = {"text_input": PROMPT, "sampling_parameters": sampling(TOKENS), "exclude_input_in_output": exclude}
    assert triton.ask(way, LLM, inputs) == [{"text_output": [answer if exclude else PROMPT + answer]}]


@every_way
def test_stream_false_is_the_default(triton: Triton, answer: str, way: Way) -> None:
    inputs = {"text_input": PROMPT, "sampling_parameters": sampling(TOKENS), "stream": False}
    assert triton.ask(way, LLM, inputs) == [{"text_output": [PROMPT + answer]}]


@every_streaming_way
@pytest.mark.parametrize("exclude", [None, True])
def test_a_stream_never_repeats_the_prompt(triton: Triton, answer: str, way: Way, exclude: bool | None) -> None:
    inputs: dict[str, Any] = {"text_input": PROMPT, "sampling_parameters": sampling(TOKENS), "stream": True}
    if exclude is not None:
        inputs["exclude_input_in_output"] = exclude
    responses = triton.ask(way, LLM, inputs)
    assert text_of(responses) == answer
    # Text comes as it is generated; more than one token in a response is allowed, everything in one is not.
    assert len(responses) > 1


@every_way
def test_a_stream_cannot_repeat_the_prompt(triton: Triton, way: Way) -> None:
    inputs = {"text_input": PROMPT, "stream": True, "exclude_input_in_output": False}
    with pytest.raises(RefusedError, match=r'^[A-Z0-9_]+: "exclude_input_in_output" is false and "stream" is true: '):
        triton.ask(way, LLM, inputs)


def test_generate_says_that_it_cannot_stream(triton: Triton) -> None:
    """Triton's own answer, which clients have to know."""
    inputs = {"text_input": PROMPT, "stream": True, "sampling_parameters": sampling(TOKENS)}
    with pytest.raises(RefusedError, match=r"^200: generate expects model to produce exactly 1 response"):
        triton.ask(Way.GENERATE, LLM, inputs)


@every_way
@pytest.mark.parametrize("flag", FLAGS)
def test_an_optional_output_comes_when_asked_for_and_alone(triton: Triton, answer: str, way: Way, flag: str) -> None:
    inputs = {"text_input": PROMPT, "sampling_parameters": sampling(TOKENS), flag: True}
    [response] = triton.ask(way, LLM, inputs)
    assert set(response) == {"text_output", FLAGS[flag]}
    assert response["text_output"] == [PROMPT + answer]
    _check_output(FLAGS[flag], response[FLAGS[flag]])


def _check_output(name: str, values: list[Any]) -> None:
    match name:
        case "finish_reason":
            assert values == ["length"]
        case "cumulative_logprob":
            # Also where the request named no `logprobs`.
            assert len(values) == 1
            assert -20 < values[0] < 0
        case "logprobs":
            # The contract: without the sampling parameter `logprobs` there are none.
            assert values == ["null"]
        case "num_input_tokens":
            assert values == [5]
        case "num_output_tokens":
            assert values == [TOKENS]


@every_way
def test_flags_that_are_false_ask_for_nothing(triton: Triton, way: Way) -> None:
    inputs = {"text_input": PROMPT, "sampling_parameters": sampling(1)} | dict.fromkeys(FLAGS, False)
    [response] = triton.ask(way, LLM, inputs)
    assert set(response) == {"text_output"}


def _all_outputs(triton: Triton, way: Way, *, stream: bool) -> list[Outputs]:
    inputs = {
        "text_input": PROMPT,
        "sampling_parameters": sampling(TOKENS, logprobs=2),
        "stream": stream,
        "exclude_input_in_output": True,
    }
    return triton.ask(way, LLM, inputs | dict.fromkeys(FLAGS, True))


@every_way
def test_all_outputs_together(triton: Triton, answer: str, way: Way) -> None:
    [response] = _all_outputs(triton, way, stream=False)
    assert set(response) == {"text_output", *FLAGS.values()}
    assert response["text_output"] == [answer]
    assert response["finish_reason"] == ["length"]
    assert response["num_input_tokens"] == [5]
    assert response["num_output_tokens"] == [TOKENS]
    [logprobs] = map(json.loads, response["logprobs"])
    assert len(logprobs) == TOKENS
    for position in logprobs:
        assert 2 <= len(position) <= 3
        for token, entry in position.items():
            assert token.isdecimal()
            assert set(entry) == {"logprob", "rank", "decoded_token"}
            assert entry["logprob"] <= 0
    # Greedy: every token is the first of its position.
    best = [next(entry for entry in position.values() if entry["rank"] == 1) for position in logprobs]
    assert "".join(entry["decoded_token"] for entry in best) == answer
    assert response["cumulative_logprob"] == [pytest.approx(sum(entry["logprob"] for entry in best), rel=1e-4)]


@every_way
def test_the_prompts_logprobs_come_with_those_of_the_answer(triton: Triton, way: Way) -> None:
    inputs = {"text_input": PROMPT, "sampling_parameters": sampling(1, prompt_logprobs=0)}
    [response] = triton.ask(way, LLM, inputs | {"return_logprobs": True})
    assert set(response) == {"text_output", "logprobs", "prompt_logprobs"}
    first, *others = json.loads(response["prompt_logprobs"][0])
    assert first is None
    tokens = [entry["decoded_token"] for position in others for entry in position.values()]
    assert tokens == [" capital", " of", " France", " is"]
    assert "prompt_logprobs" not in triton.ask(way, LLM, inputs)[0]


@every_streaming_way
def test_the_prompts_logprobs_come_once_in_a_stream(triton: Triton, way: Way) -> None:
    inputs = {"text_input": PROMPT, "stream": True, "return_logprobs": True}
    responses = triton.ask(way, LLM, inputs | {"sampling_parameters": sampling(TOKENS, prompt_logprobs=0)})
    assert len(responses) > 1
    assert sum("prompt_logprobs" in response for response in responses) == 1


@every_streaming_way
def test_all_outputs_of_a_stream_add_up_to_those_of_one_response(triton: Triton, way: Way) -> None:
    responses = _all_outputs(triton, way, stream=True)
    [whole] = _all_outputs(triton, way, stream=False)
    assert all(set(response) == set(whole) for response in responses)
    assert text_of(responses) == text_of([whole])
    # Deltas, as in NVIDIA's contract: a client adds them up.
    assert tokens_of(responses) == TOKENS
    assert [response["num_input_tokens"] for response in responses] == [[5]] * len(responses)
    # "None" while it runs, and on the last response alone the reason.
    assert [response["finish_reason"] for response in responses] == [["None"]] * (len(responses) - 1) + [["length"]]
    positions = [position for response in responses for position in json.loads(response["logprobs"][0])]
    assert [set(position) for position in positions] == [set(p) for p in json.loads(whole["logprobs"][0])]
    running = [response["cumulative_logprob"][0] for response in responses]
    assert running == sorted(running, reverse=True)
    assert running[-1] == pytest.approx(whole["cumulative_logprob"][0], abs=0.1)


def _three(triton: Triton, way: Way, *, stream: bool) -> list[Outputs]:
    inputs = {
        "text_input": PROMPT,
        "sampling_parameters": sampling(6, n=3, temperature=1.0, seed=11, ignore_eos=True),
        "stream": stream,
        "exclude_input_in_output": True,
        "return_num_output_tokens": True,
        "return_finish_reason": True,
    }
    return triton.ask(way, LLM, inputs)


@every_way
def test_n_sequences_are_elements_of_each_output(triton: Triton, way: Way) -> None:
    [response] = _three(triton, way, stream=False)
    assert len(set(response["text_output"])) > 1
    assert all(response["text_output"])
    assert response["num_output_tokens"] == [6, 6, 6]
    assert response["finish_reason"] == ["length"] * 3


@every_streaming_way
def test_n_sequences_are_elements_of_each_streamed_response(triton: Triton, way: Way) -> None:
    responses = _three(triton, way, stream=True)
    assert all(len(response["text_output"]) == 3 for response in responses)
    for sequence in range(3):
        assert sum(response["num_output_tokens"][sequence] for response in responses) == 6
        reasons = [response["finish_reason"][sequence] for response in responses]
        assert reasons.count("length") == 1
        assert reasons.count("None") == len(reasons) - 1
        assert text_of(responses, sequence)


def test_each_of_n_sequences_has_its_prompt_repeated(triton: Triton) -> None:
    inputs = {"text_input": PROMPT, "sampling_parameters": sampling(2, n=2, temperature=1)}
    [response] = triton.ask(Way.GRPC, LLM, inputs)
    assert [text.startswith(PROMPT) for text in response["text_output"]] == [True, True]


@every_way
def test_input_ids_stand_for_the_text(triton: Triton, answer: str, way: Way) -> None:
    tokens = triton.infer(TOKENIZER, {"text_input": PROMPT})["input_ids"]
    inputs: dict[str, Any] = {"text_input": "", "input_ids": tokens, "sampling_parameters": sampling(TOKENS)}
    assert text_of(triton.ask(way, LLM, inputs | {"return_num_input_tokens": True})) == answer
    # The text is repeated as it was sent; what is generated from is the ids.
    inputs["text_input"] = "Q: "
    assert text_of(triton.ask(way, LLM, inputs)) == "Q: " + answer


def test_two_requests_may_have_one_id(triton: Triton) -> None:
    """It is the engine's request id too, where it has to be unique."""
    request = grpc_request(
        LLM, {"text_input": PROMPT, "stream": True, "sampling_parameters": sampling(8)}, request_id="same"
    )
    first, second = triton.grpc_stream(request), triton.grpc_stream(request)
    begun = [next(first), next(second)]
    assert text_of([begun[0], *first]) == text_of([begun[1], *second])


@every_way
@pytest.mark.parametrize(
    ("inputs", "code", "text"),
    [
        (
            {"embedding_request": '{"input": "x"}'},
            "UNIMPLEMENTED",
            '"embedding_request" was sent, but this model does not embed: it supports generate',
        ),
        ({"image": ["aGVsbG8="]}, "UNIMPLEMENTED", '"image" was sent, but this model takes text only'),
        (
            {"sampling_parameters": '{"lora_name": "sheep"}'},
            "INVALID_ARGUMENT",
            'sampling parameter "lora_name" is "sheep": this model has LoRA turned off ("enable_lora")',
        ),
        (
            {"text_input": ""},
            "INVALID_ARGUMENT",
            '"text_input" is empty: a prompt needs at least one character',
        ),
        (
            {"input_ids": [1, 49152]},
            "INVALID_ARGUMENT",
            '"input_ids" has the token 49152: the vocabulary is 0 to 49151',
        ),
        ({"input_ids": [-1]}, "INVALID_ARGUMENT", '"input_ids" has the token -1: the vocabulary is 0 to 49151'),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
def test_what_the_model_cannot_do_is_refused_by_name(
    triton: Triton, way: Way, inputs: dict[str, Any], code: str, text: str
) -> None:
    with pytest.raises(RefusedError) as caught:
        triton.ask(way, LLM, {"text_input": PROMPT, **inputs})
    assert caught.value.message == text
    # Triton's generate endpoints know no other status for an error of a model.
    assert caught.value.code == (code if way is Way.GRPC else "400")
    # HTTP has one status for all of them, so the text says it.
    assert caught.value.said == code
