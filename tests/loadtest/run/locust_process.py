"""Locust as users start it, in processes of their own, against a fake tritonserver."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from loadtest.statistics.results import RunResult
from tests.client.fakes.triton import FakeTriton, Say, Seen, Step, engine, tokenizer
from tests.waiting import wait_until
from tools.bootstrap.layout import Layout
from tools.bootstrap.processes import isolated

LOCUSTFILE = Layout.of_this_checkout().home / "loadtest" / "locustfile.py"
PATIENCE_S = 60.0


def slow_triton(seconds: float = 0.01) -> FakeTriton:
    """Two models, "quick" and "slow" (`seconds` an answer), which say two tokens, and the chat template."""

    def quick(seen: Seen) -> Sequence[Step]:
        if seen.inputs["stream"][0]:
            return [Say("Hello ", input_tokens=3), Say("there", finish="length", input_tokens=3, final=True)]
        return [Say("Hello there", tokens=2, finish="length", input_tokens=3, final=True)]

    def slow(seen: Seen) -> Sequence[Step]:
        time.sleep(seconds)
        return quick(seen)

    return FakeTriton(engine("quick", script=quick), engine("slow", script=slow), tokenizer())


@dataclass
class Locust:
    """A process; what it writes goes to `log`."""

    process: subprocess.Popen[bytes]
    log: Path

    def said(self) -> str:
        """One line, so that the width of the terminal does not matter."""
        return " ".join(self.log.read_text(encoding="utf-8", errors="replace").split())

    def wait(self) -> int:
        return self.process.wait(PATIENCE_S)

    def wait_for(self, text: str) -> None:
        def holds() -> bool:
            assert self.process.poll() is None or text in self.said(), self.said()
            return text in self.said()

        wait_until(holds, PATIENCE_S)

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)


@contextmanager
def locust(folder: Path, *arguments: str, name: str = "locust") -> Iterator[Locust]:
    """`locust -f .../locustfile.py ARGUMENTS`, from a folder that is not the repository's."""
    log = folder / f"{name}.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "locust", "-f", str(LOCUSTFILE), *arguments],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd=folder,
            env={**isolated(os.environ), "PYTHONUNBUFFERED": "1", "COLUMNS": "200"},
        )
    try:
        yield Locust(process, log)
    finally:
        process.kill()
        process.wait()


def result_in(folder: Path) -> RunResult:
    return RunResult.model_validate_json((folder / "results.json").read_text(encoding="utf-8"))


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port
