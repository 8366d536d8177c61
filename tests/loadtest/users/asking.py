"""Sends planned requests over the real transports under gevent, as Locust does, in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from loadtest.options import LoadOptions
from loadtest.statistics.outcome import ErrorKind, Failure, Outcome
from tests.serving.ladder import HOME

UNDER_GEVENT = ("-m", "gevent.monkey", "--module")


@dataclass(frozen=True)
class Job:
    """`at_once` transports send all requests each, one after the other, due `late_s` ago.

    They `pause_s` after each. `close_after_s` closes the transports, `kill_after_s` kills the greenlets that send.
    """

    options: dict[str, Any]
    requests: Sequence[dict[str, Any]]
    at_once: int = 1
    late_s: float = 0.0
    prepare: bool = False
    pause_s: float = 0.0
    close_after_s: float | None = None
    kill_after_s: float | None = None


@dataclass(frozen=True)
class Answered:
    outcome: Outcome
    text: str

    @property
    def failure(self) -> Failure:
        assert self.outcome.failure is not None, self
        return self.outcome.failure


@dataclass
class Asker:
    """The process, which answers one job after the other."""

    process: subprocess.Popen[str] = field(
        default_factory=lambda: subprocess.Popen(
            [sys.executable, "-X", "utf8", *UNDER_GEVENT, "tests.loadtest.users.asking_process"],
            cwd=HOME,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
        )
    )

    def ask(self, options: LoadOptions, *requests: dict[str, Any], **job: Any) -> list[Answered]:
        """The answers, those of one transport after those of the other."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        text = json.dumps(asdict(Job(options.model_dump(mode="json"), requests, **job)))
        self.process.stdin.write(text + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        assert line, "the asking process has ended"
        return [_answered(entry) for entry in json.loads(line)]

    def end(self) -> int:
        """Its exit status: it has to end by itself, whatever was open."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        try:
            return self.process.wait(20)
        finally:
            self.process.kill()
            self.process.wait()


def _answered(entry: dict[str, Any]) -> Answered:
    outcome = entry["outcome"]
    if outcome["failure"] is not None:
        outcome["failure"] = Failure(ErrorKind(outcome["failure"]["kind"]), outcome["failure"]["message"])
    outcome["itl_s"] = tuple(outcome["itl_s"])
    return Answered(Outcome(**outcome), entry["text"])
