"""The LLM tab, the page of live charts and the downloads, added to Locust's own web UI.

Locust's page is a finished bundle. It takes tabs and tables of its own from `template_args`, and their rows from
`extended_stats` in its answer to /stats/requests; a tab can hold a table and nothing else. Charts therefore stand on
a page beside it, and the one thing put into Locust's page is the link to them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from flask import Blueprint, Response, jsonify, request
from locust.env import Environment
from locust.web import WebUI

from loadtest.statistics.exports import targets_csv, timeline_csv
from loadtest.statistics.results import RunResult
from loadtest.statistics.timeline import Timeline
from loadtest.webui.live_page import news
from loadtest.webui.live_run import LiveRun
from loadtest.webui.pages import STATIC, render
from loadtest.webui.report_page import report_page
from loadtest.webui.target_table import COLUMNS, tab_rows

_View = Callable[[], Response]
_Content = Callable[[RunResult, Timeline], str]

TAB: Final = "llm"
# What can be downloaded, named as `--out` names its files.
_FILES: Final[dict[str, tuple[str, _Content]]] = {
    "report.html": ("text/html", report_page),
    "results.json": ("application/json", lambda result, _: result.model_dump_json(indent=2) + "\n"),
    "targets.csv": ("text/csv", lambda result, _: targets_csv(result)),
    "timeline.csv": ("text/csv", lambda _, timeline: timeline_csv(timeline)),
}
_NOTHING_YET: Final = "No run has been started yet: start one in Locust's form, then come back.\n"
_LINK: Final = """
<a href="./ladder/" style="position: fixed; left: 24px; bottom: 16px; z-index: 1500; padding: 10px 18px;
  border-radius: 20px; background: #0072b2; color: #fff; font: 500 14px/1.2 system-ui, sans-serif;
  text-decoration: none; box-shadow: 0 1px 4px rgba(0, 0, 0, .35)">Live LLM charts</a>
"""


def install(environment: Environment, live: LiveRun) -> None:
    """Call it in `events.init`, before the web UI serves; without a web UI (headless, worker) it does nothing."""
    web_ui = environment.web_ui
    if web_ui is None or web_ui.app is None:
        return
    _add_tab(web_ui)
    web_ui.app.register_blueprint(_pages(environment, web_ui, live))
    web_ui.app.after_request(_adder_of_rows(live))
    web_ui.app.after_request(_add_link)


def _add_tab(web_ui: WebUI) -> None:
    arguments = web_ui.template_args
    tab = {"title": "LLM", "key": TAB}
    table = {
        "key": TAB,
        "structure": [
            {"key": "name", "title": "Target"},
            *({"key": column.key, "title": column.heading} for column in COLUMNS),
        ],
    }
    downloads = [{"href": f"./ladder/{name}", "title": f"Download LLM {name}"} for name in _FILES]
    arguments["extended_tabs"] = [*arguments.get("extended_tabs", []), tab]
    arguments["extended_tables"] = [*arguments.get("extended_tables", []), table]
    arguments["extended_csv_files"] = [*arguments.get("extended_csv_files", []), *downloads]


def _adder_of_rows(live: LiveRun) -> Callable[[Response], Response]:
    def add_rows(response: Response) -> Response:
        # Locust hands out the same response for two seconds: what is added must be the same when added twice.
        if request.endpoint == "locust.request_stats" and response.is_json:
            result = live.result(with_histograms=False)
            rows = [] if result is None else tab_rows(result.rows)
            answer = response.get_json()
            answer["extended_stats"] = [{"key": TAB, "data": rows}]
            response.set_data(jsonify(answer).get_data())
        return response

    return add_rows


def _add_link(response: Response) -> Response:
    if request.endpoint == "locust.index" and response.status_code == 200:
        response.set_data(response.get_data(as_text=True).replace("</body>", f"{_LINK}</body>"))
    return response


def _pages(environment: Environment, web_ui: WebUI, live: LiveRun) -> Blueprint:
    base = (environment.parsed_options and environment.parsed_options.web_base_path) or ""
    pages = Blueprint("ladder", __name__, url_prefix=f"{base}/ladder", static_folder=STATIC, static_url_path="/static")

    def add(path: str, answer: _View) -> None:
        behind_login: Callable[[_View], _View] = web_ui.auth_required_if_enabled
        pages.add_url_rule(f"/{path}", path.replace(".", "_") or "charts", behind_login(answer))

    def charts() -> Response:
        return Response(render("live.html"), content_type="text/html; charset=utf-8")

    def data() -> Response:
        since = max(0, request.args.get("since", 0, type=int))
        state = "missing" if environment.runner is None else environment.runner.state
        return jsonify(news(state, live.result(with_histograms=False), live.timeline(since), live.error))

    def download(name: str, content_type: str, content: _Content) -> None:
        def answer() -> Response:
            result, timeline = live.result(), live.timeline()
            if result is None or timeline is None:
                return Response(_NOTHING_YET, status=404, content_type="text/plain; charset=utf-8")
            headers = {"Content-Disposition": f'attachment; filename="{name}"', "Cache-Control": "no-store"}
            return Response(content(result, timeline), content_type=f"{content_type}; charset=utf-8", headers=headers)

        add(name, answer)

    add("", charts)
    add("data", data)
    for name, (content_type, content) in _FILES.items():
        download(name, content_type, content)
    return pages
