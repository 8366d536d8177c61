"""A run's options in words, with units."""

from __future__ import annotations

import json
from collections.abc import Iterator

from loadtest.options import LoadOptions, Shape
from loadtest.statistics.results import RunResult


def settings(result: RunResult) -> Iterator[tuple[str, str]]:
    """What the run was asked to do, in words with units."""
    options = result.options
    yield "Server", options.host
    yield "Protocol", options.protocol
    yield "Workload", options.workload
    yield "Input tokens", "the workload's own" if options.input_tokens is None else str(options.input_tokens)
    yield "Output tokens", "the workload's own" if options.output_tokens is None else str(options.output_tokens)
    if options.sampling:
        yield "Sampling", json.dumps(options.sampling, ensure_ascii=False)
    yield "Load", load(options)
    if options.duration_s is not None:
        yield "Duration asked for", f"{options.duration_s:g} s"
    if options.requests is not None:
        yield "Requests asked for", f"{options.requests:,}"
    yield "Warm-up", f"{options.warmup_s:g} s and {options.warmup_requests} requests; {result.warmup_requests} left out"
    yield "Deadline", f"{options.deadline_s:g} s a request"
    yield "Seed", str(options.seed)


def load(options: LoadOptions) -> str:
    """How requests come: by users who wait for their answers, or by the clock."""
    if options.shape is Shape.USERS:
        return f"{options.users} {'user' if options.users == 1 else 'users'}, each waiting for its answer (closed loop)"
    if options.shape is Shape.RATE:
        return f"{options.rate:g} requests/s, whatever the server does (open loop)"
    return f"{options.shape} from {options.rate:g} to {options.peak_rate:g} requests/s (open loop)"
