"""`python -m tools.benchmark.bare`: a bare engine as a measuring process, in the engine's interpreter and environment.

Its first order is model.json's arguments; it answers with what was loaded, and from then on each load with its tally.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import sys
import threading
from collections.abc import Iterator
from time import perf_counter
from typing import TextIO

from tools.engine.adapters.vllm_bare import VLLM_VERSION, BareEngine

from .workload import Load, Tally, Trouble


def main() -> int:
    """Answers orders until standard input ends."""
    # vLLM and its children write to standard output too: what is left of it there goes to the log.
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    # Beside a GPU vLLM forks, and a forked process closes sys.stdin: it would wait for ever for a reader of that.
    orders = os.fdopen(os.dup(sys.stdin.fileno()), encoding="utf-8")
    asyncio.run(_serve(orders, answers))
    return 0


async def _serve(orders: TextIO, answers: TextIO) -> None:
    lines: asyncio.Queue[str] = asyncio.Queue()
    threading.Thread(target=_read_lines, args=(orders, asyncio.get_running_loop(), lines), daemon=True).start()
    engine = BareEngine(json.loads(await lines.get()))
    try:
        print(f"vllm {VLLM_VERSION}", file=answers, flush=True)
        numbers = itertools.count()
        while line := await lines.get():
            answer = await _measure(engine, Load.model_validate_json(line), numbers)
            print(answer.model_dump_json(), file=answers, flush=True)
    finally:
        engine.shutdown()


def _read_lines(orders: TextIO, loop: asyncio.AbstractEventLoop, lines: asyncio.Queue[str]) -> None:
    """The orders, line by line; an empty text at their end."""
    while True:
        line = orders.readline()
        loop.call_soon_threadsafe(lines.put_nowait, line)
        if not line:
            return


async def _measure(engine: BareEngine, load: Load, numbers: Iterator[int]) -> Tally | Trouble:
    prompts = itertools.islice(itertools.cycle(load.prompts), load.streams)
    started = perf_counter()
    requests = [_request(engine, prompt, load.tokens, f"bare-{next(numbers)}") for prompt in prompts]
    results = await asyncio.gather(*requests)
    seconds = perf_counter() - started
    for _, tokens, _ in results:
        if tokens != load.tokens:
            return Trouble(error=f"the bare engine generated {tokens} of {load.tokens} tokens: it stopped early")
    return Tally(
        seconds=seconds,
        tokens=sum(tokens for _, tokens, _ in results),
        responses=sum(outputs for _, _, outputs in results),
        ttft_s=tuple(ttft for ttft, _, _ in results),
    )


async def _request(engine: BareEngine, prompt: tuple[int, ...], tokens: int, request_id: str) -> tuple[float, int, int]:
    """TTFT in seconds, tokens and outputs of one request."""
    sent = perf_counter()
    ttft, received, outputs = 0.0, 0, 0
    async for new in engine.generate(prompt, tokens, request_id):
        ttft = ttft or perf_counter() - sent
        received += new
        outputs += 1
    return ttft, received, outputs


if __name__ == "__main__":
    sys.exit(main())
