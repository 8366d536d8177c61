"""What the conductor (master, or the only process) and the processes that generate load say to each other.

All travel as Locust's custom messages, but for reports, which ride on its regular worker reports.
"""

from __future__ import annotations

from typing import Any, Final

from pydantic import BaseModel, ConfigDict

from loadtest.options import LoadOptions, SlaLimits

# To the workers.
WELCOME: Final = "ladder_welcome"
ASSIGNMENT: Final = "ladder_assignment"
SHARE: Final = "ladder_share"
GRANT: Final = "ladder_grant"
STOP: Final = "ladder_stop"
# To the master.
HERE: Final = "ladder_here"
WANT: Final = "ladder_want"
DONE: Final = "ladder_done"
FAILED: Final = "ladder_failed"
# In the data of Locust's worker reports.
REPORT: Final = "ladder_report"


class _Message(BaseModel):
    """`run` tells one run from the one before, of which messages may still be under way."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    run: str

    def data(self) -> dict[str, Any]:
        """The form that travels."""
        return self.model_dump()


class Stage(BaseModel):
    """A part of a run with statistics of its own; a run is one stage, unless it searches.

    Attributes:
        starts_in_s: from when the message is sent; below 0 when it has begun. Clocks of machines differ, lengths of
            time do not.
        seconds: how long requests are sent, the warm-up included; None until told otherwise.
        rate: arrivals a second; None for what the options say.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    number: int = 0
    starts_in_s: float = 0.0
    seconds: float | None = None
    rate: float | None = None


class Assignment(_Message):
    """To one worker, at the start of a run and of each stage.

    Attributes:
        worker: its number among all that ever joined; its sessions are drawn by it.
        index, count: which share of the load is its.
        warmup_requests: its share of those that are not counted.
        starts_in_s: when the run starts, as `stage.starts_in_s`.
    """

    options: LoadOptions
    sla: SlaLimits | None
    worker: int
    index: int
    count: int
    warmup_requests: int
    starts_in_s: float
    stage: Stage


class NewShare(_Message):
    """To one worker, when another joined or was lost: its share from `from_s` after the start on."""

    from_s: float
    index: int
    count: int


class Grant(_Message):
    """To one worker: how many more requests it may send, of a limited number. `last`: there are no more after them."""

    requests: int
    last: bool


class Stop(_Message):
    """To all: send nothing more; what still runs after `grace_s` is cut."""

    grace_s: float


class Want(_Message):
    """From a worker that needs requests of a limited number."""

    requests: int


class Report(_Message):
    """From a worker, regularly: what came since the last one.

    Attributes:
        stage: the number of the stage that `stage_ledger` belongs to.
        begun, in_flight: requests so far, of all stages.
        sent: everything that the stage asked for is on its way, or over.
        tickets, spare_tickets: of a limited number of requests, how many it was granted, how many it still has.
        ledger, stage_ledger: Ledger.drain() of the whole run, and of the stage where the run has several.
        health: what HealthWatch saw.
    """

    stage: int
    begun: int
    in_flight: int
    sent: bool
    tickets: int
    spare_tickets: int
    ledger: dict[str, Any]
    stage_ledger: dict[str, Any] | None
    health: dict[str, Any]


class Failed(_Message):
    """From a worker that cannot take part, or whose code failed."""

    message: str
