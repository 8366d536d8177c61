"""What vLLM's workers tell of themselves: they, and not the engine's process, hold the GPU memory.

vLLM adds the methods of a class that `worker_extension_cls` names to its workers. Imports nothing of vLLM.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

PEAK_MEMORY: Final = "ladder_peak_memory_bytes"


class WorkerMemory:
    """Mixed into vLLM's worker class."""

    def ladder_peak_memory_bytes(self) -> int:
        """The most GPU memory this worker's tensors have taken: weights, KV cache, activations. Without the context."""
        from ..generation.memory import peak_memory_bytes

        return peak_memory_bytes()


def has_worker_memory(arguments: Mapping[str, Any]) -> bool:
    """Whether workers started with `with_worker_memory(arguments)` answer: a model may name an extension of its own."""
    return arguments.get("worker_extension_cls") is None


def with_worker_memory(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Engine arguments with this extension, unless they name one of their own."""
    return {"worker_extension_cls": f"{__name__}.{WorkerMemory.__name__}", **arguments}
