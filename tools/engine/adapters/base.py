"""The border between the engine process and whatever generates."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from tools.wire.messages import Delta, Failure, Request, Tokenize, Tokenized
from tools.wire.release import Released

from ..accounting import Accounting


@dataclass(frozen=True)
class EngineInfo:
    """What a started adapter can do. `max_num_seqs`: sequences it runs at once; `max_model_len`: tokens of context."""

    engine: str
    max_model_len: int
    max_num_seqs: int
    description: str = ""


@dataclass(eq=False)
class Work:
    """A checked request on its way through an adapter.

    `request_id` is unique in the engine and starts with the client's. `params` is what the adapter's `prepare` made of
    the request's parameters. `cancelled` is set when nobody wants the answer any more. An adapter with a queue of its
    own leaves in `queued_s` how long the request waited there.
    """

    request: Request
    request_id: str
    params: Any
    sequences: int = 1
    priority: int = 0
    cancelled: bool = False
    queued_s: float = 0.0


Emit = Callable[[Work, Delta], None]


class Adapter(Protocol):
    """One way to generate. All methods run in the engine process's event loop."""

    async def start(self, accounting: Accounting) -> EngineInfo:
        """Load the model. Raises LaunchError when what it was given cannot work."""
        ...

    def prepare(self, request: Request) -> tuple[Any, int]:
        """Checked parameters of `request` and its number of sequences. Raises RequestError."""
        ...

    async def generate(self, group: Sequence[Work], emit: Emit) -> None:
        """Generate for all of `group` and emit a delta per step, the last one of each request with `final` set.

        The server merges the deltas of requests that are not streamed, so an adapter need not tell them apart.

        Raises RequestError when a request turns out to be wrong, EngineDeadError when the engine is gone. The server
        cancels the task to stop a group of one; in a larger group it sets `cancelled` on the one that is to stop.
        """
        ...

    def tokenize(self, message: Tokenize) -> Tokenized:
        """Render and encode a chat; what is wrong with it is in the answer's `failure`."""
        ...

    async def check_health(self) -> None:
        """Raises EngineDeadError when the engine cannot serve any more."""
        ...

    def refresh_gauges(self, waiting: int, running: int) -> None:
        """Set the gauges. `waiting` and `running` are the server's own counts of requests before and in the adapter."""
        ...

    async def stop(self) -> None:
        """Free what was loaded."""
        ...


@runtime_checkable
class ReleaseSource(Protocol):
    """An adapter that knows the release in force."""

    def watch_release(self, peer: str, tell: Callable[[Released], None]) -> None:
        """Call `tell` with the release in force, now and whenever it or its file's problem changes."""
        ...


def cannot_tokenize(engine: str, message: Tokenize) -> Tokenized:
    """Answer of an adapter that generates and leaves chats to `chat_tokenizer`."""
    failure = Failure("UNSUPPORTED", f'engine "{engine}" does not render chats: send them to "chat_tokenizer"')
    return Tokenized(message.key, "", [], failure)
