"""From Locust's command line and web form to what a run is asked for, and what is said about mistakes."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest

from loadtest.errors import LoadTestError
from loadtest.options import Protocol, Shape
from loadtest.workloads.catalogue import workload_names
from tests.loadtest.locust_parser import parsed, parser

GIVEN = ("--host", "http://127.0.0.1:8000", "--targets", "llm_bf16,llm_awq:1")


def read(*arguments: str) -> Any:
    from loadtest.arguments import read_arguments

    return read_arguments(vars(parsed(*arguments)))


def test_what_is_left_out_is_the_default_with_a_user_for_each_target() -> None:
    request = read(*GIVEN)

    assert request.options.targets == ("llm_bf16", "llm_awq:1")
    assert request.options.protocol is Protocol.GENERATE_STREAM
    assert (request.options.shape, request.options.users) == (Shape.USERS, 2)
    assert (request.options.duration_s, request.options.requests, request.options.deadline_s) == (None, None, 120)
    assert (request.sla, request.out) == (None, None)


def test_every_option_finds_its_field() -> None:
    request = read(
        *GIVEN,
        *("--protocol", "grpc", "--workload", "zh", "--input-tokens", "50", "--output-tokens", "256"),
        *("--tokenizer", "models/x"),
        *("--sampling", '{"temperature": 0.5}', "--shape", "ramp", "--rate", "2.5", "--peak-rate", "10"),
        *("--run-time", "1m30s", "--requests", "40", "--warmup", "1m", "--warmup-requests", "3"),
        *("--deadline", "2.5", "--seed", "7", "--sla", "ttft_ms=500,min_qps=2", "--out", "results", "-u", "3"),
        *("--ca-file", "ca.pem"),
    )
    options = request.options

    assert options.model_dump(mode="json", exclude={"host", "targets"}) == {
        "protocol": "grpc",
        "workload": "zh",
        "input_tokens": 50,
        "output_tokens": 256,
        "tokenizer": "models/x",
        "sampling": {"temperature": 0.5},
        "shape": "ramp",
        "users": 3,
        "rate": 2.5,
        "peak_rate": 10,
        "duration_s": 90,
        "requests": 40,
        "warmup_s": 60,
        "warmup_requests": 3,
        "deadline_s": 2.5,
        "seed": 7,
        "ca_file": "ca.pem",
    }
    assert (request.sla.ttft_ms, request.sla.min_qps) == (500, 2)
    assert request.out == Path("results")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--host", "", "--targets", "a"), "--host is missing: say what to test, such as --host http://127.0.0.1:8000"),
        (("--host", "http://h:1"), "--targets is missing: say what to test, such as --targets llm_bf16,llm_awq"),
        ((*GIVEN, "--targets", "a,b,a"), 'target "a" is named twice: name each once'),
        ((*GIVEN, "--targets", "a:x"), 'the version "x" is not a positive integer'),
        ((*GIVEN, "--output-tokens", "many"), '--output-tokens "many" is no whole number'),
        ((*GIVEN, "--output-tokens", "0"), '--output-tokens "0" is too little: the least is 1'),
        ((*GIVEN, "--shape", "rate", "--rate", "fast"), '--rate "fast" is no number'),
        ((*GIVEN, "--shape", "rate", "--rate", "0"), '--rate "0" is too little: the least is 1e-06'),
        ((*GIVEN, "--warmup", "soon"), '--warmup "soon" is no length of time: write 90, 90s, 20m or 1h30m'),
        ((*GIVEN, "--warmup", "-1"), '--warmup "-1.0" is too little: the least is 0'),
        ((*GIVEN, "--warmup", "inf"), '--warmup "inf" is not finite: give a number that is'),
        ((*GIVEN, "--deadline", "nan"), '--deadline "nan" is not finite: give a number that is'),
        ((*GIVEN, "--warmup", "1e308"), '--warmup "1e+308" is too much: the most is 1000000'),
        ((*GIVEN, "--shape", "rate", "--rate", "inf"), '--rate "inf" is not finite: give a number that is'),
        ((*GIVEN, "--shape", "rate", "--rate", "1e308"), '--rate "1e308" is too much: the most is 100000'),
        ((*GIVEN, "--shape", "rate", "--rate", "1e-320"), '--rate "1e-320" is too little: the least is 1e-06'),
        ((*GIVEN, "--input-tokens", "10000000"), '--input-tokens "10000000" is too much: the most is 1000000'),
        ((*GIVEN, "--users", "99999999999"), '--users "99999999999" is too much: the most is 100000'),
        ((*GIVEN, "--sampling", '{"top_p": NaN}'), '--sampling "nan" is not finite'),
        ((*GIVEN, "--sampling", '{"n": [1e999]}'), '--sampling "inf" is not finite'),
        ((*GIVEN, "--sampling", '{"n":' * 9999), "--sampling is nested too deeply"),
        ((*GIVEN, "--targets", "a\0"), r"'a\x00' has a character that no model's name has"),
        ((*GIVEN, "--users", "0"), '--users "0" is too little: the least is 1'),
        ((*GIVEN, "--users", "1"), "--users 1 cannot ask 2 targets at the same time: give at least 2"),
        ((*GIVEN, "--sampling", "{"), "--sampling '{' is not JSON"),
        ((*GIVEN, "--sampling", "[1]"), "--sampling '[1]' is no JSON object"),
        ((*GIVEN, "--sla", "speed=1"), '--sla: SLA "speed=1" is not a limit'),
        ((*GIVEN, "--rate", "4"), "--rate 4 has no meaning with --shape users"),
        ((*GIVEN, "--shape", "rate"), "--shape rate needs --rate, the arrivals a second it starts with"),
        ((*GIVEN, "--shape", "ramp", "--rate", "1"), 'shape "ramp" needs --peak-rate'),
        (
            (*GIVEN, "--shape", "ramp", "--rate", "3", "--peak-rate", "2", "-t", "9"),
            "--peak-rate 2 is under --rate 3",
        ),
        (
            (*GIVEN, "--shape", "spike", "--rate", "1", "--peak-rate", "2"),
            "--shape spike is drawn over the run: say how long that is with --run-time",
        ),
        (
            (*GIVEN, "--shape", "search", "--rate", "1", "--peak-rate", "2"),
            "--shape search looks for the highest rate inside limits: give them with --sla",
        ),
        (
            (*GIVEN, "--shape", "search", "--rate", "1", "--peak-rate", "2", "--sla", "ttft_ms=9", "--requests", "9"),
            "--shape search ends when it has found the rate: leave --requests and --warmup-requests out",
        ),
    ],
)
def test_mistakes_are_named_by_their_option(arguments: tuple[str, ...], message: str) -> None:
    with pytest.raises(LoadTestError) as caught:
        read(*arguments)

    assert message in str(caught.value)


def test_the_web_form_overwrites_with_texts_and_may_leave_fields_empty() -> None:
    from loadtest.arguments import read_arguments

    values = vars(parsed(*GIVEN, "--output-tokens", "9"))
    form = {"rate": "", "output_tokens": "12", "num_users": "5", "requests": "", "sla": "", "shape": "users"}
    request = read_arguments({**values, **form})

    assert (request.options.output_tokens, request.options.users, request.options.requests) == (12, 5, None)


@pytest.mark.parametrize("rate", ["nan", "inf", "-1", "0", "fast"])
def test_the_web_form_refuses_a_spawn_rate_that_would_never_end(rate: str) -> None:
    from loadtest.arguments import read_arguments

    with pytest.raises(LoadTestError) as refused:
        read_arguments({**vars(parsed(*GIVEN)), "spawn_rate": rate})
    assert str(refused.value) == f'--spawn-rate "{rate}" is no number of users a second above 0'


def test_protocols_shapes_and_workloads_are_selects_in_the_form() -> None:
    shown = parser().args_included_in_web_ui

    assert shown["protocol"].choices == ["generate_stream", "generate", "grpc", "openai"]
    assert shown["shape"].choices == ["users", "rate", "ramp", "spike", "search"]
    assert list(shown["workload"].choices or ()) == workload_names()
    assert "out" not in shown


def test_a_workload_of_the_users_own_is_taken_and_shown_in_the_form() -> None:
    shown = parser("--workload", "mine.jsonl").args_included_in_web_ui

    assert list(shown["workload"].choices or ()) == [*workload_names(), "mine.jsonl"]
    options: Namespace = parsed(*GIVEN, "--workload", "mine.jsonl")
    assert options.workload == "mine.jsonl"
