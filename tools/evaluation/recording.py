"""Verdicts kept beside the artifacts they are about."""

from __future__ import annotations

from pathlib import Path

from tools.artifacts.quality import RungQuality, record
from tools.spec.profile import Profile

from .results import Evaluation, RungResult


def record_verdicts(found: Evaluation, profile: Profile, home: Path) -> dict[str, str]:
    """Record the verdict of every rung whose verdict is certain; returns what came of each, by rung.

    Certain is a failure, and a pass in which no limit was left out: a short run must not undo what a long one found.
    Nothing is recorded when the reference is not the unquantised weights, because a loss against something worse says
    nothing. `home` is the checkout's root. Raises OSError when a file cannot be written.
    """
    if not found.complete:
        return {result.rung: "not recorded: not everything was measured" for result in found.rungs}
    if found.rungs[0].artifact != profile.artifacts.bf16.path:
        reason = f'not recorded: the reference does not serve "{profile.artifacts.bf16.path}"'
        return {result.rung: reason for result in found.rungs}
    return {result.rung: _record(result, found, home) for result in found.rungs}


def _record(result: RungResult, found: Evaluation, home: Path) -> str:
    if result.artifact is None:
        return f'not recorded: the profile "{found.profile}" does not have this model'
    if result.verdict is None:
        return f'not recorded: the profile "{found.profile}" sets no limit for it'
    if result.verdict.not_judged and not result.verdict.failures:
        return f"not recorded: {', '.join(result.verdict.not_judged)} not judged"
    quality = RungQuality(
        profile=found.profile,
        measured_at=found.started_at.isoformat(timespec="seconds"),
        failures=result.verdict.failures,
    )
    file = record(home / result.artifact, result.rung, quality)
    return f'recorded in "{file.relative_to(home)}"'
