"""`python -m tests.e2e.bare_vllm`: vLLM's AsyncLLM and nothing of ours, in a process of its own.

Reads {"arguments": model.json, "prompts": [...], "max_tokens": N, "at_once": N} from standard input, and writes what
Answers holds to the file that is named on the command line (vLLM itself writes to standard output).
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

_HOME = Path(__file__).resolve().parents[2]
# A slow machine is no reason to fail: only a hang is.
_LONGEST_S = 400.0


@dataclass(frozen=True)
class Answers:
    """Greedy answers, one a prompt, as text and as token ids; and how many of the tokens a draft had right."""

    texts: list[str]
    tokens: list[list[int]]
    accepted: int


def ask_bare_vllm(
    arguments: Mapping[str, Any],
    prompts: Sequence[str],
    *,
    max_tokens: int,
    environment: Mapping[str, str],
    at_once: int = 1,
) -> Answers:
    """Answers of an engine that has ended when this returns."""
    order = {"arguments": arguments, "prompts": prompts, "max_tokens": max_tokens, "at_once": at_once}
    with tempfile.TemporaryDirectory() as folder:
        answers = Path(folder) / "answers.json"
        subprocess.run(
            [sys.executable, "-m", "tests.e2e.bare_vllm", str(answers)],
            input=json.dumps(order),
            cwd=_HOME,
            env={**os.environ, "PYTHONPATH": str(_HOME), "PYTHONUTF8": "1", **environment},
            text=True,
            encoding="utf-8",
            check=True,
            timeout=_LONGEST_S,
        )
        return Answers(**json.loads(answers.read_text(encoding="utf-8")))


async def _answers(order: dict[str, Any]) -> Answers:
    from vllm import SamplingParams
    from vllm.engine.arg_utils import AsyncEngineArgs
    from vllm.v1.engine.async_llm import AsyncLLM
    from vllm.v1.metrics.reader import get_metrics_snapshot

    engine = AsyncLLM.from_engine_args(AsyncEngineArgs(**order["arguments"]))
    sampling = SamplingParams(temperature=0, max_tokens=order["max_tokens"])
    places = asyncio.Semaphore(order["at_once"])

    async def answer(number: int, prompt: str) -> Any:
        async with places:
            async for output in engine.generate(prompt, sampling, str(number)):
                last = output.outputs[0]
            return last

    try:
        outputs = await asyncio.gather(*(answer(*numbered) for numbered in enumerate(order["prompts"])))
    finally:
        engine.shutdown()
    accepted = [metric for metric in get_metrics_snapshot() if metric.name == "vllm:spec_decode_num_accepted_tokens"]
    return Answers(
        [output.text for output in outputs],
        [list(output.token_ids) for output in outputs],
        sum(int(metric.value) for metric in accepted),
    )


if __name__ == "__main__":
    found = asyncio.run(_answers(json.load(sys.stdin)))
    Path(sys.argv[1]).write_text(json.dumps(asdict(found), ensure_ascii=False), encoding="utf-8")
