from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.wire.strategies import deltas
from tools.wire.merging import merge
from tools.wire.messages import Delta, Failure


@st.composite
def streams(draw: st.DrawFn) -> list[Delta]:
    """The deltas of one stream of `n` sequences, in order, as an adapter emits them; failures have no columns."""
    width = draw(st.integers(1, 3))
    parts = draw(st.lists(deltas(key=7, width=width, final=False), min_size=1, max_size=8))
    for part in parts:
        part.failure = None
    ending = draw(st.sampled_from(["open", "final", "failure"]))
    if ending == "final":
        parts[-1].final = True
    elif ending == "failure":
        parts.append(Delta(7, [], [], [], final=True, failure=Failure("UNAVAILABLE", "the engine died")))
    return parts


@pytest.mark.slow
@given(streams(), st.data())
def test_any_partition_merges_to_the_same(stream: list[Delta], data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.sets(st.integers(1, len(stream) - 1)))) if len(stream) > 1 else []
    bounds = [0, *cuts, len(stream)]
    groups = [stream[start:end] for start, end in itertools.pairwise(bounds)]
    merged = merge([merge(group) for group in groups])
    assert merged == merge(stream)


@pytest.mark.slow
@given(streams())
def test_nothing_is_lost_and_nothing_added(stream: list[Delta]) -> None:
    merged = merge(stream)
    for i in range(len(stream[0].texts)):
        assert merged.texts[i] == "".join(delta.texts[i] for delta in stream if delta.texts)
        assert merged.token_counts[i] == sum(delta.token_counts[i] for delta in stream if delta.token_counts)
        tokens = [token for delta in stream if delta.logprobs for token in delta.logprobs[i]]
        assert (merged.logprobs[i] if merged.logprobs else []) == tokens
        reasons = [delta.finish_reasons[i] for delta in stream if delta.finish_reasons]
        assert merged.finish_reasons[i] == next((reason for reason in reversed(reasons) if reason is not None), None)
        sums = [
            delta.cumulative_logprobs[i]
            for delta in stream
            if delta.cumulative_logprobs and delta.cumulative_logprobs[i] is not None
        ]
        assert (merged.cumulative_logprobs[i] if merged.cumulative_logprobs else None) == (sums[-1] if sums else None)
    prompts = [delta.prompt_logprobs for delta in stream if delta.prompt_logprobs is not None]
    assert merged.prompt_logprobs == (prompts[0] if prompts else None)
    assert merged.key == 7
    assert merged.final == stream[-1].final
    assert merged.failure == stream[-1].failure
    assert merged.num_input_tokens == max(delta.num_input_tokens for delta in stream)


@pytest.mark.slow
@given(streams())
def test_merging_leaves_its_arguments_alone(stream: list[Delta]) -> None:
    before = [repr(delta) for delta in stream]
    merged = merge(stream)
    for column in (merged.texts, merged.token_counts, merged.finish_reasons):
        if merged is not stream[0]:
            column.append(None)  # type: ignore[arg-type]
    assert [repr(delta) for delta in stream] == before


def test_one_delta_is_itself() -> None:
    delta = Delta(1, ["a"], [1], [None])
    assert merge([delta]) is delta


def test_half_characters_are_joined_byte_for_byte() -> None:
    """Combining marks and emoji sequences may come in pieces; joined they are what the model wrote."""
    pieces = ["e", "\u0301", "👩", "\u200d", "🔬", "你", "好"]
    merged = merge([Delta(1, [piece], [1], [None]) for piece in pieces])
    assert merged.texts == ["".join(pieces)]


def test_a_sequence_that_ended_before_keeps_its_reason() -> None:
    first = Delta(1, ["a", "b"], [1, 1], ["stop", None])
    last = Delta(1, ["", "c"], [0, 1], [None, "length"], final=True)
    assert merge([first, last]) == Delta(1, ["a", "bc"], [1, 2], ["stop", "length"], final=True)


def test_a_failure_comes_after_the_text() -> None:
    failure = Failure("CANCELLED", "by the client")
    merged = merge([Delta(1, ["text"], [2], [None], 4), Delta(1, [], [], [], final=True, failure=failure)])
    assert merged == Delta(1, ["text"], [2], [None], 4, final=True, failure=failure)


def test_nothing_cannot_be_merged() -> None:
    with pytest.raises(ValueError, match=r"^no deltas to merge$"):
        merge([])


def test_streams_are_not_mixed() -> None:
    with pytest.raises(ValueError, match=r'^deltas of stream "1" and stream "2" cannot be merged$'):
        merge([Delta(1, [], [], []), Delta(2, [], [], [])])


def test_nothing_follows_the_end() -> None:
    with pytest.raises(ValueError, match=r'^stream "1" has ended: nothing can follow its final delta$'):
        merge([Delta(1, [], [], [], final=True), Delta(1, [], [], [])])
