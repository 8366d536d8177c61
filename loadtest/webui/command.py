"""The command that repeats a run."""

from __future__ import annotations

import json
from collections.abc import Iterator

from loadtest.options import LoadOptions, Shape, SlaLimits
from loadtest.statistics.results import RunResult

# The options of `./ladder loadtest` that are fields of LoadOptions, in the order in which they are shown.
_OPTIONS = {
    "host": "--url",
    "targets": "--targets",
    "protocol": "--protocol",
    "workload": "--workload",
    "input_tokens": "--input-tokens",
    "output_tokens": "--output-tokens",
    "tokenizer": "--tokenizer",
    "sampling": "--sampling",
    "shape": "--shape",
    "users": "--users",
    "rate": "--rate",
    "peak_rate": "--peak-rate",
    "duration_s": "--duration",
    "requests": "--requests",
    "warmup_s": "--warmup",
    "warmup_requests": "--warmup-requests",
    "deadline_s": "--deadline",
    "seed": "--seed",
    "ca_file": "--ca-file",
}


def command(result: RunResult) -> list[str]:
    """Words of a shell command that repeats the run; options left at their defaults are left out.

    A run that was stopped by hand is repeated for as long as it went.
    """
    words = ["./ladder", "loadtest"]
    for field, value in _chosen(_with_an_end(result)):
        words += [_OPTIONS[field], _text(value)]
    if result.sla is not None:
        words += ["--sla", _limits(result.sla)]
    return words


def _with_an_end(result: RunResult) -> LoadOptions:
    options = result.options
    if options.duration_s is not None or options.requests is not None or options.shape is Shape.SEARCH:
        return options
    return options.model_copy(update={"duration_s": float(max(1, round(result.seconds - options.warmup_s)))})


def _chosen(options: LoadOptions) -> Iterator[tuple[str, object]]:
    needed = {name for name, field in LoadOptions.model_fields.items() if field.is_required()}
    if options.shape is not Shape.USERS:
        needed.add("rate")
    changed = options.model_dump(exclude_defaults=True)
    for field in _OPTIONS:
        if field in needed or field in changed:
            yield field, getattr(options, field)


def _text(value: object) -> str:
    if isinstance(value, tuple):
        return ",".join(value)
    if isinstance(value, dict):
        return json.dumps(value, ensure_ascii=False)
    return str(value).removesuffix(".0")


def _limits(sla: SlaLimits) -> str:
    limits = sla.model_dump(exclude_none=True)
    return ",".join(f"{name}={_text(limit)}" for name, limit in limits.items())
