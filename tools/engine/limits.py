"""Per-model limits, from config.pbtxt's parameters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from .errors import LaunchError


@dataclass(frozen=True)
class Limits:
    """What a model version accepts. Zero means no limit, except for `max_waiting_requests`, where it means no queue.

    `max_waiting_requests`: requests that may wait for a place in the running batch. `max_prompt_bytes`: UTF-8 bytes
    of a prompt. `max_tokens_limit`: largest `max_tokens` of a request. `default_deadline_ms`: for requests without a
    `timeout` of their own, from arrival to last token.
    """

    max_waiting_requests: int = 1024
    max_prompt_bytes: int = 1 << 20
    max_tokens_limit: int = 0
    default_deadline_ms: int = 0

    @classmethod
    def from_parameters(cls, parameters: Mapping[str, str]) -> Limits:
        """Limits named in `parameters`, defaults elsewhere. Raises LaunchError for a value that is no whole number."""
        defaults = cls()
        return cls(
            max_waiting_requests=_number(parameters, "MAX_WAITING_REQUESTS", defaults.max_waiting_requests),
            max_prompt_bytes=_number(parameters, "MAX_PROMPT_BYTES", defaults.max_prompt_bytes),
            max_tokens_limit=_number(parameters, "MAX_TOKENS_LIMIT", defaults.max_tokens_limit),
            default_deadline_ms=_number(parameters, "DEFAULT_DEADLINE_MS", defaults.default_deadline_ms),
        )


def is_true(parameters: Mapping[str, str], name: str) -> bool:
    """Whether the parameter is "true" in any case; absent means false. Raises LaunchError for other words."""
    text = parameters.get(name, "false").strip().lower()
    if text not in ("true", "false"):
        raise LaunchError(f'parameter "{name}" in config.pbtxt is "{parameters[name]}": write "true" or "false"')
    return text == "true"


def _number(parameters: Mapping[str, str], name: str, default: int) -> int:
    text = parameters.get(name)
    if text is None:
        return default
    if not text.strip().isdecimal():
        raise LaunchError(f'parameter "{name}" in config.pbtxt is "{text}": write a whole number, 0 or more')
    return int(text)
