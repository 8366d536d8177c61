"""Merging of deltas: a stream whose reader is slow gets fewer, larger responses, never reordered or lost text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from .messages import Delta

T = TypeVar("T")


def merge(deltas: Sequence[Delta]) -> Delta:
    """One delta that says what `deltas`, one after the other, say of the same stream.

    Text and token counts add up per sequence; finish reason, cumulative logprob and failure are the latest known; the
    prompt's logprobs come once.
    Raises ValueError when there is none, when they belong to different streams, or when one follows a final one.
    """
    if len(deltas) == 1:
        return deltas[0]
    _check(deltas)
    last = deltas[-1]
    width = max(len(delta.texts) for delta in deltas)
    return Delta(
        key=last.key,
        texts=["".join([delta.texts[i] for delta in deltas if i < len(delta.texts)]) for i in range(width)],
        token_counts=[
            sum([delta.token_counts[i] for delta in deltas if i < len(delta.token_counts)]) for i in range(width)
        ],
        finish_reasons=[_latest([delta.finish_reasons for delta in deltas], i) for i in range(width)],
        num_input_tokens=max(delta.num_input_tokens for delta in deltas),
        final=last.final,
        cumulative_logprobs=_latest_logprobs(deltas, width),
        logprobs=_joined_logprobs(deltas, width),
        failure=last.failure,
        prompt_logprobs=next((delta.prompt_logprobs for delta in deltas if delta.prompt_logprobs is not None), None),
    )


def _check(deltas: Sequence[Delta]) -> None:
    if not deltas:
        raise ValueError("no deltas to merge")
    key = deltas[0].key
    for delta in deltas:
        if delta.key != key:
            raise ValueError(f'deltas of stream "{key}" and stream "{delta.key}" cannot be merged')
    for delta in deltas[:-1]:
        if delta.final:
            raise ValueError(f'stream "{key}" has ended: nothing can follow its final delta')


def _latest(columns: Sequence[Sequence[T | None]], index: int) -> T | None:
    for values in reversed(columns):
        if index < len(values) and values[index] is not None:
            return values[index]
    return None


def _latest_logprobs(deltas: Sequence[Delta], width: int) -> list[float | None] | None:
    columns = [delta.cumulative_logprobs for delta in deltas if delta.cumulative_logprobs is not None]
    return [_latest(columns, i) for i in range(width)] if columns else None


def _joined_logprobs(deltas: Sequence[Delta], width: int) -> list[list[str]] | None:
    columns = [delta.logprobs for delta in deltas if delta.logprobs is not None]
    if not columns:
        return None
    return [[token for column in columns if i < len(column) for token in column[i]] for i in range(width)]
