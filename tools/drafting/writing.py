"""Several engine processes writing conversations side by side, watched until they are done."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from tools.drafting.conversations import answer_tokens_in, shards_in
from tools.drafting.errors import DraftError
from tools.drafting.generation import read_prompts
from tools.drafting.whole_file import remove_partials_of

_HOME: Final = Path(__file__).resolve().parents[2]
_TAIL_LINES: Final = 15
_POLL_S: Final = 0.5
# After its time is up an engine finishes the batch it is at, which is not written until it is whole.
_GRACE_S: Final = 5.0


def write_with_engines(
    target: Path,
    work: Path,
    *,
    tokens: int,
    engines: int,
    seconds: float,
    longest: int,
    at_once: int,
    seed: int,
    prompts: Path | None,
    report: Callable[[str], None],
) -> None:
    """Until the folder `work/data` holds `tokens` answer tokens, from earlier runs too, or `seconds` are over.

    Raises DraftError when an engine fails, and when nothing came of it. No process outlives this call.
    """
    folder = work / "data"
    folder.mkdir(parents=True, exist_ok=True)
    if prompts is not None:
        read_prompts(prompts)
    missing = tokens - answer_tokens_in(shards_in(folder))
    if missing <= 0:
        report(f"the data is there already: {tokens - missing:,} answer tokens")
        return
    command = [sys.executable, "-m", "tools.drafting", "write", "--target", str(target), "--work", str(work)]
    command += ["--writers", str(engines), "--tokens", str(-(-missing // engines)), "--seconds", str(seconds)]
    command += ["--longest", str(longest), "--at-once", str(at_once), "--seed", str(seed)]
    command += [] if prompts is None else ["--prompts", str(prompts.resolve())]
    writers: list[subprocess.Popen[bytes]] = []
    begun = time.monotonic()
    try:
        for number in range(engines):
            with _log(work, number).open("wb") as log:
                writers.append(
                    subprocess.Popen(
                        [*command, "--writer", str(number)],
                        stdout=log,
                        stderr=None if number == 0 else log,
                        cwd=_HOME,
                        env=_environment(),
                    )
                )
        _watch(writers, folder, work, begun, seconds, report)
    finally:
        for writer in writers:
            if writer.poll() is None:
                writer.kill()
        for writer in writers:
            writer.wait()
            remove_partials_of(writer.pid, folder)
    shards = shards_in(folder)
    took = time.monotonic() - begun
    if not shards and took < seconds:
        raise DraftError("no conversation was written: the prompts are too long, or have no answer; give others")
    if not shards:
        raise DraftError(f"no conversation was written in {seconds:.0f} s: give more time, or ask for fewer at once")
    report(f"{answer_tokens_in(shards):,} answer tokens in {len(shards)} shards; this run took {took:.0f} s")


def _watch(
    writers: list[subprocess.Popen[bytes]],
    folder: Path,
    work: Path,
    begun: float,
    seconds: float,
    report: Callable[[str], None],
) -> None:
    """Returns when all have ended, or when time is up and they were given theirs to finish."""
    known = -1
    running = True
    while running:
        codes = [writer.poll() for writer in writers]
        running = None in codes
        for number, code in enumerate(codes):
            if code not in (None, 0):
                tail = _log(work, number).read_text(encoding="utf-8", errors="replace").splitlines()[-_TAIL_LINES:]
                lines = "\n".join(f"  {line}" for line in tail)
                raise DraftError(f'engine {number} failed, see "{_log(work, number)}" and above:\n{lines}')
        shards = shards_in(folder)
        if len(shards) != known:
            known = len(shards)
            report(f"{time.monotonic() - begun:.0f} s: {answer_tokens_in(shards):,} answer tokens written")
        if time.monotonic() - begun > seconds * 1.5 + _GRACE_S and known:
            report("time is up: what is not written yet is left out")
            return
        if running:
            time.sleep(_POLL_S)


def _log(work: Path, number: int) -> Path:
    return work / f"engine-{number:02d}.log"


def _environment() -> dict[str, str]:
    defaults = {
        "HF_HUB_OFFLINE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "VLLM_LOGGING_LEVEL": "ERROR",
        "VLLM_USE_FLASHINFER_SAMPLER": "0",
        "VLLM_CPU_KVCACHE_SPACE": "1",
    }
    return {**defaults, **os.environ}
