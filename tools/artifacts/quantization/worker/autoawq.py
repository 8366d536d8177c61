"""AutoAWQ 0.2.9 with what it gets wrong put right, layer by layer, each kept when it is finished."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from awq import AutoAWQForCausalLM
from awq.modules.linear import WQLinear_GEMM
from awq.quantize.quantizer import AwqQuantizer
from awq.utils.module import get_named_linears, set_op_by_name
from awq.utils.utils import get_best_device
from torch import nn

from tools.artifacts.errors import ArtifactError
from tools.artifacts.manifest import Recipe
from tools.artifacts.quantization.recipe import Step
from tools.artifacts.quantization.worker.layers import LayerStore

_PHASE = "quantising"


def quantize(
    view: Path,
    result: Path,
    recipe: Recipe,
    blocks: Sequence[Sequence[int]],
    store: LayerStore,
    report: Callable[[Step], None],
) -> None:
    """Writes the checkpoint in `view` into `result`, in AWQ's "gemm" layout, with the blocks as calibration."""
    on_gpu = torch.cuda.is_available()
    try:
        # float16 matrix products are slow on CPU, and bfloat16 ones too where there is no AMX.
        model = AutoAWQForCausalLM.from_pretrained(
            str(view), torch_dtype=torch.float16 if on_gpu else torch.float32, trust_remote_code=False
        )
    except TypeError as error:
        raise ArtifactError(f"AutoAWQ cannot quantise this model: {error}: try --method llmcompressor") from error
    model.quantize(
        # The calibration blocks are tokens already.
        tokenizer=None,
        quant_config={
            "zero_point": recipe.zero_point,
            "q_group_size": recipe.group_size,
            "w_bit": recipe.bits,
            "version": "GEMM",
        },
        calib_data=[list(block) for block in blocks],
        max_calib_samples=len(blocks),
        max_calib_seq_len=len(blocks[0]),
        apply_clip=recipe.clip_search,
        quantizer_cls=ResumableQuantizer,
        store=store,
        report=report,
    )
    report(Step(phase="writing the result"))
    model.model.half()
    model.save_quantized(str(result))


class ResumableQuantizer(AwqQuantizer):  # type: ignore[misc]
    """Skips the layers that `store` holds, and adds the others to it.

    AutoAWQ takes the inputs of a layer from the unquantised layers before it, so no layer depends on the result of
    another.
    """

    modules: Sequence[nn.Module]
    inps: torch.Tensor

    def __init__(self, *arguments: Any, store: LayerStore, report: Callable[[Step], None], **options: Any) -> None:
        self._store = store
        self._report = report
        super().__init__(*arguments, **options)
        expected = (len(self.calib_data), len(self.calib_data[0]))
        if tuple(self.inps.shape[:2]) != expected:
            raise ArtifactError(
                f"AutoAWQ took calibration of shape {tuple(self.inps.shape[:2])}, it was given {expected}: report this"
            )

    def quantize(self) -> None:
        layers = list(self.modules)
        self._total = len(layers)
        self._next = min(self._store.finished, len(layers))
        for number, layer in enumerate(layers[: self._next]):
            self._report(Step(phase="reading finished layers", done=number, total=self._total))
            self._pass_inputs_through(layer)
            self._restore(layer, self._store.load(number))
        self._started, self._resumed = time.monotonic(), self._next
        self._report(Step(phase=_PHASE, done=self._next, total=self._total))
        self.modules = layers[self._next :]
        super().quantize()

    def _compute_best_scale(
        self, x: torch.Tensor, w_mean: torch.Tensor, x_mean: torch.Tensor, module2inspect: nn.Module, *rest: Any
    ) -> torch.Tensor:
        """The stock backup is `state_dict().cpu()`, which on CPU is the weights themselves: what was scaled in one try
        stays scaled in the next, and nothing says so. Here every state_dict is a copy.
        """
        hook = module2inspect.register_state_dict_post_hook(_copy_tensors)
        try:
            scales: torch.Tensor = super()._compute_best_scale(x, w_mean, x_mean, module2inspect, *rest)
        finally:
            hook.remove()
        return scales

    def _apply_quant(self, module: nn.Module, named_linears: dict[str, nn.Linear]) -> None:
        """The last thing that happens to a layer."""
        super()._apply_quant(module, named_linears)
        self._store.save(self._next, module.state_dict())
        self._next += 1
        seconds_each = (time.monotonic() - self._started) / (self._next - self._resumed)
        left = seconds_each * (self._total - self._next)
        self._report(Step(phase=_PHASE, done=self._next, total=self._total, seconds_left=left))

    def _pass_inputs_through(self, layer: nn.Module) -> None:
        device = get_best_device()
        layer.to(device)
        self.inps = self._module_forward(self.inps.to(device), layer, self._sanitize_kwargs(self.module_kwargs, layer))

    def _restore(self, layer: nn.Module, tensors: dict[str, torch.Tensor]) -> None:
        for name, linear in get_named_linears(layer).items():
            if f"{name}.qweight" in tensors:
                packed = WQLinear_GEMM.from_linear(linear, self.w_bit, self.group_size, init_only=True)
                set_op_by_name(layer, name, packed)
        layer.load_state_dict(tensors)


def _copy_tensors(_module: nn.Module, state: dict[str, Any], _prefix: str, _metadata: Any) -> None:
    for name, tensor in list(state.items()):
        state[name] = tensor.clone()
