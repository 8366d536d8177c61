from __future__ import annotations

import json

import pytest
from flask.testing import FlaskClient
from locust import User
from locust.argument_parser import parse_options
from locust.env import Environment

from loadtest.statistics.exports import targets_csv, timeline_csv
from loadtest.statistics.results import RunResult
from loadtest.statistics.timeline import Timeline
from loadtest.webui.extension import install
from loadtest.webui.target_table import COLUMNS
from tests.loadtest.webui.runs import run_of, two_targets


class FakeRun:
    """A run that is over, or that has not begun; it remembers what it was asked."""

    def __init__(self) -> None:
        self.error = ""
        self.run: tuple[RunResult, Timeline] | None = None
        self.histograms_asked: list[bool] = []

    def result(self, *, with_histograms: bool = True) -> RunResult | None:
        self.histograms_asked.append(with_histograms)
        return self.run and self.run[0]

    def timeline(self, since: int = 0) -> Timeline | None:
        if self.run is None:
            return None
        targets = self.run[1].targets
        return Timeline(targets={target: seconds[since:] for target, seconds in targets.items()})


class Nobody(User):
    pass


@pytest.fixture
def live() -> FakeRun:
    return FakeRun()


@pytest.fixture(autouse=True)
def _command_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """Locust reads the defaults of its form from the command line of the process."""
    monkeypatch.setattr("sys.argv", ["locust"])


@pytest.fixture
def locust(live: FakeRun) -> FlaskClient:
    """Locust's web UI, asked without a socket."""
    return locust_with(live)


def locust_with(live: FakeRun, base_path: str = "") -> FlaskClient:
    environment = Environment(user_classes=[Nobody], parsed_options=parse_options(["--web-base-path", base_path]))
    environment.create_local_runner()
    web_ui = environment.create_web_ui(delayed_start=True, web_base_path=base_path)
    install(environment, live)
    return web_ui.app.test_client()


def test_without_a_web_ui_there_is_nothing_to_extend() -> None:
    install(Environment(user_classes=[Nobody]), FakeRun())


def test_locusts_page_gets_the_tab_its_table_the_downloads_and_a_link_to_the_charts(locust: FlaskClient) -> None:
    page = locust.get("/").text
    arguments = json.loads(page.partition("window.templateArgs = ")[2].partition("\n")[0])
    assert arguments["extended_tabs"] == [{"title": "LLM", "key": "llm"}]
    (table,) = arguments["extended_tables"]
    assert table["key"] == "llm"
    assert [column["key"] for column in table["structure"]] == ["name", *(column.key for column in COLUMNS)]
    assert table["structure"][4] == {"key": "ttft_p50", "title": "TTFT p50 (ms)"}
    assert [download["href"] for download in arguments["extended_csv_files"]] == [
        "./ladder/report.html",
        "./ladder/results.json",
        "./ladder/targets.csv",
        "./ladder/timeline.csv",
    ]
    assert page.count('<a href="./ladder/"') == 1
    assert page.rstrip().endswith("</html>")


def test_the_tab_is_empty_before_the_first_run(locust: FlaskClient) -> None:
    answer = locust.get("/stats/requests").get_json()
    assert answer["extended_stats"] == [{"key": "llm", "data": []}]
    assert answer["state"] == "ready"


def test_the_tab_has_a_row_for_each_target_however_often_it_is_asked(locust: FlaskClient, live: FakeRun) -> None:
    live.run = run_of(two_targets())
    for _ in range(2):
        (table,) = locust.get("/stats/requests").get_json()["extended_stats"]
        assert [(row["name"], row["requests"], row["failures"]) for row in table["data"]] == [
            ("llm_bf16", 40, 0),
            ("llm_awq", 41, 1),
        ]
    assert live.histograms_asked == [False, False]


def test_the_charts_page_and_all_it_loads_are_there(locust: FlaskClient) -> None:
    page = locust.get("/ladder", follow_redirects=True)
    assert page.status_code == 200
    assert page.request.path == "/ladder/"
    for name in ("vendor/uplot/uPlot.min.css", "page.css", "vendor/uplot/uPlot.iife.min.js", "charts.js", "live.js"):
        assert f'"static/{name}"' in page.text
        assert locust.get(f"/ladder/static/{name}").status_code == 200
    assert "://" not in page.text


def test_the_page_is_told_only_the_seconds_it_asks_for(locust: FlaskClient, live: FakeRun) -> None:
    live.run = run_of(two_targets(20))
    news = locust.get("/ladder/data?since=18").get_json()
    assert news["timeline"]["llm_bf16"]["second"][0] == 18
    assert locust.get("/ladder/data?since=-3").get_json()["timeline"]["llm_bf16"]["second"][0] == 0
    assert locust.get("/ladder/data?since=x").get_json()["timeline"]["llm_bf16"]["second"][0] == 0
    assert live.histograms_asked == [False] * 3
    live.error = "no worker has connected"
    assert "no worker has connected" in locust.get("/ladder/data").text


@pytest.mark.parametrize("name", ["report.html", "results.json", "targets.csv", "timeline.csv"])
def test_there_is_nothing_to_download_before_the_first_run(locust: FlaskClient, name: str) -> None:
    answer = locust.get(f"/ladder/{name}")
    assert answer.status_code == 404
    assert answer.text == "No run has been started yet: start one in Locust's form, then come back.\n"


def test_results_are_downloaded_as_files(locust: FlaskClient, live: FakeRun) -> None:
    live.run = run_of(two_targets())
    for name, content_type in (
        ("report.html", "text/html"),
        ("results.json", "application/json"),
        ("targets.csv", "text/csv"),
        ("timeline.csv", "text/csv"),
    ):
        answer = locust.get(f"/ladder/{name}")
        assert answer.content_type.startswith(content_type)
        assert answer.headers["Content-Disposition"] == f'attachment; filename="{name}"'
    assert RunResult.model_validate_json(locust.get("/ladder/results.json").data) == live.run[0]
    assert locust.get("/ladder/targets.csv").text == targets_csv(live.run[0])
    assert locust.get("/ladder/timeline.csv").text == timeline_csv(live.run[1])
    assert "<!doctype html>" in locust.get("/ladder/report.html").text


def test_the_pages_move_with_locusts_base_path(live: FakeRun) -> None:
    locust = locust_with(live, "/behind/proxy")
    assert locust.get("/behind/proxy/ladder/").status_code == 200
    assert locust.get("/behind/proxy/ladder/data").get_json()["state"] == "not started"
    assert locust.get("/behind/proxy/stats/requests").get_json()["extended_stats"][0]["key"] == "llm"
