from __future__ import annotations

from pathlib import Path

import torch

from tools.artifacts.quantization.worker.layers import LayerStore


def test_layers_are_counted_from_the_first_and_read_back(tmp_path: Path) -> None:
    store = LayerStore(tmp_path / "layers")
    assert store.finished == 0
    store.save(0, {"a": torch.arange(6).reshape(2, 3).T})
    store.save(2, {"a": torch.zeros(1)})
    assert store.finished == 1
    store.save(1, {"a": torch.ones(2, dtype=torch.int32)})
    assert LayerStore(tmp_path / "layers").finished == 3
    assert store.load(0)["a"].tolist() == [[0, 3], [1, 4], [2, 5]]


def test_a_half_written_layer_does_not_count(tmp_path: Path) -> None:
    store = LayerStore(tmp_path)
    (tmp_path / ".0.partial").write_bytes(b"half")
    assert store.finished == 0
    store.save(0, {"a": torch.zeros(1)})
    assert store.finished == 1
