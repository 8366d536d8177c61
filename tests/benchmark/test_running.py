"""Whether a server that runs is the one that a measurement would start."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tools.benchmark.deployment import serving
from tools.benchmark.running import running_with
from tools.bootstrap.layout import Layout
from tools.bootstrap.locking import try_lock
from tools.serving.instance import Instance, InstanceFiles

BASE = 18530


def write(root: Path, *, policy: str = "all { }", arguments: str = "{}", more: str = "") -> Path:
    version = root / "llm" / "1"
    version.mkdir(parents=True)
    (root / "llm" / "config.pbtxt").write_text(
        f'name: "llm"\nbackend: "vllm"\nversion_policy {{ {policy} }}\n{more}', encoding="utf-8"
    )
    (version / "model.json").write_text(arguments, encoding="utf-8")
    return root


@pytest.fixture
def layout(tmp_path: Path) -> Iterator[Layout]:
    layout = Layout(tmp_path)
    files = InstanceFiles.at(BASE, layout)
    files.folder.mkdir(parents=True)
    held = try_lock(files.lock)
    assert held is not None
    repository = str(write(tmp_path / "served"))
    Instance("id", BASE, "", (repository,), ("llm",), "/sockets", phase="running").write(files)
    yield layout
    os.close(held)


def test_the_same_model_alone_is_used_whichever_versions_are_chosen_of_one(tmp_path: Path, layout: Layout) -> None:
    wanted = write(tmp_path / "wanted", policy="specific { versions: [ 1 ] }")
    found = running_with(wanted, ["llm"], BASE, layout)
    assert found is not None
    assert found.address.grpc_port == BASE + 1
    said: list[str] = []
    with serving(wanted, ["llm"], BASE, layout, said.append) as server:
        assert server.instance.id == "id"
    assert said == [f"using the server at port base {BASE}"]


@pytest.mark.parametrize(
    "changes", [{"arguments": '{"max_num_seqs": 4}'}, {"more": 'parameters { key: "a" value { string_value: "b" } }'}]
)
def test_another_configuration_is_another_server(tmp_path: Path, layout: Layout, changes: dict[str, str]) -> None:
    assert running_with(write(tmp_path / "wanted", **changes), ["llm"], BASE, layout) is None


def test_a_server_with_more_models_is_not_used(tmp_path: Path, layout: Layout) -> None:
    files = InstanceFiles.at(BASE, layout)
    repository = str(tmp_path / "served")
    Instance("id", BASE, "", (repository,), ("llm", "other"), "/sockets", phase="running").write(files)
    assert running_with(write(tmp_path / "wanted"), ["llm"], BASE, layout) is None


def test_without_a_server_there_is_none(tmp_path: Path) -> None:
    assert running_with(write(tmp_path / "wanted"), ["llm"], BASE, Layout(tmp_path / "elsewhere")) is None
