"""Writing and checking: whole files, untouched where nothing changed, and every kind of staleness found."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path, PurePosixPath

import pytest

from tools.rendering.files import RenderError, check, remove, render
from tools.rendering.plan import rendered_files
from tools.spec.loading import load_profile
from tools.spec.profile import Profile

ROOT = Path(__file__).parents[2]
CONFIG = PurePosixPath("model_repository/llm_bf16/config.pbtxt")


@pytest.fixture
def profile() -> Profile:
    return load_profile()


@pytest.fixture
def rendered(profile: Profile, tmp_path: Path) -> Path:
    render(profile, tmp_path)
    return tmp_path


def everything(root: Path) -> set[PurePosixPath]:
    return {PurePosixPath(path.relative_to(root).as_posix()) for path in root.rglob("*") if not path.is_dir()}


def test_the_committed_files_are_fresh(profile: Profile) -> None:
    assert check(profile, ROOT) == []


def test_render_writes_every_file_and_nothing_else(profile: Profile, tmp_path: Path) -> None:
    report = render(profile, tmp_path)
    files = rendered_files(profile)
    assert set(report.written) == set(files) == everything(tmp_path)
    assert report.unchanged == report.stray == ()
    for path, text in files.items():
        assert (tmp_path / path).read_bytes() == text.encode("utf-8")


def test_an_unchanged_file_is_not_touched(profile: Profile, rendered: Path) -> None:
    before = {path: (rendered / path).stat() for path in everything(rendered)}
    report = render(profile, rendered)
    assert report.written == ()
    assert set(report.unchanged) == set(before)
    for path, old in before.items():
        new = (rendered / path).stat()
        assert (new.st_ino, new.st_mtime_ns) == (old.st_ino, old.st_mtime_ns)


def test_only_the_changed_file_is_written(profile: Profile, rendered: Path) -> None:
    (rendered / CONFIG).write_text("changed", encoding="utf-8")
    assert render(profile, rendered).written == (CONFIG,)
    assert check(profile, rendered) == []


def test_check_is_silent_on_fresh_files(profile: Profile, rendered: Path) -> None:
    assert check(profile, rendered) == []


def test_check_shows_what_changed(profile: Profile, rendered: Path) -> None:
    file = rendered / CONFIG
    file.write_text(
        file.read_text(encoding="utf-8").replace("max_batch_size: 0", "max_batch_size: 8"), encoding="utf-8"
    )
    (diff,) = check(profile, rendered)
    assert diff.startswith(f"--- {CONFIG} (on disk)\n+++ {CONFIG} (rendered)\n")
    assert "\n-max_batch_size: 8\n+max_batch_size: 0\n" in diff


def test_check_sees_a_lost_last_newline(profile: Profile, rendered: Path) -> None:
    file = rendered / CONFIG
    file.write_text(file.read_text(encoding="utf-8").rstrip("\n"), encoding="utf-8")
    (diff,) = check(profile, rendered)
    assert "\\ No newline at end of file" in diff


def test_check_sees_other_line_endings(profile: Profile, rendered: Path) -> None:
    file = rendered / CONFIG
    file.write_bytes(file.read_bytes().replace(b"\n", b"\r\n"))
    assert len(check(profile, rendered)) == 1


def test_check_shows_a_missing_file(profile: Profile, rendered: Path) -> None:
    (rendered / CONFIG).unlink()
    (diff,) = check(profile, rendered)
    assert diff.startswith(f"--- {CONFIG} (missing)\n+++ {CONFIG} (rendered)\n")
    assert '\n+backend: "vllm"\n' in diff


def test_check_on_an_empty_folder_misses_everything(profile: Profile, tmp_path: Path) -> None:
    assert len(check(profile, tmp_path)) == len(rendered_files(profile))


@pytest.mark.parametrize("content", [b"", b"text", b"\xff\xfe"])
def test_check_names_a_stray_file(profile: Profile, rendered: Path, content: bytes) -> None:
    stray = PurePosixPath("model_repository/llm_bf16/2/model.json")
    (rendered / stray).parent.mkdir()
    (rendered / stray).write_bytes(content)
    (diff,) = check(profile, rendered)
    assert diff == (
        f"Only on disk: {stray}: the profile does not render it; delete it, or keep it in a repository of its own\n"
    )
    assert render(profile, rendered).stray == (stray,)
    assert (rendered / stray).exists()


def test_an_empty_folder_is_stray_because_tritonserver_would_try_to_load_it(profile: Profile, rendered: Path) -> None:
    (rendered / "model_repository" / "llm_bf16" / "2").mkdir()
    (diff,) = check(profile, rendered)
    assert diff.startswith("Only on disk: model_repository/llm_bf16/2: ")
    remove(render(profile, rendered).stray, rendered)
    assert check(profile, rendered) == []


def test_a_link_is_stray_and_what_it_points_at_is_left_alone(profile: Profile, rendered: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").write_text("", encoding="utf-8")
    (rendered / "ensembles" / "link").symlink_to(outside)
    remove(render(profile, rendered).stray, rendered)
    assert (outside / "kept").exists()
    assert check(profile, rendered) == []


def test_files_beside_the_repositories_are_no_business_of_the_check(profile: Profile, rendered: Path) -> None:
    (rendered / "README.md").write_text("mine", encoding="utf-8")
    assert check(profile, rendered) == []


def test_remove_deletes_strays_and_the_folders_they_leave_empty(profile: Profile, rendered: Path) -> None:
    own = rendered / "model_repository" / "own" / "1"
    own.mkdir(parents=True)
    (own / "model.json").write_text("{}", encoding="utf-8")
    version = rendered / "model_repository" / "llm_bf16" / "2"
    version.mkdir()
    (version / "model.json").write_text("{}", encoding="utf-8")
    remove(render(profile, rendered).stray, rendered)
    assert not own.parent.exists()
    assert not version.exists()
    assert everything(rendered) == set(rendered_files(profile))


def test_a_failed_write_leaves_the_old_file_and_no_other(
    profile: Profile, rendered: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (rendered / CONFIG).write_text("old", encoding="utf-8")
    before = everything(rendered)

    def interrupted(*arguments: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Path, "replace", interrupted)
        with pytest.raises(KeyboardInterrupt):
            render(profile, rendered)
    assert (rendered / CONFIG).read_text(encoding="utf-8") == "old"
    assert everything(rendered) == before


def test_a_folder_in_the_way_is_named(profile: Profile, tmp_path: Path) -> None:
    (tmp_path / CONFIG).mkdir(parents=True)
    with pytest.raises(RenderError, match=r'config\.pbtxt" is a folder where a file has to go: remove it'):
        render(profile, tmp_path)


def test_a_file_in_a_folders_way_is_named(profile: Profile, tmp_path: Path) -> None:
    (tmp_path / "ensembles").write_text("", encoding="utf-8")
    with pytest.raises(RenderError, match=r'cannot write ".*ensembles.*": '):
        render(profile, tmp_path)


def test_a_full_disk_is_named_and_leaves_no_draft(
    profile: Profile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fill_the_disk(descriptor: int, *_: object, **__: object) -> None:
        os.close(descriptor)
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("tools.rendering.files.os.fdopen", fill_the_disk)
    with pytest.raises(RenderError, match=r'cannot write ".*config.pbtxt": No space left on device'):
        render(profile, tmp_path)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_a_pipe_in_a_files_place_is_replaced(profile: Profile, tmp_path: Path) -> None:
    (tmp_path / CONFIG).parent.mkdir(parents=True)
    os.mkfifo(tmp_path / CONFIG)
    render(profile, tmp_path)
    assert check(profile, tmp_path) == []


def test_rendered_files_are_readable_by_all(profile: Profile, tmp_path: Path) -> None:
    old = os.umask(0o077)
    try:
        render(profile, tmp_path)
    finally:
        os.umask(old)
    assert (tmp_path / CONFIG).stat().st_mode & 0o777 == 0o644


def test_two_profiles_render_to_different_files(tmp_path: Path, profile: Profile) -> None:
    render(load_profile("h200-llama2-7b"), tmp_path)
    assert check(profile, tmp_path)


def test_reading_order_does_not_matter(profile: Profile, rendered: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("b", "a"):
        (rendered / "ensembles" / name).write_text("", encoding="utf-8")
    listing: Callable[[Path, str], object] = Path.rglob
    first = check(profile, rendered)
    monkeypatch.setattr(Path, "rglob", lambda path, pattern: reversed(list(listing(path, pattern))))  # type: ignore[call-overload]
    assert check(profile, rendered) == first
