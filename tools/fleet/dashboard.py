"""A row of Grafana panels about releases, as a dashboard of its own that can be imported."""

from __future__ import annotations

from typing import Any, Final

from tools.wire import release_metrics as names

# "track" is empty for a server that is in no fleet.
_TARGET: Final = "track, route, model, version"
_LEGEND: Final = "{{track}} {{model}}:{{version}}"
_WIDTH: Final = 6
_HEIGHT: Final = 8
_ACROSS: Final = 24
# What a variable of the dashboard lets one choose.
_CHOSEN: Final = 'job=~"$job", route=~"$route"'
_SOURCE: Final = {"type": "prometheus", "uid": "${source}"}


def release_dashboard() -> dict[str, Any]:
    """The dashboard: one row, a panel for each thing that a release is judged by, a line for each target."""
    panels = [
        _panel("Share of requests, and the weight asked for", "percentunit", [
            (_share(), f"{_LEGEND} got"),
            (f"max by ({_TARGET}) ({names.WEIGHT}{{{_CHOSEN}}})", f"{_LEGEND} asked"),
        ]),
        _panel("Requests in flight", "short", [(f"sum by ({_TARGET}) ({names.IN_FLIGHT}{{{_CHOSEN}}})", _LEGEND)]),
        _panel("TTFT, 95th percentile", "s", [(_quantile(names.TTFT), _LEGEND)]),
        _panel("ITL, 95th percentile", "s", [(_quantile(names.ITL), _LEGEND)]),
        _panel("Errors by reason", "reqps", [(_rate(names.ERRORS, "reason"), f"{_LEGEND} {{{{reason}}}}")]),
        _panel("Fallbacks by reason", "reqps", [(_rate(names.FALLBACKS, "reason"), f"{_LEGEND} {{{{reason}}}}")]),
        _panel("Shadow answers that differ", "percentunit", [
            (f"{_rate(names.SHADOW_DIFFERENCES)} / {_rate(names.SHADOW_COMPARED)}", _LEGEND),
        ]),
        _panel("Users of the last 5 minutes", "short", [(f"sum by ({_TARGET}) ({names.USERS}{{{_CHOSEN}}})", _LEGEND)]),
    ]  # fmt: skip
    row = {
        "id": 1, "type": "row", "title": "Release", "collapsed": False, "panels": [],
        "gridPos": {"x": 0, "y": 0, "w": _ACROSS, "h": 1},
    }  # fmt: skip
    for index, panel in enumerate(panels):
        across, down = index % (_ACROSS // _WIDTH), index // (_ACROSS // _WIDTH)
        panel["id"] = index + 2
        panel["gridPos"] = {"x": across * _WIDTH, "y": 1 + down * _HEIGHT, "w": _WIDTH, "h": _HEIGHT}
    return {
        "uid": "ladder-release",
        "title": "Triton LLM Ladder: releases",
        "tags": ["triton", "llm"],
        "schemaVersion": 39,
        "timezone": "browser",
        "refresh": "10s",
        "time": {"from": "now-30m", "to": "now"},
        "templating": {"list": [_source_variable(), _variable("job"), _variable("route")]},
        "panels": [row, *panels],
    }


def _panel(title: str, unit: str, queries: list[tuple[str, str]]) -> dict[str, Any]:
    return {
        "type": "timeseries",
        "title": title,
        "datasource": _SOURCE,
        "fieldConfig": {"defaults": {"unit": unit, "min": 0}, "overrides": []},
        "options": {"legend": {"displayMode": "list", "placement": "bottom"}, "tooltip": {"mode": "multi"}},
        "targets": [
            {"refId": chr(ord("A") + index), "datasource": _SOURCE, "expr": expression, "legendFormat": legend}
            for index, (expression, legend) in enumerate(queries)
        ],
    }


def _rate(metric: str, *labels: str) -> str:
    by = ", ".join((_TARGET, *labels))
    return f"sum by ({by}) (rate({metric}{{{_CHOSEN}}}[$__rate_interval]))"


def _quantile(metric: str) -> str:
    return f"histogram_quantile(0.95, {_rate(f'{metric}_bucket', 'le')})"


def _share() -> str:
    everything = f"sum by (track, route) ({_rate(names.REQUESTS)})"
    return f"{_rate(names.REQUESTS)} / ignoring (model, version) group_left {everything}"


def _source_variable() -> dict[str, Any]:
    return {"name": "source", "type": "datasource", "query": "prometheus", "label": "Prometheus"}


def _variable(label: str) -> dict[str, Any]:
    query = f"label_values({names.WEIGHT}, {label})"
    return {
        "name": label, "type": "query", "datasource": _SOURCE, "query": {"query": query, "refId": label},
        "includeAll": True, "multi": True, "refresh": 2, "current": {"text": ["All"], "value": ["$__all"]},
    }  # fmt: skip
