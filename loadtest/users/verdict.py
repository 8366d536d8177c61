"""Whether an answer that ended in order is a whole one, and what an error counts as. Pure."""

from __future__ import annotations

from typing import Final

from loadtest.statistics.outcome import ErrorKind, Failure
from loadtest.workloads.planned import PlannedRequest
from tools.client.completion import Completion
from tools.client.errors import (
    ClientError,
    DeadlineExceededError,
    MalformedResponseError,
    ModelNotReadyError,
    ModelUnknownError,
    RequestCancelledError,
    RequestRefusedError,
    ServerFaultError,
    ServerUnreachableError,
    StreamTruncatedError,
    UnavailableError,
)

# With these an engine says that it gave up: they come with status 200 and look like any other end.
_GAVE_UP: Final = frozenset({"abort", "cancelled", "error"})

_KINDS: Final[dict[type[ClientError], ErrorKind]] = {
    ServerUnreachableError: ErrorKind.UNREACHABLE,
    ModelUnknownError: ErrorKind.UNKNOWN_MODEL,
    ModelNotReadyError: ErrorKind.UNAVAILABLE,
    UnavailableError: ErrorKind.UNAVAILABLE,
    RequestRefusedError: ErrorKind.REFUSED,
    RequestCancelledError: ErrorKind.CANCELLED,
    DeadlineExceededError: ErrorKind.DEADLINE,
    ServerFaultError: ErrorKind.SERVER,
    StreamTruncatedError: ErrorKind.TRUNCATED,
    MalformedResponseError: ErrorKind.MALFORMED,
}
# The client's own words, which the kind repeats.
_OWN_CODES: Final = frozenset({"UNREACHABLE", "TRUNCATED", "MALFORMED"})

ENDED_HERE: Final = Failure(ErrorKind.CANCELLED, "this load test ended it")


def failure_of(error: ClientError) -> Failure:
    """What a client's error counts as, with the server's text and, where it gave one, its status."""
    status = "" if error.code in _OWN_CODES else f" ({error.code})"
    return Failure(_KINDS.get(type(error), ErrorKind.SERVER), f"{error.message}{status}")


def verdict(completion: Completion, request: PlannedRequest) -> Failure | None:
    """None for a whole answer.

    An answer is whole when the server counted its tokens, said for every sequence why it ended, and generated
    something: text, or, for a request of an exact length, as many tokens as were asked for. Less than that would make a
    broken server look fast.
    """
    tokens = completion.num_output_tokens
    reasons = completion.finish_reasons
    if not reasons or None in reasons:
        return Failure(ErrorKind.TRUNCATED, "the answer ended without a finish reason")
    if gave_up := _GAVE_UP.intersection(reasons):
        return Failure(ErrorKind.SERVER, f'the server ended the answer with finish reason "{min(map(str, gave_up))}"')
    if tokens is None:
        return Failure(ErrorKind.MALFORMED, "the server did not say how many tokens it generated")
    if tokens == 0:
        return Failure(ErrorKind.MALFORMED, "the answer is empty: no token was generated")
    if request.exact:
        return _length_verdict(tokens, request.max_tokens * len(reasons))
    if not any(completion.texts):
        return Failure(ErrorKind.MALFORMED, "the answer is empty: its tokens are no text")
    return None


def _length_verdict(tokens: int, wanted: int) -> Failure | None:
    if tokens == wanted:
        return None
    kind = ErrorKind.TRUNCATED if tokens < wanted else ErrorKind.MALFORMED
    return Failure(kind, f"{tokens} tokens were generated, exactly {wanted} were asked for")
