"""A report from its order to its folder, with load tests that are none."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.reporting.examples import GIT, PROFILE, SETTINGS, V2
from tests.reporting.planned import FakeLoad
from tests.reporting.test_walk import Told
from tools.bootstrap.layout import Layout
from tools.cli.app import application
from tools.client.request import Target
from tools.reporting import session
from tools.reporting.errors import ReportError
from tools.reporting.folder import read_report
from tools.reporting.rungs import RungFacts
from tools.reporting.server_metrics import EngineMetrics
from tools.reporting.session import Order, command_of, make_report, plan_turns, require_report_folder
from tools.reporting.settings import Settings
from tools.reporting.walk import Serve


class Served:
    """A rung that is there."""

    host = "http://127.0.0.1:8000"

    def warm_up(self) -> None: ...

    def metrics(self) -> EngineMetrics:
        return EngineMetrics(peak_memory_bytes=1 << 30)


@contextmanager
def serve(_: Target) -> Iterator[Served]:
    yield Served()


def serving(_: Sequence[RungFacts]) -> tuple[Serve, str]:
    return serve, "2.51.0"


@pytest.fixture(autouse=True)
def clean_checkout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "git_state", lambda _: GIT)


@pytest.fixture(autouse=True)
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Drawing the charts takes longer than everything else here."""
    monkeypatch.setattr("tools.reporting.folder.charts", lambda report, latencies: {})


def order(tmp_path: Path, settings: Settings = SETTINGS, labels: tuple[str, ...] = ("v2", "v4")) -> Order:
    return Order("cpu-smollm2", PROFILE, settings, labels, tmp_path / "report")


def test_the_report_is_written_with_what_it_was_made_from(tmp_path: Path) -> None:
    wanted = order(tmp_path)
    made = make_report(wanted, Layout(tmp_path), serving, FakeLoad(), Told())
    assert read_report(wanted.out) == (made, wanted.out)
    assert [rung.facts.label for rung in made.rungs] == ["v2", "v4"]
    assert len(made.cells) == 2 * 3 * 3
    assert made.unmeasured == []
    assert made.rungs[0].peak_memory_bytes == 1 << 30
    assert made.machine.versions["tritonserver"] == "2.51.0"
    assert [(cell.level, cell.repeat) for cell in made.cells[:4]] == [(1, 1), (1, 2), (1, 3), (8, 1)]
    figures = made.cells[0].figures
    assert figures is not None
    assert figures.tokens_per_s == 19
    assert (wanted.out / made.cells[0].folder / "records.jsonl").is_file()


def test_it_is_resumed_and_says_so(tmp_path: Path) -> None:
    def interrupted(options: object) -> object:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        make_report(order(tmp_path), Layout(tmp_path), serving, FakeLoad(interrupted), Told())  # type: ignore[arg-type]
    assert not (tmp_path / "report/report.json").exists()
    make_report(order(tmp_path), Layout(tmp_path), serving, FakeLoad(), Told())
    load = FakeLoad()
    made = make_report(order(tmp_path), Layout(tmp_path), serving, load, Told())
    assert load.asked == []
    assert all(cell.reused for cell in made.cells)
    # Another answer length is another load: nothing of the old one counts.
    longer = order(tmp_path, SETTINGS.model_copy(update={"output_tokens": 20}))
    assert not any(cell.reused for cell in make_report(longer, Layout(tmp_path), serving, FakeLoad(), Told()).cells)


def test_prompts_are_measured_with_the_models_tokenizer_where_there_is_one(tmp_path: Path) -> None:
    load = FakeLoad()
    make_report(order(tmp_path, labels=("v2",)), Layout(tmp_path), serving, load, Told())
    assert {options.tokenizer for options in load.asked} == {None}
    folder = tmp_path / "models/smollm2-135m-instruct"
    folder.mkdir(parents=True)
    (folder / "tokenizer.json").touch()
    again = FakeLoad()
    make_report(order(tmp_path, labels=("v2",)), Layout(tmp_path), serving, again, Told())
    assert {options.tokenizer for options in again.asked} == {"models/smollm2-135m-instruct"}


@pytest.mark.slow
def test_two_reports_do_not_share_a_folder(tmp_path: Path) -> None:
    class Second(FakeLoad):
        def __call__(self, options: object, folder: Path, workers: int) -> None:
            make_report(order(tmp_path), Layout(tmp_path), serving, FakeLoad(), Told())

    made = make_report(order(tmp_path, labels=("v2",)), Layout(tmp_path), serving, Second(), Told())
    assert made.unmeasured[0].reason.startswith("another ./ladder report is writing into")
    # The lock went with the first.
    make_report(order(tmp_path), Layout(tmp_path), serving, FakeLoad(), Told())


