"""How far a run is, on one line every few seconds."""

from __future__ import annotations

import time
from typing import Final, NoReturn

import gevent
from rich.console import Console
from rich.text import Text

from .conductor import Conductor

_EVERY_S: Final = 5.0
_WAITING_EVERY_S: Final = 2.0
_LAST_SECONDS: Final = 5


def print_progress(console: Console, conductor: Conductor) -> NoReturn:
    """Until the greenlet is killed."""
    while True:
        gevent.sleep(_EVERY_S)
        line = progress_line(conductor)
        if line:
            console.print(Text(line))


def print_waiting(console: Console, host: str) -> NoReturn:
    """Until the greenlet is killed: a server that is asked before the run takes its time."""
    began_at = time.monotonic()
    while True:
        gevent.sleep(_WAITING_EVERY_S)
        waited = time.monotonic() - began_at
        console.print(Text(f'waiting for "{host}" to answer, {waited:.0f} s so far', style="dim"), soft_wrap=True)


def progress_line(conductor: Conductor) -> str:
    """Time, and per target what was answered and what runs; empty when no run is on."""
    run = conductor.running
    if run is None:
        return ""
    result, timeline = run.result(with_histograms=False), run.timeline(max(0, int(run.elapsed_s) - _LAST_SECONDS))
    parts = []
    for target in result.targets:
        seconds = timeline.targets[target.target]
        in_flight = seconds[-1].in_flight if seconds else 0
        failures = sum(target.failures.values())
        part = f"{target.target}: {target.requests} requests, {in_flight} running"
        if failures:
            part += f", {failures} failed"
        if target.ttft_ms.p50 is not None:
            part += f", TTFT p50 {target.ttft_ms.p50:.3g} ms"
        parts.append(part)
    warmup = ", warm-up" if run.elapsed_s < run.options.warmup_s else ""
    return f"{run.elapsed_s:5.0f} s{warmup}  " + "  |  ".join(parts)
