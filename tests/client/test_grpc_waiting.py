"""Ctrl-C while a call is waited for: clean in the caller, and never inside grpc."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any

import grpc
import pytest

from tools.client.grpc_waiting import answer_of, responses_of


class Broken(grpc.RpcError):
    """The call's own end."""


class Call:
    """A streaming call that waits for its cancellation after its responses, and notes who waited."""

    def __init__(self, *responses: str, fails: bool = False) -> None:
        self._responses = responses
        self._fails = fails
        self._cancelled = threading.Event()
        self.cancels = 0
        self.readers: set[int] = set()

    def __iter__(self) -> Iterator[str]:
        for response in self._responses:
            self.readers.add(threading.get_ident())
            yield response
        if self._fails:
            raise Broken
        if not self._responses or self._responses[-1] != "last":
            self._cancelled.wait(30)

    def cancel(self) -> None:
        self.cancels += 1
        self._cancelled.set()


@contextmanager
def interrupted_soon() -> Iterator[None]:
    """SIGALRM in a moment, turned into what Ctrl-C raises."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_responses_are_read_in_another_thread_and_timed() -> None:
    call = Call("first", "last")

    responses = list(responses_of(call))

    assert [response for response, _ in responses] == ["first", "last"]
    assert responses[0][1] <= responses[1][1]
    assert threading.get_ident() not in call.readers


def test_the_calls_failure_is_raised_after_its_responses() -> None:
    responses = responses_of(Call("first", fails=True))

    assert next(responses)[0] == "first"
    with pytest.raises(Broken):
        next(responses)


def test_leaving_early_cancels_the_call() -> None:
    call = Call("first")

    with closing(responses_of(call)) as responses:
        next(responses)

    assert call.cancels == 1


def test_an_interrupt_ends_the_wait_for_a_response_and_cancels_the_call() -> None:
    call = Call("first")

    with interrupted_soon(), closing(responses_of(call)) as responses:
        next(responses)
        with pytest.raises(KeyboardInterrupt):
            next(responses)

    assert call.cancels == 1


class Future:
    """A unary call in flight; `finish` is what grpc's own thread does."""

    def __init__(self, result: str | None) -> None:
        self._result = result
        self.cancels = 0

    def add_done_callback(self, callback: Callable[[Any], None]) -> None:
        if self._result is not None:
            threading.Timer(0.01, callback, [self]).start()

    def cancel(self) -> None:
        self.cancels += 1

    def result(self) -> str | None:
        return self._result


class Method:
    """A unary method of a stub; being called directly it would wait inside grpc."""

    def __init__(self, future: Future) -> None:
        self._future = future
        self.timeout: float | None = None

    def future(self, request: str, timeout: float | None) -> Future:
        assert request == "question"
        self.timeout = timeout
        return self._future


def test_an_answer_is_waited_for_outside_grpc() -> None:
    method = Method(Future("answer"))

    assert answer_of(method, "question", 3.0) == "answer"
    assert method.timeout == 3.0


def test_an_interrupt_ends_the_wait_for_an_answer_and_cancels_the_call() -> None:
    future = Future(None)

    with interrupted_soon(), pytest.raises(KeyboardInterrupt):
        answer_of(Method(future), "question", None)

    assert future.cancels == 1
