"""A run's results as files: for programs (JSON, CSV, JUnit XML) and for people (HTML)."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from loadtest.errors import LoadTestError
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
    LoadTestError naming the files that cannot be written, after all others were; these say that it is not all.
    """
    make_folder(folder)
    lost = _write(
        folder,
        {
            **_summaries(result),
            "timeline.csv": timeline_csv(timeline),
            "records.jsonl": "".join(f"{record_line(record)}\n" for record in records),
            "report.html": page(result, timeline),
        },
    )
    if lost:
        marked = result.model_copy(update={"partial": (*result.partial, *map(str, lost.values()))})
        # Each that fails has its line already.
        _write(folder, {name: text for name, text in _summaries(marked).items() if name not in lost})
        raise LoadTestError("\n".join(map(str, lost.values())))
    return [folder / name for name in FILES]


FILES: Final = ("results.json", "targets.csv", "junit.xml", "timeline.csv", "records.jsonl", "report.html")
"""What `write_results` writes, the small ones that say most first: the disk may be full after them."""


def _summaries(result: RunResult) -> dict[str, str]:
    return {
        "results.json": result.model_dump_json(indent=2) + "\n",
        "targets.csv": targets_csv(result),
        "junit.xml": junit_xml(result),
    }


def _write(folder: Path, texts: Mapping[str, str]) -> dict[str, LoadTestError]:
    """Write what can be written; returns the others by name."""
    lost = {}
    for name, text in texts.items():
        try:
            write_whole(folder / name, text)
        except LoadTestError as error:
            lost[name] = error
    return lost


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
        "cut_output_tokens": target.cut_output_tokens,
        "cut_uncounted": target.cut_uncounted,
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
