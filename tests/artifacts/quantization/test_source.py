from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from tools.artifacts.errors import ArtifactError
from tools.artifacts.quantization.source import check_source, fingerprint

EMBEDDING = np.zeros((10, 96), np.float16)
DOWN = "model.layers.0.mlp.down_proj.weight"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    write(tmp_path, {DOWN: np.zeros((64, 192), np.float16), "model.embed_tokens.weight": EMBEDDING})
    return tmp_path


def write(folder: Path, tensors: dict[str, np.ndarray], config: dict[str, object] | None = None) -> None:
    save_file(tensors, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(config or {}), encoding="utf-8")


def test_a_group_size_that_divides_every_layer_is_accepted(source: Path) -> None:
    check_source(source, 64)


def test_one_that_does_not_is_refused_with_the_layer_and_one_that_would(source: Path) -> None:
    with pytest.raises(ArtifactError) as refusal:
        check_source(source, 128)
    assert str(refusal.value) == (
        f'"{source / "model.safetensors"}": tensor "{DOWN}" has 192 inputs, no multiple of the group size 128: set '
        '"artifacts.awq.group_size" to one that divides it, such as 64'
    )


def test_weights_in_an_unknown_dtype_are_refused(tmp_path: Path) -> None:
    write(tmp_path, {DOWN: np.zeros((64, 192), np.int8)})
    with pytest.raises(ArtifactError, match=f'tensor "{DOWN}" is I8: quantise a checkpoint in BF16, F16, F32'):
        check_source(tmp_path, 64)


def test_a_quantised_checkpoint_is_no_source(tmp_path: Path) -> None:
    write(tmp_path, {DOWN: np.zeros((64, 192), np.float16)}, {"quantization_config": {"quant_method": "awq"}})
    with pytest.raises(ArtifactError, match=r'config.json" says that the weights are quantised: name the unquantised'):
        check_source(tmp_path, 64)


def test_a_cut_or_missing_file_is_named(source: Path, tmp_path: Path) -> None:
    weights = source / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1])
    with pytest.raises(ArtifactError, match=r'model.safetensors" has \d+ bytes, its header says'):
        check_source(source, 64)
    weights.unlink()
    with pytest.raises(ArtifactError, match=r"holds no \*.safetensors: convert the checkpoint"):
        check_source(source, 64)
    (source / "config.json").write_text("{", encoding="utf-8")
    with pytest.raises(ArtifactError, match=r'config.json" is no JSON \(.*\): place the checkpoint anew'):
        check_source(source, 64)
    (source / "config.json").unlink()
    with pytest.raises(ArtifactError, match=r'config.json" is missing: place the whole checkpoint there'):
        check_source(source, 64)


def test_the_fingerprint_changes_with_weights_tokenizer_and_config(source: Path) -> None:
    seen = {fingerprint(source)}
    (source / "README.md").write_text("x", encoding="utf-8")
    seen.add(fingerprint(source))
    assert len(seen) == 1
    (source / "tokenizer.json").write_text("{}", encoding="utf-8")
    seen.add(fingerprint(source))
    (source / "config.json").write_text('{"a": 1}', encoding="utf-8")
    seen.add(fingerprint(source))
    write(source, {DOWN: np.ones((64, 192), np.float16)}, {"a": 1})
    seen.add(fingerprint(source))
    assert len(seen) == 4
