from __future__ import annotations

import io

from rich.console import Console

from loadtest.options import SlaLimits
from loadtest.statistics.outcome import ErrorKind
from loadtest.statistics.results import ClientHealth, RunResult
from loadtest.statistics.terminal import result_view
from tests.loadtest.statistics.examples import answer, failure, result_of


def shown(result: RunResult) -> list[str]:
    console = Console(file=io.StringIO(), width=200)
    for part in result_view(result):
        console.print(part)
    assert isinstance(console.file, io.StringIO)
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


def row(lines: list[str], heading: str) -> list[str]:
    (line,) = (line for line in lines if line.startswith(f"│ {heading} "))
    return [cell.strip() for cell in line.strip("│").split("│")[1:]]


def test_four_long_names_fit_80_columns() -> None:
    console = Console(file=io.StringIO(), width=80)
    names = [f"a_model_with_a_long_name_{number}" for number in range(4)]
    for part in result_view(result_of(*(answer(target=name, ttft=12.345, e2e=34.567) for name in names))):
        console.print(part)
    assert isinstance(console.file, io.StringIO)
    lines = console.file.getvalue().splitlines()
    assert [line for line in lines if len(line) > 80] == []
    assert not any("…" in line for line in lines)


def test_targets_stand_side_by_side() -> None:
    lines = shown(
        result_of(answer(target="llm_bf16"), answer(1, target="llm_awq", ttft=None, tpot_s=None, itl_s=(), e2e=0.5))
    )
    assert lines[0].strip() == "Load test, 60.0 s"
    assert row(lines, "answered by") == ["llm_bf16:1", "llm_awq:1"]
    assert row(lines, "requests") == ["1", "1"]
    assert row(lines, "output tokens/s") == ["10", "6.67"]
    assert row(lines, "TTFT, ms") == ["100 / 100 / 100", "-"]
    assert row(lines, "ITL, ms") == ["40 / 60 / 60", "-"]
    assert row(lines, "end to end, ms") == ["1,000 / 1,000 / 1,000", "500 / 500 / 500"]
    assert row(lines, "goodput, requests/s") == ["-", "-"]


def test_what_a_router_handed_on_stands_beside_the_router() -> None:
    answers = [answer(target="chat", served_by="llm_awq:1"), answer(1, target="chat", served_by="llm_bf16:1")]
    lines = shown(result_of(*answers, failure(2, target="chat", served_by="llm_bf16:1"), sla=SlaLimits(ttft_ms=500)))
    assert "chat > llm_awq:1" in lines[2]
    assert row(lines, "answered by") == ["llm_bf16:1", "llm_awq:1", "llm_bf16:1"]
    assert row(lines, "requests") == ["3", "1", "2"]
    assert sum("failed" in line for line in lines) == 1, "a failure is told once"
    assert sum("SLA" in line for line in lines) == 1, "a part is not judged"


def test_failures_are_told_by_kind_and_message() -> None:
    lines = shown(result_of(answer(), failure(1), failure(2, kind=ErrorKind.SERVER, message="[red]\x1b[2Jboom\nbang")))
    assert "llm: 1 of 3 requests failed: server" in lines
    assert "llm: 1 of 3 requests failed: truncated" in lines
    assert "  1 times: [red] [2Jboom bang" in lines


def test_the_sla_is_kept_or_every_miss_is_told() -> None:
    sla = SlaLimits(ttft_ms=500, p99_e2e_s=4)
    assert shown(result_of(answer(), sla=sla))[-1] == "llm: SLA kept"
    assert shown(result_of(answer(ttft=0.75, e2e=5.0), sla=sla))[-2:] == [
        "llm: SLA missed: ttft_ms: 750.1 ms, the limit is 500 ms (missed by 50 %)",
        "llm: SLA missed: p99_e2e_s: 5.001 s, the limit is 4 s (missed by 25 %)",
    ]
    assert not any("SLA" in line for line in shown(result_of(answer(ttft=0.75))))


def test_what_the_figures_are_worth_is_said_last() -> None:
    client = ClientHealth(workers=1, cpu_percent=99, saturated=("too busy",))
    lines = shown(result_of(answer(), answer(9), warmup_s=5, client=client, partial=("interrupted after 12 s",)))
    assert lines[0].strip() == "Load test, 60.0 s (partial); requests left out as warm-up: 1"
    assert lines[-2:] == ["client saturated: too busy", "partial: interrupted after 12 s"]
