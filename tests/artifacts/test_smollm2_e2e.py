"""SmolLM2 as it was really made: what engines and the tokenizer rely on. `./ladder up` makes it when it is missing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tools.artifacts import smollm2
from tools.artifacts.manifest import Manifest
from tools.artifacts.provision import provide
from tools.artifacts.safetensors_file import read_header
from tools.artifacts.tokenizer_checks import check_tokenizer
from tools.bootstrap.layout import Layout

pytestmark = [pytest.mark.e2e, pytest.mark.light, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def folder() -> Path:
    layout = Layout.of_this_checkout()
    made = layout.models / smollm2.NAME
    provide(made, "SmolLM2-135M-Instruct", layout, lambda _: None)
    return made


def load(file: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return document


def test_the_weights_are_all_bf16(folder: Path) -> None:
    header = read_header(folder / "model.safetensors")
    assert len(header) == smollm2.TENSORS
    assert {entry.dtype for entry in header.values()} == {"BF16"}
    assert header["model.embed_tokens.weight"].shape == (49152, 576)


def test_the_config_says_what_both_generations_of_transformers_read(folder: Path) -> None:
    config = load(folder / "config.json")
    assert (config["num_hidden_layers"], config["hidden_size"], config["num_key_value_heads"]) == (30, 576, 3)
    assert config["rope_theta"] == config["rope_parameters"]["rope_theta"] == 100000.0
    assert config["dtype"] == config["torch_dtype"] == "bfloat16"
    assert "quantization_config" not in config


def test_answers_end_with_the_turn(folder: Path) -> None:
    assert load(folder / "generation_config.json")["eos_token_id"] == 2
    assert load(folder / "tokenizer_config.json")["eos_token"] == "<|im_end|>"


def test_the_saved_tokenizer_is_right(folder: Path) -> None:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(str(folder))
    check_tokenizer(tokenizer)
    assert tokenizer.model_max_length == 8192
    assert tokenizer.tokenize("2024") == ["2", "0", "2", "4"]


def test_the_manifest_names_its_source(folder: Path) -> None:
    manifest = Manifest.read(folder)
    assert manifest is not None
    assert manifest.source == smollm2.GGUF_FILE
    assert manifest.missing_from(folder) == []
    assert set(manifest.versions) == set(smollm2.PACKAGES)


def test_the_model_completes_a_sentence_sensibly(folder: Path) -> None:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(str(folder))
    model = AutoModelForCausalLM.from_pretrained(str(folder), dtype=torch.float32)
    inputs = tokenizer("The capital of France is", return_tensors="pt")
    with torch.no_grad():
        likeliest = model(**inputs).logits[0, -1].topk(3).indices.tolist()
    assert tokenizer.encode(" Paris")[0] in likeliest
