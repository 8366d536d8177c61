"""The OpenAI transport, under gevent, against a scripted server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from loadtest.options import LoadOptions, Protocol
from loadtest.statistics.outcome import ErrorKind
from tests.client.fakes.openai_front import DONE, FakeOpenAi, event, serve_openai, usage
from tests.loadtest.users.asking import Answered, Asker

CHAT: dict[str, Any] = {"messages": [["user", "你好"]], "max_tokens": 9}
# As vLLM streams: the role first, the count so far with every event, the total at the end.
CONTINUOUS = (
    event("", **usage(5, 0)),
    event("Hel", **usage(5, 1)),
    event("lo 👋", **usage(5, 4)),
    event("", "stop", **usage(5, 5)),
    {"model": "llm_bf16", "choices": [], **usage(5, 5)},
    DONE,
)
# As NVIDIA's front end does: no count but the total.
TOTAL = (
    event(""),
    event("Hel"),
    event("lo 👋"),
    event("", "stop"),
    {"model": "llm_bf16", "choices": [], **usage(5, 5)},
    DONE,
)


def ask(asker: Asker, fake: FakeOpenAi, *requests: dict[str, Any]) -> list[Answered]:
    with serve_openai(fake) as port:
        options = LoadOptions(
            host=f"http://127.0.0.1:{port}",
            targets=("llm_bf16",),
            protocol=Protocol.OPENAI,
            sampling={"temperature": 0.5},
        )
        return asker.ask(options, *requests)


@pytest.mark.slow
def test_counts_with_every_event(asker: Asker) -> None:
    fake = FakeOpenAi(CONTINUOUS)

    (answer,) = ask(asker, fake, CHAT)

    outcome = answer.outcome
    assert outcome.failure is None
    assert answer.text == "Hello 👋"
    # The event with the finish reason carries the end-of-text token.
    assert (outcome.input_tokens, outcome.output_tokens, outcome.responses) == (5, 5, 3)
    assert (outcome.served_by, outcome.finish_reason) == ("llm_bf16", "stop")
    assert outcome.ttft_s is not None
    assert 0 < outcome.ttft_s <= outcome.e2e_s
    assert len(outcome.itl_s) == 2
    assert fake.seen == [
        (
            "/v1/chat/completions",
            {
                "model": "llm_bf16",
                "stream": True,
                "stream_options": {"include_usage": True, "continuous_usage_stats": True},
                "messages": [{"role": "user", "content": "你好"}],
                "temperature": 0.5,
                "max_tokens": 9,
            },
        )
    ]


def test_a_count_at_the_end_moves_no_clock(asker: Asker) -> None:
    (answer,) = ask(asker, FakeOpenAi(TOTAL), CHAT)

    outcome = answer.outcome
    assert outcome.failure is None
    assert (outcome.input_tokens, outcome.output_tokens, outcome.responses) == (5, 5, 2)
    assert outcome.ttft_s is not None
    assert outcome.itl_s == (pytest.approx(outcome.e2e_s - outcome.ttft_s),)
    assert answer.text == "Hello 👋"


def test_a_prompt_goes_to_completions(asker: Asker) -> None:
    said = {"model": "llm_bf16", "choices": [{"index": 0, "text": "x", "finish_reason": "length"}], **usage(2, 9)}
    fake = FakeOpenAi((said, DONE))

    (answer,) = ask(asker, fake, {"prompt": "once", "max_tokens": 9, "exact": True})

    assert answer.outcome.failure is None
    assert answer.outcome.output_tokens == 9
    ((path, body),) = fake.seen
    assert path == "/v1/completions"
    assert (body["prompt"], body["ignore_eos"], body["max_tokens"]) == ("once", True, 9)


def test_several_sequences_are_counted_together(asker: Asker) -> None:
    def said(index: int, text: str, tokens: int) -> dict[str, Any]:
        choice = {"index": index, "delta": {"content": text}, "finish_reason": "stop"}
        return {"model": "llm_bf16", "choices": [choice], **usage(5, tokens)}

    events = (said(1, "b", 2), said(0, "a", 3), {"choices": [], **usage(5, 5)}, DONE)

    (answer,) = ask(asker, FakeOpenAi(events), CHAT)

    assert answer.outcome.failure is None
    assert answer.outcome.output_tokens == 5
    assert answer.text == "a"


def test_thoughts_are_output(asker: Asker) -> None:
    thought = {"model": "m", "choices": [{"index": 0, "delta": {"reasoning_content": "Hm."}}]}

    (answer,) = ask(asker, FakeOpenAi((thought, *TOTAL)), CHAT)

    assert answer.outcome.responses == 3


def test_a_server_that_refuses_to_count_every_event_is_asked_without(asker: Asker) -> None:
    fake = FakeOpenAi(TOTAL, refuse="continuous_usage_stats")

    answers = ask(asker, fake, CHAT, CHAT)

    assert [answer.outcome.failure for answer in answers] == [None, None]
    assert [body["stream_options"] for _, body in fake.seen] == [
        {"include_usage": True, "continuous_usage_stats": True},
        {"include_usage": True},
        {"include_usage": True},
    ]


@pytest.mark.parametrize(
    ("events", "kind", "message"),
    [
        (
            (*CONTINUOUS[:2], {"error": {"message": "engine dead", "code": 500}}, DONE),
            ErrorKind.SERVER,
            "engine dead (HTTP 500)",
        ),
        ((*CONTINUOUS[:2], {"error": "engine dead"}, DONE), ErrorKind.SERVER, "engine dead (UNKNOWN)"),
        (CONTINUOUS[:3], ErrorKind.TRUNCATED, "the stream ended before its final response: no [DONE] came"),
        ((*CONTINUOUS[:3], DONE), ErrorKind.TRUNCATED, "the answer ended without a finish reason"),
        ((*TOTAL[:4], DONE), ErrorKind.MALFORMED, "the server did not say how many tokens it generated"),
        (
            (event("", "stop", **usage(5, 0)), DONE),
            ErrorKind.MALFORMED,
            "the answer is empty: no token was generated",
        ),
        (
            (event("a", **usage(5, 2)), event("b", **usage(5, 1)), DONE),
            ErrorKind.MALFORMED,
            "its count of output tokens went down",
        ),
        (("<html>",), ErrorKind.MALFORMED, "the event '<html>' is not JSON: "),
        (
            ({"choices": [{"index": "x"}]},),
            ErrorKind.MALFORMED,
            'the event \'{"choices": [{"index": "x"}]}\' is no completion: choices.0.index: Input should be',
        ),
    ],
)
def test_answers_that_are_not_whole(
    asker: Asker, events: Sequence[Mapping[str, Any] | str], kind: ErrorKind, message: str
) -> None:
    (answer,) = ask(asker, FakeOpenAi(events), CHAT)

    assert answer.failure.kind is kind
    assert answer.failure.message.startswith(message)


@pytest.mark.parametrize(
    ("status", "body", "kind", "message"),
    [
        (404, {"error": {"message": "no such model"}}, ErrorKind.UNKNOWN_MODEL, "no such model (HTTP 404)"),
        (429, {"detail": "too many"}, ErrorKind.UNAVAILABLE, "too many (HTTP 429)"),
        (400, {"error": {"message": "too long"}}, ErrorKind.REFUSED, "too long (HTTP 400)"),
        (500, {"error": "boom"}, ErrorKind.SERVER, "boom (HTTP 500)"),
    ],
)
def test_statuses(asker: Asker, status: int, body: dict[str, Any], kind: ErrorKind, message: str) -> None:
    (answer,) = ask(asker, FakeOpenAi(status=status, body=body), CHAT)

    assert (answer.failure.kind, answer.failure.message) == (kind, message)
