"""Sampling parameters of the baseline: vLLM's names, defaults and meanings, fewer of them. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from ..errors import RequestError, invalid
from ..parameters import SAMPLING_RULES, limit_max_tokens, parse_parameters

SUPPORTED: Final = frozenset(
    {
        "max_tokens", "min_tokens", "temperature", "top_p", "top_k", "min_p", "repetition_penalty", "seed", "stop",
        "stop_token_ids", "ignore_eos",
    }
)  # fmt: skip

# A parameter that asks for nothing is no reason to refuse a request: the same body then works on every rung.
_NEUTRAL: Final[Mapping[str, object]] = MappingProxyType(
    {
        "n": 1,
        "presence_penalty": 0.0,
        "frequency_penalty": 0.0,
        "bad_words": None,
        "include_stop_str_in_output": False,
        "logprobs": None,
        "prompt_logprobs": None,
        "detokenize": True,
        "skip_special_tokens": True,
        "spaces_between_special_tokens": True,
        "structured_outputs": None,
        "logit_bias": None,
        "allowed_token_ids": None,
        "lora_name": None,
    }
)

_DEFAULT_MAX_TOKENS: Final = 16
# Below this vLLM takes a temperature for zero.
_GREEDY_BELOW: Final = 1e-5
# And from there up to this one for this one, against overflow.
_LOWEST_TEMPERATURE: Final = 1e-2


@dataclass(frozen=True)
class Sampling:
    """How one request wants its tokens picked and its text ended.

    `temperature` 0 is greedy. `top_k` 0 is off. `stop_token_ids` do not hold the model's own EOS.
    """

    max_tokens: int = _DEFAULT_MAX_TOKENS
    min_tokens: int = 0
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    seed: int | None = None
    stop: tuple[str, ...] = ()
    stop_token_ids: frozenset[int] = frozenset()
    ignore_eos: bool = False

    @property
    def greedy(self) -> bool:
        return self.temperature == 0


def parse_sampling(text: str, source: str, model: str, max_tokens_limit: int) -> Sampling:
    """The parameters in the JSON object `text`; `source` and `model` are named in error texts.

    `max_tokens_limit`: largest `max_tokens`, 0 for no limit.

    Raises RequestError: INVALID_ARG for a wrong value, UNSUPPORTED for what only a vLLM rung can do.
    """
    given = parse_parameters(text, source, limit_max_tokens(SAMPLING_RULES, max_tokens_limit))
    for name, value in given.items():
        if name not in SUPPORTED and value != _NEUTRAL[name]:
            raise RequestError(
                "UNSUPPORTED", f'sampling parameter "{name}" is not supported by "{model}": use "llm_bf16"'
            )
    sampling = _sampling({name: value for name, value in given.items() if name in SUPPORTED}, max_tokens_limit)
    if sampling.min_tokens > sampling.max_tokens:
        raise invalid(
            f'sampling parameter "min_tokens" is {sampling.min_tokens}: '
            f'it takes at most "max_tokens", which is {sampling.max_tokens}'
        )
    if "" in sampling.stop:
        raise invalid('sampling parameter "stop" holds an empty string: every text would end before it began')
    return sampling


def _sampling(given: Mapping[str, Any], max_tokens_limit: int) -> Sampling:
    values = dict(given)
    values.setdefault("max_tokens", min(_DEFAULT_MAX_TOKENS, max_tokens_limit or _DEFAULT_MAX_TOKENS))
    values["stop"] = tuple(values.get("stop") or ())
    values["stop_token_ids"] = frozenset(values.get("stop_token_ids") or ())
    values["top_k"] = max(0, values.get("top_k", 0))
    if values.get("seed") == -1:
        values["seed"] = None
    if "temperature" in values:
        temperature = values["temperature"]
        values["temperature"] = 0.0 if temperature < _GREEDY_BELOW else max(temperature, _LOWEST_TEMPERATURE)
    return Sampling(**values)
