"""Charts: that each shows what it should, and stands alone."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

from tests.reporting.examples import SETTINGS, V2, V3, V4, cells, report
from tools.reporting.charts import charts, inlined

REPORT = report()
LATENCIES = {(rung.facts.label, level): [0.5, 1.0, 2.0] for rung in REPORT.rungs for level in (1, 8, 32)}


@pytest.fixture(scope="module")
def drawn() -> dict[str, str]:
    return charts(REPORT, LATENCIES)


def words(svg: str) -> list[str]:
    return [text.strip() for text in ElementTree.fromstring(svg).itertext() if text.strip()]


@pytest.mark.slow
def test_there_is_a_chart_of_everything(drawn: dict[str, str]) -> None:
    assert list(drawn) == ["throughput", "ttft", "tpot", "break-even", "latency-cdf", "memory"]


@pytest.mark.parametrize("name", ["throughput", "ttft", "tpot"])
def test_lines_have_every_rung_and_the_levels_measured(name: str, drawn: dict[str, str]) -> None:
    found = words(drawn[name])
    assert {"v0", "v1", "v1b", "v2", "v3", "v4", "1", "8", "32", "concurrent streams"} <= set(found)


@pytest.mark.slow
def test_where_speculation_stops_to_pay_is_drawn_with_its_crossing(drawn: dict[str, str]) -> None:
    # 30 / 19, 120 / 95 and 170 / 180 times the tokens/s of the same weights without drafts, at 1, 8 and 32 streams.
    assert {"v4 / v2", "25 streams", "1", "8", "32"} <= set(words(drawn["break-even"]))
    made_up = V4.model_copy(update={"synthetic_length": 3.2})
    assert "acceptance" in words(charts(report(cells((V2, made_up)), (V2, made_up)), {})["break-even"])
    assert "break-even" not in charts(report(cells((V2, V3)), (V2, V3)), {})


def test_the_distribution_has_a_panel_a_level(drawn: dict[str, str]) -> None:
    found = words(drawn["latency-cdf"])
    assert {"1 stream", "8 streams", "32 streams", "% of requests answered by then"} <= set(found)


@pytest.mark.slow
def test_of_many_levels_three_have_a_panel() -> None:
    settings = SETTINGS.model_copy(update={"levels": (1, 16, 32, 64, 128, 256)})
    latencies = {("v2", level): [1.0] for level in settings.levels}
    found = words(charts(report(cells((V2,)), (V2,), settings=settings), latencies)["latency-cdf"])
    assert [word for word in found if "stream" in word and word[0].isdigit()] == [
        "1 stream",
        "64 streams",
        "256 streams",
    ]


def test_memory_names_its_figures(drawn: dict[str, str]) -> None:
    # 800 and 1600 million bytes.
    assert words(drawn["memory"]).count("763") == words(drawn["memory"]).count("1,526") == 3


def test_what_was_not_measured_has_no_chart() -> None:
    failed = [
        cell.model_copy(update={"state": "failed", "figures": None, "peak_memory_bytes": None})
        for cell in cells((V2, V3))
    ]
    assert charts(report(failed, (V2, V3)), {}) == {}


@pytest.mark.slow
def test_a_rung_keeps_its_colour_when_others_have_no_figure(drawn: dict[str, str]) -> None:
    without = [cell for cell in cells() if cell.rung == "v2"]
    failed = [cell.model_copy(update={"state": "failed", "figures": None}) for cell in cells() if cell.rung != "v2"]
    for svg in (drawn["ttft"], charts(report([*failed, *without]), {})["ttft"]):
        assert "#009e73" in svg  # v2's


@pytest.mark.slow
def test_the_same_figures_give_the_same_bytes(drawn: dict[str, str]) -> None:
    assert charts(REPORT, LATENCIES) == drawn


def test_a_chart_names_no_address(drawn: dict[str, str]) -> None:
    for svg in drawn.values():
        addresses = set(re.findall(r"https?://[^\"'<> ]+", svg))
        assert addresses <= {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}  # names, not links


def test_inlined_charts_share_no_id(drawn: dict[str, str]) -> None:
    ids: list[str] = []
    for name, svg in drawn.items():
        element = inlined(svg, name)
        own = re.findall(r' id="([^"]+)"', element)
        assert element.startswith("<svg")
        assert 'width="' not in element.partition(">")[0]
        references = re.findall(r'url\(#([^)]+)\)|href="#([^"]+)"', element)
        assert {one or other for one, other in references} <= set(own)
        ids += own
    assert len(ids) == len(set(ids))
