"""`./ladder loadtest`: what it has Locust do, and what it says when it cannot."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
import typer
from click.testing import Result
from typer.testing import CliRunner

from loadtest.errors import LoadTestError
from loadtest.launching import LocustPlan
from tests.client.fakes.running import running
from tests.client.fakes.triton import FakeTriton, engine
from tools.bootstrap.layout import Layout
from tools.cli import loadtest
from tools.client.address import Protocol

URL = ("--url", "http://127.0.0.1:8000", "--targets", "llm_bf16")


@pytest.fixture
def app() -> typer.Typer:
    app = typer.Typer()
    loadtest.register(app)

    @app.callback()
    def _several_commands() -> None: ...

    return app


class Runs:
    """Stands in for `run_locust`: what was to be run, and how that ends."""

    def __init__(self) -> None:
        self.plans: list[LocustPlan] = []
        self.code = 0
        self.error: BaseException | None = None

    def __call__(self, plan: LocustPlan, logs: Path, web_ui_is_up: Callable[[], None]) -> int:
        self.plans.append(plan)
        if plan.web_port is not None:
            web_ui_is_up()
        if self.error is not None:
            raise self.error
        return self.code

    def value(self, name: str) -> str:
        arguments = self.plans[-1].arguments
        return arguments[arguments.index(name) + 1]


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> Runs:
    runs = Runs()
    monkeypatch.setattr(loadtest, "run_locust", runs)
    # A server that happens to run in this checkout would lend its tokenizer.
    monkeypatch.setattr(loadtest, "instance_at", lambda endpoint: None)
    return runs


def run(app: typer.Typer, *arguments: str) -> Result:
    return CliRunner().invoke(app, ["loadtest", *arguments])


def test_options_become_locusts(app: typer.Typer, runs: Runs) -> None:
    given = (
        *("--workload", "zh", "--rate", "2.5", "--duration", "90s", "--warmup", "5"),
        *("--out", "results", "--seed", "3"),
    )
    result = run(app, *URL, *given, "--workers", "2", "--stop-timeout", "7")
    (plan,) = runs.plans

    assert result.exit_code == 0, result.output
    assert plan.arguments == (
        *("--host", "http://127.0.0.1:8000", "--targets", "llm_bf16", "--workload", "zh", "--shape", "rate"),
        *("--rate", "2.5", "--run-time", "90s", "--warmup", "5", "--seed", "3", "--out", "results"),
        *("--headless", "--only-summary", "--json-file", "results/locust", "--loglevel", "WARNING"),
    )
    assert (plan.workers, plan.web_port, plan.stop_timeout_s) == (2, None, 7.0)


@pytest.mark.parametrize(
    ("profile", "made", "used"),
    [
        ("cpu-smollm2", True, "models/smollm2-135m-instruct/tokenizer.json"),
        ("cpu-smollm2", False, None),
        ("", True, None),
    ],
)
def test_the_own_servers_model_lends_its_tokenizer(
    app: typer.Typer, runs: Runs, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, profile: str, used: str | None,
    *, made: bool,
) -> None:  # fmt: skip
    monkeypatch.setattr(loadtest, "instance_at", lambda endpoint: SimpleNamespace(profile=profile))
    monkeypatch.setattr(loadtest.Layout, "of_this_checkout", lambda: Layout(tmp_path))
    if made:
        file = tmp_path / "models/smollm2-135m-instruct/tokenizer.json"
        file.parent.mkdir(parents=True)
        file.touch()
    result = run(app, *URL, "--requests", "1")

    assert result.exit_code == 0, result.output
    if used is None:
        assert "--tokenizer" not in runs.plans[0].arguments
    else:
        assert runs.value("--tokenizer") == str(tmp_path / used)


@pytest.mark.parametrize(
    ("arguments", "headless"),
    [
        ((), False),
        (("--users", "4"), False),
        (("--duration", "10"), True),
        (("--requests", "10"), True),
        (("--shape", "search", "--rate", "1"), True),
        (("--no-ui",), True),
        (("--duration", "10", "--ui"), False),
    ],
)
def test_a_run_that_says_when_it_is_over_needs_no_form(
    app: typer.Typer, runs: Runs, arguments: tuple[str, ...], *, headless: bool
) -> None:
    result = run(app, *URL, "--web-port", "8123", *arguments)

    assert result.exit_code == 0, result.output
    assert ("--headless" in runs.plans[0].arguments) is headless
    assert ("web UI: http://127.0.0.1:8123" in result.output) is not headless


def test_the_help_fits_80_columns(app: typer.Typer) -> None:
    lines = run(app, "--help").stdout.splitlines()
    assert any("--ca-file" in line for line in lines)
    assert [line for line in lines if len(line) > 80] == []


def test_the_authority_of_a_server_is_handed_on(app: typer.Typer, runs: Runs, tmp_path: Path) -> None:
    (tmp_path / "ca.pem").touch()
    given = ("--url", "https://127.0.0.1:8000", "--targets", "a", "--ca-file", str(tmp_path / "ca.pem"))
    run(app, *given)
    assert runs.value("--ca-file") == str(tmp_path / "ca.pem")

    # Without targets it is asked by the command itself.
    refused = run(app, *given[:2], *given[4:])
    assert refused.exit_code == 2
    assert "holds no certificate" in refused.output


def test_results_go_to_a_folder_of_their_own(app: typer.Typer, runs: Runs) -> None:
    run(app, *URL, "--requests", "1")

    assert Path(runs.value("--out")).parent.parts[-2:] == (".ladder", "loadtest")


def test_the_profiles_promise_is_an_sla(app: typer.Typer, runs: Runs) -> None:
    run(app, *URL, "--sla", "profile")

    assert runs.value("--sla") == "ttft_ms=500,tpot_ms=50,p99_e2e_s=4,min_qps=20,max_failures_percent=0"


def test_an_empty_sla_is_none_that_could_be_kept(app: typer.Typer, runs: Runs) -> None:
    result = run(app, *URL, "--sla", " ")

    assert result.exit_code == 2
    assert "--sla is empty: give limits" in result.output
    assert runs.plans == []


def test_grpc_goes_to_the_grpc_port(app: typer.Typer, runs: Runs) -> None:
    run(app, "--port-base", "8300", "--targets", "a", "--protocol", "grpc")

    assert runs.value("--host") == "grpc://127.0.0.1:8301"


@pytest.mark.parametrize(("code", "seen"), [(0, 0), (1, 1), (2, 2), (-9, 2)])
def test_the_exit_code_is_handed_through(app: typer.Typer, runs: Runs, code: int, seen: int) -> None:
    runs.code = code

    assert run(app, *URL).exit_code == seen


@pytest.mark.parametrize(("error", "code"), [(KeyboardInterrupt(), 130), (LoadTestError("all workers ended"), 2)])
def test_errors_and_interruptions_end_the_command(
    app: typer.Typer, runs: Runs, error: BaseException, code: int
) -> None:
    runs.error = error
    result = run(app, *URL)

    assert result.exit_code == code
    assert str(error) in result.output


@pytest.fixture
def server() -> Iterator[str]:
    with running(FakeTriton(engine("llm_bf16"), engine("llm_awq"), engine("llm_baseline"), engine("other"))) as address:
        yield address.endpoint(Protocol.HTTP).url


def test_the_form_starts_with_the_ready_rungs_that_vllm_serves(app: typer.Typer, runs: Runs, server: str) -> None:
    run(app, "--url", server)

    assert runs.value("--targets") == "llm_bf16,llm_awq"


def test_without_a_form_the_targets_have_to_be_given(app: typer.Typer, runs: Runs, server: str) -> None:
    result = run(app, "--url", server, "--duration", "5")

    assert result.exit_code == 2
    assert "--targets is missing: say what to test; ready are llm_awq:1, llm_baseline:1" in result.output
    assert runs.plans == []


def test_a_server_that_is_down_is_said_at_once(app: typer.Typer, runs: Runs) -> None:
    result = run(app, "--url", "http://127.0.0.1:1")

    assert result.exit_code == 2
    assert "no tritonserver answers at http://127.0.0.1:1" in result.output
    assert runs.plans == []


def test_a_locust_that_was_killed_is_said(app: typer.Typer, runs: Runs) -> None:
    runs.code = -9
    result = run(app, *URL, "--requests", "1")

    assert result.exit_code == 2
    assert "error: Locust was killed by SIGKILL: there are no results" in result.output


def test_an_unknown_profile_is_said(app: typer.Typer, runs: Runs) -> None:
    result = run(app, *URL, "--sla", "profile", "--profile", "nothing")

    assert result.exit_code == 2
    assert "nothing" in result.output
    assert runs.plans == []


@pytest.mark.slow
def test_the_command_line_is_not_under_gevent() -> None:
    """Locust patches what it is imported into: the threads, sockets and subprocesses of the command."""
    code = "import sys, tools.cli.loadtest; print([name for name in ('locust', 'gevent') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "[]"
