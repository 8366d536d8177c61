"""What a workload hands to a user: sessions, and in them one request after the other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Protocol

from tools.client.request import JsonValue, Message


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedRequest:
    """Either `prompt` (sent as it is) or `messages` (the model's chat template is applied) is given.

    Attributes:
        max_tokens: most output tokens.
        exact: generate exactly `max_tokens`, going on past the end of the answer (ignore_eos).
        sampling: further sampling parameters, over those of the run.
        session: the same for all turns of a conversation; a sticky key for routers.
        think_s: seconds from the end of the answer before to the time this request is due; 0 for a first turn.
    """

    max_tokens: int
    prompt: str | None = None
    messages: tuple[Message, ...] = ()
    exact: bool = False
    sampling: Mapping[str, JsonValue] = field(default_factory=dict)
    session: str = ""
    think_s: float = 0.0

    def __post_init__(self) -> None:
        if (self.prompt is None) == (not self.messages):
            raise ValueError("a planned request has either a prompt or messages")


class Session(Protocol):
    """One conversation; most have one turn."""

    def next(self, answer: str | None) -> PlannedRequest | None:
        """The next turn, given the answer to the one before; None when the conversation is over.

        The first turn has no answer before it: None. Later on None says that the turn failed, which ends the
        conversation.
        """


class Workload(Protocol):
    """An endless supply of sessions; the same seed gives the same ones, on whichever worker.

    Attributes:
        name: as the user gave it.
        description: one line on what it asks.
        notes: what a reader of the figures must know, one sentence each (lengths that are estimates).
    """

    @property
    def name(self) -> str: ...

    @property
    def description(self) -> str: ...

    @property
    def notes(self) -> tuple[str, ...]: ...

    def sessions(self, random: Random) -> Iterator[Session]:
        """Sessions drawn with `random`, which belongs to this caller alone (see `stream`)."""

    def check_context(self, context: int) -> None:
        """Raise LoadTestError when prompt and answer may need more than `context` tokens together."""


def stream(seed: int, worker: int, user: int) -> Random:
    """The random numbers of one user: the same for the same three numbers on any machine, unlike any other user's.

    Python seeds from a text through SHA-512 (https://docs.python.org/3/library/random.html#random.seed), so that
    neighbouring numbers give unrelated streams, and neither the hash seed nor the order of the users matters.

    Args:
        seed: of the run (LoadOptions.seed).
        worker: index of the Locust worker, 0 without workers.
        user: index of the user within the worker; arrivals at a rate draw from one stream and are user 0.
    """
    return Random(f"seed {seed} worker {worker} user {user}")  # noqa: S311  # prompts, not secrets
