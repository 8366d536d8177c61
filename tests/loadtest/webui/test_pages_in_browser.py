"""The pages as a browser shows them, with runs that were made up."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from loadtest.options import SlaLimits
from loadtest.webui.live_page import news
from loadtest.webui.pages import STATIC, render
from loadtest.webui.report_page import report_page
from tests.loadtest.webui.chromium import Page, browsing
from tests.loadtest.webui.drawn import pixels
from tests.loadtest.webui.runs import SATURATED, failure, options, routed, run_of, two_targets
from tests.waiting import wait_until

pytestmark = pytest.mark.browser


def titles(page: Page) -> list[str]:
    return list(page.ask("[...document.querySelectorAll('.chart h3')].map(e => e.innerText)"))


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    with browsing(tmp_path_factory.mktemp("chromium")) as page:
        yield page


@pytest.fixture(autouse=True)
def _nothing_went_wrong(page: Page) -> Iterator[None]:
    page.problems.clear()
    page.requested.clear()
    yield
    assert page.problems == []


class LivePage:
    """The live page, with news that a test gives."""

    def __init__(self) -> None:
        self.news: dict[str, Any] = news("ready", None, None)
        self.asked: list[str] = []
        owner = self

        class Handler(SimpleHTTPRequestHandler):
            def do_GET(self) -> None:
                if self.path == "/":
                    self._answer(render("live.html"), "text/html")
                elif self.path.startswith("/data"):
                    owner.asked.append(self.path)
                    self._answer(json.dumps(owner.news), "application/json")
                else:
                    super().do_GET()

            def _answer(self, text: str, content_type: str) -> None:
                content = text.encode()
                self.send_response(200)
                self.send_header("Content-Type", f"{content_type}; charset=utf-8")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def translate_path(self, path: str) -> str:
                return str(STATIC / path.removeprefix("/static/"))

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.server.server_port}/"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


@pytest.fixture
def live() -> Iterator[LivePage]:
    live = LivePage()
    yield live
    live.server.shutdown()
    live.server.server_close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_report_draws_every_target_in_every_chart_and_asks_nobody(page: Page, tmp_path: Path, scheme: str) -> None:
    result, timeline = run_of(two_targets(), sla=SlaLimits(ttft_ms=330, p99_e2e_s=0.5), options=options(warmup_s=2.0))
    file = tmp_path / "report.html"
    file.write_text(report_page(result, timeline), encoding="utf-8")
    page.prefer(scheme)
    page.open(file.as_uri())
    assert titles(page) == [
        "Time to first token by percentile",
        "Time to first token, cumulative",
        "Time per output token by percentile",
        "Time per output token, cumulative",
        "Inter-token latency by percentile",
        "Inter-token latency, cumulative",
        "End to end by percentile",
        "End to end, cumulative",
        "Time to first token",
        "Inter-token latency",
        "Output tokens per second",
        "Requests per second",
        "Failures so far",
        "Requests in flight",
    ]
    for chart in (0, 1, 6, 7, 8, 9, 12):
        assert pixels(page, chart, 0) > 100, (chart, "llm_bf16")
        assert pixels(page, chart, 1) > 100, (chart, "llm_awq")
    assert page.requested == [file.as_uri()]
    assert page.ask("document.documentElement.scrollWidth <= innerWidth")


def test_the_cursor_reads_every_target_out_of_a_curve(page: Page, tmp_path: Path) -> None:
    result, timeline = run_of(two_targets())
    file = tmp_path / "report.html"
    file.write_text(report_page(result, timeline), encoding="utf-8")
    page.open(file.as_uri())
    page.ask(
        """(() => {
          const over = document.querySelector('.chart .u-over');
          const { left, top, width, height } = over.getBoundingClientRect();
          const at = { clientX: left + width / 2, clientY: top + height / 2, bubbles: true };
          over.dispatchEvent(new MouseEvent('mouseenter', at));
          over.dispatchEvent(new MouseEvent('mousemove', at));
        })()"""
    )
    readout = page.wait("document.querySelector('.chart .readout').innerText")
    assert re.fullmatch(r"p[\d.]+\s+3[\d.]+ ms\s+[23][\d.]+ ms", readout), readout


def test_the_report_of_a_run_without_answers_says_that_there_is_nothing_to_draw(page: Page, tmp_path: Path) -> None:
    result, _ = run_of([failure("llm_bf16", 1.0, "connection refused")])
    file = tmp_path / "report.html"
    file.write_text(report_page(result, None), encoding="utf-8")
    page.open(file.as_uri())
    assert titles(page) == []
    shown = page.ask("document.body.innerText")
    assert "There are no whole answers to draw" in shown
    assert "There is no timeline to draw" in shown


def test_the_live_page_waits_draws_goes_on_and_takes_up_the_next_run(page: Page, live: LivePage) -> None:
    page.prefer("light")
    page.open(live.address)
    page.wait("document.body.innerText.includes('Nothing is running. Start a run')")
    assert titles(page) == []

    live.news = news("running", *run_of(two_targets(10)))
    page.wait("document.querySelectorAll('.chart canvas').length === 6")
    page.wait("document.querySelector('#rows tr').innerText.includes('llm_bf16')")
    assert pixels(page, 0, 0) > 100
    assert pixels(page, 0, 1) > 100
    assert page.ask("[...document.querySelectorAll('#rows tr')].map(e => e.cells[1].innerText)") == ["20", "21"]

    result, timeline = run_of(two_targets(40))
    live.news = news("running", result, timeline)
    page.wait("document.querySelector('#rows tr').cells[1].innerText === '80'")
    expected = f"/data?since={timeline.targets['llm_bf16'][-1].second - 15}"
    wait_until(lambda: expected in live.asked)

    alone = [outcome for outcome in two_targets(5) if outcome.target == "llm_awq"]
    another = run_of(alone, options=options(targets=("llm_awq",)), client=SATURATED, partial=("stopped",))
    live.news = news("stopped", *another) | {"run": "another"}
    page.wait("document.querySelectorAll('#rows tr').length === 1")
    page.wait("document.querySelectorAll('.notice').length === 2")
    assert page.ask("document.getElementById('state').innerText") == "finished"


def test_the_live_page_takes_up_a_routers_targets_as_they_answer(page: Page, live: LivePage) -> None:
    asked = options(targets=("chat",))
    live.news = news("running", *run_of(routed()[:2], options=asked))
    page.open(live.address)
    page.wait("document.querySelectorAll('#targets span').length >= 2")
    assert "chat > llm_awq:1" not in page.ask("document.getElementById('targets').innerText")

    live.news = news("running", *run_of(routed(), options=asked))
    page.wait("document.getElementById('targets').innerText.includes('chat > llm_awq:1')")
    page.wait("document.querySelectorAll('.chart canvas').length === 6")
    assert pixels(page, 0, 1) > 0, "the line of the second target"


def test_the_live_page_says_when_locust_is_gone_and_keeps_what_it_shows(page: Page, live: LivePage) -> None:
    live.news = news("running", *run_of(two_targets(10)))
    page.open(live.address)
    page.wait("document.querySelectorAll('.chart canvas').length === 6")
    live.server.shutdown()
    live.server.server_close()
    page.wait("document.body.innerText.includes('No answer from Locust any more')")
    assert pixels(page, 0, 0) > 100
    page.open("about:blank")
    page.problems.clear()
