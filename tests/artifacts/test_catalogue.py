from __future__ import annotations

import re
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from tools.artifacts import catalogue
from tools.artifacts.errors import ArtifactError
from tools.artifacts.manifest import Manifest, sizes_of

Report = Callable[[str], None]


def make_small(folder: Path, report: Report) -> None:
    report("writing")
    (folder / "config.json").write_text("{}", encoding="utf-8")
    (folder / "model.safetensors").write_bytes(b"weights")
    Manifest(
        name="small", source="s", source_sha256="0", versions={}, tensors=1, dtype="BF16", files=sizes_of(folder)
    ).write(folder)


def make_half(folder: Path, report: Report) -> None:
    report("writing")
    (folder / "config.json").write_text("{}", encoding="utf-8")
    raise KeyboardInterrupt


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(catalogue, "MAKERS", {"small": make_small})
    return tmp_path / "models" / "small"


def silent(_: str) -> None:
    pass


def entries(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.parent.iterdir() if not entry.name.endswith(".lock"))


def test_an_artifact_is_made_once(small: Path) -> None:
    phases: list[str] = []
    catalogue.make(small, phases.append)
    catalogue.make(small, phases.append)
    assert phases == ["writing"]
    assert catalogue.is_complete(small)
    assert entries(small) == ["small"]


def test_an_interruption_leaves_nothing_half_made(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalogue, "MAKERS", {"small": make_half})
    with pytest.raises(KeyboardInterrupt):
        catalogue.make(small, silent)
    assert entries(small) == []


def test_what_a_killed_maker_left_is_removed(small: Path) -> None:
    leftover = small.with_name(".small.partial")
    leftover.mkdir(parents=True)
    (leftover / "model.safetensors").write_bytes(b"wei")
    catalogue.make(small, silent)
    assert entries(small) == ["small"]


def test_a_damaged_artifact_is_not_taken_for_a_complete_one(small: Path) -> None:
    catalogue.make(small, silent)
    (small / "model.safetensors").write_bytes(b"wei")
    assert not catalogue.is_complete(small)
    with pytest.raises(
        ArtifactError, match=r'small" is damaged \(model.safetensors missing or cut short\): delete it and run'
    ):
        catalogue.make(small, silent)


def test_two_makers_at_once_make_it_once(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made, waiting = threading.Event(), threading.Event()
    reports: list[str] = []

    def make_slowly(folder: Path, report: Report) -> None:
        waiting.wait(20)
        assert not made.is_set(), "made twice"
        made.set()
        make_small(folder, report)

    def second_report(phase: str) -> None:
        reports.append(phase)
        waiting.set()

    monkeypatch.setattr(catalogue, "MAKERS", {"small": make_slowly})
    first = threading.Thread(target=catalogue.make, args=(small, silent))
    first.start()
    while not small.with_name(".small.partial").exists():
        pass
    catalogue.make(small, second_report)
    first.join()
    assert len(reports) == 1
    assert "is making it, waiting" in reports[0]


def test_a_checkpoint_that_somebody_placed_there_is_taken(tmp_path: Path) -> None:
    folder = tmp_path / "llama"
    folder.mkdir()
    (folder / "config.json").write_text("{}", encoding="utf-8")
    assert not catalogue.is_complete(folder)
    (folder / "model-00001-of-00002.safetensors").touch()
    assert catalogue.is_complete(folder)
    catalogue.check_obtainable(folder, "Llama")


def test_one_that_cannot_be_made_is_named_with_what_to_place_where(tmp_path: Path) -> None:
    folder = tmp_path / "llama-2-7b-chat"
    with pytest.raises(ArtifactError) as refusal:
        catalogue.check_obtainable(folder, "Llama-2-7B-Chat")
    text = str(refusal.value)
    assert text.startswith(f'"Llama-2-7B-Chat" is not at "{folder}", and cannot be made here')
    assert "place its Hugging Face checkpoint there (config.json, *.safetensors, tokenizer files)" in text
    assert f'--local-dir "{folder}"' in text


def test_a_head_that_is_not_there_is_restored_or_trained(tmp_path: Path) -> None:
    folder = tmp_path / "heads" / "small-eagle3"
    expected = (
        f'there is no draft head at "{folder}" (config.json, model.safetensors): restore it (git restore "{folder}"), '
        f'or train a head: ./ladder draft train --out "{folder}"'
    )
    with pytest.raises(ArtifactError, match=f"^{re.escape(expected)}$"):
        catalogue.check_head(folder)


@pytest.mark.parametrize("file", ["config.json", "model.safetensors"])
def test_a_damaged_head_names_the_file(tmp_path: Path, file: str) -> None:
    head = tmp_path / "small"
    head.mkdir()
    make_small(head, silent)
    catalogue.check_head(head)
    (head / file).write_bytes(b"{")
    with pytest.raises(
        ArtifactError, match=f'^draft head "small" is damaged, "{head / file}" is missing or cut short: restore it'
    ):
        catalogue.check_head(head)


def test_the_command_prints_progress_and_reasons(small: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert catalogue.main(str(small)) == 0
    assert capsys.readouterr().out == "writing\n"
    (small / "config.json").unlink()
    assert catalogue.main(str(small)) == 1
    assert "is damaged" in capsys.readouterr().err
