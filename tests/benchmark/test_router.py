"""The router's report, from sides that the test plays."""

from __future__ import annotations

import pytest

from tests.benchmark.test_backend import MACHINE
from tools.benchmark import router
from tools.benchmark.mock_load import MockSettings
from tools.benchmark.router import RouterReport, measure_rows, measure_ttft, router_figures
from tools.benchmark.workload import Load, Tally

SETTINGS = MockSettings(profile="cpu-smollm2", streams=(8, 32), tokens=100, step_s=0.007, seconds=2.0, repeats=3)


class Side:
    """One of the two ways; it takes so much CPU time and time to the first token."""

    def __init__(self, name: str, asked: list[tuple[str, Load]], tokens_per_s: float, ttft_ms: float) -> None:
        self._name = name
        self._asked = asked
        self._tokens_per_s = tokens_per_s
        self._ttft_ms = ttft_ms

    def __call__(self, load: Load) -> Tally:
        self._asked.append((self._name, load))
        tokens = int(self._tokens_per_s * load.seconds)
        ttft = tuple((self._ttft_ms + extra) / 1e3 for extra in (0.0, 0.5, 7.0))
        cpu = {"stub": 0.2, "server": 0.1, "engine": 0.1, "client": 5.0}
        return Tally(seconds=load.seconds, tokens=tokens, responses=tokens, ttft_s=ttft, cpu_s=cpu)


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(router, "_PAUSE_S", 0.0)


def test_what_is_added_to_the_first_token_is_taken_pair_by_pair() -> None:
    asked: list[tuple[str, Load]] = []
    ttft = measure_ttft(SETTINGS, Side("direct", asked, 100, 3), Side("routed", asked, 100, 3.75), lambda _: None)
    assert [name for name, _ in asked] == ["direct", "routed"] * 2 + ["routed", "direct"] + ["direct", "routed"]
    assert {load.streams for _, load in asked} == {1}
    assert ttft.direct_ms.values == pytest.approx([3.5] * 3)
    assert ttft.added_ms.values == pytest.approx([0.75] * 3)


def test_throughput_is_a_ratio_and_costs_cpu_time() -> None:
    asked: list[tuple[str, Load]] = []
    eight, rest = measure_rows(SETTINGS, Side("direct", asked, 1000, 3), Side("routed", asked, 950, 3), lambda _: None)
    assert (eight.streams, rest.streams) == (8, 32)
    assert rest.ratio.values == pytest.approx([0.95] * 3)
    # 0.4 s without the client for 2,000 tokens.
    assert rest.direct_cpu_us_per_token.median == pytest.approx(200)


def test_the_tables_say_what_was_measured_and_how() -> None:
    direct, routed = Side("direct", [], 1000, 3), Side("routed", [], 950, 3.75)
    report = RouterReport(
        machine=MACHINE,
        settings=SETTINGS,
        ttft=measure_ttft(SETTINGS, direct, routed, lambda _: None),
        rows=measure_rows(SETTINGS, direct, routed, lambda _: None),
    )
    text = router_figures(report).to_markdown()
    assert "| 3.50 (3.50-3.50) | 4.25 (4.25-4.25) | 0.75 (0.75-0.75) |" in text
    assert "| 32 | 1,000 | 950 | 0.950 (0.950-0.950) | 200 | 211 |" in text
    assert "Medians of 3 pairs of windows of 2 s" in text
