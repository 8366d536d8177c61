"""Texts of a given number of tokens."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Final

CountTokens = Callable[[str], int]

_ASCII_CHARACTERS_A_TOKEN: Final = 4.0
# More pieces to a token than any tokenizer merges: one that counts so few counts nothing.
_PIECES_A_TOKEN: Final = 64
# Words given up, and fillers tried, before a length is called impossible.
_WORDS_GIVEN_UP: Final = 8
_FILLERS: Final = 64


class NoSuchLengthError(ValueError):
    """The tokenizer cuts no text into so many tokens."""


def estimate_tokens(text: str) -> int:
    """About as many tokens as tokenizers make of `text`: 4 ASCII characters, or 1 other character, a token."""
    ascii_characters = len(text.encode("ascii", "ignore"))
    return math.ceil(ascii_characters / _ASCII_CHARACTERS_A_TOKEN) + len(text) - ascii_characters


def fit(pieces: Iterator[str], tokens: int, count: CountTokens, fillers: Sequence[str]) -> str:
    """The beginning of the endless text `pieces` that `count` says has exactly `tokens` tokens.

    Whole pieces are taken, as many as there is room for; the few tokens that then lack are made up by fillers. `count`
    is asked about half a dozen times, since it may be a server's.

    Raises:
        NoSuchLengthError: the count does not grow with the text, or neither the longest beginning nor one a few pieces
            shorter can be filled up to the length.
    """
    taken, have = _longest_beginning(pieces, tokens, count)
    nearest = have
    for _ in range(_WORDS_GIVEN_UP):
        filled = _fill("".join(taken), have, tokens, count, fillers)
        if filled is not None:
            return filled
        if not taken:
            break
        taken.pop()
        have = count("".join(taken)) if taken else 0
    raise NoSuchLengthError(f"no text of exactly {tokens} tokens could be made: the nearest has {nearest}")


def _longest_beginning(pieces: Iterator[str], tokens: int, count: CountTokens) -> tuple[list[str], int]:
    """As many pieces as have at most `tokens` tokens, and how many they have."""
    taken: list[str] = []
    fewer, have = 0, 0  # an empty text is not counted: servers refuse it
    while len(taken) <= _PIECES_A_TOKEN * tokens:
        taken.extend(islice(pieces, _pieces_for(tokens - have, len(taken), have)))
        more, over = len(taken), count("".join(taken))
        if over > tokens:
            break
        fewer, have = more, over
        if have == tokens:
            return taken, have
    else:
        raise NoSuchLengthError(f"a text of {len(taken)} words or characters has only {have} tokens by its count")
    # `fewer` pieces fit, `more` do not. Tokens grow almost evenly with pieces: a straight line soon finds the border.
    while more - fewer > 1 and have < tokens:
        guess = fewer + round((more - fewer) * (tokens - have) / (over - have))
        middle = min(max(guess, fewer + 1), more - 1)
        counted = count("".join(taken[:middle]))
        if counted > tokens:
            more, over = middle, counted
        else:
            fewer, have = middle, counted
    return taken[:fewer], have


def _pieces_for(missing: int, taken: int, have: int) -> int:
    """How many further pieces bring about `missing` tokens, as far as one can tell from those taken; at least 1."""
    return max(1, missing if not taken or not have else math.ceil(missing * taken / have))


def _fill(text: str, have: int, tokens: int, count: CountTokens, fillers: Sequence[str]) -> str | None:
    """`text` with fillers behind it, one by one; None when none of them leads to `tokens`."""
    for _ in range(_FILLERS):
        if have == tokens:
            return text
        longer = None
        for filler in fillers:
            counted = count(text + filler)
            if have < counted <= tokens:
                text, have = text + filler, counted
                break
            if counted == have and longer is None:
                longer = text + filler
        else:
            if longer is None:
                return None
            text = longer
    return None
