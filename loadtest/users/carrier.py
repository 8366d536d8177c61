"""What all transports have in common: one request at a time becomes an outcome, until the transport is closed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Protocol

from loadtest.options import LoadOptions
from loadtest.workloads.planned import PlannedRequest
from tools.client.errors import ClientError, DeadlineExceededError
from tools.client.request import JsonValue

from .answer import Answer, Attempt, late, never_sent
from .verdict import ENDED_HERE, failure_of


class Interruptible(Protocol):
    """A connection that carries one request at a time."""

    def interrupt(self) -> None:
        """From another greenlet: end the request that runs, and any later one at once."""

    def close(self) -> None:
        """Close the connection; nothing runs on it."""


class Carrier(ABC):
    """See `loadtest.users.transport.Transport`."""

    def __init__(self, options: LoadOptions, target: str, connection: Interruptible) -> None:
        self._options = options
        self._name = target
        self._interruptible = connection
        self._running = False
        self._closed = False

    def send(self, request: PlannedRequest, due_at: float) -> Answer:
        """See `Transport.send`."""
        deadline_s = self._options.deadline_s
        attempt = Attempt(self._name, request, due_at, deadline_s)
        if self._closed:
            return attempt.fail(ENDED_HERE)
        if attempt.is_late:
            return attempt.fail(never_sent(deadline_s))
        self._running = True
        try:
            self._carry(request, attempt)
        except ClientError as error:
            if self._closed:
                return attempt.fail(ENDED_HERE)
            if isinstance(error, DeadlineExceededError):
                return attempt.fail(late(deadline_s))
            return attempt.fail(failure_of(error))
        finally:
            self._running = False
            if self._closed:
                self._interruptible.close()
        return attempt.end()

    def close(self) -> None:
        """See `Transport.close`."""
        self._closed = True
        self._interruptible.interrupt()
        if not self._running:
            self._interruptible.close()

    @abstractmethod
    def _carry(self, request: PlannedRequest, attempt: Attempt) -> None:
        """Start the attempt, send the request, and add what comes.

        Raises:
            ClientError: whatever keeps the answer from ending in order.
        """

    def _sampling(self, request: PlannedRequest) -> dict[str, JsonValue]:
        """The engine's sampling parameters: the run's, over them the request's own and its length."""
        exact: dict[str, JsonValue] = {"ignore_eos": True} if request.exact else {}
        return {**self._options.sampling, **request.sampling, **exact, "max_tokens": request.max_tokens}
