"""What a prompt's tokens must be, whichever way they came."""

from __future__ import annotations

from collections.abc import Sequence

from .errors import invalid


def check_tokens(ids: Sequence[int], name: str, max_model_len: int, vocab_size: int | None) -> None:
    """Check the prompt that input `name` gave; without `vocab_size` its tokens are known to be of the vocabulary.

    Raises RequestError (INVALID_ARG): empty, too long, or not of the vocabulary.
    """
    if not ids:
        raise invalid(f'"{name}" is empty: a prompt needs at least one token')
    if len(ids) >= max_model_len:
        raise invalid(
            f'"{name}" has {len(ids)} tokens: the context takes {max_model_len}, of which at least one is '
            f"for the answer, so at most {max_model_len - 1}"
        )
    if vocab_size is not None and not 0 <= min(ids) <= max(ids) < vocab_size:
        wrong = next(token for token in ids if not 0 <= token < vocab_size)
        raise invalid(f'"{name}" has the token {wrong}: the vocabulary is 0 to {vocab_size - 1}')
