from __future__ import annotations

import json

from loadtest.webui.live_page import news
from tests.loadtest.webui.runs import SATURATED, options, routed, run_of, two_targets


def texts(answer: dict[str, object]) -> list[str]:
    return [notice["text"] for notice in answer["notices"]]  # type: ignore[attr-defined]


def test_before_the_first_run_the_page_says_where_to_start_one() -> None:
    answer = news("ready", None, None)
    assert answer["state"] == "not started"
    assert answer["run"] is None
    assert texts(answer) == ["Nothing is running. Start a run in Locust's form, and its charts appear here."]


def test_in_the_warm_up_the_charts_go_on_and_the_page_says_that_nothing_counts_yet() -> None:
    result, timeline = run_of(two_targets(2), options=options(warmup_s=60.0))
    answer = news("running", result, timeline)
    assert texts(answer) == ["Nothing has been counted yet: no request after the warm-up has ended."]
    assert sum(answer["timeline"]["llm_bf16"]["requests"]) == 4
    assert answer["marks"]["warmup_s"] == 60.0


def test_a_run_that_ended_without_a_request_is_said_to() -> None:
    result, timeline = run_of([])
    assert texts(news("stopped", result, timeline)) == ["The run ended before anything was counted."]


def test_why_a_run_could_not_begin_is_said() -> None:
    (error, _) = texts(news("ready", None, None, "no worker has connected"))
    assert error == "The last run could not begin, or not go on: no worker has connected"


def test_a_run_shows_its_figures_and_its_seconds() -> None:
    result, timeline = run_of(two_targets())
    answer = news("running", result, timeline)
    assert answer["state"] == "running"
    assert answer["run"] == result.started_at.isoformat()
    assert answer["facts"] == [
        "http://127.0.0.1:8000",
        "generate_stream",
        "workload chat",
        "4 users, each waiting for its answer (closed loop)",
    ]
    assert [(row["target"], row["color"], row["cells"][0]) for row in answer["rows"]] == [
        ("llm_bf16", 0, "40"),
        ("llm_awq", 1, "41"),
    ]
    assert answer["notices"] == []
    assert json.loads(json.dumps(answer))["timeline"]["llm_awq"]["second"][:3] == [0, 1, 2]


def test_a_routers_targets_have_rows_and_lines_of_their_own() -> None:
    answer = news("running", *run_of(routed(), options=options(targets=("chat",))))
    names = ["chat", "chat > llm_awq:1", "chat > llm_bf16:1"]
    assert [(row["target"], row["cells"][0]) for row in answer["rows"]] == list(
        zip(names, ["4", "1", "3"], strict=True)
    )
    assert answer["targets"] == [{"name": name, "color": color} for color, name in enumerate(names)]
    assert set(answer["timeline"]) == set(names)


def test_a_saturated_client_and_partial_results_are_said_with_their_reasons() -> None:
    result, timeline = run_of(two_targets(), client=SATURATED, partial=("interrupted after 20 s",))
    saturated, partial = news("stopped", result, timeline)["notices"]
    assert saturated["level"] == "warning"
    assert saturated["text"].startswith("The client is saturated: these figures hold its own delays")
    assert saturated["reasons"] == ["the client used 99 % of a core"]
    assert (partial["text"], partial["reasons"]) == ("These results are partial:", ["interrupted after 20 s"])
