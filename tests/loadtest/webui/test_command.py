from __future__ import annotations

import pytest

from loadtest.launching import LocustPlan
from loadtest.options import SlaLimits
from loadtest.webui.command import command
from tests.loadtest.locust_parser import parsed
from tests.loadtest.webui.runs import answer, options, run_of
from tools.cli.app import main


def test_options_at_their_defaults_are_left_out() -> None:
    result, _ = run_of([], options=options(users=1, requests=5))
    assert command(result) == [
        "./ladder", "loadtest", "--url", "http://127.0.0.1:8000", "--targets", "llm_bf16,llm_awq", "--requests", "5",
    ]  # fmt: skip


def test_everything_else_is_named() -> None:
    asked = options(
        targets=("llm_awq:1",),
        protocol="grpc",
        workload="my workload.yaml",
        output_tokens=256,
        sampling={"temperature": 0.5},
        shape="ramp",
        rate=0.5,
        peak_rate=4,
        users=1,
        duration_s=90,
        warmup_s=10,
        deadline_s=30,
        seed=7,
    )
    result, _ = run_of([], options=asked, sla=SlaLimits(ttft_ms=500, p99_e2e_s=4, max_failures_percent=1))
    assert command(result)[2:] == [
        "--url", "http://127.0.0.1:8000",
        "--targets", "llm_awq:1",
        "--protocol", "grpc",
        "--workload", "my workload.yaml",
        "--output-tokens", "256",
        "--sampling", '{"temperature": 0.5}',
        "--shape", "ramp",
        "--rate", "0.5",
        "--peak-rate", "4",
        "--duration", "90",
        "--warmup", "10",
        "--deadline", "30",
        "--seed", "7",
        "--sla", "ttft_ms=500,p99_e2e_s=4,max_failures_percent=1",
    ]  # fmt: skip


def test_a_run_that_was_stopped_is_repeated_for_as_long_as_it_went() -> None:
    result, _ = run_of([answer("llm_bf16", 30.0)], options=options(users=1, warmup_s=10.0))
    assert command(result)[-4:] == ["--duration", "20", "--warmup", "10"]


@pytest.mark.parametrize(
    "changed",
    [
        {"users": 16, "duration_s": 1234567, "input_tokens": 50, "requests": 100, "warmup_requests": 3},
        {"shape": "rate", "rate": 1.0, "targets": ("llm_bf16:1", "chat_bf16"), "protocol": "openai", "requests": 9},
        {"shape": "spike", "rate": 0.25, "peak_rate": 2.125, "duration_s": 60, "warmup_s": 1.5, "deadline_s": 0.5},
        {"shape": "search", "rate": 0.5, "peak_rate": 64, "workload": "zh", "tokenizer": "models/x"},
        {"sampling": {"stop": ["\n", "结束"], "temperature": 0.1}, "seed": 12345678, "output_tokens": 7, "requests": 1},
    ],
)
def test_the_command_asks_for_the_same_run(changed: dict[str, object], monkeypatch: pytest.MonkeyPatch) -> None:
    from loadtest.arguments import read_arguments

    plans: list[LocustPlan] = []

    def run(plan: LocustPlan, *_: object) -> int:
        plans.append(plan)
        return 0

    monkeypatch.setattr("tools.cli.loadtest.run_locust", run)
    # A server that happens to run in this checkout would lend its tokenizer.
    monkeypatch.setattr("tools.cli.loadtest.instance_at", lambda endpoint: None)
    result, _ = run_of([], options=options(**changed), sla=SlaLimits(tpot_ms=12.3456789, min_qps=20))
    assert main(command(result)[1:]) == 0
    request = read_arguments(vars(parsed(*plans[0].arguments)))
    assert (request.options, request.sla) == (result.options, result.sla)
