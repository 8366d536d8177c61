"""Measurement and verdict on a tiny model that has learned its text, so that what is broken costs something."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from tests.artifacts.quantization.worker.packing import pack
from tests.fixtures.learned_model import learned_model
from tools.artifacts.errors import ArtifactError
from tools.artifacts.manifest import Losses
from tools.artifacts.quantization.gate import judge
from tools.artifacts.quantization.worker.losses import load_weights, mean_loss, measure, round_to_nearest
from tools.artifacts.quantization.worker.packed_checkpoint import PackedCheckpoint
from tools.spec.model import QualityBar

pytestmark = pytest.mark.slow

GROUP = 64


def write_checkpoint(model: torch.nn.Module, folder: Path, *, scaled_twice: bool = False) -> None:
    """The model's linear layers packed. `scaled_twice` multiplies every input channel once more by what AWQ scales it
    with, as AutoAWQ's shared backup does on CPU.
    """
    folder.mkdir()
    tensors = {}
    for name, parameter in model.named_parameters():
        if "proj" not in name:
            tensors[name] = parameter.detach().clone()
            continue
        weight = parameter.detach().clone()
        if scaled_twice:
            weight *= torch.linspace(0.3, 3.0, weight.shape[1])
        tensors |= {f"{name.removesuffix('weight')}{part}": value for part, value in pack(weight, GROUP).items()}
    save_file(tensors, folder / "model.safetensors")


def measured(tmp_path: Path, *, scaled_twice: bool) -> Losses:
    model, blocks = learned_model()
    write_checkpoint(model, tmp_path / "made", scaled_twice=scaled_twice)
    return measure(model, PackedCheckpoint(tmp_path / "made"), GROUP, blocks, "0", lambda _: None)


def test_a_sound_artifact_costs_what_rounding_costs(tmp_path: Path) -> None:
    losses = measured(tmp_path, scaled_twice=False)
    assert losses.original < losses.rounded
    assert losses.quantized == pytest.approx(losses.rounded, abs=0.02)
    assert judge(losses, QualityBar(max_share_of_rounding=1.2)).passed


def test_an_artifact_whose_weights_were_scaled_twice_is_refused(tmp_path: Path) -> None:
    losses = measured(tmp_path, scaled_twice=True)
    gate = judge(losses, QualityBar(max_share_of_rounding=0.5))
    assert not gate.passed
    assert losses.quantized > losses.rounded + 0.5


def test_rounding_keeps_zero_and_moves_no_weight_further_than_a_step() -> None:
    torch.manual_seed(0)
    weight = torch.randn(8, 128)
    weight[:, ::7] = 0.0
    rounded = round_to_nearest(weight, GROUP)
    grouped = weight.reshape(-1, GROUP)
    step = (grouped.amax(1) - grouped.amin(1)).repeat_interleave(GROUP).reshape(weight.shape) / 15
    assert bool((rounded[:, ::7] == 0.0).all())
    assert bool(((rounded - weight).abs() <= step).all())
    assert all(len(set(group.tolist())) <= 16 for group in rounded.reshape(-1, GROUP))


def test_the_loss_is_that_of_every_token_but_a_blocks_first() -> None:
    model, blocks = learned_model()
    ids = torch.tensor([blocks[0]])
    expected = model(input_ids=ids, labels=ids).loss.item()
    assert mean_loss(model, blocks[:1]) == pytest.approx(expected, abs=1e-4)


def test_weights_that_do_not_fit_or_are_missing_are_named() -> None:
    model, _ = learned_model()
    weights = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    load_weights(model, weights.items())
    norm = "model.norm.weight"
    with pytest.raises(ArtifactError, match=rf'tensor "{norm}" of the result has shape \(1,\), the original has shape'):
        load_weights(model, [(norm, torch.ones(1))])
    with pytest.raises(ArtifactError, match=r'tensor "x" of the result has shape .* the original has no such tensor'):
        load_weights(model, [("x", torch.ones(1))])
    del weights[norm]
    with pytest.raises(ArtifactError, match=f'the result has no tensor "{norm}": quantise anew'):
        load_weights(model, weights.items())
