from __future__ import annotations

import os
from pathlib import Path

import pytest

from tools.serving.errors import ServingError
from tools.serving.repository import LoadPlan, RepositoryModel, plan_loading, read_models

MODELS = {
    model.name: model
    for model in (
        RepositoryModel("chat", ("tokenizer", "llm")),
        RepositoryModel("outer", ("chat",)),
        RepositoryModel("llm", backend="vllm"),
        RepositoryModel("tokenizer"),
        RepositoryModel("other"),
    )
}


def write_model(repository: Path, name: str, config: str) -> None:
    (repository / name).mkdir(parents=True)
    (repository / name / "config.pbtxt").write_text(config, encoding="utf-8")


def test_models_and_the_steps_of_ensembles_are_read(tmp_path: Path) -> None:
    write_model(tmp_path / "a", "llm", 'backend: "vllm"')
    steps = 'ensemble_scheduling { step [ { model_name: "llm" model_version: -1 } ] }'
    write_model(tmp_path / "b", "chat", f'name: "chat" platform: "ensemble" {steps}')
    (tmp_path / "b" / "not_a_model").mkdir()
    assert read_models([tmp_path / "a", tmp_path / "b"]) == {
        "llm": RepositoryModel("llm", backend="vllm"),
        "chat": RepositoryModel("chat", ("llm",)),
    }


def test_a_config_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    write_model(tmp_path, "llm", "backnd: 1")
    with pytest.raises(ServingError, match=r'llm/config\.pbtxt" cannot be read: .*"backnd".*ladder lint'):
        read_models([tmp_path])


def test_a_name_in_two_repositories_is_refused(tmp_path: Path) -> None:
    write_model(tmp_path / "a", "llm", "")
    write_model(tmp_path / "b", "llm", "")
    with pytest.raises(ServingError, match='model "llm" is in two repositories'):
        read_models([tmp_path / "a", tmp_path / "b"])


def test_an_empty_repository_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ServingError, match=r"no model in .*: ./ladder render writes them"):
        read_models([tmp_path])


def test_everything_is_loaded_the_slowest_first_and_ensembles_after_their_steps() -> None:
    assert plan_loading(MODELS).names == ("llm", "tokenizer", "other", "chat", "outer")


@pytest.mark.parametrize(
    ("wanted", "loaded"),
    [
        (["llm"], ("llm",)),
        (["chat"], ("llm", "tokenizer", "chat")),
        (["outer", "llm"], ("llm", "tokenizer", "chat", "outer")),
    ],
)
def test_ensembles_bring_their_steps(wanted: list[str], loaded: tuple[str, ...]) -> None:
    assert plan_loading(MODELS, wanted).names == loaded


def test_an_unknown_model_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(ServingError, match=r'no model "tokeniser": did you mean "tokenizer"\?'):
        plan_loading(MODELS, ["tokeniser"])
    with pytest.raises(ServingError, match='no model "xyz": there are chat, llm, other, outer, tokenizer'):
        plan_loading(MODELS, ["xyz"])


def test_a_step_that_no_repository_holds_is_named() -> None:
    with pytest.raises(ServingError, match='ensemble "chat" has a step "llm", which no repository holds'):
        plan_loading({"chat": RepositoryModel("chat", ("llm",))})


def test_an_ensemble_that_contains_itself_is_refused() -> None:
    models = {"a": RepositoryModel("a", ("b",)), "b": RepositoryModel("b", ("a",))}
    with pytest.raises(ServingError, match='ensemble "a" contains itself: a -> b -> a'):
        plan_loading(models)


def test_an_empty_plan_has_no_names() -> None:
    assert LoadPlan(()).names == ()


@pytest.mark.parametrize("content", [b"\xff\x00", b"input {" * 20_000], ids=["binary", "deep"])
def test_a_config_that_is_no_text_format_is_named(tmp_path: Path, content: bytes) -> None:
    config = tmp_path / "m" / "config.pbtxt"
    config.parent.mkdir()
    config.write_bytes(content)
    with pytest.raises(ServingError, match=rf'"{config}" cannot be read: .*: ./ladder lint {tmp_path} says more'):
        read_models([tmp_path])


def test_a_pipe_in_a_configs_place_is_not_waited_for(tmp_path: Path) -> None:
    (tmp_path / "m").mkdir()
    os.mkfifo(tmp_path / "m" / "config.pbtxt")
    with pytest.raises(ServingError, match=r'config.pbtxt" is a folder, a pipe or a device: put a config.pbtxt there'):
        read_models([tmp_path])


def test_a_repository_that_is_no_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ServingError, match=rf'"{tmp_path / "absent"}" is no folder: name a model repository'):
        read_models([tmp_path / "absent"])
