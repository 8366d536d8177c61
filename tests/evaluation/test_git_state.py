"""The commit a figure belongs to."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tools.evaluation.git_state import git_state
from tools.evaluation.results import GitState


def test_outside_a_checkout(tmp_path: Path) -> None:
    assert git_state(tmp_path) == GitState(commit=None, dirty=False)


def test_a_carried_copy_is_what_the_environment_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LADDER_COMMIT", "3ca8a5a")
    assert git_state(tmp_path) == GitState(commit="3ca8a5a", dirty=False)
    # Whatever history lies there.
    assert git_state(Path(__file__).parent) == GitState(commit="3ca8a5a", dirty=False)


def test_a_commit_and_changes_to_it(tmp_path: Path) -> None:
    def git(*arguments: str) -> str:
        command = ["git", "-C", str(tmp_path), "-c", "user.name=n", "-c", "user.email=e@example.org", *arguments]
        return subprocess.run(command, capture_output=True, text=True, encoding="utf-8", check=True).stdout.strip()

    file = tmp_path / "file"
    file.write_text("one", encoding="utf-8")
    git("init")
    git("add", "file")
    git("commit", "-m", "first")
    assert git_state(tmp_path) == GitState(commit=git("rev-parse", "HEAD"), dirty=False)
    (tmp_path / "untracked").touch()
    assert not git_state(tmp_path).dirty
    file.write_text("two", encoding="utf-8")
    assert git_state(tmp_path).dirty
