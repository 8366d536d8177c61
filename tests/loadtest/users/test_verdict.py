from __future__ import annotations

import pytest

from loadtest.statistics.outcome import ErrorKind, Failure
from loadtest.users.verdict import failure_of, verdict
from loadtest.workloads.planned import PlannedRequest
from tools.client.address import Endpoint, Protocol
from tools.client.completion import Completion
from tools.client.errors import (
    ClientError,
    MalformedResponseError,
    ModelNotReadyError,
    ServerUnreachableError,
    UnavailableError,
)
from tools.client.request import Target

FREE = PlannedRequest(max_tokens=8, prompt="once")
EXACT = PlannedRequest(max_tokens=8, prompt="once", exact=True)


def completion(
    tokens: int | None = 8, reasons: tuple[str | None, ...] = ("length",), texts: tuple[str, ...] = ("text",)
) -> Completion:
    return Completion(Target("llm_bf16", 1), texts, reasons, 4, tokens, 0.1, 0.01, 0.2, None, (), 3)


@pytest.mark.parametrize(
    ("request_", "answer"),
    [
        (FREE, completion(3, ("stop",))),
        (EXACT, completion()),
        # Special tokens have no text.
        (EXACT, completion(texts=("",))),
        (EXACT, completion(16, ("length", "length"), ("a", "b"))),
    ],
)
def test_whole_answers(request_: PlannedRequest, answer: Completion) -> None:
    assert verdict(answer, request_) is None


@pytest.mark.parametrize(
    ("request_", "answer", "kind", "message"),
    [
        (FREE, completion(reasons=()), ErrorKind.TRUNCATED, "the answer ended without a finish reason"),
        (FREE, completion(reasons=("stop", None)), ErrorKind.TRUNCATED, "the answer ended without a finish reason"),
        (
            FREE,
            completion(reasons=("abort",)),
            ErrorKind.SERVER,
            'the server ended the answer with finish reason "abort"',
        ),
        (FREE, completion(None), ErrorKind.MALFORMED, "the server did not say how many tokens it generated"),
        (FREE, completion(0), ErrorKind.MALFORMED, "the answer is empty: no token was generated"),
        (FREE, completion(texts=("",)), ErrorKind.MALFORMED, "the answer is empty: its tokens are no text"),
        (EXACT, completion(7), ErrorKind.TRUNCATED, "7 tokens were generated, exactly 8 were asked for"),
        (EXACT, completion(9), ErrorKind.MALFORMED, "9 tokens were generated, exactly 8 were asked for"),
    ],
)
def test_answers_that_are_not_whole(
    request_: PlannedRequest, answer: Completion, kind: ErrorKind, message: str
) -> None:
    assert verdict(answer, request_) == Failure(kind, message)


@pytest.mark.parametrize(
    ("error", "failure"),
    [
        (UnavailableError("HTTP 429", "slow down"), Failure(ErrorKind.UNAVAILABLE, "slow down (HTTP 429)")),
        (ModelNotReadyError("UNAVAILABLE", "loading"), Failure(ErrorKind.UNAVAILABLE, "loading (UNAVAILABLE)")),
        (MalformedResponseError("no JSON"), Failure(ErrorKind.MALFORMED, "no JSON")),
        (
            ServerUnreachableError(Endpoint(Protocol.HTTP, "h", 1), "refused"),
            Failure(ErrorKind.UNREACHABLE, "no tritonserver answers at http://h:1: refused"),
        ),
    ],
)
def test_errors_keep_the_servers_words(error: ClientError, failure: Failure) -> None:
    assert failure_of(error) == failure
