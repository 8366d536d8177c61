"""Sampling parameters: parsed and checked once, where a request enters the engine process.

Every refusal names the parameter, the value and what is allowed. Numbers written as strings are read as numbers, since
clients of NVIDIA's vLLM backend send them so; a string is never read as a switch, because "false" would then be true.
"""

from __future__ import annotations

import difflib
import json
import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from .errors import RequestError, invalid
from .json_text import read_json

JsonType = Literal["integer", "number", "boolean", "string", "strings", "integers", "object", "biases", "any"]

# Read by the stub, wherever they stand.
_SCHEDULING: Final = frozenset({"timeout", "priority"})
# Request parameters that are not the engine's: Triton's own ("id": its generate endpoints pass the request id on among
# them), those the release router reads, and the headers that a server was told to forward.
_NOT_SAMPLING: Final = frozenset({"id", "user", "session", "binary_data_output"})
_NOT_SAMPLING_PREFIXES: Final = ("triton_", "sequence_", "x-")

# Engines keep counts and token ids in 32 bits.
_INT32_MAX: Final = 2**31 - 1


@dataclass(frozen=True)
class Rule:
    """What one parameter accepts: JSON type, bounds (inclusive unless `above`), and whether null is a value."""

    type: JsonType
    low: float | None = None
    high: float | None = None
    above: float | None = None
    nullable: bool = False

    def range(self) -> str:
        bounds = []
        if self.above is not None:
            bounds.append(f"more than {_plain(self.above)}")
        if self.low is not None:
            bounds.append(f"at least {_plain(self.low)}")
        if self.high is not None:
            bounds.append(f"at most {_plain(self.high)}")
        limits = f", {' and '.join(bounds)}" if bounds else ""
        return _WORDS[self.type] + limits + (" or null" if self.nullable else "")

    def holds(self, number: float) -> bool:
        return (
            # Only a float can be infinite, and an int may be too large to become one.
            (isinstance(number, int) or math.isfinite(number))
            and (self.above is None or number > self.above)
            and (self.low is None or number >= self.low)
            and (self.high is None or number <= self.high)
        )


_WORDS: Final[Mapping[JsonType, str]] = {
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "string": "a string",
    "strings": "a string or a list of strings",
    "integers": "a list of whole numbers",
    "object": "a JSON object, or one written as a string",
    "biases": "a JSON object of token ids and numbers, or one written as a string",
    "any": "a JSON value",
}

# Ranges as vLLM documents them for SamplingParams.
SAMPLING_RULES: Final[Mapping[str, Rule]] = {
    "n": Rule("integer", low=1, high=128),
    "presence_penalty": Rule("number", low=-2, high=2),
    "frequency_penalty": Rule("number", low=-2, high=2),
    "repetition_penalty": Rule("number", above=0),
    "temperature": Rule("number", low=0, high=2),
    "top_p": Rule("number", above=0, high=1),
    "top_k": Rule("integer", low=-1, high=_INT32_MAX),
    "min_p": Rule("number", low=0, high=1),
    "seed": Rule("integer", low=-(2**63), high=2**63 - 1, nullable=True),
    "stop": Rule("strings", nullable=True),
    "stop_token_ids": Rule("integers", low=0, high=_INT32_MAX, nullable=True),
    "bad_words": Rule("strings", nullable=True),
    "include_stop_str_in_output": Rule("boolean"),
    "ignore_eos": Rule("boolean"),
    "max_tokens": Rule("integer", low=1, high=_INT32_MAX),
    "min_tokens": Rule("integer", low=0, high=_INT32_MAX),
    "logprobs": Rule("integer", low=-1, high=20, nullable=True),
    "prompt_logprobs": Rule("integer", low=-1, high=20, nullable=True),
    "detokenize": Rule("boolean"),
    "skip_special_tokens": Rule("boolean"),
    "spaces_between_special_tokens": Rule("boolean"),
    "structured_outputs": Rule("object", nullable=True),
    "logit_bias": Rule("biases", nullable=True),
    "allowed_token_ids": Rule("integers", low=0, high=_INT32_MAX, nullable=True),
    "lora_name": Rule("string", nullable=True),
}


def limit_max_tokens(rules: Mapping[str, Rule], limit: int) -> Mapping[str, Rule]:
    """`rules` with `max_tokens` at most `limit`; 0 is no limit."""
    return {**rules, "max_tokens": replace(rules["max_tokens"], high=limit)} if limit else rules


