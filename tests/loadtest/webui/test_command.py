from __future__ import annotations

from loadtest.options import SlaLimits
from loadtest.webui.command import command
from tests.loadtest.webui.runs import options, run_of


def test_options_at_their_defaults_are_left_out() -> None:
    result, _ = run_of([], options=options(users=1))
    assert command(result) == [
        "./ladder", "loadtest", "--host", "http://127.0.0.1:8000", "--targets", "llm_bf16,llm_awq",
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
        "--host", "http://127.0.0.1:8000",
        "--targets", "llm_awq:1",
        "--protocol", "grpc",
        "--workload", "my workload.yaml",
        "--output-tokens", "256",
        "--sampling", '{"temperature": 0.5}',
        "--shape", "ramp",
        "--rate", "0.5",
        "--peak-rate", "4",
        "--run-time", "90",
        "--warmup", "10",
        "--deadline", "30",
        "--seed", "7",
        "--sla", "ttft_ms=500,p99_e2e_s=4,max_failures_percent=1",
    ]  # fmt: skip