@pytest.mark.parametrize("labels", [("v9",), ("v2",)])
def test_what_fails_before_anything_is_measured_leaves_nothing_behind(tmp_path: Path, labels: tuple[str, ...]) -> None:
    def absent(_: Sequence[RungFacts]) -> tuple[Serve, str]:
        raise ReportError("not ready on the server")

    with pytest.raises(ReportError, match=r"not ready on the server|no rung"):
        make_report(order(tmp_path, labels=labels), Layout(tmp_path), absent, FakeLoad(), Told())
    assert list(tmp_path.iterdir()) == []


def test_cells_of_a_changed_configuration_do_not_count(tmp_path: Path) -> None:
    make_report(order(tmp_path), Layout(tmp_path), serving, FakeLoad(), Told())
    arguments = {**PROFILE.variants["llm_bf16"].versions[1], "max_num_seqs": 32}
    variant = PROFILE.variants["llm_bf16"].model_copy(update={"versions": {1: arguments}})
    profile = PROFILE.model_copy(update={"variants": {**PROFILE.variants, "llm_bf16": variant}})
    changed = Order("cpu-smollm2", profile, SETTINGS, ("v2", "v4"), tmp_path / "report")
    load = FakeLoad()
    made = make_report(changed, Layout(tmp_path), serving, load, Told())
    assert {options.targets[0] for options in load.asked} == {"llm_bf16:1"}
    assert made.stale == {"the rung's configuration": 9}


def test_repeats_take_turns_unless_every_rung_has_its_server(tmp_path: Path) -> None:
    from tests.reporting.test_fingerprint import SURROUNDINGS

    def turns(settings: Settings) -> list[list[str]]:
        rungs = session.rungs_of(PROFILE, Layout(tmp_path), ("v2", "v3"))
        planned = plan_turns(order(tmp_path, settings), rungs, SURROUNDINGS, Layout(tmp_path))
        return [[cell.name for cell in turn] for turn in planned]

    two = SETTINGS.model_copy(update={"levels": (8, 1), "repeats": 2})
    assert turns(two) == [["v2-1-1", "v2-8-1"], ["v3-1-1", "v3-8-1"], ["v2-1-2", "v2-8-2"], ["v3-1-2", "v3-8-2"]]
    assert turns(two.model_copy(update={"isolated": True})) == [
        ["v2-1-1", "v2-8-1", "v2-1-2", "v2-8-2"],
        ["v3-1-1", "v3-8-1", "v3-1-2", "v3-8-2"],
    ]


def test_a_place_that_holds_something_else_is_refused(tmp_path: Path) -> None:
    require_report_folder(tmp_path / "new")
    require_report_folder(tmp_path)
    (tmp_path / "thesis.tex").touch()
    with pytest.raises(
        ReportError, match=r"holds other things than a report: name a new or an empty folder with --out"
    ):
        require_report_folder(tmp_path)
    with pytest.raises(ReportError, match=r'thesis\.tex" is a file: a report is a folder'):
        require_report_folder(tmp_path / "thesis.tex")
    (tmp_path / "cells").mkdir()
    require_report_folder(tmp_path)


@pytest.mark.parametrize("isolated", [False, True])
def test_the_command_makes_the_same_report_again(isolated: bool, tmp_path: Path) -> None:
    limits = {"deadline_s": 60.5, "cell_s": 30, "workers": 0} if isolated else {"workers": 3}
    settings = SETTINGS.model_copy(update={"isolated": isolated, "seed": 7, **limits})
    *before, command = command_of(order(tmp_path, settings), GIT).splitlines()
    assert before[0] == f"git checkout {GIT.commit}"
    assert any(line.startswith("./ladder up --detach --profile cpu-smollm2") for line in before) is not isolated
    program, name, *options = shlex.split(command)
    assert (program, name) == ("./ladder", "report")
    # What the command line makes of it is what it was made from.
    asked: list[Order] = []

    def keep(found: Order, *_: object) -> None:
        asked.append(found)
        raise ReportError("kept")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tools.cli.report.make_report", keep)
        patch.setattr("tools.cli.report.running_port_base", lambda _: 8000)
        application("report")([name, *options], standalone_mode=False)
    assert (asked[0].settings, asked[0].labels, asked[0].profile) == (settings, ("v2", "v4"), PROFILE)


def test_without_git_or_labels_the_command_is_shorter(tmp_path: Path) -> None:
    text = command_of(order(tmp_path, labels=()), GIT.model_copy(update={"commit": None}))
    assert text.startswith("./ladder up")
    assert "--rungs" not in text


def test_isolated_servers_state_the_locked_version(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked = {}
    monkeypatch.setattr(session, "prepare", lambda *_, models: asked.update(models=models))
    found, version = session.isolated(order(tmp_path), Layout.of_this_checkout(), 8700, lambda _: None)([V2])
    assert version.startswith("nvidia-pytriton==")
    assert asked == {"models": ["llm_bf16"]}
    assert callable(found)
