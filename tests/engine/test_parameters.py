"""Sampling parameters: what each takes, what its refusal says, and that nothing else can happen."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools.engine.errors import RequestError
from tools.engine.parameters import SAMPLING_RULES, Rule, parse_parameters

SOURCES = ["sampling_parameters", "request parameters"]


def parse(parameters: object, source: str = "sampling_parameters") -> dict[str, Any]:
    text = parameters if isinstance(parameters, str) else json.dumps(parameters)
    return parse_parameters(text, source, SAMPLING_RULES)


def refusal(parameters: object, source: str = "sampling_parameters") -> str:
    with pytest.raises(RequestError) as caught:
        parse(parameters, source)
    assert caught.value.code == "INVALID_ARG"
    return str(caught.value)


ACCEPTED: list[tuple[str, Any, Any]] = [
    ("n", 1, 1),
    ("n", 128, 128),
    ("n", 4.0, 4),
    ("n", "4", 4),
    ("presence_penalty", -2, -2.0),
    ("presence_penalty", 2, 2.0),
    ("frequency_penalty", "-0.5", -0.5),
    ("repetition_penalty", 0.001, 0.001),
    ("repetition_penalty", 20, 20.0),
    ("temperature", 0, 0.0),
    ("temperature", 2, 2.0),
    ("temperature", "0.7", 0.7),
    ("top_p", 0.0001, 0.0001),
    ("top_p", 1, 1.0),
    ("top_k", -1, -1),
    ("top_k", 2**31 - 1, 2**31 - 1),
    ("min_p", 0, 0.0),
    ("min_p", 1, 1.0),
    ("seed", None, None),
    ("seed", -(2**63), -(2**63)),
    ("seed", 2**63 - 1, 2**63 - 1),
    ("seed", str(2**63 - 1), 2**63 - 1),
    ("stop", "###", ["###"]),
    ("stop", ["a", "b"], ["a", "b"]),
    ("stop", None, None),
    ("stop_token_ids", [0, 2.0, "7"], [0, 2, 7]),
    ("bad_words", ["x"], ["x"]),
    ("include_stop_str_in_output", True, True),
    ("ignore_eos", False, False),
    ("max_tokens", 1, 1),
    ("min_tokens", 0, 0),
    ("logprobs", None, None),
    ("logprobs", -1, -1),
    ("logprobs", 20, 20),
    ("prompt_logprobs", 5, 5),
    ("detokenize", True, True),
    ("skip_special_tokens", False, False),
    ("spaces_between_special_tokens", True, True),
    ("structured_outputs", {"choice": ["yes", "no"]}, {"choice": ["yes", "no"]}),
    ("structured_outputs", '{"regex": "[0-9]+"}', {"regex": "[0-9]+"}),
    ("structured_outputs", None, None),
    ("logit_bias", {"5": -1.5, "6": 2}, {5: -1.5, 6: 2.0}),
    ("logit_bias", '{"7": "0.5"}', {7: 0.5}),
    ("logit_bias", None, None),
    ("allowed_token_ids", [3], [3]),
    ("lora_name", "doll", "doll"),
    ("lora_name", None, None),
]


@pytest.mark.parametrize(("name", "given", "read"), ACCEPTED)
def test_a_value_within_the_range_is_read_in_its_own_type(name: str, given: Any, read: Any) -> None:
    parsed = parse({name: given})[name]
    assert parsed == read
    assert type(parsed) is type(read)


BIASES = "a JSON object of token ids and numbers, or one written as a string or null"
COUNT = "a whole number, at least 1 and at most 2147483647"

REFUSED: list[tuple[str, Any, str]] = [
    ("n", 0, "a whole number, at least 1 and at most 128"),
    ("n", 129, "a whole number, at least 1 and at most 128"),
    ("n", 1.5, "a whole number, at least 1 and at most 128"),
    ("n", True, "a whole number, at least 1 and at most 128"),
    ("n", "two", "a whole number, at least 1 and at most 128"),
    ("n", [1], "a whole number, at least 1 and at most 128"),
    ("n", None, "a whole number, at least 1 and at most 128"),
    ("presence_penalty", 2.01, "a number, at least -2 and at most 2"),
    ("frequency_penalty", -2.01, "a number, at least -2 and at most 2"),
    ("repetition_penalty", 0, "a number, more than 0"),
    ("temperature", 2.1, "a number, at least 0 and at most 2"),
    ("temperature", -0.1, "a number, at least 0 and at most 2"),
    ("temperature", "hot", "a number, at least 0 and at most 2"),
    ("temperature", "nan", "a number, at least 0 and at most 2"),
    ("temperature", "Infinity", "a number, at least 0 and at most 2"),
    ("temperature", False, "a number, at least 0 and at most 2"),
    ("top_p", 0, "a number, more than 0 and at most 1"),
    ("top_p", 1.0001, "a number, more than 0 and at most 1"),
    ("top_k", -2, "a whole number, at least -1 and at most 2147483647"),
    ("top_k", 2**31, "a whole number, at least -1 and at most 2147483647"),
    ("min_p", 1.5, "a number, at least 0 and at most 1"),
    ("seed", 2**63, "a whole number, at least -9223372036854775808 and at most 9223372036854775807 or null"),
    ("stop", 5, "a string or a list of strings or null"),
    ("stop", ["a", 5], "a string or a list of strings or null"),
    ("stop_token_ids", 5, "a list of whole numbers, at least 0 and at most 2147483647 or null"),
    ("stop_token_ids", [-1], "a list of whole numbers, at least 0 and at most 2147483647 or null"),
    ("stop_token_ids", [True], "a list of whole numbers, at least 0 and at most 2147483647 or null"),
    ("bad_words", {"a": 1}, "a string or a list of strings or null"),
    ("include_stop_str_in_output", 1, "true or false"),
    ("ignore_eos", "true", "true or false"),
    ("ignore_eos", None, "true or false"),
    ("max_tokens", 0, COUNT),
    ("max_tokens", "", COUNT),
    ("max_tokens", 2**31, COUNT),
    ("min_tokens", -1, "a whole number, at least 0 and at most 2147483647"),
    ("logprobs", 21, "a whole number, at least -1 and at most 20 or null"),
    ("prompt_logprobs", -2, "a whole number, at least -1 and at most 20 or null"),
    ("detokenize", 0, "true or false"),
    ("skip_special_tokens", "no", "true or false"),
    ("spaces_between_special_tokens", [], "true or false"),
    ("structured_outputs", "not json", "a JSON object, or one written as a string or null"),
    ("structured_outputs", [1], "a JSON object, or one written as a string or null"),
    ("logit_bias", 3, BIASES),
    ("logit_bias", {"the": 1}, BIASES),
    ("logit_bias", {"-1": 1}, BIASES),
    ("logit_bias", {"5": None}, BIASES),
    ("logit_bias", {"5": "inf"}, BIASES),
    ("logit_bias", {"5": 10**400}, BIASES),
    ("allowed_token_ids", ["x"], "a list of whole numbers, at least 0 and at most 2147483647 or null"),
    ("lora_name", 3, "a string or null"),
]


@pytest.mark.parametrize(("name", "value", "takes"), REFUSED)
def test_a_refusal_names_parameter_value_and_range(name: str, value: Any, takes: str) -> None:
    shown = json.dumps(value)
    cut = shown if len(shown) <= 120 else f"{shown[:117]}..."
    assert refusal({name: value}) == f'sampling parameter "{name}" is {cut}: it takes {takes}'


def test_every_rule_is_tried_both_ways() -> None:
    names = set(SAMPLING_RULES)
    assert {name for name, _, _ in ACCEPTED} == names
    assert {name for name, _, _ in REFUSED} == names


def test_the_word_false_switches_nothing_on() -> None:
    assert refusal({"skip_special_tokens": "false"}) == (
        'sampling parameter "skip_special_tokens" is "false": it takes true or false'
    )


@pytest.mark.parametrize("number", ["1" + "0" * 400, "-1" + "0" * 400, "1e400", "-1e400"])
@pytest.mark.parametrize("name", ["max_tokens", "temperature", "seed", "stop_token_ids"])
def test_numbers_beyond_every_type_are_out_of_range(name: str, number: str) -> None:
    value = f"[{number}]" if name == "stop_token_ids" else number
    assert refusal(f'{{"{name}": {value}}}').startswith(f'sampling parameter "{name}" is ')


@pytest.mark.parametrize("word", ["NaN", "Infinity", "-Infinity"])
def test_words_that_are_no_json_are_refused(word: str) -> None:
    assert refusal(f'{{"temperature": {word}}}') == (
        f'"sampling_parameters" is not valid JSON ({word} is no JSON number): "{{\\"temperature\\": {word}}}"'
    )
    assert "it takes a JSON object" in refusal({"structured_outputs": f'{{"json": {word}}}'})


@pytest.mark.parametrize("source", SOURCES)
def test_malformed_json_is_refused_with_its_place(source: str) -> None:
    assert refusal('{"max_tokens": 5', source) == (
        f'"{source}" is not valid JSON (Expecting \',\' delimiter: line 1 column 17 (char 16)): "{{\\"max_tokens\\": 5"'
    )


@pytest.mark.parametrize("text", ["[]", "3", '"n"', "null", "true"])
def test_anything_but_an_object_is_refused(text: str) -> None:
    assert refusal(text) == (f'"sampling_parameters" must be a JSON object such as {{"max_tokens": 64}}, got {text}')


@pytest.mark.parametrize(
    "text", ["[" * 100_000, '{"a":' * 100_000, '{"structured_outputs": ' + "[" * 900 + "]" * 900 + "}"]
)
def test_deep_nesting_is_refused(text: str) -> None:
    assert len(refusal(text)) < 600


def test_half_a_surrogate_pair_is_refused_wherever_it_stands() -> None:
    for text in (
        r'{"stop": "\ud800"}',
        r'{"stop": ["ok", "\udfff"]}',
        r'{"\ud800": 1}',
        r'{"lora_name": "\uD83D"}',
        r'{"structured_outputs": {"choice": ["\ud83d"]}}',
    ):
        assert "half a surrogate pair is no character, send both halves" in refusal(text)
    assert "it takes a JSON object" in refusal({"structured_outputs": r'{"choice": ["\ud83d"]}'})
    assert parse(r'{"stop": "\ud83d\ude00"}') == {"stop": ["😀"]}


def test_an_unknown_parameter_comes_with_the_nearest_known_one() -> None:
    assert refusal({"max_token": 5}) == 'sampling parameter "max_token" is unknown: did you mean "max_tokens"?'
    assert refusal({"zzzz": 5}) == (
        f'sampling parameter "zzzz" is unknown: known ones are {", ".join(sorted(SAMPLING_RULES))}'
    )


def test_error_texts_stay_short() -> None:
    assert len(refusal({"temperature": "x" * 100_000})) < 300
    assert len(refusal({"x" * 100_000: 1})) < 800
    assert len(refusal("x" * 100_000)) < 300


@pytest.mark.parametrize("name", ["id", "user", "session", "binary_data_output", "triton_x", "sequence_id"])
def test_names_of_triton_and_the_router_are_no_sampling_parameters(name: str) -> None:
    assert parse({name: "x", "n": 2}, "request parameters") == {"n": 2}
    assert "is unknown" in refusal({name: "x"}, "sampling_parameters")


@pytest.mark.parametrize("source", SOURCES)
def test_timeout_and_priority_are_left_to_the_stub(source: str) -> None:
    assert parse({"timeout": "soon", "priority": 3, "n": 2}, source) == {"n": 2}


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(min_value=10**300, max_value=10**400)
    | st.floats()
    | st.text(st.characters(), max_size=20)
    | st.sampled_from(["false", "1", "-1", "1e999", "{}", '{"a": NaN}', "[" * 2000]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
names = st.sampled_from(sorted(SAMPLING_RULES)) | st.text(max_size=12)


def assert_read_or_refused(text: str, source: str) -> None:
    try:
        parsed = parse_parameters(text, source, SAMPLING_RULES)
    except RequestError as error:
        assert error.code == "INVALID_ARG"  # noqa: PT017 - both ways are fine, a third is not
        error.as_failure().message.encode()
        return
    assert set(parsed) <= set(SAMPLING_RULES)
    # What was accepted can be sent on: no half characters, no infinite numbers.
    json.dumps(parsed, ensure_ascii=False, allow_nan=False).encode()


@given(st.dictionaries(names, json_values, max_size=4), st.sampled_from(SOURCES), st.booleans())
def test_arbitrary_values_are_read_or_refused(parameters: dict[str, Any], source: str, ascii_only: bool) -> None:
    assert_read_or_refused(json.dumps(parameters, ensure_ascii=ascii_only), source)


@given(st.text() | st.text(alphabet='{}[]":,\\u0d8e+-.NaInfity \n'), st.sampled_from(SOURCES))
def test_arbitrary_text_is_read_or_refused(text: str, source: str) -> None:
    assert_read_or_refused(text, source)


@given(st.floats(allow_nan=False) | st.integers())
def test_what_a_range_says_is_what_it_holds(number: float) -> None:
    rule = Rule("number", low=-1, high=2, above=-0.5)
    assert rule.holds(number) == (-0.5 < number <= 2)
