"""`./ladder report` and `./ladder report compare`: options, outputs, exit codes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import typer
from click.testing import Result
from typer.testing import CliRunner

from tests.reporting.examples import V2, V3, cells, write_records
from tests.reporting.examples import report as example
from tests.reporting.planned import planned
from tools.bootstrap.layout import Layout
from tools.cli import report
from tools.reporting.cells import CellRecord
from tools.reporting.errors import ReportError
from tools.reporting.folder import write_report
from tools.reporting.model import Report
from tools.reporting.session import Order

RUNGS = (V2, V3)
HOME = Layout.of_this_checkout().home


@pytest.fixture
def app() -> typer.Typer:
    app = typer.Typer()
    report.register(app)

    @app.callback()
    def _several_commands() -> None: ...

    return app


@pytest.fixture(autouse=True)
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Drawing the charts takes longer than everything else here."""
    monkeypatch.setattr("tools.reporting.folder.charts", lambda report, latencies: {})


@pytest.fixture(autouse=True)
def no_other_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever runs on this machine."""
    monkeypatch.setattr(report, "running_port_base", lambda _: 8000)


def run(app: typer.Typer, *arguments: str) -> Result:
    return CliRunner().invoke(app, ["report", *arguments])


def words(result: Result) -> str:
    return " ".join(result.output.split())


@pytest.fixture
def making(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[Order]]:
    """Instead of measuring: keeps the order, tells of one cell, and returns a report or raises an error."""

    def make(outcome: Report | BaseException) -> list[Order]:
        asked: list[Order] = []

        def make_report(order: Order, _layout: object, _serving: object, _load: object, progress: object) -> Report:
            asked.append(order)
            cell = planned("v2", 8)
            progress.begin(cell, 3, 54, 600.0)  # type: ignore[attr-defined]
            failed = CellRecord(key=cell.key, state="failed", reason="the queue is full")
            progress.end(cell, failed)  # type: ignore[attr-defined]
            if isinstance(outcome, BaseException):
                raise outcome
            return outcome

        monkeypatch.setattr(report, "make_report", make_report)
        return asked

    return make


def test_without_options_the_profiles_defaults_are_measured(
    app: typer.Typer, making: Callable[..., list[Order]]
) -> None:
    asked = making(example())
    result = run(app)
    assert result.exit_code == 0, result.output
    (order,) = asked
    assert (order.settings.levels, order.settings.output_tokens, order.settings.repeats) == ((1, 8, 32), 16, 3)
    assert (order.labels, order.out) == ((), HOME / ".ladder/reports/cpu-smollm2")
    assert f'Written: "{HOME}/.ladder/reports/cpu-smollm2/report.html"' in words(result)


@pytest.mark.parametrize(
    ("options", "base"), [([], 18300), (["--port-base", "18400"], 18400)], ids=["the one that runs", "named"]
)
def test_the_server_that_up_started_is_measured(
    options: list[str],
    base: int,
    app: typer.Typer,
    making: Callable[..., list[Order]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    making(example())
    bases: list[int] = []
    monkeypatch.setattr(report, "running_port_base", lambda _: 18300)
    monkeypatch.setattr(report, "running", lambda base, _: bases.append(base))
    assert run(app, *options).exit_code == 0
    assert bases == [base]


def test_options_become_the_order(app: typer.Typer, making: Callable[..., list[Order]], tmp_path: Path) -> None:
    asked = making(example())
    options = ["--rungs", "v2, v4", "--concurrency", "16,4", "--input-tokens", "100", "--output-tokens", "20"]
    options += ["--requests-per-stream", "3", "--min-requests", "5", "--repeats", "2", "--seed", "9"]
    options += ["--protocol", "grpc", "--deadline", "30", "--cell-seconds", "20", "--workers", "4"]
    options += ["--isolate", "--out", str(tmp_path / "r")]
    assert run(app, *options).exit_code == 0
    settings = asked[0].settings
    assert settings.model_dump() == {
        "levels": (4, 16),
        "input_tokens": 100,
        "output_tokens": 20,
        "requests_per_stream": 3,
        "min_requests": 5,
        "repeats": 2,
        "seed": 9,
        "protocol": "grpc",
        "deadline_s": 30.0,
        "cell_s": 20,
        "workers": 4,
        "isolated": True,
    }
    assert (asked[0].labels, asked[0].out) == (("v2", "v4"), tmp_path / "r")


def test_every_cell_is_told_with_the_time_left_and_failures_with_their_reason(
    app: typer.Typer, making: Callable[..., list[Order]]
) -> None:
    making(example())
    shown = words(run(app))
    assert "3 of 54: v2 llm_bf16:1, 8 streams, repeat 1, about 10 min left" in shown
    assert "v2 llm_bf16:1, 8 streams, repeat 1: failed: the queue is full" in shown


def test_cells_without_a_figure_are_exit_code_1(app: typer.Typer, making: Callable[..., list[Order]]) -> None:
    lost = [cell.model_copy(update={"state": "failed", "figures": None}) for cell in cells((V2,))]
    making(example(lost, (V2,)))
    result = run(app)
    assert result.exit_code == 1
    assert "9 of 9 cells have no figure; the report says why." in words(result)


@pytest.mark.parametrize(
    ("outcome", "code", "text"),
    [
        (ReportError("not ready on the server: v3"), 2, "error: not ready on the server: v3"),
        (PermissionError(13, "Permission denied", "/r/cells"), 2, 'error: "/r/cells" cannot be written or read'),
        (KeyboardInterrupt(), 130, "Interrupted. What was measured is in"),
    ],
)
def test_what_ends_it_early(
    outcome: BaseException, code: int, text: str, app: typer.Typer, making: Callable[..., list[Order]]
) -> None:
    making(outcome)
    result = run(app)
    assert result.exit_code == code
    assert text in words(result)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--concurrency", "1,x"], "is no list of whole numbers above 0"),
        (["--protocol", "openai"], "the report needs every rung's TTFT, which generate_stream and grpc give"),
        (["--profile", "nothing"], 'no profile "nothing"'),
        (["--quality", "/nowhere"], 'the evaluation "/nowhere" cannot be read'),
        (["--output-tokens", "1"], "2"),
        (["--output-tokens", "10000000"], "should be less than"),
        (["--input-tokens", "10000000"], "should be less than"),
        (["--deadline", "inf"], "should be less than"),
        (["--concurrency", "1,1000000"], "is more than 100000 streams"),
    ],
)
def test_wrong_options_are_exit_code_2(options: list[str], text: str, app: typer.Typer) -> None:
    result = run(app, *options)
    assert result.exit_code == 2
    assert text in words(result)


def written(folder: Path, *, seed: int = 0, slower: float = 1.0, **changes: object) -> str:
    found = example(cells(RUNGS), RUNGS, **changes)
    write_records(found, folder, seed=seed, slower={"v3": slower})
    write_report(found, folder)
    return str(folder)


@pytest.mark.slow
def test_compare_prints_markdown_and_exits_with_0(app: typer.Typer, tmp_path: Path) -> None:
    result = run(app, "compare", written(tmp_path / "a"), written(tmp_path / "b", seed=1))
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("# Comparison of two ladder reports")
    assert "0 regressions" in result.stdout


@pytest.mark.slow
def test_tables_and_help_fit_80_columns(app: typer.Typer, tmp_path: Path) -> None:
    folders = [written(tmp_path / "a"), written(tmp_path / "b", seed=1, slower=1.3)]
    texts = [run(app, "compare", *folders).stdout, run(app, "--help").stdout, run(app, "compare", "--help").stdout]
    table = [line for line in texts[0].splitlines() if line.startswith("|")]
    assert len(table) > 20
    assert [line for line in (*table, *texts[1].splitlines(), *texts[2].splitlines()) if len(line) > 80] == []


@pytest.mark.slow
def test_compare_exits_with_1_for_a_regression_beyond_the_tolerance(app: typer.Typer, tmp_path: Path) -> None:
    folders = [written(tmp_path / "a"), written(tmp_path / "b", seed=1, slower=1.3)]
    assert run(app, "compare", *folders).exit_code == 1
    assert run(app, "compare", *folders, "--tolerance", "60").exit_code == 0


@pytest.mark.slow
def test_compare_prints_json(app: typer.Typer, tmp_path: Path) -> None:
    found = run(app, "compare", written(tmp_path / "a"), written(tmp_path / "b", seed=1, slower=1.3), "--json")
    assert {change["verdict"] for change in json.loads(found.stdout)["changes"] if change["rung"] == "v3"} >= {
        "regression"
    }


@pytest.mark.slow
def test_compare_exits_with_2_for_what_cannot_be_compared(app: typer.Typer, tmp_path: Path) -> None:
    one = written(tmp_path / "a")
    machine = example().machine.model_copy(update={"cpu": "another"})
    other = written(tmp_path / "b", seed=1, machine=machine)
    result = run(app, "compare", one, other)
    assert result.exit_code == 2
    assert "machine, cpu: AMD EPYC 9B14 and another" in words(result)
    assert run(app, "compare", one, other, "--across-machines").exit_code == 0
    missing = run(app, "compare", one, str(tmp_path / "c"))
    assert missing.exit_code == 2
    assert "there is no report" in words(missing)
