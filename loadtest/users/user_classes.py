"""The Locust users of a closed loop: each asks again when it has its answer. The running test says what they ask.

Importing this module imports Locust, which puts the whole process under gevent.
"""

from __future__ import annotations

from typing import ClassVar

from locust import User, constant, task
from locust.exception import StopUser

from loadtest.options import Protocol
from loadtest.run.installed import worker_of


class LadderUser(User):
    """One place in a closed loop; it ends when the run takes no more requests.

    In an open loop nobody waits for answers, so there are no users: requests are sent when they are due.
    """

    abstract = True
    wait_time = constant(0)
    protocol: ClassVar[Protocol]

    def on_start(self) -> None:
        """Take a place, once the run has begun on this worker."""
        self._generator = worker_of(self.environment).generator()
        self._seat = self._generator.take_seat()

    def on_stop(self) -> None:
        """Give the place back."""
        self._generator.leave_seat(self._seat)

    @task
    def take_turn(self) -> None:
        """One request of the conversation that this user is in."""
        if not self._generator.take_turn(self._seat):
            raise StopUser


class GenerateStreamUser(LadderUser):
    """KServe generate_stream: server-sent events."""

    protocol = Protocol.GENERATE_STREAM


class GenerateUser(LadderUser):
    """KServe generate: one JSON answer, so no TTFT, TPOT or ITL."""

    protocol = Protocol.GENERATE


class GrpcStreamUser(LadderUser):
    """KServe ModelStreamInfer over gRPC."""

    protocol = Protocol.GRPC


class OpenAiUser(LadderUser):
    """OpenAI chat completions (completions for a plain prompt), streamed."""

    protocol = Protocol.OPENAI
