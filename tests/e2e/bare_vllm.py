"""`python -m tests.e2e.bare_vllm`: vLLM's AsyncLLM and nothing of ours, in a process of its own.

Reads {"arguments": model.json, "prompts": [...], "max_tokens": N} from standard input, and writes a JSON list of
greedy answers, one a prompt, to the file that is named on the command line (vLLM itself writes to standard output).
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any


async def answers(order: dict[str, Any]) -> list[str]:
    """One prompt after the other."""
    from vllm import SamplingParams
    from vllm.engine.arg_utils import AsyncEngineArgs
    from vllm.v1.engine.async_llm import AsyncLLM

    engine = AsyncLLM.from_engine_args(AsyncEngineArgs(**order["arguments"]))
    sampling = SamplingParams(temperature=0, max_tokens=order["max_tokens"])
    found = []
    try:
        for number, prompt in enumerate(order["prompts"]):
            async for output in engine.generate(prompt, sampling, str(number)):
                text = output.outputs[0].text
            found.append(text)
    finally:
        engine.shutdown()
    return found


if __name__ == "__main__":
    texts = asyncio.run(answers(json.load(sys.stdin)))
    Path(sys.argv[1]).write_text(json.dumps(texts, ensure_ascii=False), encoding="utf-8")
