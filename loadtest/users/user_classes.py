"""The Locust users: they take turns, the running test says what a turn is.

Importing this module imports Locust, which puts the whole process under gevent.
"""

from __future__ import annotations

from typing import ClassVar

from locust import User, task

from loadtest.options import Protocol


class LadderUser(User):
    """One place in a closed loop; `environment.ladder_run` (see `loadtest.run`) sends its requests."""

    abstract = True
    protocol: ClassVar[Protocol]

    @task
    def take_turn(self) -> None:
        """One request of the conversation that this user is in."""
        self.environment.ladder_run.perform(self)


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
