"""A measurement campaign: stages, each a command of `./ladder` with a time budget, in a file that people write.

    OUT/stages/NAME.json    how a stage ended
    OUT/stages/NAME.log     what it wrote
    OUT/...                 its results, where its command puts them: "{out}" in a command is this folder

A campaign that is asked for again goes on: what is done is not done again, and a stage that ran out of time is
continued. Stages of one group share a server, which is started for the first of them and stopped after the last.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from tools.bootstrap.interruption import interruption_held
from tools.bootstrap.layout import Layout
from tools.bootstrap.processes import isolated
from tools.bootstrap.whole_file import whole_file
from tools.serving.server import last_lines
from tools.spec.document import Document, DocumentError

from .errors import BenchmarkError

_STAGES: Final = "stages"
# A command that is told to end stops its servers first, and an engine gives its GPU back.
_END_S: Final = 45.0
_STOP_S: Final = 60.0
_TAIL_LINES: Final = 12
_LEAST_S: Final = 5.0

StageName = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]*$")]
Words = Annotated[tuple[str, ...], Field(min_length=1)]
Run = Callable[[Sequence[str], Path, float], int | None]
"""Runs a command of `./ladder` with its output appended to a file; its exit code, None when it took too long."""


class _Written(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Stage(_Written):
    """One command.

    Attributes:
        command: its words after `./ladder`.
        budget_s: how long it may take; `least_s`: with less time left than this it is not begun.
        why: what it is for, in a few words.
        exit_codes: those with which it is done.
        always: whether every run of the campaign does it anew, even when the time is up: what writes down what there
            is by now.
    """

    name: StageName
    why: str = ""
    command: Words
    budget_s: Annotated[float, Field(gt=0)]
    least_s: Annotated[float, Field(ge=0)] = 30.0
    exit_codes: tuple[int, ...] = (0,)
    always: bool = False


class Group(_Written):
    """Stages that share a server: `serve` starts it in the background, `stop` ends it."""

    name: StageName
    serve: Words | None = None
    serve_budget_s: Annotated[float, Field(gt=0)] = 240.0
    stop: Words | None = None
    stages: Annotated[tuple[Stage, ...], Field(min_length=1)]


class Campaign(_Written):
    """The most valuable groups first: what time does not reach is left for the next run."""

    name: StageName
    groups: Annotated[tuple[Group, ...], Field(min_length=1)]

    @property
    def stages(self) -> list[Stage]:
        return [stage for group in self.groups for stage in group.stages]


State = Literal["done", "failed", "out of time"]


class StageRecord(_Written):
    """How a stage ended. `reason` is empty for one that is done; `seconds` are those of its last run."""

    name: str
    command: tuple[str, ...]
    state: State
    reason: str = ""
    exit_code: int | None = None
    started_at: datetime
    seconds: float


@dataclass(frozen=True)
class CampaignOrder:
    """`only` names stages, empty for all; `again` runs also those that are done or have failed."""

    out: Path
    budget_s: float
    only: frozenset[str] = frozenset()
    again: bool = False


def read_campaign(path: Path) -> Campaign:
    """Raises BenchmarkError for a file that is not there, or not a campaign."""
    try:
        campaign = Document(path.read_text(encoding="utf-8"), path.name, "campaign").check(Campaign)
    except (OSError, UnicodeDecodeError) as error:
        raise BenchmarkError(f'campaign "{path}" cannot be read ({error})') from None
    except DocumentError as error:
        raise BenchmarkError(str(error)) from None
    names = [stage.name for stage in campaign.stages]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise BenchmarkError(f'{path.name}: two stages are called "{twice}": results are kept by name, rename one')
    return campaign


def run_campaign(
    campaign: Campaign, order: CampaignOrder, run: Run, report: Callable[[str], None]
) -> list[StageRecord]:
    """Run what is to be done within the budget; returns the records of all stages that have one.

    A stage that fails is recorded with its reason, and the others go on. Raises BenchmarkError for an unknown name in
    `only`; a KeyboardInterrupt leaves the records of what ended before it.
    """
    unknown = order.only - {stage.name for stage in campaign.stages}
    if unknown:
        known = ", ".join(stage.name for stage in campaign.stages)
        raise BenchmarkError(f'campaign "{campaign.name}" has no stage "{min(unknown)}": it has {known}')
    (order.out / _STAGES).mkdir(parents=True, exist_ok=True)
    walk = _Walk(order, run, report)
    for group in campaign.groups:
        walk.group(group)
    return [record for stage in campaign.stages if (record := walk.record(stage)) is not None]


class LadderCommand:
    """Runs commands of this checkout's `./ladder`, with the interpreter that runs this."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout

    def __call__(self, words: Sequence[str], log: Path, seconds: float) -> int | None:
        command = [sys.executable, "-I", "-X", "utf8", str(self._layout.home / "tools" / "cli"), *words]
        variables = isolated(os.environ) | {"LADDER_HOME": str(self._layout.home)}
        with log.open("ab") as output:
            output.write(f"\n$ ./ladder {' '.join(words)}\n".encode())
            output.flush()
            with contextlib.ExitStack() as ending:
                with interruption_held():
                    process = subprocess.Popen(
                        command,
                        stdin=subprocess.DEVNULL,
                        stdout=output,
                        stderr=output,
                        cwd=self._layout.home,
                        env=variables,
                        start_new_session=True,
                    )
                    ending.callback(_end, process)
                try:
                    return process.wait(seconds)
                except subprocess.TimeoutExpired:
                    return None


