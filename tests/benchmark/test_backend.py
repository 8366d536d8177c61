from __future__ import annotations

import pytest

from tools.benchmark.backend import BackendReport, _measure, backend_figures
from tools.benchmark.machine import Machine
from tools.benchmark.mock_load import MockSettings
from tools.benchmark.workload import Load, Tally

SETTINGS = MockSettings(profile="cpu-smollm2", streams=(1, 16), tokens=100, step_s=0.0, seconds=2.0, repeats=3)
MACHINE = Machine(
    cpu="AMD EPYC",
    cores=2,
    memory_gib=24,
    gpus=(),
    system="Linux",
    load_before=0.1,
    versions={"tritonserver": "2.51.0"},
)


def tally(load: Load, tokens: int) -> Tally:
    cpu = {"stub": 0.5, "server": 0.25, "engine": 0.125, "client": 1.0}
    return Tally(seconds=2.0, tokens=tokens * load.streams, responses=tokens, ttft_s=(), cpu_s=cpu)


def test_repeats_go_round_the_concurrencies_after_a_warm_up_that_does_not_count() -> None:
    loads: list[Load] = []
    said: list[str] = []

    def measure(load: Load) -> Tally:
        loads.append(load)
        return tally(load, 1000 * len(loads))

    one, sixteen = _measure(SETTINGS, measure, said.append)
    assert [(load.streams, load.seconds) for load in loads] == [
        (16, 0.5), (1, 2.0), (16, 2.0), (1, 2.0), (16, 2.0), (1, 2.0), (16, 2.0),
    ]  # fmt: skip
    assert all(load.tokens == 100 for load in loads)
    assert said[:2] == ["warming up", "repeat 1 of 3, 1 streams"]
    assert (one.streams, sixteen.streams) == (1, 16)
    assert one.tokens_per_s.values == (1000.0, 2000.0, 3000.0)
    assert sixteen.tokens_per_s.values == (24000.0, 40000.0, 56000.0)
    assert sixteen.responses_per_s.median == 2500.0
    assert sixteen.tokens_per_response.median == 16.0
    # 0.5 s of stub for 5,000 responses of 16 tokens.
    assert sixteen.cpu_us_per_response["stub"].median == pytest.approx(100.0)
    assert sixteen.cpu_us_per_token["stub"].median == pytest.approx(6.25)


def test_a_window_without_any_response_is_no_division_by_zero() -> None:
    empty = Tally(
        seconds=1.0, tokens=0, responses=0, ttft_s=(), cpu_s=dict.fromkeys(("stub", "server", "engine", "client"), 0.0)
    )
    (row, _) = _measure(SETTINGS, lambda _: empty, lambda _: None)
    assert row.tokens_per_response.median == 0


def test_the_tables_say_what_was_measured_and_how() -> None:
    rows = _measure(SETTINGS, lambda load: tally(load, 1000), lambda _: None)
    text = backend_figures(BackendReport(machine=MACHINE, settings=SETTINGS, rows=rows)).to_markdown()
    assert "| streams | tokens/s | responses/s | tokens per response |" in text
    assert "| 16 | 8,000 (8,000-8,000) | 500 (500-500) | 16.0 (16.0-16.0) |" in text
    assert "| streams | stub | server | engine | client | sum |" in text
    assert "| 1 | 500 | 250 | 125 | 1,000 | 1,875 |" in text
    assert "steps as fast as it can; 100 tokens a request; median of 3 windows of 2 s" in text
    assert "tritonserver 2.51.0" in text


def test_a_paced_engine_is_named() -> None:
    settings = SETTINGS.model_copy(update={"step_s": 0.0055})
    rows = _measure(settings, lambda load: tally(load, 1000), lambda _: None)
    text = backend_figures(BackendReport(machine=MACHINE, settings=settings, rows=rows)).to_markdown()
    assert "one step each 5.5 ms" in text
