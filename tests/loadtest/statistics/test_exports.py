from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest

from loadtest.errors import LoadTestError
from loadtest.options import SlaLimits
from loadtest.statistics.exports import targets_csv, timeline_csv, write_results
from loadtest.statistics.ledger import Ledger
from loadtest.statistics.records import read_record
from loadtest.statistics.results import RunResult
from loadtest.statistics.timeline import Timeline
from tests.loadtest.statistics.examples import HEALTHY, START, Clock, answer, failure, options, result_of, run


@pytest.fixture
def ledger() -> Ledger:
    clock = Clock()
    ledger = Ledger(options("llm", "other"), SlaLimits(ttft_ms=500), started_at=START, clock=clock)
    run(ledger, clock, answer(), failure(1), answer(2, target="other"))
    return ledger


def page(result: RunResult, timeline: Timeline) -> str:
    return f"<p>{len(result.targets)} targets, {len(timeline.targets['llm'])} seconds</p>"


def rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_all_files_are_written_and_say_the_same(ledger: Ledger, tmp_path: Path) -> None:
    folder = tmp_path / "runs" / "first"
    result = ledger.result(seconds=3, client=HEALTHY)
    written = write_results(folder, result, ledger.timeline(), ledger.records(), page=page)
    assert [path.name for path in written] == [
        "results.json",
        "targets.csv",
        "junit.xml",
        "timeline.csv",
        "records.jsonl",
        "report.html",
    ]
    assert sorted(folder.iterdir()) == sorted(written)
    texts = {path.name: path.read_text(encoding="utf-8") for path in written}
    assert RunResult.model_validate_json(texts["results.json"]) == result
    assert texts["targets.csv"] == targets_csv(result)
    assert texts["timeline.csv"] == timeline_csv(ledger.timeline())
    assert tuple(map(read_record, texts["records.jsonl"].splitlines())) == ledger.records()
    assert 'name="no failures"' in texts["junit.xml"]
    assert texts["report.html"] == "<p>2 targets, 4 seconds</p>"


def test_a_folder_that_cannot_be_made_is_named(ledger: Ledger, tmp_path: Path) -> None:
    (tmp_path / "out").write_text("", encoding="utf-8")
    with pytest.raises(LoadTestError, match=r'^".*/out" cannot be written: file exists'):
        write_results(tmp_path / "out", ledger.result(seconds=3, client=HEALTHY), ledger.timeline(), (), page=page)


def test_what_cannot_be_written_is_named_and_the_others_say_so(ledger: Ledger, tmp_path: Path) -> None:
    for name in ("records.jsonl", "junit.xml"):
        (tmp_path / name).mkdir()
    with pytest.raises(LoadTestError) as caught:
        write_results(tmp_path, ledger.result(seconds=3, client=HEALTHY), ledger.timeline(), (), page=page)
    messages = [
        f'"{tmp_path / name}" cannot be written: is a directory: name another folder with --out'
        for name in ("junit.xml", "records.jsonl")
    ]
    assert str(caught.value) == "\n".join(messages)
    result = RunResult.model_validate_json((tmp_path / "results.json").read_text(encoding="utf-8"))
    assert list(result.partial) == messages
    assert (tmp_path / "report.html").is_file()


def test_targets_have_units_in_their_columns() -> None:
    (row,) = rows(targets_csv(result_of(answer(ttft=0.75), failure(1), sla=SlaLimits(ttft_ms=500))))
    assert (row["target"], row["served_by"], row["protocol"]) == ("llm", "llm:1", "generate_stream")
    assert (row["requests"], row["failures"], row["cut"], row["good"]) == ("2", "1", "0", "0")
    assert (row["seconds"], row["output_tokens"], row["output_tokens_per_s"]) == ("2.0", "14", "7.0")
    assert float(row["ttft_p95_ms"]) == pytest.approx(750, rel=1e-3)
    assert float(row["itl_max_ms"]) == pytest.approx(60, rel=1e-3)
    assert float(row["lag_p99_ms"]) == pytest.approx(1, rel=1e-3)
    assert row["sla_missed"] == (
        "ttft_ms: 750.1 ms, the limit is 500 ms (missed by 50 %); "
        "max_failures_percent: 50 %, the limit is 0 % (missed by 50 %)"
    )


def test_what_was_not_measured_is_an_empty_cell() -> None:
    (row,) = rows(targets_csv(result_of(failure())))
    assert (row["good"], row["goodput_requests_per_s"], row["ttft_p50_ms"]) == ("", "", "")


def test_the_timeline_has_a_line_for_each_target_and_second(ledger: Ledger) -> None:
    found = rows(timeline_csv(ledger.timeline()))
    assert [(row["target"], row["second"]) for row in found] == [
        (target, str(second)) for target in ("llm", "other") for second in range(4)
    ]
    assert (found[1]["requests"], found[2]["failures"], found[0]["ttft_p50_ms"]) == ("1", "1", "")
    assert float(found[1]["ttft_p50_ms"]) == pytest.approx(100, rel=1e-3)


def test_an_empty_timeline_still_has_its_columns() -> None:
    header = timeline_csv(Timeline(targets={})).strip()
    assert header.split(",")[:3] == ["target", "second", "requests"]
