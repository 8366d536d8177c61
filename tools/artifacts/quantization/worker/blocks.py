"""Cutting texts into blocks of equal length, so that a quantiser finds nothing to drop."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, zip_longest
from typing import Any

from tools.artifacts.quantization.texts import Text


@dataclass(frozen=True)
class Blocks:
    """Token ids, each block of the same length; `texts_cut` counts texts not wholly in them."""

    blocks: tuple[tuple[int, ...], ...]
    texts_cut: int
    tokens_left_out: int

    @property
    def tokens(self) -> int:
        return sum(map(len, self.blocks))


def encode(tokenizer: Any, texts: Sequence[Text]) -> list[list[int]]:
    """Token ids of every text; a conversation gets the tokenizer's chat template, or stands as it is without one."""
    return [tokenizer.encode(_plain(tokenizer, text), add_special_tokens=text.messages is None) for text in texts]


def cut(encoded: Sequence[Sequence[int]], length: int, limit: int) -> Blocks:
    """Blocks of `length` tokens, `limit` tokens in all at most. There must be a token.

    Texts are cut into pieces of `length` and taken by turns, the first piece of each before the second of any, so that
    a long text does not crowd out the others. What is taken is joined, and cut where blocks end.
    """
    owned = [[(number, id_) for id_ in text] for number, text in enumerate(encoded)]
    pieces = [[text[start : start + length] for start in range(0, len(text), length)] for text in owned]
    joined = list(chain.from_iterable(piece for turn in zip_longest(*pieces, fillvalue=[]) for piece in turn))
    length = min(length, limit, len(joined))
    taken = joined[: min(limit, len(joined)) // length * length]
    ids = [id_ for _, id_ in taken]
    used = Counter(number for number, _ in taken)
    return Blocks(
        blocks=tuple(tuple(ids[start : start + length]) for start in range(0, len(ids), length)),
        texts_cut=sum(used[number] < len(text) for number, text in enumerate(encoded)),
        tokens_left_out=len(joined) - len(taken),
    )


def _plain(tokenizer: Any, text: Text) -> str:
    if text.messages is None:
        return text.text or ""
    if not tokenizer.chat_template:
        return "\n\n".join(message.content for message in text.messages)
    conversation = [message.model_dump() for message in text.messages]
    rendered: str = tokenizer.apply_chat_template(conversation, tokenize=False)
    return rendered
