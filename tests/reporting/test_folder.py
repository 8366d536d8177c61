"""Writing a report and reading it again."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.reporting.examples import V2, V3, cells, report, write_records
from tools.reporting import folder as folder_module
from tools.reporting.charts import Latencies
from tools.reporting.errors import ReportError
from tools.reporting.folder import latencies_in, read_report, write_report
from tools.reporting.model import Report

REPORT = report(cells((V2, V3)), (V2, V3))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_records(REPORT, tmp_path)
    return tmp_path


@pytest.fixture
def sketched(monkeypatch: pytest.MonkeyPatch) -> None:
    """Charts as fast as they can be: one of everything measured, and nothing in it."""

    def sketch(report: Report, latencies: Latencies) -> dict[str, str]:
        memory = ["memory"] if any(cell.peak_memory_bytes for cell in report.cells) else []
        return dict.fromkeys(["latency-cdf", *memory], f"<svg>{sum(map(len, latencies.values()))}</svg>")

    monkeypatch.setattr(folder_module, "charts", sketch)


@pytest.mark.slow
def test_a_report_is_read_as_it_was_written(folder: Path) -> None:
    written = write_report(REPORT, folder)
    assert {file.relative_to(folder).as_posix() for file in written} == {
        *("report.json", "report.md", "report.html", "charts/throughput.svg", "charts/ttft.svg", "charts/tpot.svg"),
        *("charts/latency-cdf.svg", "charts/memory.svg"),
    }
    assert read_report(folder) == read_report(folder / "report.json") == (REPORT, folder)
    # Nothing is left of the drafts.
    assert not list(folder.rglob(".*"))
    # Every chart that the Markdown names is there.
    text = (folder / "report.md").read_text(encoding="utf-8")
    names = [line.split("(")[-1].rstrip(")") for line in text.splitlines() if line.startswith("![")]
    assert len(names) == 5
    assert all((folder / name).is_file() for name in names)


@pytest.mark.usefixtures("sketched")
def test_writing_it_again_changes_no_byte(folder: Path) -> None:
    before = {file: file.read_bytes() for file in write_report(REPORT, folder)}
    assert {file: file.read_bytes() for file in write_report(REPORT, folder)} == before


@pytest.mark.usefixtures("sketched")
def test_a_chart_without_figures_any_more_is_gone(folder: Path) -> None:
    write_report(REPORT, folder)
    assert (folder / "charts/memory.svg").exists()
    cells = tuple(cell.model_copy(update={"peak_memory_bytes": None}) for cell in REPORT.cells)
    rungs = tuple(rung.model_copy(update={"peak_memory_bytes": None}) for rung in REPORT.rungs)
    write_report(REPORT.model_copy(update={"cells": cells, "rungs": rungs}), folder)
    assert not (folder / "charts/memory.svg").exists()
    assert (folder / "charts/latency-cdf.svg").exists()


def test_latencies_are_those_of_whole_answers(folder: Path) -> None:
    file = folder / "cells/v2-1-1/records.jsonl"
    first, *others = file.read_text(encoding="utf-8").splitlines()
    failure = first.replace('"failure":null', '"failure":"deadline"')
    file.write_text("\n".join([failure, *others]), encoding="utf-8")
    found = latencies_in(REPORT, folder)
    assert len(found["v2", 1]) == 3 * 8 - 1
    # TTFT 70 ms and 15 tokens of 50 ms each, by a tenth more or less.
    assert all(0.4 < seconds < 1.2 for seconds in found["v2", 1])


def test_records_that_are_cut_off_are_named(folder: Path) -> None:
    file = folder / "cells/v2-1-1/records.jsonl"
    file.write_text(file.read_text(encoding="utf-8")[:-20], encoding="utf-8")
    with pytest.raises(ReportError, match=r'records\.jsonl" line 8 is no record of a request: delete'):
        write_report(REPORT, folder)


def test_what_is_no_report_is_named(tmp_path: Path) -> None:
    with pytest.raises(ReportError, match=r'there is no report "[^"]*report\.json": give the folder'):
        read_report(tmp_path)
    (tmp_path / "report.json").write_text('{"format": 2}')
    with pytest.raises(
        ReportError, match=r"is no report of this version of \./ladder report \(format: Input should be 1"
    ):
        read_report(tmp_path)
    (tmp_path / "report.json").write_bytes(b"\xff")
    with pytest.raises(ReportError, match=r'report\.json" cannot be read'):
        read_report(tmp_path)
