"""What the processes that run vLLM find in their environment."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final

_DEFAULTS: Final = {
    "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_LOGGING_LEVEL": "ERROR",
    # FlashInfer's sampler is another package, which not every machine has.
    "VLLM_USE_FLASHINFER_SAMPLER": "0",
    "VLLM_CPU_KVCACHE_SPACE": "1",
}


def engine_environment(variables: Mapping[str, str] = os.environ) -> dict[str, str]:
    """`variables`, and a default for what they leave open."""
    return {**_DEFAULTS, **variables}
