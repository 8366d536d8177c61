"""The default profile's AWQ artifact as it was really made. `./ladder up` makes it when it is missing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, AutoTokenizer

from tools.artifacts.manifest import Manifest
from tools.artifacts.provision import provide_for
from tools.artifacts.quantization.gate import judge
from tools.artifacts.quantization.texts import HELDOUT, read_texts
from tools.artifacts.quantization.worker.blocks import cut, encode
from tools.artifacts.quantization.worker.losses import measure
from tools.artifacts.quantization.worker.packed_checkpoint import PackedCheckpoint
from tools.bootstrap.layout import Layout
from tools.spec.loading import load_profile

pytestmark = [pytest.mark.e2e, pytest.mark.light, pytest.mark.timeout(1500)]

PROFILE = load_profile()


@pytest.fixture(scope="module")
def folder() -> Path:
    layout = Layout.of_this_checkout()
    assert PROFILE.artifacts.awq is not None
    provide_for(PROFILE, PROFILE.artifacts.awq.path, layout, print)
    return layout.home / PROFILE.artifacts.awq.path


def load(file: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return document


def test_it_passed_its_gate(folder: Path) -> None:
    manifest = Manifest.read(folder)
    assert manifest is not None
    assert manifest.missing_from(folder) == []
    assert manifest.gate is not None
    assert manifest.gate.passed, manifest.gate.reasons


def test_every_linear_layer_is_packed(folder: Path) -> None:
    assert len(PackedCheckpoint(folder).quantized) == 30 * 7


def test_config_and_tokenizer_are_the_sources_but_for_the_quantisation(folder: Path) -> None:
    source = folder.parent / "smollm2-135m-instruct"
    config, original = load(folder / "config.json"), load(source / "config.json")
    quantization = config.pop("quantization_config")
    assert (quantization["quant_method"], quantization["bits"], quantization["group_size"]) == ("awq", 4, 64)
    assert config == original | {"dtype": "float16", "torch_dtype": "float16"}
    for name in ("tokenizer.json", "tokenizer_config.json", "generation_config.json", "chat_template.jinja"):
        assert (folder / name).read_bytes() == (source / name).read_bytes()


def test_scaled_twice_as_stock_autoawq_leaves_it_the_gate_refuses_it(folder: Path, tmp_path: Path) -> None:
    tensors = load_file(folder / "model.safetensors")
    # Every group is scaled once more by its scale's share of the mean: all numbers stay plausible, and mean nothing.
    corrupted = {
        name: tensor * (tensor / tensor.mean()) if name.endswith("scales") else tensor
        for name, tensor in tensors.items()
    }
    save_file(corrupted, tmp_path / "model.safetensors")
    source = folder.parent / "smollm2-135m-instruct"
    model = AutoModelForCausalLM.from_pretrained(str(source), dtype="float32")
    blocks = cut(encode(AutoTokenizer.from_pretrained(str(source)), read_texts(HELDOUT)), 512, 10_000).blocks
    losses = measure(model, PackedCheckpoint(tmp_path), 64, blocks, "0", lambda _: None)
    assert PROFILE.artifacts.awq is not None
    gate = judge(losses, PROFILE.artifacts.awq.gate)
    assert not gate.passed
    assert losses.quantized > losses.rounded + 1.0
