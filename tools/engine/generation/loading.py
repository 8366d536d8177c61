"""Loading a causal language model with transformers, and saying how it will run."""

from __future__ import annotations

import importlib.util
import logging
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM, GenerationConfig
from transformers.utils import logging as transformers_logging

from ..errors import LaunchError
from ..tokenizer_loading import load_tokenizer
from .arguments import AttentionName, BaselineArguments

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Loaded:
    """A model ready to generate. `attention` says which implementation runs, and why if it is not the one named."""

    model: Any
    tokenizer: Any
    eos_ids: frozenset[int]
    pad_id: int
    vocab_size: int
    attention: str
    device: str


def load(arguments: BaselineArguments) -> Loaded:
    """Load model and tokenizer. Raises LaunchError when they cannot be loaded or do not fit `arguments`."""
    # A bar that redraws itself is noise in a server's log.
    transformers_logging.disable_progress_bar()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cpu":
        torch.set_num_threads(usable_cpus())
    tokenizer = load_tokenizer(arguments.model)
    attention, why = choose_attention(arguments, device)
    choose_sdpa_kernels()
    try:
        model = _model(arguments, attention, device)
    except (OSError, ValueError, ImportError) as error:
        raise LaunchError(f'the model in "{arguments.model}" cannot be loaded: {error}') from error
    _check_context(arguments, model.config)
    eos_ids = _eos_ids(model.generation_config, tokenizer)
    # `generate` fills in whatever a call leaves out from here, a file of the model; what counts is the request.
    model.generation_config = GenerationConfig()
    model.to(device).eval()
    return Loaded(
        model=model,
        tokenizer=tokenizer,
        eos_ids=eos_ids,
        # Padding is masked, so any token of the vocabulary does.
        pad_id=min(eos_ids, default=0),
        vocab_size=model.config.get_text_config().vocab_size,
        attention=attention + (f" ({why})" if why else ""),
        device=_device_name(device),
    )


def _model(arguments: BaselineArguments, attention: AttentionName, device: str) -> Any:
    dtype = getattr(torch, arguments.dtype)
    if arguments.load_format == "auto":
        return AutoModelForCausalLM.from_pretrained(
            arguments.model, dtype=dtype, attn_implementation=attention, local_files_only=True
        )
    config = AutoConfig.from_pretrained(arguments.model, local_files_only=True)
    # Made where it will be used: 7 billion random numbers take a CPU minutes.
    with torch.device(device):
        return AutoModelForCausalLM.from_config(config, dtype=dtype, attn_implementation=attention)


def choose_attention(arguments: BaselineArguments, device: str) -> tuple[AttentionName, str]:
    """The implementation to use, and why it is not the one that `arguments` names (empty if it is)."""
    if arguments.attention != "flash_attention_2":
        return arguments.attention, ""
    reasons = {
        "there is no CUDA device": device != "cuda",
        "flash-attn is not installed": importlib.util.find_spec("flash_attn") is None,
        f"flash-attn takes no {arguments.dtype}": arguments.dtype == "float32",
    }
    for reason, holds in reasons.items():
        if holds:
            log.warning('attention is "sdpa", not "flash_attention_2": %s', reason)
            return "sdpa", f"instead of flash_attention_2: {reason}"
    return "flash_attention_2", ""


def choose_sdpa_kernels() -> None:
    """Leave sdpa on a GPU to PyTorch's own kernels: FlashAttention-2, and the memory-efficient one under a mask.

    PyTorch may prefer cuDNN's on Hopper and later. That one makes a plan for every shape it has not seen, in tens of
    milliseconds, and generating a token at a time makes a new shape of every step.
    """
    torch.backends.cuda.enable_cudnn_sdp(False)


def usable_cpus() -> int:
    """Processors this process may use: its affinity, and in a container the cgroup's quota, at least 1."""
    processors = len(os.sched_getaffinity(0))
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text(encoding="ascii").split()
    except (OSError, ValueError):
        return processors
    return processors if quota == "max" else max(1, min(processors, round(int(quota) / int(period))))


def _check_context(arguments: BaselineArguments, config: Any) -> None:
    positions = getattr(config.get_text_config(), "max_position_embeddings", None)
    if positions is not None and arguments.max_model_len > positions:
        raise LaunchError(
            f'"max_model_len" is {arguments.max_model_len}: the model in "{arguments.model}" has {positions} positions'
        )


def _eos_ids(generation_config: Any, tokenizer: Any) -> frozenset[int]:
    """The tokens that end a text, as vLLM finds them: the tokenizer's, and those of generation_config.json."""
    configured = generation_config.eos_token_id
    ids = configured if isinstance(configured, list) else [configured]
    return frozenset(token for token in [*ids, tokenizer.eos_token_id] if token is not None)


def _device_name(device: str) -> str:
    if device == "cuda":
        return str(torch.cuda.get_device_name())
    return f"CPU, {torch.get_num_threads()} threads"
