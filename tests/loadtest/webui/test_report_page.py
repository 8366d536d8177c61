from __future__ import annotations

import json
import re
from html.parser import HTMLParser

import pytest

from loadtest.options import SlaLimits
from loadtest.statistics.results import SearchResult, SearchStep
from loadtest.webui.report_page import promises, report_page
from tests.loadtest.webui.runs import SATURATED, answer, failure, options, routed, run_of, two_targets

HOSTILE = '</script><script>alert("x")</script><img src=x onerror=alert(1)>'


class Page(HTMLParser):
    """The text of a page outside scripts and styles, its tags, and the data in it."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.data = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attributes)))

    def handle_data(self, data: str) -> None:
        tag, attributes = self.tags[-1] if self.tags else ("", {})
        if attributes.get("id") == "data":
            self.data += data
        elif tag not in ("script", "style"):
            self.text += f"{data} "

    @property
    def words(self) -> str:
        return re.sub(r"\s+", " ", self.text)


def test_the_page_shows_the_figures_the_verdicts_and_the_command() -> None:
    result, timeline = run_of(two_targets(), sla=SlaLimits(ttft_ms=330, max_failures_percent=0))
    words = Page(report_page(result, timeline)).words
    for expected in (
        "2027-01-15 08:00:00 UTC",
        "TTFT, p95 at most 330 ms 380 ms ✗ missed 320 ms ✓ kept",
        "Failures at most 0 % 0 % ✓ kept 2.44 % ✗ missed",
        "server 0 1",
        "llm_awq 1 the engine is gone",
        "kept up with what it was asked to send",
        "4 users, each waiting for its answer (closed loop)",
        "./ladder loadtest --url http://127.0.0.1:8000 --targets llm_bf16,llm_awq --users 4 --duration 20",
    ):
        assert expected in words
    assert "partial" not in words
    assert "was saturated" not in words


def test_the_page_holds_the_data_of_its_charts() -> None:
    result, timeline = run_of(two_targets(), sla=SlaLimits(ttft_ms=330))
    data = json.loads(Page(report_page(result, timeline)).data)
    assert data["targets"] == [{"name": "llm_bf16", "color": 0}, {"name": "llm_awq", "color": 1}]
    assert data["marks"]["limits_ms"]["ttft"] == 330
    assert sum(data["timeline"]["llm_bf16"]["requests"]) == 40
    assert data["distributions"]["itl"]["llm_awq"]["ms"]


def test_a_routers_targets_are_drawn_apart() -> None:
    page = Page(report_page(*run_of(routed(), options=options(targets=("chat",)))))
    names = ["chat", "chat > llm_awq:1", "chat > llm_bf16:1"]
    data = json.loads(page.data)
    assert [target["name"] for target in data["targets"]] == names
    assert sorted(data["distributions"]["ttft"]) == names
    assert "chat > llm_awq:1 llm_awq:1 1 stop 1" in page.words


def test_nothing_is_loaded_from_anywhere() -> None:
    result, timeline = run_of(two_targets())
    page = Page(report_page(result, timeline))
    assert not [attributes for _, attributes in page.tags if {"src", "href", "data", "action"} & set(attributes)]
    assert not [tag for tag, _ in page.tags if tag in ("link", "img", "iframe", "object", "base")]
    assert [attributes["content"] for _, attributes in page.tags if attributes.get("http-equiv")] == [
        "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"
    ]
    assert "url(" not in report_page(result, timeline)


def test_what_servers_and_people_wrote_stays_text() -> None:
    asked = options(
        host=f"http://{HOSTILE}",
        workload=HOSTILE,
        targets=("llm_bf16", "llm_awq"),
        sampling={HOSTILE: HOSTILE},
    )
    outcomes = [*two_targets(3), failure("llm_bf16", 1.0, HOSTILE)]
    result, timeline = run_of(outcomes, options=asked, partial=(HOSTILE,))
    harmless = Page(report_page(*run_of(two_targets(3), options=options())))
    page = Page(report_page(result, timeline))
    assert [tag for tag, _ in page.tags if tag in ("script", "img")] == [
        tag for tag, _ in harmless.tags if tag == "script"
    ]
    assert page.words.count(HOSTILE) >= 5
    assert json.loads(page.data)["targets"]


def test_partial_results_and_a_saturated_client_stand_above_the_figures() -> None:
    result, timeline = run_of(two_targets(), client=SATURATED, partial=("worker 2 was lost",))
    words = Page(report_page(result, timeline)).words
    assert words.index("worker 2 was lost") < words.index("the client used 99 % of a core") < words.index("Target")


def test_a_run_without_an_answer_and_without_a_timeline_has_a_page_too() -> None:
    result, _ = run_of([failure("llm_bf16", 1.0, "connection refused")])
    words = Page(report_page(result, None)).words
    assert "connection refused" in words
    assert "There is no timeline to draw" in words
    assert "The run had no SLA." in words


def test_a_run_without_failures_says_so() -> None:
    assert "No request failed." in Page(report_page(*run_of([answer("llm_bf16", 1.0)]))).words


def test_a_promise_that_cannot_be_judged_is_neither_kept_nor_missed() -> None:
    result, _ = run_of([answer("llm_bf16", 1.0, tokens=1), answer("llm_awq", 1.0)], sla=SlaLimits(tpot_ms=50))
    tpot, _ = promises(result)
    assert [(measured.text, measured.kept) for measured in tpot.measured] == [
        ("not judged", None),
        ("20.0 ms", True),
    ]


def test_a_search_shows_its_steps_and_why_a_rate_was_too_high() -> None:
    result, timeline = run_of([answer("llm_bf16", 1.0)])
    assert "Search for the highest rate" not in Page(report_page(result, timeline)).words
    steps = (
        SearchStep(rate=2.0, inside=True, reasons=()),
        SearchStep(rate=4.0, inside=False, reasons=("llm_bf16: ttft_ms: 700 ms, the limit is 500 ms",)),
    )
    search = SearchResult(highest_rate_inside=2.0, lowest_rate_outside=4.0, steps=steps)
    words = Page(report_page(result.model_copy(update={"search": search}), timeline)).words
    assert "Highest rate inside the SLA: 2.00 requests/s ; lowest outside: 4.00 requests/s." in words
    assert "2.00 ✓ inside 4.00 ✗ outside llm_bf16: ttft_ms: 700 ms, the limit is 500 ms" in words


@pytest.mark.parametrize(
    ("changed", "shown"),
    [
        ({"shape": "rate", "rate": 2.5}, "2.5 requests/s, whatever the server does (open loop)"),
        ({"shape": "ramp", "rate": 1, "peak_rate": 8}, "ramp from 1 to 8 requests/s (open loop)"),
        ({"users": 1}, "1 user, each waiting for its answer (closed loop)"),
        ({"duration_s": 90.0}, "Duration asked for 90 s"),
        ({"requests": 5000}, "Requests asked for 5,000"),
        ({"sampling": {"temperature": 0}}, 'Sampling {"temperature": 0}'),
        ({"output_tokens": 256}, "Output tokens 256"),
    ],
)
def test_settings_are_in_words(changed: dict[str, object], shown: str) -> None:
    result, timeline = run_of([answer("llm_bf16", 1.0)], options=options(**changed))
    assert shown in Page(report_page(result, timeline)).words
