from __future__ import annotations

import json
from pathlib import Path

import pytest

from tools.drafting.architecture import Target, head_config
from tools.drafting.errors import DraftError


def test_a_folder_without_a_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DraftError, match=r'config\.json" cannot be read .*: make the target first, with \./ladder up'):
        Target.read(tmp_path)


def test_a_target_whose_layer_is_no_llamas_is_refused(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "falcon"}', encoding="utf-8")
    with pytest.raises(DraftError, match="is a model of type \"falcon\": vLLM's EAGLE-3 head has Llama's layer"):
        Target.read(tmp_path)


def test_a_target_without_weights_is_refused(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "llama"}', encoding="utf-8")
    with pytest.raises(DraftError, match=r"holds no \*\.safetensors"):
        Target.read(tmp_path).weights_sha256()


def test_the_hash_of_several_files_is_over_all_of_them(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "llama"}', encoding="utf-8")
    (tmp_path / "a.safetensors").write_bytes(b"1")
    target = Target.read(tmp_path)
    one = target.weights_sha256()
    (tmp_path / "b.safetensors").write_bytes(b"2")
    assert target.weights_sha256() != one


def test_the_head_inherits_its_targets_shape_and_positions(target: Target) -> None:
    config = head_config(target, 64)
    for key in ("hidden_size", "intermediate_size", "num_attention_heads", "rms_norm_eps", "max_position_embeddings"):
        assert config[key] == target.config[key]
    assert config["target_hidden_size"] == 64
    json.dumps(config)
