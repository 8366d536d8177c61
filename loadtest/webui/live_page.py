"""The page of live charts: what it is told each second."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from loadtest.options import LoadOptions
from loadtest.statistics.results import RunResult
from loadtest.statistics.timeline import Timeline
from loadtest.webui import chart_data
from loadtest.webui.target_table import rows
from loadtest.webui.wording import load

Notice = dict[str, Any]
# What Locust calls its states (locust.runners.STATE_*), in words for the page.
_STATES = {
    "ready": "not started",
    "spawning": "starting",
    "running": "running",
    "cleanup": "stopping",
    "stopping": "stopping",
    "stopped": "finished",
    "missing": "not started",
}
_GOING_ON = ("spawning", "running", "cleanup", "stopping")


def news(state: str, result: RunResult | None, timeline: Timeline | None, error: str = "") -> dict[str, Any]:
    """What the page shows of the run: `run` tells one run from the next, and is None while there is none to show."""
    answer: dict[str, Any] = {
        "state": _STATES.get(state, state),
        "notices": notices(state, result, error),
        "facts": [],
        "run": None,
        "targets": [],
        "marks": chart_data.NO_MARKS,
        "rows": [],
        "timeline": {},
    }
    if result is not None:
        order = result.order
        answer["facts"] = facts(result.options)
        answer["run"] = result.started_at.isoformat()
        answer["targets"] = chart_data.targets(order)
        answer["marks"] = chart_data.marks(result)
        answer["rows"] = [asdict(row) for row in rows(result.rows, order)]
    if result is not None and timeline is not None:
        answer["timeline"] = chart_data.over_time(timeline)
    return answer


def facts(options: LoadOptions) -> list[str]:
    """The line under the title: whom the run asks, and with what."""
    return [options.host, options.protocol, f"workload {options.workload}", load(options)]


def notices(state: str, result: RunResult | None, error: str) -> list[Notice]:
    """What a reader has to know before believing the figures."""
    found = []
    if error:
        found.append(_notice("bad", f"The last run could not begin, or not go on: {error}"))
    going_on = state in _GOING_ON
    if result is None or not any(target.requests for target in result.targets):
        if going_on:
            found.append(_notice("", "Nothing has been counted yet: no request after the warm-up has ended."))
        elif result is None:
            found.append(_notice("", "Nothing is running. Start a run in Locust's form, and its charts appear here."))
        else:
            found.append(_notice("bad", "The run ended before anything was counted."))
    if result is not None and result.client.saturated:
        found.append(
            _notice(
                "warning",
                "The client is saturated: these figures hold its own delays, not only the server's. "
                "Use fewer users, a lower rate, or more workers.",
                result.client.saturated,
            )
        )
    if result is not None and result.partial:
        found.append(_notice("warning", "These results are partial:", result.partial))
    return found


def _notice(level: str, text: str, reasons: tuple[str, ...] = ()) -> Notice:
    return {"level": level, "text": text, "reasons": list(reasons)}
