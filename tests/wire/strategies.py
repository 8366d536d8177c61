"""Messages of every kind, for property tests."""

from __future__ import annotations

from typing import get_args

from hypothesis import strategies as st

from tools.wire.messages import (
    Cancel,
    Delta,
    Drain,
    ErrorCode,
    Failure,
    FailureReason,
    Flags,
    Goodbye,
    Hello,
    Metrics,
    Ping,
    Pong,
    Request,
    Sample,
    Step,
    Submit,
    Tokenize,
    Tokenized,
    Welcome,
)
from tools.wire.release import Condition, Release, Released, Route, Shadow, Target, WatchRelease

# What MessagePack's integers and UTF-8 can say.
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
keys = st.integers(0, 2**63 - 1)
numbers = st.floats(allow_nan=False)
counts = st.integers(0, 2**31 - 1)

failures = st.builds(Failure, st.sampled_from(get_args(ErrorCode)), texts, st.sampled_from(get_args(FailureReason)))
flags = st.builds(Flags, *[st.booleans()] * 5)
requests = st.builds(
    Request,
    key=keys,
    request_id=texts,
    prompt=texts,
    token_ids=st.none() | st.lists(counts, max_size=4),
    images=st.lists(st.binary(max_size=8), max_size=2),
    parameters=texts,
    parameters_source=st.sampled_from(["sampling_parameters", "request parameters"]),
    embedding=st.none() | texts,
    stream=st.booleans(),
    echo=st.booleans(),
    flags=flags,
    timeout_us=keys,
    priority=keys,
)


@st.composite
def deltas(draw: st.DrawFn, key: int | None = None, width: int | None = None, final: bool | None = None) -> Delta:
    """A delta as an adapter emits it: one entry per sequence in every list that is there."""
    size = draw(st.integers(0, 3)) if width is None else width

    def column(entries: st.SearchStrategy[object]) -> list:
        return draw(st.lists(entries, min_size=size, max_size=size))

    return Delta(
        key=draw(keys) if key is None else key,
        texts=column(texts),
        token_counts=column(counts),
        finish_reasons=column(st.none() | texts),
        num_input_tokens=draw(counts),
        final=draw(st.booleans()) if final is None else final,
        cumulative_logprobs=column(st.none() | numbers) if draw(st.booleans()) else None,
        logprobs=column(st.lists(texts, max_size=3)) if draw(st.booleans()) else None,
        failure=draw(st.none() | failures),
        prompt_logprobs=draw(st.none() | st.lists(texts, max_size=3)),
    )


samples = st.builds(Sample, texts, numbers, texts, st.lists(numbers, max_size=3), st.lists(counts, max_size=3))

targets = st.builds(Target, texts, counts, st.integers(0, 1000), counts)
values = st.dictionaries(texts, st.lists(texts, max_size=2), max_size=2)
routes = st.builds(
    Route,
    name=texts,
    targets=st.lists(targets, max_size=2),
    fallback=st.lists(targets, max_size=2),
    condition=st.none() | st.builds(Condition, values, values, st.integers(-1, 2**31), counts),
    sticky=texts,
    shadow=st.none() | st.builds(Shadow, texts, counts, st.integers(0, 1000), counts),
)
releases = st.builds(Release, st.lists(routes, max_size=2))

to_engine = st.one_of(
    st.builds(Hello, counts, texts, st.booleans()),
    st.builds(Submit, st.lists(requests, max_size=2), st.booleans()),
    st.builds(Cancel, st.lists(keys, max_size=3), st.sampled_from(["client", "unload"])),
    st.builds(Ping, keys),
    st.builds(Drain, numbers),
    st.builds(Tokenize, keys, st.none() | texts, st.none() | texts, texts),
    st.builds(WatchRelease),
)
to_peer = st.one_of(
    st.builds(Welcome, counts, texts, counts, counts, counts, texts),
    st.builds(Step, st.lists(deltas(), max_size=3)),
    st.builds(Tokenized, keys, texts, st.lists(counts, max_size=4), st.none() | failures),
    st.builds(Pong, keys, texts),
    st.builds(Metrics, st.lists(samples, max_size=3)),
    st.builds(Goodbye, texts),
    st.builds(Released, st.none() | releases, texts, texts),
)
