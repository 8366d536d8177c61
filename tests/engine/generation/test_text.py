from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer

from tools.engine.generation.text import Detokenizer, StopText

TEXTS = (
    "Paris is the capital.",
    "你好，世界！",
    "a🙂b👩‍🚀🚀 c",
    "e\u0301a\u0308 cafe\u0301",
    "tab\tnew\nline  two spaces",
)


def pieces(backend: Any, prompt: str, text: str) -> list[str]:
    """`text` as the detokenizer gives it, token by token, after `prompt`."""
    whole = backend.encode(prompt + text, add_special_tokens=False).ids
    # Where a token ends that ends the prompt, so that what follows is exactly `text`.
    split = next(i for i in range(len(whole) + 1) if backend.decode(whole[:i]) == prompt)
    detokenizer = Detokenizer(backend, whole[:split])
    return [detokenizer.step(token) for token in whole[split:]]


@pytest.fixture(params=["chatml_folder", "llama2_folder"])
def backend(request: pytest.FixtureRequest) -> Any:
    folder: Path = request.getfixturevalue(request.param)
    return Tokenizer.from_file(str(folder / "tokenizer.json"))


@pytest.mark.parametrize("text", TEXTS)
def test_no_piece_holds_half_a_character_and_all_together_are_the_text(backend: Any, text: str) -> None:
    got = pieces(backend, "x", "Q" + text)
    assert "".join(got) == "Q" + text
    assert not any("\ufffd" in piece for piece in got)


def test_a_character_of_several_tokens_appears_with_its_last(backend: Any) -> None:
    got = pieces(backend, "x", "🙂")
    assert len(got) >= 3
    assert got == [""] * (len(got) - 1) + ["🙂"]


def test_the_space_before_the_first_word_depends_on_the_prompt(llama2_folder: Path) -> None:
    backend = Tokenizer.from_file(str(llama2_folder / "tokenizer.json"))
    quick = backend.token_to_id("▁")
    assert Detokenizer(backend, []).step(quick) == ""
    assert Detokenizer(backend, [backend.token_to_id("x")]).step(quick) == " "


def test_special_tokens_give_no_text(backend: Any) -> None:
    special = next(i for i, token in backend.get_added_tokens_decoder().items() if token.special)
    x = backend.token_to_id("x")
    detokenizer = Detokenizer(backend, [x])
    assert [detokenizer.step(token) for token in (special, x, special)] == ["", "x", ""]


def test_bytes_that_never_become_a_character_are_not_shown(chatml_folder: Path) -> None:
    backend = Tokenizer.from_file(str(chatml_folder / "tokenizer.json"))
    half = backend.encode("🙂", add_special_tokens=False).ids[:2]
    detokenizer = Detokenizer(backend, backend.encode("x").ids)
    assert [detokenizer.step(token) for token in half] == ["", ""]


def run(pieces_in: list[str], stops: list[str]) -> tuple[list[str], bool]:
    """What StopText shows for each piece, up to where it stops, and whether it did."""
    text = StopText(stops)
    shown = []
    for piece in pieces_in:
        if text.add(piece, may_stop=True):
            shown.append(text.take(final=True))
            return shown, True
        shown.append(text.take(final=False))
    shown.append(text.take(final=True))
    return shown, False


def test_without_stops_every_piece_is_shown_at_once() -> None:
    assert run(["a", "", "bc"], []) == (["a", "", "bc", ""], False)


def test_the_text_ends_before_the_stop_string_even_if_it_comes_in_parts() -> None:
    assert run(["one E", "N", "D two"], ["END"]) == (["one", " ", ""], True)


def test_what_looked_like_a_stop_string_is_shown_when_it_is_none() -> None:
    shown, stopped = run(["a EN", "X b"], ["END"])
    assert "".join(shown) == "a ENX b"
    assert not stopped
    assert shown[0] == "a "


def test_of_two_stop_strings_the_one_complete_first_counts() -> None:
    assert "".join(run(["abcdef"], ["cdef", "bc"])[0]) == "a"


def test_a_stop_string_is_not_looked_for_before_it_may_be() -> None:
    text = StopText(["b"])
    assert not text.add("abc", may_stop=False)
    assert not text.add("d", may_stop=True)
    assert text.take(final=True) == "abcd"
    assert text.add("b", may_stop=True)


@given(
    st.lists(st.text("ab€", max_size=3), max_size=12),
    st.lists(st.text("ab€", min_size=1, max_size=3), min_size=1, max_size=3),
)
def test_what_is_shown_is_the_text_up_to_the_stop_string_complete_first(parts: list[str], stops: list[str]) -> None:
    shown, stopped = run(parts, stops)
    whole = ""
    for part in parts:
        whole += part
        ends = [(whole.find(stop) + len(stop), whole.find(stop)) for stop in stops if stop in whole]
        if ends:
            assert stopped
            assert "".join(shown) == whole[: min(ends)[1]]
            return
    assert not stopped
    assert "".join(shown) == whole
