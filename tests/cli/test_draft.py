"""`./ladder draft`: the stages it runs, what it says, how it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.waiting import wait_until
from tools.artifacts.errors import ArtifactError
from tools.bootstrap.layout import Layout
from tools.cli import draft
from tools.cli.app import main
from tools.spec.loading import load_profile

HOME = Path(__file__).resolve().parents[2]
TARGET = "models/smollm2-135m-instruct"
HEAD = "tools/artifacts/heads/smollm2-135m-instruct-eagle3"


class Stages:
    """In place of the processes: each command line, and the exit code or interruption that is its end."""

    def __init__(self, *ends: int | type[KeyboardInterrupt]) -> None:
        self.ends = list(ends)
        self.commands: list[list[str]] = []
        self.terminated = 0
        self.code: int | None = None

    def __call__(self, command: list[str], **_: Any) -> Stages:
        assert command[:3] == [sys.executable, "-m", "tools.drafting"]
        self.commands.append(command[3:])
        self.code = None
        return self

    def wait(self) -> int:
        end = self.ends.pop(0) if self.ends else 0
        if isinstance(end, int):
            self.code = end
            return end
        raise end

    def poll(self) -> int | None:
        return self.code

    def terminate(self) -> None:
        self.terminated += 1

    @property
    def names(self) -> list[str]:
        return [command[0] for command in self.commands]

    def options(self, stage: str) -> dict[str, str]:
        (command,) = (command for command in self.commands if command[0] == stage)
        return dict(zip(command[1::2], command[2::2], strict=True))


@pytest.fixture
def layout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Layout:
    layout = Layout(tmp_path)
    monkeypatch.setattr(draft.Layout, "of_this_checkout", classmethod(lambda _: layout))
    monkeypatch.setattr(draft, "provide", lambda *_: None)
    # The command takes signals for the rest of its process, which here is pytest's.
    monkeypatch.setattr(draft, "end_in_order_on", lambda *_: None)
    return layout


def run(monkeypatch: pytest.MonkeyPatch, stages: Stages, *arguments: str) -> int:
    monkeypatch.setattr(draft.subprocess, "Popen", stages)
    return main(["draft", *arguments])


def test_train_writes_trains_and_measures(layout: Layout, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    prompts = tmp_path / "prompts.txt"
    prompts.write_text("one\n", encoding="utf-8")
    stages = Stages()
    assert run(monkeypatch, stages, "train", "--tokens", "5000", "--steps", "2", "--prompts", str(prompts)) == 0
    assert stages.names == ["generate", "train", "accept"]
    head = str(layout.private / "draft" / "cpu-smollm2" / "head")
    assert stages.options("generate") == {
        "--target": str(layout.home / TARGET),
        "--work": str(layout.private / "draft" / "cpu-smollm2"),
        "--tokens": "5000",
        "--engines": "1",
        "--at-once": "64",
        "--prompts": str(prompts),
    }
    training = stages.options("train")
    assert (training["--head"], training["--steps"], training["--epochs"]) == (head, "2", "4")
    assert stages.commands[2] == ["accept", "--target", str(layout.home / TARGET), "--head", head, "--save"]


def test_a_stage_that_fails_is_the_last(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    stages = Stages(0, 1)
    assert run(monkeypatch, stages, "train") == 1
    assert stages.names == ["generate", "train"]


def test_a_stage_that_was_killed_is_a_failure(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(monkeypatch, Stages(-9), "train") == 1


def test_ctrl_c_waits_for_the_stage_to_clear_up(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    stages = Stages(KeyboardInterrupt, 130)
    assert run(monkeypatch, stages, "train") == 130
    assert (stages.terminated, stages.names, stages.ends) == (1, ["generate"], [])


def test_eval_measures_the_profiles_head(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    stages = Stages()
    assert run(monkeypatch, stages, "eval", "-k", "2", "--prompts", "7") == 0
    assert stages.names == ["accept"]
    assert stages.options("accept") == {
        "--target": str(layout.home / TARGET),
        "--head": str(layout.home / HEAD),
        "--num-speculative-tokens": "2",
        "--prompts": "7",
        "--max-tokens": "128",
    }


def test_eval_measures_another_head(layout: Layout, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    stages = Stages()
    assert run(monkeypatch, stages, "eval", "--head", str(tmp_path / "mine")) == 0
    assert stages.options("accept")["--head"] == str(tmp_path / "mine")


def test_eval_leaves_the_manifest_alone_unless_told(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    for options, saves in (([], False), (["--save"], True)):
        stages = Stages()
        assert run(monkeypatch, stages, "eval", *options) == 0
        assert ("--save" in stages.commands[0]) is saves


def test_without_a_head_there_is_nothing_to_measure(
    layout: Layout, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    profile = load_profile()
    headless = profile.model_copy(update={"artifacts": profile.artifacts.model_copy(update={"draft": None})})
    monkeypatch.setattr(draft, "load_profile", lambda _: headless)
    assert run(monkeypatch, Stages(), "eval") == 1
    expected = 'error: profile "cpu-smollm2" has no "artifacts.draft": name a folder with --head\n'
    assert capsys.readouterr().err == expected


def test_a_profile_that_does_not_exist_is_refused(
    layout: Layout, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stages = Stages()
    assert run(monkeypatch, stages, "train", "--profile", "cpu-smolm2") == 1
    assert stages.commands == []
    assert "cpu-smollm2" in capsys.readouterr().err


def test_a_target_that_cannot_be_made_is_refused(
    layout: Layout, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(*_: Any) -> None:
        raise ArtifactError('"m" is damaged: delete it and run the command again')

    monkeypatch.setattr(draft, "provide", refuse)
    assert run(monkeypatch, Stages(), "train") == 1
    assert capsys.readouterr().err == 'error: "m" is damaged: delete it and run the command again\n'


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["train", "--prompts", "/nowhere.txt"], "Invalid value for '--prompts': file '/nowhere.txt' does not exist"),
        (["train", "--tokens", "10"], "Invalid value for '--tokens': Input should be greater than or equal to 1000"),
        (["eval", "-k", "0"], "Invalid value for '-k': Input should be greater than or equal to 1"),
    ],
)
def test_options_that_make_no_sense_are_refused(
    layout: Layout, capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    assert main(["draft", *arguments]) == 2
    assert said in capsys.readouterr().err


# The command's own process, with `sleep 600` in place of a stage.
STAGE = """
import os, signal, subprocess, sys
from pathlib import Path
from tools.cli import draft

class Started(subprocess.Popen):
    def __init__(self, _command, **_):
        super().__init__(["sleep", "600"])
        Path(sys.argv[1]).write_text(str(self.pid))
        if sys.argv[2] == "starting":
            os.kill(os.getpid(), signal.SIGTERM)

subprocess.Popen = Started
draft._stage("train")
"""


@pytest.mark.slow
@pytest.mark.parametrize("when", ["starting", "running"])
def test_a_signal_to_the_command_alone_ends_its_stage(tmp_path: Path, when: str) -> None:
    pid_file = tmp_path / "pid"
    command = subprocess.Popen(
        [sys.executable, "-c", STAGE, str(pid_file), when], cwd=HOME, env={**os.environ, "PYTHONPATH": str(HOME)}
    )
    if when == "running":
        wait_until(lambda: pid_file.exists() and pid_file.read_text(encoding="utf-8"))
        command.send_signal(signal.SIGTERM)
    command.wait(60)
    assert not psutil.pid_exists(int(pid_file.read_text(encoding="utf-8")))
