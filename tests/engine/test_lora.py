from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tools.engine.errors import LaunchError, RequestError
from tools.engine.lora import LoraTable


def write(directory: Path, content: object) -> Path:
    path = directory / "multi_lora.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return path


@pytest.mark.parametrize("enabled", [True, "true", "True"])
def test_adapters_are_numbered_in_the_order_of_the_file(tmp_path: Path, enabled: object) -> None:
    write(tmp_path, {"doll": "a/b", "sheep": "/c"})
    table = LoraTable.load(tmp_path, {"enable_lora": enabled})
    assert table.find("doll") == ("doll", 1, "a/b")
    assert table.find("sheep") == ("sheep", 2, "/c")
    assert table.find(None) is None


@pytest.mark.parametrize("arguments", [{}, {"enable_lora": False}, {"enable_lora": "false"}])
def test_without_lora_the_file_is_not_read_and_a_name_is_refused(tmp_path: Path, arguments: dict[str, Any]) -> None:
    write(tmp_path, "broken")
    table = LoraTable.load(tmp_path, arguments)
    assert table.find(None) is None
    with pytest.raises(RequestError) as caught:
        table.find("doll")
    assert str(caught.value) == (
        'sampling parameter "lora_name" is "doll": this model has LoRA turned off ("enable_lora")'
    )
    assert caught.value.code == "INVALID_ARG"


@pytest.mark.parametrize(
    ("content", "known"), [({"doll": "a", "sheep": "b"}, '"doll", "sheep"'), ({}, "none")], ids=["some", "none"]
)
def test_an_unknown_name_comes_with_the_known_ones(tmp_path: Path, content: object, known: str) -> None:
    write(tmp_path, content)
    with pytest.raises(RequestError) as caught:
        LoraTable.load(tmp_path, {"enable_lora": True}).find("dog")
    assert str(caught.value) == f'sampling parameter "lora_name" is "dog": multi_lora.json has {known}'


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (None, '" is missing: "enable_lora" is set, so it must map each adapter\'s name to its path'),
        ("{", '" is not valid JSON: Expecting property name'),
        ([], '" must be a JSON object of adapter names and paths'),
        ({"doll": 1}, '" must be a JSON object of adapter names and paths'),
    ],
)
def test_a_missing_or_broken_file_ends_the_start(tmp_path: Path, content: object, problem: str) -> None:
    path = tmp_path / "multi_lora.json"
    if content is not None:
        write(tmp_path, content)
    with pytest.raises(LaunchError, match=re.escape(f'"{path}{problem}')):
        LoraTable.load(tmp_path, {"enable_lora": True})
