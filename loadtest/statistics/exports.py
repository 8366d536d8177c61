"""A run's results as files: for programs (JSON, CSV, JUnit XML) and for people (HTML)."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from loadtest.statistics.files import make_folder, write_whole
from loadtest.statistics.junit import junit_xml
from loadtest.statistics.records import Record, record_line
from loadtest.statistics.results import Quantiles, RunResult, TargetResult
from loadtest.statistics.timeline import Second, Timeline

PageRenderer = Callable[[RunResult, Timeline], str]

_LATENCIES: Final = ("ttft", "tpot", "itl", "e2e", "lag")


def write_results(
    folder: Path, result: RunResult, timeline: Timeline, records: Sequence[Record], *, page: PageRenderer
) -> list[Path]:
    """Write all files of a run into `folder`, which is made if need be, and say where they are.

    `page` renders report.html (`loadtest.webui.report_page.report_page`). Each file is replaced as a whole. Raises
    LoadTestError naming the file that cannot be written.
    """
    texts = {
        "results.json": result.model_dump_json(indent=2) + "\n",
        "targets.csv": targets_csv(result),
        "timeline.csv": timeline_csv(timeline),
        "records.jsonl": "".join(f"{record_line(record)}\n" for record in records),
        "junit.xml": junit_xml(result),
        "report.html": page(result, timeline),
    }
    make_folder(folder)
    written = []
    for name, text in texts.items():
        write_whole(folder / name, text)
        written.append(folder / name)
    return written


def targets_csv(result: RunResult) -> str:
    """One line a target, and one for each part of a router's; the unit is the end of a column's name."""
    rows = [_target_row(target) for target in result.rows]
    return _csv(rows[0], rows)


def timeline_csv(timeline: Timeline) -> str:
    """One line a target and second of the run."""
    return _csv(
        ("target", *Second.model_fields),
        ({"target": name} | second.model_dump() for name, seconds in timeline.targets.items() for second in seconds),
    )


def _target_row(target: TargetResult) -> dict[str, Any]:
    return {
        "target": target.target,
        "served_by": "; ".join(target.served_by),
        "protocol": target.protocol,
        "seconds": target.seconds,
        "requests": target.requests,
        "failures": sum(target.failures.values()),
        "cut": target.cut,
        "good": target.good,
        "input_tokens": target.input_tokens,
        "output_tokens": target.output_tokens,
        "responses": target.responses,
        "requests_per_s": target.requests_per_s,
        "output_tokens_per_s": target.output_tokens_per_s,
        "goodput_requests_per_s": target.goodput_per_s,
        **{
            f"{latency}_{figure}_ms": getattr(getattr(target, f"{latency}_ms"), figure)
            for latency in _LATENCIES
            for figure in Quantiles.model_fields
            if figure != "count"
        },
        "sla_missed": "; ".join(miss.text() for miss in target.missed),
    }


def _csv(columns: Iterable[str], rows: Iterable[Mapping[str, Any]]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(columns), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()
