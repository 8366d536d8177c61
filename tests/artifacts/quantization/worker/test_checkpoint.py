from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tools.artifacts.manifest import MANIFEST
from tools.artifacts.quantization.worker.checkpoint import finish_result, write_view

CONFIG = {"rope_parameters": {"rope_theta": 5e4, "rope_type": "default"}, "dtype": "bfloat16"}


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "source"
    folder.mkdir()
    write(folder / "config.json", CONFIG)
    write(folder / "tokenizer_config.json", {"tokenizer_class": "TokenizersBackend"})
    write(folder / "generation_config.json", {"eos_token_id": 2})
    for name in ("tokenizer.json", "model.safetensors", "model.safetensors.index.json", MANIFEST):
        (folder / name).write_text(f"source's {name}", encoding="utf-8")
    return folder


def write(file: Path, document: dict[str, Any]) -> None:
    file.write_text(json.dumps(document), encoding="utf-8")


def read(file: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return document


def test_the_view_has_the_old_names_and_the_sources_weights(source: Path, tmp_path: Path) -> None:
    view = tmp_path / "view"
    write_view(source, view)
    assert read(view / "config.json")["rope_theta"] == 5e4
    assert read(view / "tokenizer_config.json")["tokenizer_class"] == "PreTrainedTokenizerFast"
    assert (view / "model.safetensors").resolve() == source / "model.safetensors"
    assert not (view / MANIFEST).exists()
    # The source itself is not touched.
    assert read(source / "config.json") == CONFIG
    write_view(source, view)


def test_a_tokenizer_with_rules_of_its_own_keeps_its_class(source: Path, tmp_path: Path) -> None:
    (source / "tokenizer.json").unlink()
    write_view(source, tmp_path / "view")
    assert read(tmp_path / "view" / "tokenizer_config.json")["tokenizer_class"] == "TokenizersBackend"


def test_beside_the_new_weights_stand_the_sources_own_files(source: Path, tmp_path: Path) -> None:
    result = tmp_path / "result"
    result.mkdir()
    # As AutoAWQ leaves it: its transformers knows no rope_parameters, and sampling is turned on.
    write(result / "config.json", {"rope_theta": 10000.0, "quantization_config": {"quant_method": "awq"}})
    write(result / "generation_config.json", {"do_sample": True})
    weights = result / "model.safetensors"
    weights.write_text("packed", encoding="utf-8")
    weights.chmod(0o600)
    finish_result(source, result)
    assert read(result / "config.json") == {
        "rope_parameters": CONFIG["rope_parameters"],
        "dtype": "float16",
        "torch_dtype": "float16",
        "quantization_config": {"quant_method": "awq"},
    }
    assert read(result / "generation_config.json") == {"eos_token_id": 2}
    assert (result / "tokenizer.json").read_text(encoding="utf-8") == "source's tokenizer.json"
    assert weights.read_text(encoding="utf-8") == "packed"
    assert weights.stat().st_mode == (result / "config.json").stat().st_mode
    assert sorted(file.name for file in result.iterdir()) == [
        "config.json",
        "generation_config.json",
        "model.safetensors",
        "tokenizer.json",
        "tokenizer_config.json",
    ]
