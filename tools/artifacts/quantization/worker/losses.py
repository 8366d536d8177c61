"""Held-out loss of a checkpoint, of its layers rounded to nearest, and of its quantised form. One model, one run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import torch
from torch import nn

from tools.artifacts.errors import ArtifactError
from tools.artifacts.manifest import Losses
from tools.artifacts.quantization.worker.packed_checkpoint import PackedCheckpoint

_LARGEST: Final = 15


def measure(
    model: nn.Module,
    checkpoint: PackedCheckpoint,
    group_size: int,
    blocks: Sequence[Sequence[int]],
    heldout_sha256: str,
    report: Callable[[str], None],
) -> Losses:
    """`model` is the original, and holds the checkpoint's weights afterwards. Raises ArtifactError when they differ in
    shape or number.
    """
    report("held-out loss of the original")
    original = mean_loss(model, blocks)
    report("held-out loss of the original rounded to nearest")
    round_layers(model, checkpoint.quantized, group_size)
    rounded = mean_loss(model, blocks)
    report("held-out loss of the result")
    load_weights(model, checkpoint.weights())
    quantized = mean_loss(model, blocks)
    return Losses(
        heldout_sha256=heldout_sha256,
        tokens=sum(len(block) - 1 for block in blocks),
        original=original,
        rounded=rounded,
        quantized=quantized,
    )


def mean_loss(model: Any, blocks: Sequence[Sequence[int]]) -> float:
    """Mean negative log likelihood of every token but the first of each block, in nats."""
    total, count = 0.0, 0
    for block in blocks:
        ids = torch.tensor([block], device=next(model.parameters()).device)
        with torch.inference_mode():
            logits = model(input_ids=ids, use_cache=False).logits[0, :-1].float()
        total += nn.functional.cross_entropy(logits, ids[0, 1:], reduction="sum").item()
        count += len(block) - 1
    return total / count


def round_layers(model: nn.Module, layers: Iterable[str], group_size: int) -> None:
    """Replaces the weights of the layers by what rounding to nearest leaves of them."""
    for name in layers:
        weight = model.get_parameter(f"{name}.weight").data
        weight.copy_(round_to_nearest(weight, group_size))


def round_to_nearest(weight: torch.Tensor, group_size: int) -> torch.Tensor:
    """[outputs, inputs] on 16 equal steps from each group's smallest weight to its largest, zero being one of them."""
    grouped = weight.float().reshape(-1, group_size)
    lowest, highest = grouped.amin(dim=1, keepdim=True), grouped.amax(dim=1, keepdim=True)
    scale = (highest - lowest).clamp(min=1e-5) / _LARGEST
    zero = (-(lowest / scale).round()).clamp(0, _LARGEST)
    levels = ((grouped / scale).round() + zero).clamp(0, _LARGEST)
    return ((levels - zero) * scale).reshape(weight.shape).to(weight.dtype)


def load_weights(model: nn.Module, weights: Iterable[tuple[str, torch.Tensor]]) -> None:
    """Copies every weight into the model. Raises ArtifactError for one that does not fit, and for those missing."""
    # Tied weights are one parameter with two names; a checkpoint holds either.
    parameters = dict(model.named_parameters(remove_duplicate=False))
    missing = {id(parameter): name for name, parameter in parameters.items()}
    for name, weight in weights:
        parameter = parameters.get(name)
        if parameter is None or parameter.shape != weight.shape:
            expected = "no such tensor" if parameter is None else f"shape {tuple(parameter.shape)}"
            raise ArtifactError(
                f'tensor "{name}" of the result has shape {tuple(weight.shape)}, the original has {expected}'
            )
        parameter.data.copy_(weight)
        missing.pop(id(parameter), None)
    if missing:
        raise ArtifactError(f'the result has no tensor "{min(missing.values())}": quantise anew')
