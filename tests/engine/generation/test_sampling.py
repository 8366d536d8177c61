from __future__ import annotations

import json
from typing import Any

import pytest

from tools.engine.errors import RequestError
from tools.engine.generation.sampling import SUPPORTED, Sampling, parse_sampling
from tools.engine.parameters import SAMPLING_RULES


def parse(limit: int = 0, **parameters: Any) -> Sampling:
    return parse_sampling(json.dumps(parameters), "sampling_parameters", "llm_baseline", limit)


def refusal(limit: int = 0, **parameters: Any) -> RequestError:
    with pytest.raises(RequestError) as refused:
        parse(limit, **parameters)
    return refused.value


def test_defaults_are_vllms() -> None:
    assert parse() == Sampling(
        max_tokens=16, min_tokens=0, temperature=1.0, top_p=1.0, top_k=0, min_p=0.0, repetition_penalty=1.0, seed=None,
        stop=(), stop_token_ids=frozenset(), ignore_eos=False,
    )  # fmt: skip


def test_everything_supported_is_read() -> None:
    read = parse(
        max_tokens=5, min_tokens=2, temperature=0.5, top_p=0.9, top_k=40, min_p=0.05, repetition_penalty=1.1, seed=7,
        stop=["a", "b"], stop_token_ids=[3], ignore_eos=True,
    )  # fmt: skip
    assert read == Sampling(5, 2, 0.5, 0.9, 40, 0.05, 1.1, 7, ("a", "b"), frozenset({3}), True)
    assert set(Sampling.__dataclass_fields__) == SUPPORTED


@pytest.mark.parametrize(
    ("given", "read"),
    [
        ({"temperature": 0}, {"temperature": 0.0}),
        ({"temperature": 1e-6}, {"temperature": 0.0}),
        ({"temperature": 0.001}, {"temperature": 0.01}),
        ({"top_k": -1}, {"top_k": 0}),
        ({"seed": -1}, {"seed": None}),
        ({"stop": "x"}, {"stop": ("x",)}),
        ({"stop": None}, {"stop": ()}),
        ({"stop_token_ids": None}, {"stop_token_ids": frozenset()}),
    ],
)
def test_values_mean_what_vllm_takes_them_for(given: dict[str, Any], read: dict[str, Any]) -> None:
    assert parse(**given) == Sampling(**read)


UNSUPPORTED = {
    "n": 2, "presence_penalty": 0.5, "frequency_penalty": -0.5, "bad_words": ["x"], "include_stop_str_in_output": True,
    "logprobs": 1, "prompt_logprobs": 0, "detokenize": False, "skip_special_tokens": False,
    "spaces_between_special_tokens": False, "structured_outputs": {"json": {}}, "logit_bias": {"1": 2},
    "allowed_token_ids": [1], "lora_name": "doll",
}  # fmt: skip


def test_every_parameter_of_vllm_is_either_supported_or_refused() -> None:
    assert SUPPORTED | set(UNSUPPORTED) == set(SAMPLING_RULES)


@pytest.mark.parametrize("name", UNSUPPORTED)
def test_what_only_vllm_can_do_is_refused_by_name(name: str) -> None:
    error = refusal(**{name: UNSUPPORTED[name]})
    assert str(error) == f'sampling parameter "{name}" is not supported by "llm_baseline": use "llm_bf16"'
    assert error.code == "UNSUPPORTED"


def test_a_parameter_that_asks_for_nothing_is_taken() -> None:
    assert parse(n=1, presence_penalty=0, frequency_penalty=0.0, logprobs=None, logit_bias=None) == Sampling()


@pytest.mark.parametrize(
    ("limit", "parameters", "says"),
    [
        (
            2048,
            {"max_tokens": 9000},
            'sampling parameter "max_tokens" is 9000: it takes a whole number, at least 1 and at most 2048',
        ),
        (
            0,
            {"min_tokens": 20},
            'sampling parameter "min_tokens" is 20: it takes at most "max_tokens", which is 16',
        ),
        (
            0,
            {"stop": ["a", ""]},
            'sampling parameter "stop" holds an empty string: every text would end before it began',
        ),
        (0, {"max_token": 3}, 'sampling parameter "max_token" is unknown: did you mean "max_tokens"?'),
        (0, {"top_p": 0}, 'sampling parameter "top_p" is 0: it takes a number, more than 0 and at most 1'),
        (0, {"ignore_eos": "false"}, 'sampling parameter "ignore_eos" is "false": it takes true or false'),
    ],
)
def test_wrong_values_are_refused_by_name(limit: int, parameters: dict[str, Any], says: str) -> None:
    error = refusal(limit, **parameters)
    assert str(error) == says
    assert error.code == "INVALID_ARG"


def test_a_limit_that_is_kept_is_no_reason_to_refuse() -> None:
    assert parse(16).max_tokens == 16
    assert parse(32, max_tokens=32).max_tokens == 32


def test_the_default_keeps_to_a_smaller_limit() -> None:
    assert parse(8).max_tokens == 8
