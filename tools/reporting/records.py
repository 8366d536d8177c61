"""The single requests of a cell, as the load test wrote them down."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from pydantic import ValidationError

from loadtest.statistics.records import Record, read_record
from tools.reporting.errors import ReportError

RECORDS: Final = "records.jsonl"


def answers_in(folder: Path) -> list[Record]:
    """The whole answers of a cell. Raises ReportError for a file that is missing, cut off or something else."""
    file = folder / RECORDS
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ReportError(f'"{file}" cannot be read ({error}): make the report again') from None
    records = []
    for number, line in enumerate(lines, start=1):
        try:
            records.append(read_record(line))
        except ValidationError:
            raise ReportError(
                f'"{file}" line {number} is no record of a request: delete "{folder}" and make the report again'
            ) from None
    return [record for record in records if record.failure is None]
