"""A LoRA adapter with weights of our own choosing: what it does to the answers can be told without training one."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

RANK = 8


def write(folder: Path, checkpoint: Path, strength: float) -> None:
    """An adapter on every `o_proj` of a Llama checkpoint: random, seeded, and nothing at all with `strength` 0."""
    config = json.loads((checkpoint / "config.json").read_text(encoding="utf-8"))
    hidden = config["hidden_size"]
    chance = np.random.default_rng(20261130)
    tensors = {}
    for layer in range(config["num_hidden_layers"]):
        name = f"base_model.model.model.layers.{layer}.self_attn.o_proj"
        tensors[f"{name}.lora_A.weight"] = chance.normal(0, hidden**-0.5, (RANK, hidden)).astype(np.float32)
        tensors[f"{name}.lora_B.weight"] = strength * chance.normal(0, 1, (hidden, RANK)).astype(np.float32)
    folder.mkdir(parents=True, exist_ok=True)
    save_file(tensors, folder / "adapter_model.safetensors")
    adapter = {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": str(checkpoint),
        "r": RANK,
        "lora_alpha": RANK,
        "target_modules": ["o_proj"],
        "bias": "none",
    }
    (folder / "adapter_config.json").write_text(json.dumps(adapter), encoding="utf-8")
