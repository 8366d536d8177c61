"""`python -m gevent.monkey --module tests.loadtest.users.asking_process` takes a Job as JSON from each line of
standard input and answers with a line of what came of its requests.

Everything is imported under gevent, as Locust has it: a queue or lock from before would block the event loop.
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import asdict
from typing import Any

import gevent

from loadtest.options import LoadOptions
from loadtest.users.transport import open_transport
from loadtest.workloads.planned import PlannedRequest
from tests.loadtest.users.asking import Job
from tools.client.request import Message


def main() -> None:
    for line in sys.stdin:
        print(json.dumps(_work(Job(**json.loads(line)))), flush=True)


def _work(job: Job) -> list[dict[str, Any]]:
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
            gevent.sleep(job.pause_s)
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
