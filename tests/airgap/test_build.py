"""Building a kit out of wheels that nobody fetches."""

from __future__ import annotations

import lzma
import subprocess
import tarfile
from collections.abc import Collection
from io import BytesIO
from pathlib import Path

import pytest

from tools.airgap import build
from tools.airgap.build import ENGINE_LOCK, KitOptions, build_kit, pack, pins_of, prune
from tools.airgap.errors import KitError
from tools.bootstrap.kit import Kit, sha256
from tools.bootstrap.layout import Layout
from tools.cli.kit import names_in

LAYOUT = Layout.of_this_checkout()
STUBS = "server/pytriton/tritonserver/python_backend_stubs"


def place(tree: Path, *names: str) -> None:
    for name in names:
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text(name, encoding="utf-8")


def names(tree: Path) -> set[str]:
    return {str(path.relative_to(tree)) for path in tree.rglob("*") if path.is_file()}


def test_the_engine_lock_pins_vllm_for_cuda_and_every_name_once() -> None:
    pins = pins_of(ENGINE_LOCK)
    assert "vllm==0.23.0" in pins
    found = [pin.partition("==")[0].lower().replace("_", "-") for pin in pins]
    assert len(found) == len(set(found))
    # The machine's own: another build of these would not fit its driver.
    assert not {"torch", "transformers", "numpy"} & set(found)


def test_packages_that_the_machine_has_are_left_out(tmp_path: Path) -> None:
    lock = tmp_path / "lock.txt"
    lock.write_text("# a comment\nOne==1\ntwo_parts==2\nthree==3 ; python_version < '4'\n", encoding="utf-8")
    assert pins_of(lock) == ["One==1", "two_parts==2", "three==3"]
    assert pins_of(lock, {"one", "Two.Parts"}) == ["three==3"]


def test_names_out_of_pip_freeze(tmp_path: Path) -> None:
    file = tmp_path / "have.txt"
    file.write_text("one==1\n# a comment\ntwo @ file:///wheels/two.whl\nthree\n\n", encoding="utf-8")
    assert names_in(file) == ["one", "two", "three"]
    with pytest.raises(KitError, match="give what `pip freeze` prints"):
        names_in(tmp_path / "none")


def test_pruning_keeps_what_serves(tmp_path: Path) -> None:
    place(
        tmp_path,
        *("engine/vllm/_C.abi3.so", "engine/vllm/_moe_C.abi3.so", "engine/vllm/third_party/deep_gemm/x.py"),
        *("engine/a/__pycache__/a.pyc", "engine/xgrammar/lib/libxgrammar.a"),
        *(f"{STUBS}/3.11/stub", f"{STUBS}/3.12/stub"),
    )
    prune(tmp_path, KitOptions())
    kept = {"engine/vllm/_C.abi3.so", f"{STUBS}/3.12/stub"}
    assert names(tmp_path) == kept | {"engine/vllm/_moe_C.abi3.so", "engine/vllm/third_party/deep_gemm/x.py"}
    prune(tmp_path, KitOptions(lean=True))
    assert names(tmp_path) == kept


def test_pieces_are_one_archive_and_each_has_its_size_and_hash(tmp_path: Path) -> None:
    tree, out = tmp_path / "tree", tmp_path / "out"
    place(tree, "engine/a.py", "engine/sub/b.py", "server/c.py")
    out.mkdir()
    digests = pack(tree, out, 64)
    assert list(digests) == [f"piece.{number:02}" for number in range(len(digests))]
    assert [(out / name).stat().st_size for name in list(digests)[:-1]] == [64] * (len(digests) - 1)
    assert digests == {name: sha256(out / name) for name in digests}
    joined = lzma.decompress(b"".join((out / name).read_bytes() for name in digests))
    with tarfile.open(fileobj=BytesIO(joined)) as archive:
        assert {member.name for member in archive if member.isfile()} == {
            "engine/a.py",
            "engine/sub/b.py",
            "server/c.py",
        }
        assert {(member.uid, member.gid, member.uname) for member in archive} == {(0, 0, "")}


def test_a_kit_appears_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fetched: dict[str, list[str]] = {}

    def fetch(pins: Collection[str], target: Path, python: str) -> None:
        assert python == "3.12"
        fetched[target.name] = list(pins)
        place(target, "package.py")

    monkeypatch.setattr(build, "fetch", fetch)
    phases: list[str] = []
    kit = build_kit(tmp_path / "kit", KitOptions(left_out=frozenset({"rich"})), LAYOUT, phases.append)
    assert kit == Kit.read(tmp_path / "kit")
    assert kit.accelerator == "cuda"
    assert "nvidia-pytriton==0.7.0" in fetched["server"]
    assert not any(pin.startswith("rich==") for pin in fetched["engine"])
    assert phases[-1] == "compressing, a few minutes"
    assert [path.name for path in tmp_path.iterdir()] == ["kit"]
    with pytest.raises(KitError, match=r"is not empty: name a new folder with --out"):
        build_kit(tmp_path / "kit", KitOptions(), LAYOUT, lambda _: None)


def test_a_failed_download_shows_the_end_of_what_pip_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        assert command[command.index("--python-version") + 1] == "3.12"
        return subprocess.CompletedProcess(command, 1, "", "ERROR: No matching distribution found for one==1\n")

    monkeypatch.setattr(build.subprocess, "run", run)
    with pytest.raises(KitError, match=r"(?s)wheels for Python 3\.12 on Linux x86-64:.*No matching distribution"):
        build_kit(tmp_path / "kit", KitOptions(), LAYOUT, lambda _: None)
    assert list(tmp_path.iterdir()) == []
