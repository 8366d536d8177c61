"""The format suite on one rung: every case once, greedy."""

from __future__ import annotations

from collections.abc import Sequence

from .format_cases import Case
from .results import Format, KindOfCase
from .rung import Rung, Step


async def measure_format(rung: Rung, cases: Sequence[Case], step: Step) -> Format:
    """Ask every case. Raises ClientError when the server does not answer."""
    answers = await rung.complete_all([case.request() for case in cases], step)
    problems = {case.name: case.problem(answer) for case, answer in zip(cases, answers, strict=True)}
    passed = sum(problem is None for problem in problems.values())
    kinds = dict.fromkeys(case.kind for case in cases)
    return Format(
        passed_percent=100 * passed / len(cases),
        kinds={kind: _kind([case for case in cases if case.kind == kind], problems) for kind in kinds},
    )


def _kind(cases: Sequence[Case], problems: dict[str, str | None]) -> KindOfCase:
    failures = {case.name: problem for case in cases if (problem := problems[case.name]) is not None}
    return KindOfCase(cases=len(cases), passed=len(cases) - len(failures), failures=failures)