def parse_parameters(text: str, source: str, rules: Mapping[str, Rule]) -> dict[str, Any]:
    """The parameters in the JSON object `text`, checked against `rules`.

    `source` is where the text came from ("sampling_parameters" or "request parameters"), for error texts; from request
    parameters, the names that belong to Triton or to the release router are left out.
    Raises RequestError (INVALID_ARG) naming the parameter, the value and the allowed range.
    """
    parsed = {name: value for name, value in _object(text, source).items() if name not in _SCHEDULING}
    if source == "request parameters":
        parsed = {name: value for name, value in parsed.items() if not _is_foreign(name)}
    return {name: check(name, value, _rule(name, rules)) for name, value in parsed.items()}


def check(name: str, value: object, rule: Rule) -> object:
    """`value` in the type that `rule` names. Raises RequestError (INVALID_ARG)."""
    if value is None and rule.nullable:
        return None
    read = _READERS[rule.type](value)
    if read is _WRONG or not _in_range(read, rule):
        raise invalid(f'sampling parameter "{name}" is {_shown(value)}: it takes {rule.range()}')
    return read


def _object(text: str, source: str) -> dict[str, Any]:
    try:
        parsed = read_json(text)
    except (ValueError, RecursionError) as error:
        raise invalid(f'"{source}" is not valid JSON ({error}): {_shown(text)}') from error
    if not isinstance(parsed, dict):
        raise invalid(f'"{source}" must be a JSON object such as {{"max_tokens": 64}}, got {_shown(parsed)}')
    return parsed


def _is_foreign(name: str) -> bool:
    return name in _NOT_SAMPLING or name.lower().startswith(_NOT_SAMPLING_PREFIXES)


def _rule(name: str, rules: Mapping[str, Rule]) -> Rule:
    rule = rules.get(name)
    if rule is None:
        raise _unknown(name, rules)
    return rule


def _unknown(name: str, names: Collection[str]) -> RequestError:
    nearest = difflib.get_close_matches(name, names, n=1)
    hint = f'did you mean "{nearest[0]}"?' if nearest else f"known ones are {', '.join(sorted(names))}"
    return invalid(f"sampling parameter {_shown(name)} is unknown: {hint}")


_WRONG: Final = object()


def _integer(value: object) -> object:
    if isinstance(value, bool):
        return _WRONG
    if isinstance(value, int):
        return value
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, str):
        try:
            return int(value)
        except ValueError:
            return _WRONG
    return _WRONG


def _number(value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return _WRONG
    try:
        return float(value)
    except (ValueError, OverflowError):
        return _WRONG


def _strings(value: object) -> object:
    if isinstance(value, str):
        return [value]
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return value
    return _WRONG


def _integers(value: object) -> object:
    if isinstance(value, list):
        items = [_integer(item) for item in value]
        if all(item is not _WRONG for item in items):
            return items
    return _WRONG


def _json_object(value: object) -> object:
    if isinstance(value, str):
        try:
            value = read_json(value)
        except (ValueError, RecursionError):
            return _WRONG
    return value if isinstance(value, dict) else _WRONG


def _biases(value: object) -> object:
    read = _json_object(value)
    if not isinstance(read, dict):
        return _WRONG
    biases = {_integer(token): _number(bias) for token, bias in read.items()}
    for token, bias in biases.items():
        if not isinstance(token, int) or not 0 <= token <= _INT32_MAX:
            return _WRONG
        if not isinstance(bias, float) or not math.isfinite(bias):
            return _WRONG
    return biases


def _instance(kind: type) -> Callable[[object], object]:
    return lambda value: value if isinstance(value, kind) else _WRONG


_READERS: Final[Mapping[JsonType, Callable[[object], object]]] = {
    "integer": _integer,
    "number": _number,
    "boolean": _instance(bool),
    "string": _instance(str),
    "strings": _strings,
    "integers": _integers,
    "object": _json_object,
    "biases": _biases,
    "any": lambda value: value,
}


def _in_range(value: object, rule: Rule) -> bool:
    if isinstance(value, bool):
        return True
    if isinstance(value, int | float):
        return rule.holds(value)
    if isinstance(value, list) and rule.type == "integers":
        return all(rule.holds(item) for item in value)
    return True


def _plain(number: float) -> str:
    return str(int(number)) if float(number).is_integer() else str(number)


def _shown(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 120 else text[:117] + "..."