class _Walk:
    def __init__(self, order: CampaignOrder, run: Run, report: Callable[[str], None]) -> None:
        self._order = order
        self._run = run
        self._report = report
        self._ends_at = time.monotonic() + order.budget_s

    def group(self, group: Group) -> None:
        wanted = [stage for stage in group.stages if self._wanted(stage)]
        if not wanted:
            return
        least = min(0.0 if stage.always else stage.least_s + _LEAST_S for stage in wanted)
        if least and self._left() < least:
            for stage in wanted:
                self._report(f"{stage.name}: not begun, {self._left():.0f} s are left")
            return
        with self._served(group) as reason:
            for stage in wanted:
                if reason:
                    self._finish(stage, "failed", f"its server did not start: {reason}", None, time.monotonic())
                else:
                    self._stage(stage)

    def record(self, stage: Stage) -> StageRecord | None:
        """What is written down of a stage; None when there is nothing whole, or it was another command."""
        try:
            text = self._file(stage, "json").read_text(encoding="utf-8")
            record = StageRecord.model_validate_json(text)
        except (OSError, UnicodeDecodeError, ValidationError):
            return None
        return record if record.command == self._words(stage.command) else None

    def _wanted(self, stage: Stage) -> bool:
        if self._order.only and stage.name not in self._order.only:
            return False
        record = self.record(stage)
        return record is None or record.state == "out of time" or stage.always or self._order.again

    @contextlib.contextmanager
    def _served(self, group: Group) -> Iterator[str]:
        """The group's server; yields why there is none, empty when there is one or none is wanted."""
        if group.serve is None:
            yield ""
            return
        log = self._order.out / _STAGES / f"{group.name}-server.log"
        started = time.monotonic()
        self._report(f"{group.name}: starting its server")
        try:
            code = self._run(self._words(group.serve), log, min(group.serve_budget_s, max(_LEAST_S, self._left())))
            self._report(f"{group.name}: server after {time.monotonic() - started:.0f} s")
            yield "" if code == 0 else _why(code, log)
        finally:
            if group.stop is not None:
                self._run(self._words(group.stop), log, _STOP_S)

    def _stage(self, stage: Stage) -> None:
        left = stage.budget_s if stage.always else self._left()
        if left < stage.least_s:
            self._report(f"{stage.name}: not begun, {left:.0f} s are left")
            return
        started, log = time.monotonic(), self._file(stage, "log")
        seconds = min(stage.budget_s, left)
        self._report(f"{stage.name}: at most {seconds:.0f} s")
        code = self._run(self._words(stage.command), log, seconds)
        if code is None:
            self._finish(stage, "out of time", f"it took more than {seconds:.0f} s", None, started)
        elif code in stage.exit_codes:
            self._finish(stage, "done", "", code, started)
        else:
            self._finish(stage, "failed", _why(code, log), code, started)

    def _finish(self, stage: Stage, state: State, reason: str, code: int | None, started: float) -> None:
        seconds = round(time.monotonic() - started, 1)
        record = StageRecord(
            name=stage.name,
            command=self._words(stage.command),
            state=state,
            reason=reason,
            exit_code=code,
            started_at=datetime.now(UTC),
            seconds=seconds,
        )
        with whole_file(self._file(stage, "json")) as draft:
            draft.write_text(record.model_dump_json(indent=2) + "\n", encoding="utf-8")
        self._report(f"{stage.name}: {state} after {seconds:.0f} s{f': {reason}' if reason else ''}")

    def _words(self, command: Sequence[str]) -> tuple[str, ...]:
        return tuple(word.replace("{out}", str(self._order.out)) for word in command)

    def _file(self, stage: Stage, suffix: str) -> Path:
        return self._order.out / _STAGES / f"{stage.name}.{suffix}"

    def _left(self) -> float:
        return self._ends_at - time.monotonic()


def _why(code: int | None, log: Path) -> str:
    """The last words of a command that failed."""
    tail = [line.strip() for line in last_lines(log, _TAIL_LINES) if line.strip()]
    said = " / ".join(tail[-3:]) or "it said nothing"
    return f'exit code {code}: {said} (in "{log}")' if code is not None else f'it took too long: {said} (in "{log}")'


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ends a command in order if it still runs; what does not end then is killed, with what it started."""
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_END_S)
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def wanted_names(words: Collection[str]) -> frozenset[str]:
    """Names out of the words of an option."""
    return frozenset(word.strip() for word in words if word.strip())
