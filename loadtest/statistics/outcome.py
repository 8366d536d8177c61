"""One request as the client saw it; everything that is reported is added up from these.

Two clocks are kept apart. A request is *due* at the time the load shape asked for it, and *sent* when the client got
to it. Latencies are measured from when it was due: a client or a server that falls behind must not hide the waiting
that it causes (coordinated omission). The difference is the send lag, which shows a saturated client.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum


class ErrorKind(StrEnum):
    """Why a request counts as failed, whatever status it came with."""

    UNREACHABLE = "unreachable"
    REFUSED = "refused"
    UNAVAILABLE = "unavailable"
    DEADLINE = "deadline"
    CANCELLED = "cancelled"
    SERVER = "server"
    TRUNCATED = "truncated"
    MALFORMED = "malformed"
    UNKNOWN_MODEL = "unknown model"


@dataclass(frozen=True, slots=True)
class Failure:
    """`message` is what the server or the client said."""

    kind: ErrorKind
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Seconds throughout; `due_at` is seconds since the epoch, the others are lengths of time.

    Attributes:
        target: who was asked, as the user of the load test named it: "llm_bf16", "llm_awq:1".
        served_by: the model and version that answered; empty when nobody did.
        due_at: when the request should have been sent.
        send_lag_s: how much later it was sent.
        ttft_s: from due to the first response that carries tokens; None without streaming or without tokens.
        e2e_s: from due to the last response that carries tokens, or to the failure.
        tpot_s: (e2e - TTFT) / (output tokens - 1); None with fewer than two tokens or without streaming.
        itl_s: gaps between responses that carry tokens, each of which may carry several.
        input_tokens, output_tokens: the server's own count, 0 when it never said.
        responses: how many responses carried the output tokens; fewer than tokens when some were merged.
        finish_reason: "stop", "length", ...; empty when the answer did not end.
        failure: None for a whole answer.
    """

    target: str
    served_by: str
    due_at: float
    send_lag_s: float
    ttft_s: float | None
    e2e_s: float
    tpot_s: float | None
    itl_s: tuple[float, ...] = field(default=())
    input_tokens: int = 0
    output_tokens: int = 0
    responses: int = 0
    finish_reason: str = ""
    failure: Failure | None = None

    @property
    def is_routed(self) -> bool:
        """Whether another model answered than was asked: the target is a release router."""
        return bool(self.served_by) and _model(self.served_by) != _model(self.target)


def part_name(target: str, served_by: str) -> str:
    """The name of what one model answered of a release router's requests, beside the router's own."""
    return f"{target} > {served_by}"


def _model(target: str) -> str:
    return target.partition(":")[0]
