"""Merging of deltas: a stream whose reader is slow gets fewer, larger responses, never reordered or lost text."""

from __future__ import annotations

from typing import TypeVar

from .messages import Delta

T = TypeVar("T")


def merge(earlier: Delta, later: Delta) -> Delta:
    """One delta that says what `earlier` followed by `later` say, for the same stream.

    Text and token counts add up per sequence; finish reason, cumulative logprob and failure are the latest known.
    Raises ValueError when the two belong to different streams or `earlier` already ended its stream.
    """
    if earlier.key != later.key:
        raise ValueError(f'deltas of stream "{earlier.key}" and stream "{later.key}" cannot be merged')
    if earlier.final:
        raise ValueError(f'stream "{earlier.key}" has ended: nothing can follow its final delta')
    width = max(len(earlier.texts), len(later.texts))
    return Delta(
        key=later.key,
        texts=[_at(earlier.texts, i, "") + _at(later.texts, i, "") for i in range(width)],
        token_counts=[_at(earlier.token_counts, i, 0) + _at(later.token_counts, i, 0) for i in range(width)],
        finish_reasons=[
            _at(later.finish_reasons, i, None) or _at(earlier.finish_reasons, i, None) for i in range(width)
        ],
        num_input_tokens=later.num_input_tokens or earlier.num_input_tokens,
        final=later.final,
        cumulative_logprobs=_latest_logprobs(earlier, later, width),
        logprobs=_joined_logprobs(earlier, later, width),
        failure=later.failure,
    )


def _at(values: list[T], index: int, default: T) -> T:
    return values[index] if index < len(values) else default


def _latest_logprobs(earlier: Delta, later: Delta, width: int) -> list[float | None] | None:
    if earlier.cumulative_logprobs is None and later.cumulative_logprobs is None:
        return None
    old, new = earlier.cumulative_logprobs or [], later.cumulative_logprobs or []
    latest = [_at(new, i, None) for i in range(width)]
    return [_at(old, i, None) if value is None else value for i, value in enumerate(latest)]


def _joined_logprobs(earlier: Delta, later: Delta, width: int) -> list[list[str]] | None:
    if earlier.logprobs is None and later.logprobs is None:
        return None
    old, new = earlier.logprobs or [], later.logprobs or []
    return [_at(old, i, []) + _at(new, i, []) for i in range(width)]
