"""The command that repeats a run."""

from __future__ import annotations

import json
from collections.abc import Iterator

from loadtest.options import LoadOptions, SlaLimits
from loadtest.statistics.results import RunResult

# The options of `./ladder loadtest` that are fields of LoadOptions, in the order in which they are shown.
_OPTIONS = {
    "host": "--host",
    "targets": "--targets",
    "protocol": "--protocol",
    "workload": "--workload",
    "input_tokens": "--input-tokens",
    "output_tokens": "--output-tokens",
    "sampling": "--sampling",
    "shape": "--shape",
    "users": "--users",
    "rate": "--rate",
    "peak_rate": "--peak-rate",
    "duration_s": "--run-time",
    "requests": "--requests",
    "warmup_s": "--warmup",
    "warmup_requests": "--warmup-requests",
    "deadline_s": "--deadline",
    "seed": "--seed",
}


def command(result: RunResult) -> list[str]:
    """Words of a shell command that repeats the run; options left at their defaults are left out."""
    words = ["./ladder", "loadtest"]
    for field, value in _chosen(result.options):
        words += [_OPTIONS[field], value]
    if result.sla is not None:
        words += ["--sla", _limits(result.sla)]
    return words


def _chosen(options: LoadOptions) -> Iterator[tuple[str, str]]:
    for field in _OPTIONS:
        value = getattr(options, field)
        if LoadOptions.model_fields[field].is_required() or value != LoadOptions.model_fields[field].get_default(
            call_default_factory=True
        ):
            yield field, _text(value)


def _text(value: object) -> str:
    if isinstance(value, tuple):
        return ",".join(value)
    if isinstance(value, dict):
        return json.dumps(value, ensure_ascii=False)
    return f"{value:g}" if isinstance(value, float) else str(value)


def _limits(sla: SlaLimits) -> str:
    limits = sla.model_dump(exclude_none=True, exclude_defaults=True)
    return ",".join(f"{name}={limit:g}" for name, limit in limits.items())
