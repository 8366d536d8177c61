"""llm-compressor 0.14, AutoAWQ's maintained successor: AWQ's scales, and compressed-tensors as the result.

It keeps no finished layers: an interrupted run starts anew.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import torch
from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme
from llmcompressor import oneshot
from llmcompressor.modifiers.quantization import QuantizationModifier
from llmcompressor.modifiers.transform.awq import AWQModifier
from llmcompressor.pipelines.cache import IntermediatesCache
from pydantic import PrivateAttr
from torch.utils.data import DataLoader
from transformers import AutoModelForCausalLM

from tools.artifacts.manifest import Recipe
from tools.artifacts.quantization.recipe import Step

_PHASE: Final = "quantising"


def quantize(
    source: Path, result: Path, recipe: Recipe, blocks: Sequence[Sequence[int]], report: Callable[[Step], None]
) -> None:
    """Writes the checkpoint in `source` into `result`, with the blocks as calibration."""
    on_gpu = torch.cuda.is_available()
    if not on_gpu:
        # It pins memory for copies to a GPU without asking whether there is one.
        IntermediatesCache.pin_memory = _leave_unpinned
    model = AutoModelForCausalLM.from_pretrained(str(source), dtype=torch.bfloat16 if on_gpu else torch.float32)
    weights = QuantizationArgs(
        num_bits=recipe.bits,
        type="int",
        symmetric=not recipe.zero_point,
        strategy="group",
        group_size=recipe.group_size,
    )
    awq = ReportingAwq()
    awq.follow(model.config.num_hidden_layers, report)
    scheme = QuantizationScheme(targets=["Linear"], weights=weights)
    oneshot(
        model=model,
        dataset=DataLoader([{"input_ids": torch.tensor([block])} for block in blocks], batch_size=None),
        recipe=[awq, QuantizationModifier(config_groups={"group_0": scheme}, ignore=["lm_head"])],
        num_calibration_samples=len(blocks),
        max_seq_length=len(blocks[0]),
    )
    report(Step(phase="writing the result"))
    model.to(torch.float16).save_pretrained(str(result), save_compressed=True)


class ReportingAwq(AWQModifier):  # type: ignore[misc]
    """AWQModifier that says how far it is."""

    _report: Callable[[Step], None] = PrivateAttr()
    _total: int = PrivateAttr()
    _done: int = PrivateAttr(default=0)
    _started: float = PrivateAttr(default_factory=time.monotonic)

    def follow(self, total: int, report: Callable[[Step], None]) -> None:
        self._report, self._total = report, total
        report(Step(phase=_PHASE, done=0, total=total))

    def on_sequential_epoch_end(self, *arguments: Any, **options: Any) -> None:
        super().on_sequential_epoch_end(*arguments, **options)
        if self._done == self._total:
            # The last part of the model is its head, which is no layer.
            return
        self._done += 1
        left = (time.monotonic() - self._started) / self._done * (self._total - self._done)
        self._report(Step(phase=_PHASE, done=self._done, total=self._total, seconds_left=left))


def _leave_unpinned(_cache: IntermediatesCache, *_arguments: Any, **_options: Any) -> None:
    """In the place of IntermediatesCache.pin_memory."""
