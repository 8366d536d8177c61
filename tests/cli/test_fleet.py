"""What `./ladder fleet` says; the fleet itself is tests/fleet/test_fleet_e2e.py's."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from tests.fleet.conftest import plan
from tools.bootstrap.layout import Layout
from tools.bootstrap.locking import try_lock
from tools.cli import fleet as module
from tools.cli.app import application
from tools.fleet import site
from tools.fleet.files import FleetFiles, FleetState, ProcessState
from tools.fleet.site import FleetSite
from tools.fleet.weights import read_weights, write_weights

BASE = 9100


@pytest.fixture
def layout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Layout:
    """A checkout in which nothing runs."""
    layout = Layout(tmp_path)
    monkeypatch.setattr(Layout, "of_this_checkout", lambda: layout)
    return layout


@pytest.fixture
def files(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> Iterator[FleetFiles]:
    """A fleet that is kept, whose proxy takes every weight over at once."""
    files = FleetFiles.at(BASE, layout)
    write_state(files)
    monkeypatch.setattr(site, "_require_router", lambda member: None)
    monkeypatch.setattr(site, "weights_in_force", lambda admin: read_weights(files.weights))
    monkeypatch.setattr(site.FleetTraffic, "_look", lambda self, member, starts: (site.ServerLook(starts=starts), True))
    lock = try_lock(files.lock)
    assert lock is not None
    yield files
    os.close(lock)


def write_state(files: FleetFiles, *, canary: int = 1, phase: str = "ready") -> None:
    fleet = plan(BASE, canary=canary)
    FleetState(
        plan=fleet,
        keeper=os.getpid(),
        started=0.0,
        proxy=ProcessState(name="envoy", phase="ready", starts=1),
        servers=tuple(
            ProcessState.model_validate({"name": member.name, "phase": phase, "starts": 1}) for member in fleet.members
        ),
    ).write(files)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(application("fleet"), ["fleet", *arguments])


def release(*arguments: str) -> Result:
    return CliRunner().invoke(application("release"), ["release", *arguments, "--fleet"])


def test_without_a_fleet_status_says_how_to_start_one(layout: Layout) -> None:
    result = run("status")
    assert result.exit_code == 1
    assert result.stdout == "No fleet runs. Start one: ./ladder fleet up --replicas 2 --canary 1\n"


def test_status_lists_servers_and_weights(files: FleetFiles) -> None:
    write_weights(files.weights, {"canary": 25.0, "stable": 75.0})
    result = run("status")
    assert result.exit_code == 0
    assert "weights: stable 75 %, canary 25 %" in result.stdout
    assert "canary-0  9130 - 9132  ready" in result.stdout


def test_status_is_1_while_a_server_is_down(files: FleetFiles) -> None:
    write_state(files, phase="down")
    result = run("status", "--json")
    assert result.exit_code == 1
    (found,) = json.loads(result.stdout)
    assert found["kept"]
    assert [server["phase"] for server in found["state"]["servers"]] == ["down"] * 3


def test_a_killed_keeper_is_told_of(layout: Layout) -> None:
    write_state(FleetFiles.at(BASE, layout))
    result = run("status")
    assert result.exit_code == 1
    assert "its keeper was killed, and its servers were stopped" in result.stdout
    assert f"./ladder fleet down --port-base {BASE} clears it up" in " ".join(result.stdout.split())
    assert "gone" in result.stdout


def test_a_share_is_set_and_goes_into_the_history(files: FleetFiles) -> None:
    result = run("set", "canary=12.5", "--why", "a few")
    assert result.exit_code == 0
    assert result.stdout == "stable 100 % -> stable 87.5 %, canary 12.5 %\nIn force at the proxy after 0.0 s.\n"
    assert read_weights(files.weights) == {"canary": 12.5, "stable": 87.5}
    assert run("set", "canary=0").exit_code == 0
    history = release("history", "--json")
    assert [(event["what"], event["after"], event["why"]) for event in json.loads(history.stdout)] == [
        ("set", {"canary": 12.5, "stable": 87.5}, "a few"),
        ("set", {"canary": 0.0, "stable": 100.0}, "by hand"),
    ]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["green=5"], 'no track "green": a fleet has "stable" and "canary"'),
        (["canary=0.25"], '"canary=0.25": 0.25 % is no multiple of 0.1 %: write 0.2'),
        (["canary"], '"canary": gives no weight: write canary=12.5, say'),
        (["canary=60", "stable=60"], "are more than 100 % together"),
    ],
)
def test_what_is_no_share_is_refused(files: FleetFiles, words: list[str], says: str) -> None:
    result = run("set", *words)
    assert result.exit_code == 1
    assert says in result.stderr.replace("\n", " ")
    assert read_weights(files.weights) == {"stable": 100.0}


def test_a_fleet_without_a_canary_has_nothing_to_give_a_share_to(files: FleetFiles) -> None:
    write_state(files, canary=0)
    result = run("set", "canary=5")
    assert result.exit_code == 1
    assert "this fleet has no canary servers: ./ladder fleet up --canary 1 starts one with" in result.stderr


def test_a_release_of_a_fleet_names_tracks_and_no_models(files: FleetFiles) -> None:
    assert 'no track "llm_awq:1"' in release("start", "llm_awq:1").stderr
    assert release("status").stdout.startswith('route "fleet"')


def test_weights_of_no_fleet_cannot_be_set(layout: Layout) -> None:
    result = run("set", "canary=5")
    assert result.exit_code == 1
    assert "no fleet of this checkout runs: ./ladder fleet up --canary 1 starts one" in result.stderr


def test_a_second_fleet_at_the_same_ports_is_refused(files: FleetFiles) -> None:
    result = run("up", "--port-base", str(BASE))
    assert result.exit_code == 1
    assert f"a fleet runs at port base {BASE}: ./ladder fleet down --port-base {BASE} stops it" in result.stderr


def test_another_profile_for_no_canary_is_refused_before_anything_is_prepared(layout: Layout) -> None:
    result = run("up", "--canary-profile", "h200-llama2-7b")
    assert result.exit_code == 1
    assert "there are no canary servers to serve something else: say how many, with --canary 1" in result.stderr


def test_more_in_flight_than_the_proxy_can_count_is_refused(layout: Layout) -> None:
    result = run("up", "--max-in-flight", "1000001")
    assert result.exit_code == 2
    assert "Input should be less than or equal to 1000000" in result.stderr


def test_logs_of_what_is_not_there_are_named(files: FleetFiles) -> None:
    result = run("logs", "canary-7", "--port-base", str(BASE))
    assert result.exit_code == 1
    assert "there is keeper, envoy, access, stable-0, stable-1, canary-0" in " ".join(result.stderr.split())
    assert "nothing was written yet" in run("logs", "envoy", "--port-base", str(BASE)).stderr


def test_logs_show_the_last_lines(files: FleetFiles) -> None:
    files.keeper_log.write_text("one\ntwo\nthree\n", encoding="utf-8")
    assert run("logs", "--lines", "2", "--port-base", str(BASE)).stdout == "two\nthree\n"


def test_stopping_nothing_is_no_error(layout: Layout) -> None:
    result = run("down")
    assert result.exit_code == 0
    assert result.stderr == f"No fleet runs at port base {module.DEFAULT_PORT_BASE}.\n"


def test_down_clears_what_a_killed_keeper_left(layout: Layout) -> None:
    files = FleetFiles.at(BASE, layout)
    write_state(files)
    result = run("down", "--port-base", str(BASE))
    assert result.exit_code == 0, result.output
    assert not files.state.exists()


def test_render_writes_and_then_finds_it_fresh(layout: Layout, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert "10 files written, 0 unchanged." in run("render", "--out", str(out)).stderr
    assert "The rendered files are fresh." in run("render", "--out", str(out), "--check").stderr
    stale = run("render", "--out", str(out), "--canary", "5", "--check")
    assert stale.exit_code == 1
    assert "+    - {name: ladder-canary, port: 8001, weight: 50}" in stale.stdout
    assert "Files that differ: 1. Run ./ladder fleet render" in stale.stderr


@pytest.mark.slow
def test_down_ends_the_keeper_of_now_and_not_the_one_whose_state_is_left(layout: Layout) -> None:
    files = FleetFiles.at(BASE, layout)
    # The state names this very process, which would be ended otherwise.
    write_state(files)
    code = (
        "import sys, time; sys.path.insert(0, sys.argv[1])\n"
        "from pathlib import Path; from tools.fleet.files import FleetFiles\n"
        "kept = FleetFiles(Path(sys.argv[2])).keep(); print(kept is not None, flush=True); time.sleep(60)"
    )
    home = str(Path(module.__file__).parents[2])
    with subprocess.Popen([sys.executable, "-c", code, home, str(files.folder)], stdout=subprocess.PIPE) as keeper:
        assert keeper.stdout is not None
        assert keeper.stdout.readline() == b"True\n"
        assert files.keep() is None
        result = run("down", "--port-base", str(BASE))
        assert result.exit_code == 0, result.output
        assert keeper.wait() == -signal.SIGTERM
    assert not files.state.exists()


def test_down_waits_for_a_keeper_that_has_not_said_who_it_is(layout: Layout) -> None:
    files = FleetFiles.at(BASE, layout)
    lock = try_lock(files.lock)
    assert lock is not None
    result = run("down", "--port-base", str(BASE))
    os.close(lock)
    assert result.exit_code == 1
    assert "the fleet's keeper is just being started: ./ladder fleet down again, in a moment" in result.stderr


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--canary", "5.25"], 'error: --canary "5.25": 5.25 % is no multiple of 0.1 %: write 5.2'),
        (["--canary", "101"], 'error: --canary "101.0": Input should be less than or equal to 100'),
        (["--canary", "nan"], 'error: --canary "nan": Input should be a finite number'),
        (["--gateway-class", ""], 'error: --gateway-class "": String should match pattern'),
        (["--image", ""], 'error: --image "": String should match pattern'),
        (["--canary-image", "a\n  command: [b]"], 'error: --canary-image "a\n  command: [b]": String should match'),
        (["--replicas", "9"], 'error: at most 8 pods of "stable" are fewer than 9, the fewest'),
    ],
)
def test_render_refuses_what_cannot_be_by_its_option(
    layout: Layout, tmp_path: Path, words: list[str], says: str
) -> None:
    result = run("render", "--out", str(tmp_path / "out"), *words)
    assert result.exit_code == 2
    assert says in result.stderr
    assert not (tmp_path / "out").exists()


def test_a_fleet_that_ends_while_weights_are_taken_over_is_no_traceback(
    files: FleetFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    carried_out = module.set_weights

    def set_and_end(*arguments: object) -> object:
        event = carried_out(*arguments)  # type: ignore[arg-type]
        files.state.unlink()
        return event

    monkeypatch.setattr(module, "set_weights", set_and_end)
    result = run("set", "canary=25")
    assert result.exit_code == 1
    assert "error: the fleet was stopped meanwhile: ./ladder fleet up starts it" in result.stderr


@pytest.mark.slow
def test_what_is_to_be_typed_next_is_about_the_fleet_too(files: FleetFiles) -> None:
    assert "no release was begun here: ./ladder release start --fleet begins one" in release("abort").stderr
    with FleetSite(files, plan(BASE, canary=1)).folder.locked():
        assert "./ladder release abort --fleet ends it" in release("start", "canary").stderr
        assert "./ladder release abort --fleet ends it" in release("set", "canary=5").stderr


def test_a_state_of_another_version_is_no_traceback(files: FleetFiles) -> None:
    files.state.write_text("{}", encoding="utf-8")
    for result in (run("status"), run("set", "canary=25"), release("status"), release("abort")):
        assert result.exit_code == 1
        assert "is not what this version of ./ladder fleet writes" in result.stderr
