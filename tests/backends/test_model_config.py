from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.backends.engines import ROOT
from tests.backends.models import arguments
from tools.backends.model_config import ModelConfig


def read(repository: Path, **described: object) -> ModelConfig:
    return ModelConfig.from_arguments(arguments(repository, **described))  # type: ignore[arg-type]


def test_everything_that_triton_says_is_read(tmp_path: Path) -> None:
    (tmp_path / "2").mkdir()
    (tmp_path / "10").mkdir()
    (tmp_path / "notes").mkdir()
    (tmp_path / "3").write_text("a file", encoding="utf-8")
    config = read(
        tmp_path,
        name="llm",
        version="2",
        kind="GPU",
        device=3,
        model_json={"model": "models/x"},
        parameters={"MAX_PROMPT_BYTES": "5"},
        config={"max_batch_size": 4},
    )
    assert config == ModelConfig(
        name="llm",
        version="2",
        directory=tmp_path / "2",
        kind="GPU",
        device=3,
        max_batch_size=4,
        decoupled=True,
        parameters={"ENGINE_ADAPTER": "mock", "MAX_PROMPT_BYTES": "5"},
        arguments={"model": "models/x"},
        siblings=("10",),
    )


def test_without_a_transaction_policy_a_model_is_not_decoupled(tmp_path: Path) -> None:
    args = arguments(tmp_path)
    args["model_config"] = json.dumps({"max_batch_size": 1})
    config = ModelConfig.from_arguments(args)
    assert not config.decoupled
    assert config.parameters == {}


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("{", '" is not valid JSON: Expecting property name enclosed in double quotes: line 1 column 2 (char 1)'),
        ("[1]", '" must hold a JSON object of engine arguments, not a list'),
        ('"x"', '" must hold a JSON object of engine arguments, not a str'),
    ],
)
def test_a_broken_model_json_is_named(tmp_path: Path, content: str, problem: str) -> None:
    with pytest.raises(ValueError, match=re.escape(f'"{tmp_path}/1/model.json{problem}')):
        read(tmp_path, model_json=content)


def test_a_missing_model_json_is_named(tmp_path: Path) -> None:
    args = arguments(tmp_path)
    (tmp_path / "1" / "model.json").unlink()
    with pytest.raises(ValueError) as caught:
        ModelConfig.from_arguments(args)
    assert str(caught.value) == (
        f'"{tmp_path}/1/model.json" is missing: it must hold the engine arguments as a JSON object'
    )


def test_the_mock_replaces_an_adapter_where_the_config_says_so(tmp_path: Path) -> None:
    assert read(tmp_path).adapter("vllm") == "mock"
    assert read(tmp_path, parameters={"ENGINE_ADAPTER": ""}).adapter("vllm") == "vllm"
    assert read(tmp_path, parameters={"ENGINE_ADAPTER": "tokenizer"}).adapter("transformers") == "transformers"


def test_the_place_comes_from_the_environment(tmp_path: Path, places: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LADDER_ENGINE_PYTHON", "/env/python")
    place = read(tmp_path).place()
    assert (place.python, place.root, place.home, place.sockets) == ("/env/python", ROOT, ROOT, places)
    own = read(tmp_path, parameters={"ENGINE_PYTHON": "/own/python"}).place()
    assert own.python == "/own/python"


def test_without_an_environment_there_is_a_place_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LADDER_ENGINE_PYTHON", "LADDER_HOME", "LADDER_SOCKETS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    place = read(tmp_path / "m").place()
    try:
        assert place.python == "python3"
        assert place.home == tmp_path
        assert place.sockets.stat().st_mode & 0o777 == 0o700
    finally:
        place.sockets.rmdir()


def test_the_sockets_directory_is_made_for_its_owner_alone(
    tmp_path: Path, places: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LADDER_SOCKETS", str(places / "new"))
    assert read(tmp_path).place().sockets.stat().st_mode & 0o777 == 0o700


def test_the_engines_environment(tmp_path: Path) -> None:
    text = json.dumps({"HF_HUB_OFFLINE": "1"})
    assert read(tmp_path).engine_environment() == {}
    assert read(tmp_path, parameters={"ENGINE_ENVIRONMENT": text}).engine_environment() == {"HF_HUB_OFFLINE": "1"}
    pinned = read(tmp_path, kind="GPU", device=2, parameters={"ENGINE_ENVIRONMENT": text})
    assert pinned.engine_environment() == {"HF_HUB_OFFLINE": "1", "CUDA_VISIBLE_DEVICES": "2"}


@pytest.mark.parametrize("text", ["{", "[]", '{"A": 1}', "A=1"])
def test_an_environment_that_is_none_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(ValueError) as caught:
        read(tmp_path, name="llm", parameters={"ENGINE_ENVIRONMENT": text}).engine_environment()
    assert str(caught.value) == (
        f'parameter "ENGINE_ENVIRONMENT" of "llm" is {text}: write a JSON object whose values are strings, '
        'such as {"HF_HUB_OFFLINE": "1"}'
    )
