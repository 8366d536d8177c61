"""The options of a load test, on Locust's command line and in its web form, and how they become `LoadOptions`.

Each is kept as the text that was given, "" for nothing: the form overwrites what the command line said with texts of
its own, so both are read in one place, with the same errors.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from locust.argument_parser import LocustArgumentParser
from locust.util.timespan import parse_timespan
from pydantic import ValidationError

from loadtest.errors import LoadTestError
from loadtest.options import LoadOptions, Protocol, Shape, SlaLimits
from loadtest.shapes.curves import curve_of
from loadtest.statistics.sla import parse_sla
from loadtest.workloads.catalogue import workload_names

_OPEN_LOOP: Final = tuple(shape for shape in Shape if shape is not Shape.USERS)


@dataclass(frozen=True, slots=True)
class RunRequest:
    """Everything a run is asked for. `out` is the folder for the results, None to write none."""

    options: LoadOptions
    sla: SlaLimits | None
    out: Path | None


@dataclass(frozen=True, slots=True)
class _Argument:
    """`field` is what it is called in LoadOptions; a span takes 90, 90s or 1m30s."""

    name: str
    field: str
    span: bool = False

    @property
    def option(self) -> str:
        return "--" + self.name.replace("_", "-")


# Locust's own options first.
_ARGUMENTS: Final = (
    _Argument("host", "host"),
    _Argument("users", "users"),
    _Argument("run_time", "duration_s", span=True),
    _Argument("targets", "targets"),
    _Argument("protocol", "protocol"),
    _Argument("workload", "workload"),
    _Argument("input_tokens", "input_tokens"),
    _Argument("output_tokens", "output_tokens"),
    _Argument("tokenizer", "tokenizer"),
    _Argument("sampling", "sampling"),
    _Argument("shape", "shape"),
    _Argument("rate", "rate"),
    _Argument("peak_rate", "peak_rate"),
    _Argument("requests", "requests"),
    _Argument("warmup", "warmup_s", span=True),
    _Argument("warmup_requests", "warmup_requests"),
    _Argument("deadline", "deadline_s", span=True),
    _Argument("seed", "seed"),
    _Argument("ca_file", "ca_file"),
)
_OPTION_OF_FIELD: Final = {argument.field: argument.option for argument in _ARGUMENTS}


def add_arguments(parser: LocustArgumentParser, command_line: Sequence[str]) -> None:
    """Add the options of a load test; the web form shows all of them but --out."""

    def add(name: str, text: str, metavar: str, *, choices: Sequence[str] | None = None, **more: Any) -> None:
        parser.add_argument(name, help=text, metavar=metavar, choices=choices, **{"default": "", **more})

    add("--targets", "Models to test, MODEL or MODEL:VERSION, with commas between them", "A,B", is_required=True)
    add(
        "--protocol",
        "How the models are asked",
        "NAME",
        choices=[protocol.value for protocol in Protocol],
        default=Protocol.GENERATE_STREAM.value,
    )
    add(
        "--workload",
        "What is asked: a shipped workload, or the path of a YAML or JSONL file",
        "NAME|FILE",
        choices=_Suggestions([*workload_names(), *_given_workload(command_line)]),
        default="chat",
    )
    add("--input-tokens", "Prompt tokens, instead of the workload's own", "N")
    add("--output-tokens", "Output tokens, instead of the workload's own", "N")
    add("--tokenizer", "tokenizer.json of the model, for prompts of exactly the lengths that are drawn", "FILE")
    add("--sampling", 'Sampling parameters over the workload\'s, such as {"temperature": 0}', "JSON")
    add(
        "--shape",
        "users: so many at a time; the others are arrivals a second, which a slow server does not slow: "
        "rate: steady; ramp: rising; spike: in the middle; search: the highest rate inside the SLA",
        "NAME",
        choices=[shape.value for shape in Shape],
        default=Shape.USERS.value,
    )
    add("--rate", "Arrivals a second, in all; ramp, spike and search start with it", "R")
    add("--peak-rate", "The highest arrivals a second, of ramp, spike and search", "R")
    add("--requests", "End the run after so many requests, the warm-up's included", "N")
    add("--warmup", "What is due before that is not counted, such as 10s; of search: of each step", "TIME")
    add("--warmup-requests", "So many requests of the run are not counted", "N")
    add("--deadline", "A request without its whole answer after that is a failure", "TIME", default="120")
    add("--seed", "Of the workload and the arrivals", "N", default="0")
    add("--ca-file", "PEM file of the authority behind an https or grpcs server's certificate", "FILE")
    add("--sla", "Limits to keep, such as ttft_ms=500,tpot_ms=50,p99_e2e_s=4,min_qps=20", "LIMITS")
    add("--out", "Folder for the results", "DIR", include_in_web_ui=False)


def read_arguments(values: Mapping[str, Any]) -> RunRequest:
    """What the options ask for. `values` are those of Locust's parsed options, or of its web form.

    Raises LoadTestError, which names the option.
    """
    given = {name: _text(values.get(name)) for name in (*(argument.name for argument in _ARGUMENTS), "sla", "out")}
    given["users"] = _text(values.get("num_users"))
    _check_spawn_rate(_text(values.get("spawn_rate")))
    options = _options(given)
    sla = _sla(given["sla"])
    if options.shape is Shape.SEARCH and sla is None:
        raise LoadTestError("--shape search looks for the highest rate inside limits: give them with --sla")
    return RunRequest(options, sla, Path(given["out"]) if given["out"] else None)


def _check_spawn_rate(text: str) -> None:
    """Locust's own, which it looks at only when the run has begun, and then never ends."""
    try:
        usable = not text or 0 < float(text) < math.inf
    except ValueError:
        usable = False
    if not usable:
        raise LoadTestError(f'--spawn-rate "{text}" is no number of users a second above 0')


