"""Local model folders: which folder a name means, and what its files say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.lint.trees import Link, Tree, checkpoint, weights, write_tree
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
    write_tree(tmp_path, {**checkpoint("a"), "a/tokenizer.json": "x" * 999})
    assert read_artifact(tmp_path / "a").weight_bytes == len(weights())


def test_shapes_come_from_every_safetensors_file(tmp_path: Path) -> None:
    write_tree(tmp_path, {**checkpoint("a", 7), "a/fc.safetensors": weights(7, {"fc.weight": (4, 12)})})
    assert read_artifact(tmp_path / "a").shapes == {"embed_tokens.weight": (7,), "fc.weight": (4, 12)}


@pytest.mark.parametrize("name", ["config.json", "params.json"])
def test_a_whole_folder_has_no_damage(tmp_path: Path, name: str) -> None:
    write_tree(tmp_path, {f"a/{name}": '{"dim": 1}', "a/model.safetensors": weights()})
    assert read_artifact(tmp_path / "a").damages == ()


@pytest.mark.parametrize(
    ("tree", "file", "reason"),
    [
        ({"a/model.safetensors": weights()}, "config.json", "is missing"),
        ({"a/config.json": '{"hidden_size": 5'}, "config.json", "is no JSON object: cut short, or something else"),
        (
            {**checkpoint("a"), "a/model.safetensors": weights()[:-1]},
            "model.safetensors",
            "is cut short or no safetensors file",
        ),
        ({**checkpoint("a"), "a/b.safetensors": b""}, "b.safetensors", "is cut short or no safetensors file"),
        (
            {
                **checkpoint("a"),
                "a/model.safetensors.index.json": '{"weight_map": {"x": "model.safetensors", "y": "2.safetensors"}}',
            },
            "2.safetensors",
            "is missing, 'model.safetensors.index.json' names it",
        ),
    ],
)
def test_what_keeps_vllm_from_loading_it(tmp_path: Path, tree: Tree, file: str, reason: str) -> None:
    write_tree(tmp_path, tree)
    (damage,) = read_artifact(tmp_path / "a").damages
    assert damage.file == file
    assert damage.reason.startswith(reason)


def test_a_folder_with_a_config_is_preferred_to_one_without(tmp_path: Path) -> None:
    write_tree(tmp_path, {"first/a/model.safetensors": weights(), **checkpoint("second/a", hidden_size=2)})
    artifact = find_artifact("a", [tmp_path / "first", tmp_path / "second"])
    assert artifact is not None
    assert artifact.path == tmp_path / "second/a"
    bare = find_artifact("a", [tmp_path / "first", tmp_path / "third"])
    assert bare is not None
    assert bare.path == tmp_path / "first/a"
