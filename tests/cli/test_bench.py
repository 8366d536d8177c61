"""`./ladder bench`: options, outputs, exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer
from click.testing import Result
from typer.testing import CliRunner

from tools.benchmark.backend import BackendReport, BackendRow
from tools.benchmark.errors import BenchmarkError
from tools.benchmark.machine import Machine
from tools.benchmark.mock_load import MockSettings
from tools.benchmark.overhead import OverheadReport, OverheadRow, OverheadSettings
from tools.benchmark.spread import Spread
from tools.cli import bench

MACHINE = Machine(cpu="AMD EPYC", cores=2, memory_gib=24, gpus=(), system="Linux", load_before=0.1, versions={})


@pytest.fixture
def app() -> typer.Typer:
    app = typer.Typer()
    bench.register(app)

    @app.callback()
    def _several_commands() -> None: ...

    return app


def run(app: typer.Typer, *arguments: str) -> Result:
    return CliRunner().invoke(app, ["bench", *arguments])


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> list[MockSettings]:
    """What `bench backend` was asked to measure; nothing is started."""
    asked: list[MockSettings] = []

    def bench_backend(profile: object, settings: MockSettings, *_: object) -> BackendReport:
        asked.append(settings)
        spread = Spread.of([1000.0])
        costs = dict.fromkeys(("stub", "server", "engine", "client"), spread)
        rows = tuple(
            BackendRow(
                streams=streams,
                tokens_per_s=spread,
                responses_per_s=spread,
                tokens_per_response=spread,
                cpu_us_per_token=costs,
                cpu_us_per_response=costs,
            )
            for streams in settings.streams
        )
        return BackendReport(machine=MACHINE, settings=settings, rows=rows)

    monkeypatch.setattr(bench, "bench_backend", bench_backend)
    return asked


def test_the_options_become_settings(app: typer.Typer, measured: list[MockSettings]) -> None:
    result = run(app, "backend", "--streams", "8, 64,8", "--tokens", "50", "--step-ms", "2.5", "--repeats", "5")
    assert result.exit_code == 0, result.output
    assert measured == [
        MockSettings(profile="cpu-smollm2", streams=(8, 64), tokens=50, step_s=0.0025, seconds=3.0, repeats=5)
    ]
    assert "tokens per response" in result.stdout
    assert "AMD EPYC, 2 cores" in result.stdout


@pytest.mark.parametrize("streams", ["", "0", "1,x", "-4", "1,,2"])
def test_streams_that_are_no_numbers_are_wrong_usage(app: typer.Typer, streams: str) -> None:
    result = run(app, "backend", f"--streams={streams}")
    assert result.exit_code == 2
    assert "is no list of whole numbers above 0" in " ".join(result.output.split())


def test_json_goes_to_stdout_and_to_a_file(app: typer.Typer, measured: list[MockSettings], tmp_path: Path) -> None:
    out = tmp_path / "figures.json"
    result = run(app, "backend", "--json", "--out", str(out))
    assert BackendReport.model_validate_json(result.stdout).settings == measured[0]
    assert json.loads(out.read_text(encoding="utf-8")) == json.loads(result.stdout)
    assert list(tmp_path.iterdir()) == [out]


def test_markdown_is_what_the_readme_quotes(app: typer.Typer, measured: list[MockSettings]) -> None:
    result = run(app, "backend", "--markdown", "--streams", "1")
    assert result.stdout.startswith("**Backend with a mock engine: throughput**\n\n| streams | tokens/s |")
    assert "AMD EPYC, 2 cores" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ((), BenchmarkError("a token was lost"), "error: a token was lost"),
        (("--profile", "cpu-smollm"), None, 'did you mean "cpu-smollm2"?'),
    ],
)
def test_what_goes_wrong_is_one_line_and_exit_code_1(
    app: typer.Typer,
    monkeypatch: pytest.MonkeyPatch,
    measured: list[MockSettings],
    arguments: tuple[str, ...],
    error: Exception | None,
    text: str,
) -> None:
    def fail(*_: object) -> None:
        raise error or AssertionError

    if error:
        monkeypatch.setattr(bench, "bench_backend", fail)
    result = run(app, "backend", *arguments)
    assert result.exit_code == 1
    assert text in result.stderr
    assert result.stdout == ""


def test_ctrl_c_is_exit_code_130(app: typer.Typer, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(bench, "bench_backend", interrupt)
    assert run(app, "backend").exit_code == 130


def test_overhead_has_its_own_settings_and_table(app: typer.Typer, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[OverheadSettings] = []

    def bench_overhead(profile: object, settings: OverheadSettings, *_: object) -> OverheadReport:
        asked.append(settings)
        spread = Spread.of([0.98, 1.0, 0.97])
        row = OverheadRow(
            streams=8,
            bare_tokens_per_s=spread,
            served_tokens_per_s=spread,
            ratio=spread,
            bare_ttft_ms=spread,
            served_ttft_ms=spread,
            added_ttft_ms=spread,
        )
        return OverheadReport(machine=MACHINE, settings=settings, engine_arguments={}, rows=(row,))

    monkeypatch.setattr(bench, "bench_overhead", bench_overhead)
    result = run(app, "overhead", "--streams", "8", "--tokens", "32", "--prompt-tokens", "20", "--markdown")
    assert result.exit_code == 0, result.output
    assert asked == [
        OverheadSettings(profile="cpu-smollm2", model="", streams=(8,), tokens=32, prompt_tokens=20, repeats=3)
    ]
    assert "0.980 (0.970-1.000)" in result.stdout
    assert "AMD EPYC, 2 cores" in result.stdout
