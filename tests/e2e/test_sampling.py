"""Sampling parameters: what each does to an answer, where they may stand, and how wrong ones are refused."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from tests.e2e.asking import Outputs, RefusedError, Triton, Way, http_body
from tests.e2e.rungs import LLM, sampling

PROMPT = "The capital of France is"
# In SmolLM2's vocabulary.
EOS = 2
NEW_LINE = 198

every_way = pytest.mark.parametrize("way", Way, ids=lambda way: way.value)


def ask(
    triton: Triton, parameters: str | None, way: Way = Way.GRPC, request_parameters: dict[str, Any] | None = None
) -> Outputs:
    """One response without the prompt, with finish reason and token count."""
    inputs: dict[str, Any] = {
        "text_input": PROMPT,
        "exclude_input_in_output": True,
        "return_finish_reason": True,
        "return_num_output_tokens": True,
    }
    if parameters is not None:
        inputs["sampling_parameters"] = parameters
    [response] = triton.ask(way, LLM, inputs, request_parameters)
    return response


def ending(response: Outputs) -> tuple[str, int]:
    """Finish reason and number of tokens."""
    return response["finish_reason"][0], response["num_output_tokens"][0]


@every_way
def test_without_any_the_engine_has_its_defaults(triton: Triton, way: Way) -> None:
    assert ending(ask(triton, None, way, {"ignore_eos": True})) == ("length", 16)


@every_way
def test_request_parameters_do_where_the_tensor_is_missing(triton: Triton, way: Way) -> None:
    response = ask(triton, None, way, {"max_tokens": 3, "temperature": 0.0, "ignore_eos": True})
    assert ending(response) == ("length", 3)
    assert response["text_output"] == ask(triton, sampling(3))["text_output"]


@every_way
def test_the_tensor_wins_over_request_parameters(triton: Triton, way: Way) -> None:
    assert ending(ask(triton, sampling(5, ignore_eos=True), way, {"max_tokens": 3})) == ("length", 5)


def test_nested_parameters_of_the_generate_extension_are_request_parameters(triton: Triton) -> None:
    body = http_body({"text_input": PROMPT, "return_num_output_tokens": True}, {"parameters": {"max_tokens": 3}})
    assert triton.generate(LLM, body).json()["num_output_tokens"] == 3


@every_way
def test_numbers_may_be_written_as_strings(triton: Triton, way: Way) -> None:
    parameters = json.dumps({"temperature": "0", "max_tokens": "3", "top_p": "1.0", "seed": "5"})
    assert ask(triton, parameters, way) == ask(triton, sampling(3))
    assert ask(triton, None, way, {"temperature": "0", "max_tokens": "3"}) == ask(triton, sampling(3))


@pytest.mark.parametrize("stop", ["\n", ["never", "\n"]])
def test_a_stop_string_ends_the_text_before_it(triton: Triton, stop: str | list[str]) -> None:
    response = ask(triton, sampling(8, stop=stop))
    assert response["text_output"] == [" Paris."]
    assert ending(response) == ("stop", 3)


def test_a_stop_string_can_be_kept(triton: Triton) -> None:
    response = ask(triton, sampling(8, stop=["\n"], include_stop_str_in_output=True))
    assert response["text_output"] == [" Paris.\n"]


def test_nothing_of_a_stop_string_is_streamed(triton: Triton) -> None:
    inputs = {"text_input": PROMPT, "stream": True, "sampling_parameters": sampling(8, stop=["Paris.\n\n"])}
    texts = [response["text_output"][0] for response in triton.ask(Way.GRPC, LLM, inputs)]
    assert "".join(texts) == " "


def test_a_stop_token_ends_the_text(triton: Triton) -> None:
    response = ask(triton, sampling(8, stop_token_ids=[NEW_LINE]))
    assert response["text_output"] == [" Paris."]
    assert ending(response) == ("stop", 3)


def test_the_end_of_text_ends_it_unless_ignored_or_too_early(triton: Triton) -> None:
    wanted = {str(EOS): 100}
    assert ending(ask(triton, sampling(6, logit_bias=wanted))) == ("stop", 1)
    assert ending(ask(triton, sampling(6, logit_bias=wanted, min_tokens=3))) == ("stop", 4)
    assert ending(ask(triton, sampling(6, logit_bias=wanted, ignore_eos=True))) == ("length", 6)


def test_a_seed_gives_the_same_answer_again(triton: Triton) -> None:
    answers = [
        ask(triton, sampling(12, temperature=1.0, seed=seed, ignore_eos=True))["text_output"] for seed in (1, 1, 2)
    ]
    assert answers[0] == answers[1]
    assert answers[0] != answers[2]


@pytest.mark.parametrize("written", ["object", "string"])
@pytest.mark.parametrize(
    ("constraint", "pattern"),
    [
        ({"choice": ["left", "right"]}, r"left|right"),
        ({"regex": "[0-9]{3}-[0-9]{2}"}, r"[0-9]{3}-[0-9]{2}"),
        (
            {
                "json": {
                    "type": "object",
                    "properties": {"animal": {"enum": ["cat", "dog"]}},
                    "required": ["animal"],
                    "additionalProperties": False,
                }
            },
            r'\{\s*"animal"\s*:\s*"(cat|dog)"\s*\}',
        ),
    ],
    ids=["choice", "regex", "json"],
)
def test_structured_outputs(triton: Triton, constraint: dict[str, Any], pattern: str, written: str) -> None:
    value = constraint if written == "object" else json.dumps(constraint)
    response = ask(triton, sampling(40, structured_outputs=value))
    assert re.fullmatch(pattern, response["text_output"][0])
    assert response["finish_reason"] == ["stop"]


def test_structured_outputs_as_a_request_parameter(triton: Triton) -> None:
    """There only a string is possible."""
    parameters = {"max_tokens": 8, "structured_outputs": '{"choice": ["left", "right"]}'}
    assert ask(triton, None, Way.GENERATE, parameters)["text_output"][0] in ("left", "right")


@every_way
@pytest.mark.parametrize(
    ("parameters", "text"),
    [
        (
            {"temprature": 1},
            'sampling parameter "temprature" is unknown: did you mean "temperature"?',
        ),
        ({"temperature": -1}, 'sampling parameter "temperature" is -1: it takes a number, at least 0 and at most 2'),
        ({"top_p": 0}, 'sampling parameter "top_p" is 0: it takes a number, more than 0 and at most 1'),
        ({"n": 0}, 'sampling parameter "n" is 0: it takes a whole number, at least 1 and at most 128'),
        ({"ignore_eos": "false"}, 'sampling parameter "ignore_eos" is "false": it takes true or false'),
        (
            {"max_tokens": 1025},
            'sampling parameter "max_tokens" is 1025: it takes a whole number, at least 1 and at most 1024',
        ),
        ({"max_tokens": 2.5}, 'sampling parameter "max_tokens" is 2.5: it takes a whole number, at least 1'),
        ({"stop": 5}, 'sampling parameter "stop" is 5: it takes a string or a list of strings or null'),
        ({"logprobs": 21}, 'sampling parameter "logprobs" is 21: it takes a whole number, at least -1 and at most 20'),
        (
            {"structured_outputs": {"choices": ["a"]}},
            'sampling parameter "structured_outputs" has the key "choices": known ones are json, regex, choice',
        ),
        (
            {"structured_outputs": {}},
            'sampling parameter "structured_outputs" is empty: give it one of json, regex, choice',
        ),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_a_wrong_parameter_is_refused_with_its_name_value_and_range(
    triton: Triton, way: Way, parameters: dict[str, Any], text: str
) -> None:
    with pytest.raises(RefusedError) as caught:
        ask(triton, json.dumps(parameters), way)
    assert caught.value.message.startswith(text)
    assert caught.value.code == ("INVALID_ARGUMENT" if way is Way.GRPC else "400")


@pytest.mark.parametrize("way", [Way.SSE, Way.GENERATE], ids=lambda way: way.value)
@pytest.mark.parametrize("name", ["timeout", "priority"])
def test_a_wrong_scheduling_parameter_is_refused_too(triton: Triton, way: Way, name: str) -> None:
    """Over gRPC they are numbers of Triton's own, which cannot be negative."""
    with pytest.raises(RefusedError, match=f'^400: parameter "{name}" is -1: it takes a whole number, at least 0'):
        ask(triton, None, way, {name: -1})


@every_way
@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("{", '"sampling_parameters" is not valid JSON ('),
        ("", '"sampling_parameters" is not valid JSON ('),
        ("[]", '"sampling_parameters" must be a JSON object such as {"max_tokens": 64}, got []'),
        ('{"temperature": NaN}', '"sampling_parameters" is not valid JSON (NaN is no JSON number)'),
        ('{"stop": "\\ud800"}', '"sampling_parameters" is not valid JSON (half a surrogate pair'),
    ],
)
def test_sampling_parameters_that_are_no_object_are_refused(
    triton: Triton, way: Way, text: str, complaint: str
) -> None:
    with pytest.raises(RefusedError) as caught:
        ask(triton, text, way)
    assert caught.value.message.startswith(complaint)


def test_an_object_in_place_of_the_json_text_is_refused(triton: Triton) -> None:
    """Triton's own answer, 500 included: on HTTP the tensor's value is JSON text inside JSON."""
    body = json.dumps({"text_input": PROMPT, "sampling_parameters": {"max_tokens": 4}}).encode()
    response = triton.generate(LLM, body)
    assert response.status_code == 500
    assert response.json() == {"error": "Unable to parse JSON bytes array: attempt to access JSON non-string as string"}
