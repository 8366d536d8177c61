"""Where a release stands: everything that its controller has to know to go on after it was killed."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from pydantic import BaseModel, ConfigDict

from .history import Event
from .observation import Counts, Observation
from .plan import Plan


class Stage(StrEnum):
    """LOADING and CHECKING come before the new version has any weight. BASELINE watches the stable target alone, at the
    load that the new one is to take over; STEP is one of the plan's. The last two are ends.
    """

    LOADING = "loading"
    CHECKING = "checking"
    BASELINE = "baseline"
    STEP = "step"
    PROMOTED = "promoted"
    ABORTED = "aborted"


class Progress(BaseModel):
    """One release of one target on one route. Times are in seconds since the epoch.

    `before` are the weights that an abort goes back to. `event` is the latest thing done or about to be done: whoever
    reads this first sees to it that the weights and the history say so. `entered` is when the stage or step was begun,
    `window` the look at which its counting began, None until the router has taken the weights over. `looks` were had at
    this step, `closing` is true once one of them came after the bake. `baseline` is what the stable target did while it
    had everything. `order` is the id of the last order that was read, `reply` what came of it, `refused` when nothing.
    """

    model_config = ConfigDict(frozen=True)

    id: str
    route: str
    target: str
    stable: str
    plan: Plan
    who: str
    before: Mapping[str, float]
    stage: Stage
    event: Event
    events: int = 1
    step: int = 0
    paused: bool = False
    why: str = ""
    entered: float
    window: Observation | None = None
    looks: int = 0
    closing: bool = False
    baseline: Counts | None = None
    order: str = ""
    reply: str = ""
    refused: bool = False

    @property
    def over(self) -> bool:
        """Whether nothing more happens by itself."""
        return self.stage in (Stage.PROMOTED, Stage.ABORTED)

    @property
    def has_weight(self) -> bool:
        """Whether the target may be getting requests by this release."""
        return self.stage in (Stage.STEP, Stage.PROMOTED)

    @property
    def share(self) -> float:
        """Percent of the route's requests that the target is to get now."""
        return self.event.after.get(self.target, 0.0)

    @property
    def title(self) -> str:
        """Stage and step, for people."""
        if self.stage is Stage.STEP:
            return f"step {self.step + 1} of {len(self.plan.steps)}, {self.plan.steps[self.step]:g} %"
        return self.stage.value
