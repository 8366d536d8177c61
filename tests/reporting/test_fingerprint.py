"""When a figure of an earlier run stands for one of this run."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.reporting.examples import GIT, MACHINE, SETTINGS
from tools.evaluation.results import GitState
from tools.reporting.fingerprint import CellKey, Surroundings, hash_of_artifact, hash_of_text

SURROUNDINGS = Surroundings.of(MACHINE, GIT, Path(), isolated=False)
KEY = CellKey(
    rung="v2",
    repeat=1,
    load=SETTINGS.load("", "llm_bf16:1", 8, 1),
    surroundings=SURROUNDINGS,
    configuration="c0ffee",
    artifacts={"models/smollm2-135m-instruct": "5eed"},
)


def test_the_load_of_the_machine_beforehand_does_not_matter() -> None:
    busy = MACHINE.model_copy(update={"load_before": 3.0})
    assert Surroundings.of(busy, GIT, Path(), isolated=False) == SURROUNDINGS
    assert KEY.differences(KEY) == []


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"load": KEY.load.model_copy(update={"output_tokens": 64})}, "options of the load test"),
        ({"workers": 4}, "number of load generators"),
        ({"configuration": "other"}, "the rung's configuration"),
        ({"artifacts": {}}, "artifacts"),
        ({"surroundings": SURROUNDINGS.model_copy(update={"commit": "other"})}, "git commit"),
        ({"surroundings": SURROUNDINGS.model_copy(update={"changes": "other"})}, "uncommitted changes"),
        ({"surroundings": SURROUNDINGS.model_copy(update={"versions": {}})}, "versions"),
        ({"surroundings": SURROUNDINGS.model_copy(update={"cores": 4, "cpu": "other"})}, "machine"),
        ({"surroundings": SURROUNDINGS.model_copy(update={"isolated": True})}, "one server for all, or one a rung"),
    ],
)
def test_what_differs_is_named(change: dict[str, object], name: str) -> None:
    assert KEY.differences(KEY.model_copy(update=change)) == [name]


def test_a_dirty_checkout_is_hashed_where_figures_come_from(tmp_path: Path) -> None:
    def git(*arguments: str) -> None:
        subprocess.run(["git", "-C", tmp_path, "-c", "user.name=a", "-c", "user.email=b", *arguments], check=True)

    for name in ("tools/engine.py", "README.md"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("1\n")
    git("init", "-q")
    git("add", "-A")
    git("commit", "-qm", "one")

    def changes() -> str:
        return Surroundings.of(MACHINE, GitState(commit="c", dirty=True), tmp_path, isolated=False).changes

    (tmp_path / "README.md").write_text("2\n")
    assert changes() == ""
    (tmp_path / "tools/engine.py").write_text("2\n")
    first = changes()
    (tmp_path / "tools/engine.py").write_text("3\n")
    assert first
    assert changes() not in ("", first)


def test_an_artifact_is_its_small_files_and_the_sizes_of_its_large_ones(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    with (tmp_path / "model.safetensors").open("wb") as weights:
        weights.truncate(1 << 23)
    first = hash_of_artifact(tmp_path)
    (tmp_path / "ladder-quality.json").write_text("a verdict, and nothing that is served")
    assert hash_of_artifact(tmp_path) == first
    (tmp_path / "config.json").write_text("[]")
    second = hash_of_artifact(tmp_path)
    with (tmp_path / "model.safetensors").open("wb") as weights:
        weights.truncate(1 << 24)
    assert len({first, second, hash_of_artifact(tmp_path)}) == 3
    assert hash_of_artifact(tmp_path / "nothing") == ""


def test_texts_are_hashed_with_their_names() -> None:
    assert hash_of_text({"a": "b", "c": "d"}) == hash_of_text({"c": "d", "a": "b"})
    assert len({hash_of_text({"a": "bc"}), hash_of_text({"ab": "c"}), hash_of_text({"a": "b", "c": ""})}) == 3