def _sla(text: str) -> SlaLimits | None:
    try:
        return parse_sla(text) if text else None
    except ValueError as error:
        raise LoadTestError(f"--sla: {error}") from error


def _options(given: Mapping[str, str]) -> LoadOptions:
    for needed, example in (("host", "http://127.0.0.1:8000"), ("targets", "llm_bf16,llm_awq")):
        if not given[needed]:
            raise LoadTestError(f"--{needed} is missing: say what to test, such as --{needed} {example}")
    fields: dict[str, Any] = {
        argument.field: _seconds(argument.option, given[argument.name]) if argument.span else given[argument.name]
        for argument in _ARGUMENTS
        if given[argument.name]
    }
    fields["targets"] = targets = tuple(word.strip() for word in given["targets"].split(","))
    fields.setdefault("users", len(targets))
    if "sampling" in fields:
        fields["sampling"] = _json_object("--sampling", given["sampling"])
    try:
        options = LoadOptions(**fields)
    except ValidationError as error:
        raise LoadTestError("\n".join(map(_in_plain_words, error.errors()))) from error
    _check_shape(options, given)
    return options


def _check_shape(options: LoadOptions, given: Mapping[str, str]) -> None:
    if options.shape is Shape.USERS:
        for name, option in (("rate", "--rate"), ("peak_rate", "--peak-rate")):
            if given[name]:
                raise LoadTestError(
                    f"{option} {given[name]} has no meaning with --shape users, where each user waits for its answer: "
                    f"give --shape {' or '.join(_OPEN_LOOP)}, or leave {option} out"
                )
        if options.users < len(options.targets):
            raise LoadTestError(
                f"--users {options.users} cannot ask {len(options.targets)} targets at the same time: "
                f"give at least {len(options.targets)}"
            )
    elif not given["rate"]:
        raise LoadTestError(f"--shape {options.shape} needs --rate, the arrivals a second it starts with")
    if options.shape in (Shape.RAMP, Shape.SPIKE) and options.duration_s is None:
        raise LoadTestError(f"--shape {options.shape} is drawn over the run: say how long that is with --run-time")
    if options.shape is Shape.SEARCH and (options.requests is not None or options.warmup_requests):
        raise LoadTestError(
            "--shape search ends when it has found the rate: leave --requests and --warmup-requests out"
        )
    curve_of(options)


def _text(value: object) -> str:
    return "" if value is None else str(value).strip()


def _seconds(option: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        pass
    try:
        return float(parse_timespan(text))
    except ValueError:
        raise LoadTestError(f'{option} "{text}" is no length of time: write 90, 90s, 20m or 1h30m') from None


def _json_object(option: str, text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError as error:
        raise LoadTestError(f"{option} '{text}' is not JSON: {error}") from None
    except RecursionError:
        raise LoadTestError(f"{option} is nested too deeply: sampling parameters are names with values") from None
    if not isinstance(value, dict):
        raise LoadTestError(f"{option} '{text}' is no JSON object: write it like '{{\"temperature\": 0}}'")
    return value


def _in_plain_words(error: Mapping[str, Any]) -> str:
    """One of pydantic's errors, with the option instead of the field."""
    limits = error.get("ctx", {})
    if not error["loc"]:
        message = str(error["msg"]).removeprefix("Value error, ")
        return message.replace("peak_rate", "--peak-rate").replace("under rate", "under --rate")
    option = _OPTION_OF_FIELD.get(str(error["loc"][0]), str(error["loc"][0]))
    match error["type"]:
        case "int_parsing" | "int_from_float":
            what = "is no whole number"
        case "float_parsing":
            what = "is no number"
        case "finite_number":
            what = "is not finite: give a number that is"
        case "greater_than":
            what = f"is too little: it must be above {limits['gt']:g}"
        case "greater_than_equal":
            what = f"is too little: the least is {limits['ge']:g}"
        case "less_than_equal":
            what = f"is too much: the most is {limits['le']:.12g}"
        case "enum":
            what = f"is none of {limits['expected']}"
        case _:
            return f"{option}: {str(error['msg']).removeprefix('Value error, ')}"
    return f'{option} "{error["input"]}" {what}'


class _Suggestions(list[str]):
    """Choices of the web form's select that do not rule other values out on the command line."""

    def __contains__(self, _: object) -> bool:
        return True


def _given_workload(command_line: Sequence[str]) -> Iterable[str]:
    """A workload named on the command line that is not shipped: the form could not show it otherwise."""
    early = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    early.add_argument("--workload")
    known, _ = early.parse_known_args(command_line)
    return [known.workload] if known.workload and known.workload not in workload_names() else []
