"""A report's folder: what is written into it, and how it is read again."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from tools.bootstrap.whole_file import whole_file
from tools.reporting.charts import charts
from tools.reporting.document import document
from tools.reporting.errors import ReportError
from tools.reporting.html import to_html
from tools.reporting.markdown import to_markdown
from tools.reporting.model import Report
from tools.reporting.records import answers_in

REPORT: Final = "report.json"
CHARTS: Final = "charts"


def write_report(report: Report, folder: Path) -> list[Path]:
    """Write report.json, report.md, report.html and charts/*.svg beside the cells; each appears whole.

    Raises OSError; ReportError when a cell's records are damaged.
    """
    drawn = charts(report, latencies_in(report, folder))
    written = document(report, drawn)
    files = {
        **{f"{CHARTS}/{name}.svg": svg for name, svg in drawn.items()},
        "report.md": to_markdown(written),
        "report.html": to_html(written, drawn),
        # Last: where it is, the others are.
        REPORT: report.model_dump_json(indent=2) + "\n",
    }
    (folder / CHARTS).mkdir(parents=True, exist_ok=True)
    for stale in set((folder / CHARTS).glob("*.svg")) - {folder / name for name in files}:
        stale.unlink()
    return [_write(folder / name, text) for name, text in files.items()]


def read_report(path: Path) -> tuple[Report, Path]:
    """The report in a folder, or in its report.json, and the folder. Raises ReportError."""
    file = path / REPORT if path.is_dir() else path
    try:
        return Report.model_validate_json(file.read_text(encoding="utf-8")), file.parent
    except FileNotFoundError:
        raise ReportError(f'there is no report "{file}": give the folder that ./ladder report wrote') from None
    except (OSError, UnicodeDecodeError) as error:
        raise ReportError(f'"{file}" cannot be read: {error}') from None
    except ValidationError as error:
        detail = error.errors()[0]
        where = ".".join(map(str, detail["loc"])) or "its beginning"
        raise ReportError(
            f'"{file}" is no report of this version of ./ladder report ({where}: {detail["msg"]}): make it again'
        ) from None


def latencies_in(report: Report, folder: Path) -> Mapping[tuple[str, int], list[float]]:
    """End to end seconds of every answer of every measured cell, by rung and level. Raises ReportError."""
    found: dict[tuple[str, int], list[float]] = {}
    for cell in report.cells:
        if cell.state == "measured":
            answers = answers_in(folder / cell.folder)
            found.setdefault((cell.rung, cell.level), []).extend(
                answer.e2e_ms / 1e3 for answer in answers if answer.e2e_ms is not None
            )
    return found


def _write(file: Path, text: str) -> Path:
    with whole_file(file) as draft:
        draft.write_text(text, encoding="utf-8")
    return file
