"""What is to be quantised and how: the messages between the command and the process that does it."""

from __future__ import annotations

from pathlib import Path
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict

from tools.artifacts.manifest import Calibration, Losses, Recipe

JOB: Final = "job.json"
OUTCOME: Final = "outcome.json"


class Job(BaseModel):
    """Written into `work`, the folder that survives an interruption; whatever differs in it makes layers start anew.

    `fingerprint` is that of the source's files, `lock` the hash of the environment the job runs in.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    source: Path
    work: Path
    fingerprint: str
    lock: str
    recipe: Recipe
    calibration_sha256: str
    heldout_sha256: str

    @property
    def calibration(self) -> Path:
        return self.work / "calibration.jsonl"

    @property
    def heldout(self) -> Path:
        return self.work / "heldout.jsonl"

    @property
    def layers(self) -> Path:
        """One safetensors file for every finished layer."""
        return self.work / "layers"

    @property
    def result(self) -> Path:
        return self.work / "result"


class Step(BaseModel):
    """A line of progress. `done` of `total` layers where the phase has layers, `seconds_left` once it is known."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    phase: str
    done: int | None = None
    total: int | None = None
    seconds_left: float | None = None

    def __str__(self) -> str:
        text = self.phase
        if self.total is not None:
            text += f", {self.done} of {self.total} layers"
        if self.seconds_left is not None:
            minutes, seconds = divmod(round(self.seconds_left), 60)
            text += f", {minutes}:{seconds:02d} left"
        return text


class Outcome(BaseModel):
    """What the process found out; `seconds` is the time it took, without layers that an earlier run had finished."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    device: Literal["cpu", "cuda"]
    threads: int
    seconds: float
    resumed_layers: int
    calibration: Calibration
    losses: Losses
    versions: dict[str, str]
