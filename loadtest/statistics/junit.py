"""A run as JUnit XML, which CI systems show as test results."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final
from xml.etree import ElementTree

from loadtest.statistics.results import RunResult, TargetResult
from loadtest.statistics.sla import Verdict, judge

_NOT_IN_XML: Final = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit_xml(result: RunResult) -> str:
    """One test case for each target and limit, one for its failures, and one for whether the run is whole.

    A missed limit is a failure, a run that is not what was asked for an error. Why figures may be the client's own
    is in `system-out`.
    """
    cases = [case for target in result.targets for case in _target_cases(target, result)]
    cases.append(_whole_run_case(result))
    suite = ElementTree.Element(
        "testsuite",
        name="loadtest",
        tests=str(len(cases)),
        failures=str(sum(case.find("failure") is not None for case in cases)),
        errors=str(sum(case.find("error") is not None for case in cases)),
        time=f"{result.seconds:.3f}",
        timestamp=result.started_at.isoformat(timespec="seconds"),
    )
    suite.extend(cases)
    if result.client.saturated:
        ElementTree.SubElement(suite, "system-out").text = _printable("\n".join(result.client.saturated))
    suites = ElementTree.Element("testsuites")
    suites.append(suite)
    ElementTree.indent(suites)
    return str(ElementTree.tostring(suites, encoding="utf-8", xml_declaration=True), "utf-8") + "\n"


def _target_cases(target: TargetResult, result: RunResult) -> Iterator[ElementTree.Element]:
    for verdict in judge(target, result.sla) if result.sla else ():
        # Failures have a case of their own, with what the server said, and without SLA too.
        if verdict.what != "max_failures_percent":
            yield _limit_case(target, verdict)
    yield _failures_case(target, result.sla.max_failures_percent if result.sla else 0.0)


def _limit_case(target: TargetResult, verdict: Verdict) -> ElementTree.Element:
    case = _case(target.target, f"{verdict.what} {verdict.limit:g}", target.seconds)
    if not verdict.kept:
        _fail(case, "failure", "SLA", verdict.miss().text())
    return case


def _failures_case(target: TargetResult, allowed_percent: float) -> ElementTree.Element:
    name = f"failures at most {allowed_percent:g} %" if allowed_percent else "no failures"
    case = _case(target.target, name, target.seconds)
    failed = sum(target.failures.values())
    if not target.requests:
        _fail(case, "error", "Empty", f'no request to "{target.target}" ended after the warm-up')
    elif failed * 100 > allowed_percent * target.requests:
        kinds = ", ".join(f"{count} {kind}" for kind, count in target.failures.items())
        detail = "\n".join(f"{count} times: {message}" for message, count in target.messages.items())
        _fail(case, "failure", "Failures", f"{failed} of {target.requests} requests failed: {kinds}", detail)
    return case


def _whole_run_case(result: RunResult) -> ElementTree.Element:
    case = _case("run", "the run is whole", result.seconds)
    if result.partial:
        _fail(case, "error", "Partial", "; ".join(result.partial))
    return case


def _case(classname: str, name: str, seconds: float) -> ElementTree.Element:
    return ElementTree.Element("testcase", classname=f"loadtest.{classname}", name=name, time=f"{seconds:.3f}")


def _fail(case: ElementTree.Element, tag: str, kind: str, message: str, detail: str = "") -> None:
    failure = ElementTree.SubElement(case, tag, type=kind, message=_printable(message))
    failure.text = _printable(detail) or None


def _printable(text: str) -> str:
    """Without what XML cannot hold: servers say all sorts of things."""
    return _NOT_IN_XML.sub("\ufffd", text)
