"""Sends planned requests over the real transports under gevent, as Locust does, in a process of its own.

`python -m tests.loadtest.users.asking` takes a Job as JSON from each line of standard input and answers with a line of
Answers. `Asker` is the other side.
"""

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


@dataclass(frozen=True)
class Job:
    """`at_once` transports send all requests each, one after the other, due `late_s` ago.

    `close_after_s` closes the transports, `kill_after_s` kills the greenlets that send.
    """

    options: dict[str, Any]
    requests: Sequence[dict[str, Any]]
    at_once: int = 1
    late_s: float = 0.0
    prepare: bool = False
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
            [sys.executable, "-X", "utf8", "-m", "tests.loadtest.users.asking"],
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


def main() -> None:
    """The process under gevent."""
    from gevent import monkey

    monkey.patch_all()
    for line in sys.stdin:
        print(json.dumps(_work(Job(**json.loads(line)))), flush=True)


def _work(job: Job) -> list[dict[str, Any]]:
    import time

    import gevent

    from loadtest.users.transport import open_transport
    from loadtest.workloads.planned import PlannedRequest
    from tools.client.request import Message

    options = LoadOptions.model_validate(job.options)
    requests = [
        PlannedRequest(**{**entry, "messages": tuple(Message(*message) for message in entry.get("messages", ()))})
        for entry in job.requests
    ]
    target = options.targets[0]
    transports = [open_transport(options, target) for _ in range(job.at_once)]

    def send_all(transport: Any) -> list[dict[str, Any]]:
        answers = []
        for request in requests:
            if job.prepare:
                transport.prepare(request)
            answers.append(asdict(transport.send(request, time.time() - job.late_s)))
        return answers

    senders = [gevent.spawn(send_all, transport) for transport in transports]
    if job.close_after_s is not None:
        gevent.sleep(job.close_after_s)
        for transport in transports:
            transport.close()
    if job.kill_after_s is not None:
        gevent.sleep(job.kill_after_s)
        gevent.killall(senders)
    gevent.joinall(senders, raise_error=job.kill_after_s is None)
    for transport in transports:
        transport.close()
    return [answer for sender in senders if isinstance(sender.value, list) for answer in sender.value]


if __name__ == "__main__":
    main()
