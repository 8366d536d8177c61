"""Texts have exactly the tokens asked for, whichever the tokenizer."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadtest.workloads.corpus import corpus
from loadtest.workloads.definition import Language
from loadtest.workloads.fitting import NoSuchLengthError, estimate_tokens, fit
from tests.loadtest.workloads import tokenizers


@given(
    st.sampled_from(["en", "zh"]),
    st.integers(12, 600),
    st.sampled_from((*tokenizers.ALL, estimate_tokens)),
    st.integers(0, 2**32),
)
def test_the_length_is_exact(language: Language, tokens: int, count: Callable[[str], int], seed: int) -> None:
    source = corpus(language)
    assert count(fit(source.pieces(Random(seed)), tokens, count, source.fillers)) == tokens


@given(st.sampled_from(["en", "zh"]), st.integers(2, 11), st.integers(0, 2**32))
def test_a_length_of_a_few_tokens_is_exact_too(language: Language, tokens: int, seed: int) -> None:
    source = corpus(language)
    count = tokenizers.utf8_bytes
    text = fit(source.pieces(Random(seed)), tokens, count, source.fillers)
    assert count(text) == tokens
    assert text[:2].isdigit()


@given(st.integers(20, 400), st.sampled_from(tokenizers.ALL), st.integers(0, 2**32))
def test_a_chinese_text_is_cut_between_characters(tokens: int, count: Callable[[str], int], seed: int) -> None:
    source = corpus("zh")
    text = fit(source.pieces(Random(seed)), tokens, count, source.fillers)
    known = set("".join(source.sentences)) | set("".join(source.fillers)) | set("0123456789：")
    whole = "".join(piece for piece, _ in zip(source.pieces(Random(seed)), range(2000), strict=False))
    assert text.encode().decode() == text
    shared = next((at for at, (ours, theirs) in enumerate(zip(text, whole, strict=False)) if ours != theirs), len(text))
    # What is not the beginning of the text itself is filling, and short.
    assert len(text) - shared <= 64
    assert set(text[shared:]) <= known


def test_a_count_that_costs_is_asked_about_half_a_dozen_times() -> None:
    asked = []

    def count(text: str) -> int:
        asked.append(text)
        return tokenizers.pieces_of_words(text)

    source = corpus("en")
    for seed in range(100):
        fit(source.pieces(Random(seed)), 200, count, source.fillers)
    assert len(asked) / 100 < 8


@given(st.integers(1, 60), st.integers(0, 2**32))
def test_an_empty_text_is_never_counted(tokens: int, seed: int) -> None:
    def count(text: str) -> int:
        assert text
        return tokenizers.utf8_bytes(text)

    source = corpus("zh")
    assert count(fit(source.pieces(Random(seed)), tokens, count, source.fillers)) == tokens


def test_a_count_that_does_not_grow_is_said() -> None:
    source = corpus("en")
    with pytest.raises(NoSuchLengthError, match=r"a text of \d+ words or characters has only 1 tokens by its count"):
        fit(source.pieces(Random(0)), 50, lambda text: 1, source.fillers)


def test_a_length_between_two_that_the_tokenizer_makes_is_said() -> None:
    source = corpus("en")
    with pytest.raises(NoSuchLengthError) as caught:
        fit(source.pieces(Random(0)), 51, lambda text: len(text) // 4 * 2, source.fillers)
    assert str(caught.value) == "no text of exactly 51 tokens could be made: the nearest has 50"


@pytest.mark.parametrize(("text", "tokens"), [("", 0), ("word", 1), ("words", 2), ("你好", 2), ("你好 you", 3)])
def test_an_estimate(text: str, tokens: int) -> None:
    assert estimate_tokens(text) == tokens
