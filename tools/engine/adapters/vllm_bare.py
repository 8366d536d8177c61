"""AsyncLLM with nothing of ours around it: what `./ladder bench overhead` holds the served engine against.

It takes the arguments of model.json as vLLM itself would, and keeps vLLM's own statistics if they do.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from vllm import SamplingParams
from vllm import __version__ as vllm_version
from vllm.engine.arg_utils import AsyncEngineArgs
from vllm.platforms import current_platform
from vllm.sampling_params import RequestOutputKind
from vllm.v1.engine.async_llm import AsyncLLM

from .vllm_threads import set_up_cpu

VLLM_VERSION: str = vllm_version


class BareEngine:
    """One AsyncLLM. Made inside the event loop that then uses it; blocks that loop until the model is loaded."""

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        """Raises what vLLM raises for arguments that it does not take, or a model that does not load."""
        # As the served engine does: the two are compared.
        arguments = set_up_cpu(arguments) if current_platform.is_cpu() else arguments
        self._engine = AsyncLLM.from_engine_args(AsyncEngineArgs(**arguments))

    async def generate(self, token_ids: Sequence[int], tokens: int, request_id: str) -> AsyncIterator[int]:
        """Greedy generation of exactly `tokens` tokens; yields how many each output brings, when it does."""
        params = SamplingParams(
            temperature=0.0, max_tokens=tokens, ignore_eos=True, output_kind=RequestOutputKind.DELTA
        )
        prompt = {"prompt_token_ids": list(token_ids)}
        async for output in self._engine.generate(prompt, params, request_id):
            yield len(output.outputs[0].token_ids)

    def shutdown(self) -> None:
        """End the engine core's process."""
        self._engine.shutdown()
