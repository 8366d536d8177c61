"""Reading repositories: what counts as one, which versions load, and paths that are none of it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.lint.trees import Link, Tree, python_model, vllm_model, write_tree
from tools.lint.findings import LintInputError
from tools.lint.repository import Model, read_model, read_repositories


def read_one(root: Path, tree: Tree, name: str = "m") -> Model:
    write_tree(root, tree)
    return read_model(root / "repo" / name, [root])


def test_a_repository_a_model_and_a_manifest(tmp_path: Path) -> None:
    hpa = {"k8s/hpa.yaml": "kind: HorizontalPodAutoscaler\n"}
    write_tree(tmp_path, {**python_model(), **python_model(name="n"), **hpa})
    paths = [tmp_path / "repo", tmp_path / "repo/n", tmp_path / "k8s", tmp_path / "k8s/hpa.yaml"]
    repositories, manifests = read_repositories(paths, [])
    assert [[model.name for model in repository.models] for repository in repositories] == [["m", "n"], ["n"]]
    assert len(manifests) == 1


def test_a_model_named_by_dots_has_its_folders_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_tree(tmp_path, python_model())
    monkeypatch.chdir(tmp_path / "repo/m")
    repositories, _ = read_repositories([Path()], [])
    assert repositories[0].models[0].name == "m"


@pytest.mark.parametrize(
    ("tree", "path", "says"),
    [
        ({}, "absent", "'{path}' does not exist. Name the folder of a model repository or of one model."),
        ({"loop": Link("loop")}, "loop", "'{path}' leads nowhere (a dangling or looping symbolic link)."),
        ({"a.txt": "x"}, "a.txt", "'{path}' is a file, and no manifest of a HorizontalPodAutoscaler or ScaledObject."),
        ({"empty": None}, "empty", "'{path}' is no model repository: none of its 0 folders holds a config.pbtxt"),
        ({"src/code.py": "x"}, ".", "is no model repository: none of its 1 folders holds a config.pbtxt"),
        (python_model(), ".", "Did you mean '{root}/repo'?"),
        ({}, "a\0b", "does not exist"),
    ],
)
def test_what_cannot_be_linted_is_said(tmp_path: Path, tree: Tree, path: str, says: str) -> None:
    write_tree(tmp_path, tree)
    expected = says.format(path=tmp_path / path, root=tmp_path)
    with pytest.raises(LintInputError, match=re.escape(expected)):
        read_repositories([tmp_path / path], [])


@pytest.mark.parametrize(
    ("policy", "loaded"),
    [
        ("", [10]),
        ("version_policy { latest { num_versions: 2 } }", [2, 10]),
        ("version_policy { latest { num_versions: 9 } }", [1, 2, 10]),
        ("version_policy { latest { } }", []),
        ("version_policy { all { } }", [1, 2, 10]),
        ("version_policy { }", [1, 2, 10]),
        ("version_policy { specific { versions: [ 2, 5 ] } }", [2]),
    ],
)
def test_loaded_versions(tmp_path: Path, policy: str, loaded: list[int]) -> None:
    more = {f"repo/m/{name}/model.py": "" for name in ("2", "10", "03", "x", "7-old")}
    model = read_one(tmp_path, {**python_model(policy), **more})
    assert [version.number for version in model.loaded_versions] == loaded


@pytest.mark.parametrize(
    ("name", "number", "is_exact"),
    [("1", 1, True), ("0", 0, True), ("12", 12, True), ("01", None, False), ("1.bak", 1, False), ("abc", None, False)],
)
def test_version_numbers_as_the_server_reads_them(
    tmp_path: Path, name: str, number: int | None, is_exact: bool
) -> None:
    model = read_one(tmp_path, {"repo/m/config.pbtxt": "", f"repo/m/{name}/model.py": ""})
    version = model.versions[0]
    assert (version.number, version.is_exact) == (number, is_exact)


@pytest.mark.parametrize(
    ("config", "file", "backend"),
    [
        ('backend: "vllm"', "model.json", "vllm"),
        ("", "model.json", None),
        ("", "model.py", "python"),
        ("", "model.onnx", "onnxruntime"),
        ('platform: "tensorrt_plan"', "model.py", "tensorrt"),
        ('default_model_filename: "model.pt"', "x", "pytorch"),
        ('platform: "ensemble"', "x", None),
    ],
)
def test_backend(tmp_path: Path, config: str, file: str, backend: str | None) -> None:
    assert read_one(tmp_path, {"repo/m/config.pbtxt": config, f"repo/m/1/{file}": ""}).backend == backend


def test_backend_in_the_models_name(tmp_path: Path) -> None:
    assert (
        read_one(tmp_path, {"repo/a.identity/config.pbtxt": "", "repo/a.identity/1/x": ""}, "a.identity").backend
        == "identity"
    )


def test_vllm_models_have_the_contracts_tensors(tmp_path: Path) -> None:
    model = read_one(tmp_path, vllm_model(tensors="", policy=""), "llm")
    assert {"text_input", "sampling_parameters", "image"} <= {tensor.name for tensor in model.inputs}
    assert "text_output" in {tensor.name for tensor in model.outputs}
    assert model.is_decoupled


def test_what_is_written_wins_over_the_contract(tmp_path: Path) -> None:
    model = read_one(tmp_path, vllm_model(tensors='input { name: "text_input" data_type: TYPE_FP32 dims: 7 }'), "llm")
    assert [tensor.dims for tensor in model.inputs if tensor.name == "text_input"] == [(7,)]


def test_a_broken_config_is_not_understood(tmp_path: Path) -> None:
    model = read_one(tmp_path, {"repo/m/config.pbtxt": "backnd: 1", "repo/m/1/model.py": ""})
    assert not model.is_understood


def test_model_paths_start_at_the_roots_then_at_the_version(tmp_path: Path) -> None:
    config = '{"hidden_size": 1}'
    tree = {**vllm_model({"model": "weights"}), "repo/llm/1/weights/config.json": config}
    model = read_one(tmp_path, tree, "llm")
    assert model.versions[0].artifacts["weights"].path == tmp_path / "repo/llm/1/weights"
    write_tree(tmp_path, {"weights/config.json": config})
    model = read_model(tmp_path / "repo/llm", [tmp_path])
    assert model.versions[0].artifacts["weights"].path == tmp_path / "weights"
