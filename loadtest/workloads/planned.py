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
    """

    max_tokens: int
    prompt: str | None = None
    messages: tuple[Message, ...] = ()
    exact: bool = False
    sampling: Mapping[str, JsonValue] = field(default_factory=dict)
    session: str = ""

    def __post_init__(self) -> None:
        if (self.prompt is None) == (not self.messages):
            raise ValueError("a planned request has either a prompt or messages")


class Session(Protocol):
    """One conversation; most have one turn."""

    def next(self, answer: str | None) -> PlannedRequest | None:
        """The next turn, given the answer to the one before (None for the first); None when it is over."""


class Workload(Protocol):
    """An endless supply of sessions; the same seed gives the same ones, on whichever worker."""

    name: str

    def sessions(self, random: Random) -> Iterator[Session]:
        """Sessions drawn with `random`, which belongs to this caller alone."""
