"""What a check says, and how the findings are printed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Literal

Level = Literal["ok", "warn", "fail"]

COLOURS = {"ok": "\x1b[32m", "warn": "\x1b[33m", "fail": "\x1b[31m"}
RESET = "\x1b[0m"


@dataclass(frozen=True)
class Finding:
    """One line of the report. `fix` says what to do; it is empty only when the level is ok."""

    level: Level
    check: str
    message: str
    fix: str = ""


def as_text(findings: Sequence[Finding], *, colour: bool) -> str:
    width = max(len(finding.check) for finding in findings)
    lines = []
    for finding in findings:
        level = f"{finding.level:<4}"
        if colour:
            level = f"{COLOURS[finding.level]}{level}{RESET}"
        lines.append(f"{level}  {finding.check:<{width}}  {finding.message}")
        if finding.fix:
            lines.append(f"{'':<4}  {'':<{width}}  -> {finding.fix}")
    return "\n".join([*lines, "", _verdict(findings)])


def as_json(findings: Sequence[Finding]) -> str:
    document = {"ok": exit_code(findings) == 0, "findings": [asdict(finding) for finding in findings]}
    return json.dumps(document, indent=2, ensure_ascii=False)


def exit_code(findings: Sequence[Finding]) -> int:
    """1 when a check failed, else 0: a warning stops nobody."""
    return int(any(finding.level == "fail" for finding in findings))


def _verdict(findings: Sequence[Finding]) -> str:
    count = {level: sum(finding.level == level for finding in findings) for level in ("ok", "warn", "fail")}
    verdict = "./ladder up will not work here until the failures are mended" if count["fail"] else "fit to serve"
    return f"{count['ok']} ok, {count['warn']} warn, {count['fail']} fail: {verdict}"
