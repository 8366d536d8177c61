"""How much of what a head drafts its target accepts, as vLLM counts it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field

from tools.drafting.errors import DraftError
from tools.drafting.manifest import Acceptance

_COUNTERS: Final = ("num_drafts", "num_draft_tokens", "num_accepted_tokens")
_PREFIX: Final = "vllm:spec_decode_"
_KV_CACHE_BYTES: Final = 4 << 30


class AcceptanceSettings(BaseModel):
    """What is measured."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    num_speculative_tokens: int = 3
    prompts: int = Field(200, description="how many unseen prompts")
    max_tokens: int = 256
    at_once: int = 16


def measure_acceptance(
    target: Path,
    head: Path,
    prompts: Sequence[str],
    settings: AcceptanceSettings,
) -> Acceptance:
    """Greedy answers to the first of the rendered prompts. Raises DraftError when nothing was drafted."""
    os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
    import torch
    from vllm import LLM, SamplingParams
    from vllm import __version__ as vllm_version

    on_gpu = torch.cuda.is_available()
    ids = _tokenized(target, prompts[: settings.prompts])
    device: dict[str, Any] = {"kv_cache_memory_bytes": _KV_CACHE_BYTES, "gpu_memory_utilization": 0.2} if on_gpu else {}
    llm = LLM(
        model=str(target),
        dtype="bfloat16",
        max_model_len=max(map(len, ids)) + settings.max_tokens + settings.num_speculative_tokens + 1,
        max_num_seqs=settings.at_once,
        enforce_eager=True,
        disable_log_stats=False,
        speculative_config={
            "method": "eagle3",
            "model": str(head),
            "num_speculative_tokens": settings.num_speculative_tokens,
        },
        **device,
    )
    outputs = llm.generate(
        [{"prompt_token_ids": prompt} for prompt in ids],
        SamplingParams(temperature=0.0, max_tokens=settings.max_tokens, detokenize=False),
    )
    drafts, drafted, accepted, by_position = _counted(llm.get_metrics())
    if not drafts:
        raise DraftError(f'nothing was drafted with "{head}": the answers were too short, give more prompts')
    return Acceptance(
        num_speculative_tokens=settings.num_speculative_tokens,
        prompts=len(ids),
        answer_tokens=sum(len(output.outputs[0].token_ids) for output in outputs),
        max_tokens=settings.max_tokens,
        drafts=drafts,
        drafted_tokens=drafted,
        accepted_tokens=accepted,
        mean_length=round(1 + accepted / drafts, 4),
        rate=round(accepted / drafted, 4),
        by_position=[round(count / drafts, 4) for count in by_position],
        dtype="bfloat16",
        device=str(torch.cuda.get_device_name()) if on_gpu else "CPU",
        vllm=vllm_version,
    )


def _tokenized(target: Path, prompts: Sequence[str]) -> list[list[int]]:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(str(target))
    return [tokenizer.encode(prompt, add_special_tokens=False) for prompt in prompts]


def _counted(metrics: Sequence[Any]) -> tuple[int, int, int, list[int]]:
    values = {metric.name: metric for metric in metrics if metric.name.startswith(_PREFIX)}
    drafts, drafted, accepted = (int(values[_PREFIX + name].value) for name in _COUNTERS)
    return drafts, drafted, accepted, list(values[_PREFIX + "num_accepted_tokens_per_pos"].values)
