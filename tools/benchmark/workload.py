"""What is asked of a measuring process, and what it answers: one JSON object a line, each way."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class _Message(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Load(_Message):
    """Requests to a model. `prompts` are used in turn; each is token ids, or empty for a short text.

    With `seconds`, every stream asks again as soon as it has its answer, and what is measured is a window of that
    length which begins when every stream has its first response. Without, each stream asks once, and the window reaches
    from the first request to the last response.

    `processes` are the process ids whose CPU time counts, by role.
    """

    streams: int
    tokens: int
    seconds: float = 0.0
    prompts: tuple[tuple[int, ...], ...] = ((),)


class ServedLoad(_Message):
    """A load on a served model. `connections` share the streams between them; `processes` are ids by role."""

    load: Load
    port: int
    model: str
    connections: int
    processes: dict[str, tuple[int, ...]] = {}


class Tally(_Message):
    """What a window held. `ttft_s` are those of the requests that began in it, `cpu_s` is CPU time by role."""

    seconds: float
    tokens: int
    responses: int
    ttft_s: tuple[float, ...]
    cpu_s: dict[str, float] = {}


class Trouble(_Message):
    """Why there is no tally."""

    error: str
