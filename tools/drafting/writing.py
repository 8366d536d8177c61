"""Several engine processes writing conversations side by side, watched until they are done."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from tools.bootstrap.interruption import interruption_held
from tools.drafting.conversations import answer_tokens_in, shards_in
from tools.drafting.environment import engine_environment
from tools.drafting.errors import DraftError
from tools.drafting.generation import WritingSettings, read_prompts
from tools.drafting.whole_file import remove_partials_of

_HOME: Final = Path(__file__).resolve().parents[2]
_TAIL_LINES: Final = 15
_POLL_S: Final = 0.5
# After its time is up an engine finishes the batch it is at, which is not written until it is whole.
_GRACE_S: Final = 5.0


def write_with_engines(
    target: Path,
    work: Path,
    settings: WritingSettings,
    *,
    engines: int,
    report: Callable[[str], None],
) -> None:
    """Until the folder `work/data` holds all `tokens`, or `seconds` are over.

    Raises DraftError when an engine fails, and when nothing came of it. No process outlives this call.
    """
    folder = work / "data"
    folder.mkdir(parents=True, exist_ok=True)
    if settings.prompts is not None:
        read_prompts(settings.prompts)
    there = answer_tokens_in(shards_in(folder))
    if there >= settings.tokens:
        report(f"the data is there already: {there:,} answer tokens")
        return
    seconds = settings.seconds
    command = [sys.executable, "-m", "tools.drafting", "write", "--target", str(target), "--work", str(work)]
    command += ["--writers", str(engines), *_options(settings, tokens=-(-(settings.tokens - there) // engines))]
    writers: list[subprocess.Popen[bytes]] = []
    begun = time.monotonic()
    try:
        for number in range(engines):
            with _log(work, number).open("wb") as log, interruption_held():
                writers.append(
                    subprocess.Popen(
                        [*command, "--writer", str(number)],
                        stdout=log,
                        stderr=None if number == 0 else log,
                        cwd=_HOME,
                        env=engine_environment(),
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


def _options(settings: WritingSettings, tokens: int) -> list[str]:
    """The settings as the stage `write` takes them, with one engine's share of the tokens."""
    prompts = [] if settings.prompts is None else ["--prompts", str(settings.prompts.resolve())]
    return [
        *("--tokens", str(tokens)),
        *("--seconds", str(settings.seconds)),
        *("--longest", str(settings.longest)),
        *("--at-once", str(settings.at_once)),
        *("--seed", str(settings.seed)),
        *prompts,
    ]


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
