"""One request from the moment it was due to its outcome, whatever protocol carries it."""

from __future__ import annotations

from dataclasses import dataclass
from time import perf_counter, time

from loadtest.statistics.outcome import ErrorKind, Failure, Outcome
from loadtest.workloads.planned import PlannedRequest
from tools.client.completion import Chunk, CompletionBuilder
from tools.client.request import Target

from .verdict import verdict


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of a request, and the text of its first sequence as far as it came."""

    outcome: Outcome
    text: str


class Attempt:
    """Measures one request: make it when the request is to be sent, `start` it right before it is.

    What lies between the two (applying the chat template, asking for a model's contract) is the load test's own
    business and in none of the times. All else from `due_at` on is, the client's own delay included. The definitions of
    TTFT, ITL and TPOT are those of `tools.client.completion`, moved from when the request was sent to when it was due.
    """

    def __init__(self, target: str, request: PlannedRequest, due_at: float, deadline_s: float) -> None:
        self._target = target
        self._request = request
        self._due_at = due_at
        self._deadline_s = deadline_s
        self._lag_s = max(0.0, time() - due_at)
        self._began_at = perf_counter()
        self._builder: CompletionBuilder | None = None
        self._streamed = False
        self._responses = 0

    @property
    def is_late(self) -> bool:
        """Whether the deadline has passed before the request was sent."""
        return self._lag_s >= self._deadline_s

    def start(self, *, streamed: bool, num_input_tokens: int | None = None) -> None:
        """The request is sent now. `num_input_tokens` is what is known of the prompt before the model says it."""
        self._streamed = streamed
        self._builder = CompletionBuilder(
            Target(self._target), streamed=streamed, num_input_tokens=num_input_tokens, template_s=None
        )
        self._began_at = perf_counter()
        self._builder.start(self._began_at)

    def add(self, chunk: Chunk) -> None:
        """Take in the next response."""
        assert self._builder is not None, "a response comes after its request"
        self._builder.add(chunk)
        self._responses += chunk.carries_tokens

    def end(self) -> Answer:
        """The answer has ended in order; whether it is a whole one is for the verdict to say."""
        assert self._builder is not None, "an answer comes after its request"
        completion = self._builder.build()
        failure = verdict(completion, self._request)
        if failure is None and self._lag_s + completion.e2e_s > self._deadline_s:
            failure = late(self._deadline_s)
        return self._answer(failure)

    def fail(self, failure: Failure) -> Answer:
        """The request has failed; what had come by then is counted."""
        return self._answer(failure)

    def _answer(self, failure: Failure | None) -> Answer:
        until_now_s = self._lag_s + perf_counter() - self._began_at
        if self._builder is None:
            return Answer(self._outcome(e2e_s=until_now_s, failure=failure), "")
        completion = self._builder.build()
        outcome = self._outcome(
            ttft_s=None if completion.ttft_s is None else self._lag_s + completion.ttft_s,
            e2e_s=self._lag_s + completion.e2e_s if failure is None else until_now_s,
            tpot_s=completion.tpot_s if failure is None else None,
            itl_s=completion.itl_s if self._streamed else (),
            input_tokens=completion.num_input_tokens or 0,
            output_tokens=completion.num_output_tokens or 0,
            finish_reason=completion.finish_reason or "",
            failure=failure,
        )
        return Answer(outcome, completion.text)

    def _outcome(
        self,
        *,
        e2e_s: float,
        failure: Failure | None,
        ttft_s: float | None = None,
        tpot_s: float | None = None,
        itl_s: tuple[float, ...] = (),
        input_tokens: int = 0,
        output_tokens: int = 0,
        finish_reason: str = "",
    ) -> Outcome:
        served_by = self._builder.served_by if self._builder else None
        return Outcome(
            target=self._target,
            served_by=str(served_by or ""),
            due_at=self._due_at,
            send_lag_s=self._lag_s,
            ttft_s=ttft_s,
            e2e_s=e2e_s,
            tpot_s=tpot_s,
            itl_s=itl_s,
            input_tokens=input_tokens,
            output_tokens=output_tokens,
            responses=self._responses,
            finish_reason=finish_reason,
            failure=failure,
        )


def late(deadline_s: float) -> Failure:
    """The failure of a request that had no whole answer in time."""
    return Failure(ErrorKind.DEADLINE, f"no whole answer within {deadline_s:g} s of when it was due")


def never_sent(deadline_s: float) -> Failure:
    """The failure of a request whose deadline passed while the client was behind."""
    return Failure(ErrorKind.DEADLINE, f"due more than {deadline_s:g} s before this client came to send it")
