"""Local model folders: which folder a name means, and what its files say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.lint.trees import Link, checkpoint, write_tree
from tools.lint.artifacts import find_artifact, read_artifact


def test_roots_are_tried_in_turn(tmp_path: Path) -> None:
    write_tree(
        tmp_path, {**checkpoint("second/models/a", hidden_size=2), **checkpoint("third/models/a", hidden_size=3)}
    )
    roots = [tmp_path / name for name in ("first", "second", "third")]
    artifact = find_artifact("models/a", roots)
    assert artifact is not None
    assert artifact.integer("hidden_size") == 2


def test_absolute_paths_stand_for_themselves(tmp_path: Path) -> None:
    write_tree(tmp_path, checkpoint("a", hidden_size=7))
    artifact = find_artifact(str(tmp_path / "a"), [tmp_path / "elsewhere"])
    assert artifact is not None
    assert artifact.integer("hidden_size") == 7


@pytest.mark.parametrize("name", ["", "org/model", "x" * 5000, "a\0b", "loop/model", "/nonexistent"])
def test_hub_ids_and_folders_that_are_not_here_are_left_alone(tmp_path: Path, name: str) -> None:
    write_tree(tmp_path, {"loop": Link("loop")})
    assert find_artifact(name, [tmp_path]) is None


def test_multimodal_models_keep_their_sizes_in_text_config(tmp_path: Path) -> None:
    write_tree(tmp_path, {"a/config.json": json.dumps({"hidden_size": 1, "text_config": {"hidden_size": 9}})})
    assert read_artifact(tmp_path / "a").integer("hidden_size") == 9


@pytest.mark.parametrize("content", ["[1]", "{", "\0", '{"hidden_size": true}', '{"hidden_size": "9"}'])
def test_odd_configs_say_nothing(tmp_path: Path, content: str) -> None:
    write_tree(tmp_path, {"a/config.json": content})
    artifact = read_artifact(tmp_path / "a")
    assert artifact.integer("hidden_size") is None
    assert artifact.quantization == {}


@pytest.mark.parametrize(
    ("config", "dtype"),
    [({"dtype": "bfloat16"}, "bfloat16"), ({"torch_dtype": "torch.float16"}, "float16"), ({}, "")],
)
def test_dtype_of_the_weights(tmp_path: Path, config: dict[str, Any], dtype: str) -> None:
    write_tree(tmp_path, checkpoint("a", **config))
    assert read_artifact(tmp_path / "a").weights_dtype == dtype


def template_processor(special: str) -> dict[str, Any]:
    return {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": special}}, {"Sequence": {"id": "A"}}]}


@pytest.mark.parametrize(
    ("tokenizer_config", "post_processor", "adds"),
    [
        ({"add_bos_token": True}, None, True),
        ({"add_bos_token": False, "bos_token": "<s>"}, template_processor("<s>"), False),
        ({"bos_token": "<s>"}, template_processor("<s>"), True),
        (
            {"bos_token": {"content": "<s>"}},
            {"type": "Sequence", "processors": [{"type": "ByteLevel"}, template_processor("<s>")]},
            True,
        ),
        ({"bos_token": "<s>"}, template_processor("[CLS]"), False),
        ({"bos_token": "<s>"}, None, None),
        ({}, template_processor("<s>"), None),
    ],
)
def test_whether_the_tokenizer_adds_a_bos(
    tmp_path: Path, tokenizer_config: dict[str, Any], post_processor: Any, adds: bool | None
) -> None:
    write_tree(tmp_path, checkpoint("a", tokenizer=tokenizer_config))
    (tmp_path / "a/tokenizer.json").write_text(json.dumps({"post_processor": post_processor}), encoding="utf-8")
    assert read_artifact(tmp_path / "a").adds_bos is adds


def test_chat_template_file_wins_over_tokenizer_config(tmp_path: Path) -> None:
    write_tree(tmp_path, {**checkpoint("a", tokenizer={"chat_template": "old"}), "a/chat_template.jinja": "new"})
    assert read_artifact(tmp_path / "a").chat_template == "new"


def test_named_chat_templates(tmp_path: Path) -> None:
    templates = [{"name": "tool_use", "template": "t"}, {"name": "default", "template": "d"}]
    write_tree(tmp_path, checkpoint("a", tokenizer={"chat_template": templates}))
    assert read_artifact(tmp_path / "a").chat_template == "d"


def test_weight_bytes_count_weights_only(tmp_path: Path) -> None:
    write_tree(tmp_path, {**checkpoint("a", weight_bytes=300), "a/tokenizer.json": "x" * 999})
    assert read_artifact(tmp_path / "a").weight_bytes == 300
