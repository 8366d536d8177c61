"""Perplexity: which tokens are scored, and what is made of their log-probabilities."""

from __future__ import annotations

import asyncio
import json
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.evaluation.fake_rung import TARGET, FakeRung, completion, no_step
from tools.client.completion import Completion
from tools.client.errors import RequestRefusedError
from tools.client.request import GenerateRequest
from tools.evaluation.errors import EvaluationError, NotMeasurableError
from tools.evaluation.perplexity import Window, cut_near_the_middle, measure_perplexity, read_texts, token_windows
from tools.evaluation.run import DATA

BOS = 1


def windows(rung: FakeRung, text: str, size: int) -> list[Window]:
    return asyncio.run(token_windows(rung, [text], size))


def scored(request: GenerateRequest) -> Completion:
    """Every token has the log-probability -token / 100; the first has none."""
    ids = list(request.input_ids or ())
    positions = [None, *({str(token): {"logprob": -token / 100, "rank": 3}} for token in ids[1:])]
    return completion(prompt_logprobs=json.dumps(positions))


def test_windows_do_not_overlap_and_hold_every_token() -> None:
    assert windows(FakeRung(), "abcdefg", 3) == [Window([97, 98, 99], 1), Window([100, 101, 102], 1)]


def test_every_window_begins_with_the_tokenizers_special_tokens() -> None:
    found = windows(FakeRung(leading=[BOS]), "abcd", 3)
    assert found == [Window([BOS, 97, 98], 1), Window([BOS, 99, 100], 1)]


def test_a_text_that_has_nothing_to_score_is_refused() -> None:
    with pytest.raises(
        EvaluationError, match=r"^the text is a single token: perplexity needs at least two, give a lon"
    ):
        windows(FakeRung(), "a", 8)


def test_the_perplexity_is_the_exponential_of_the_mean_loss() -> None:
    rung = FakeRung(scored)
    found = asyncio.run(measure_perplexity(rung, windows(rung, "abcde", 3), "mine", no_step))
    # "a" and "d" are the first of their windows.
    loss = (0.98 + 0.99 + 1.01) / 3
    assert (found.tokens, found.windows, found.text) == (3, 2, "mine")
    assert found.loss == pytest.approx(loss)
    assert found.perplexity == pytest.approx(math.exp(loss))
    assert [request.sampling["prompt_logprobs"] for request in rung.asked] == [0, 0]


def test_special_tokens_are_context_and_not_scored() -> None:
    rung = FakeRung(scored, leading=[BOS, BOS])
    found = asyncio.run(measure_perplexity(rung, windows(rung, "ab", 8), "mine", no_step))
    assert found.tokens == 2


def test_a_model_that_rules_tokens_out_has_a_finite_perplexity() -> None:
    rung = FakeRung(lambda _: completion(prompt_logprobs='[null, {"98": {"logprob": -9999.0}}]'))
    found = asyncio.run(measure_perplexity(rung, windows(rung, "ab", 8), "mine", no_step))
    assert found.loss == 9999
    assert math.isfinite(found.perplexity)


def test_a_model_without_log_probabilities_of_the_prompt_cannot_be_measured() -> None:
    rung = FakeRung(scored, vllm=False)
    with pytest.raises(NotMeasurableError, match=r'^it has no output "prompt_logprobs"$'):
        asyncio.run(measure_perplexity(rung, windows(rung, "ab", 8), "mine", no_step))
    assert rung.asked == []


@pytest.mark.parametrize(
    ("sent", "message"),
    [
        (None, "is not a list of log-probabilities"),
        ("[1]", "is not a list of log-probabilities"),
        ("[null]", "has 1 entries for a prompt of 2 tokens"),
        ('[null, {"97": {"logprob": -1}}]', "says nothing of token 98"),
        ("[null, null]", "says nothing of token 98"),
    ],
)
def test_an_answer_that_does_not_fit_is_no_figure(sent: str | None, message: str) -> None:
    rung = FakeRung(lambda _: completion(prompt_logprobs=sent))
    with pytest.raises(EvaluationError, match=f'^the output "prompt_logprobs" of "llm_fake:1" {message}'):
        asyncio.run(measure_perplexity(rung, windows(rung, "ab", 8), "mine", no_step))


class NarrowRung(FakeRung):
    """Its tokenizer takes ten characters, and has a special token in front."""

    async def tokenize(self, text: str) -> list[int]:
        if len(text) > 10:
            raise RequestRefusedError("INVALID_ARGUMENT", "too long", TARGET)
        return await super().tokenize(text)


@given(st.text(alphabet="ab \n\u4f60", min_size=2, max_size=200))
def test_a_text_too_long_for_one_request_keeps_all_its_tokens(text: str) -> None:
    found = windows(NarrowRung(leading=[BOS]), text, 1000)
    assert [list(window.token_ids) for window in found] == [[BOS, *map(ord, text)]]


@pytest.mark.parametrize(
    ("text", "cut"),
    [("one two three", 7), ("one  two\n\nthree four", 15), (" onetwo ", 4), ("你好吗？", 2), ("a", None), ("", None)],
)
def test_a_text_is_cut_between_words(text: str, cut: int | None) -> None:
    assert cut_near_the_middle(text) == cut


def test_a_tokenizer_that_takes_nothing_is_an_error() -> None:
    class NoRung(FakeRung):
        async def tokenize(self, text: str) -> list[int]:
            if len(text) == 1 and text in "ab":
                return [1]
            raise RequestRefusedError("INVALID_ARGUMENT", "never", TARGET)

    with pytest.raises(RequestRefusedError, match="never"):
        windows(NoRung(), "xyz", 8)


def test_a_folder_is_read_by_name(tmp_path: Path) -> None:
    (tmp_path / "b.txt").write_text("second", encoding="utf-8")
    (tmp_path / "a.txt").write_text("first", encoding="utf-8")
    (tmp_path / "c.md").write_text("no text", encoding="utf-8")
    assert read_texts(tmp_path) == ["first", "second"]


def test_a_text_that_cannot_be_scored_is_named(tmp_path: Path) -> None:
    empty, bytes_ = tmp_path / "empty.txt", tmp_path / "bytes.bin"
    empty.write_text(" \n", encoding="utf-8")
    bytes_.write_bytes(b"\xff\xfe")
    nothing = tmp_path / "folder"
    nothing.mkdir()
    for path, message in (
        (empty, f'text file "{empty}" is empty: perplexity needs a text'),
        (bytes_, f'text file "{bytes_}" cannot be read: '),
        (tmp_path / "absent", f'no text file "{tmp_path / "absent"}": name a UTF-8 file, or a folder of *.txt'),
        (nothing, f'no *.txt in the folder "{nothing}"'),
    ):
        with pytest.raises(EvaluationError) as refused:
            read_texts(path)
        assert str(refused.value).startswith(message)


def test_the_shipped_texts_are_long_enough_for_a_figure() -> None:
    assert sum(len(text.split()) for text in read_texts(DATA / "text")) > 1500
