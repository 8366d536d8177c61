from __future__ import annotations

from xml.etree import ElementTree

from loadtest.options import SlaLimits
from loadtest.statistics.junit import junit_xml
from loadtest.statistics.ledger import Ledger
from loadtest.statistics.outcome import ErrorKind
from loadtest.statistics.results import ClientHealth, RunResult
from tests.loadtest.statistics.examples import HEALTHY, START, answer, failure, options, result_of

SLA = SlaLimits(ttft_ms=500, tpot_ms=50, p99_e2e_s=4)


def suite_of(result: RunResult) -> ElementTree.Element:
    (suite,) = ElementTree.fromstring(junit_xml(result))
    return suite


def cases_of(result: RunResult) -> dict[str, ElementTree.Element]:
    return {f"{case.get('classname')} {case.get('name')}": case for case in suite_of(result).iter("testcase")}


def test_every_target_and_limit_is_a_test_case() -> None:
    found = result_of(answer(target="llm_bf16"), answer(1, target="llm_awq:1"), sla=SLA)
    assert list(cases_of(found)) == [
        "loadtest.llm_bf16 ttft_ms 500",
        "loadtest.llm_bf16 tpot_ms 50",
        "loadtest.llm_bf16 p99_e2e_s 4",
        "loadtest.llm_bf16 no failures",
        "loadtest.llm_awq:1 ttft_ms 500",
        "loadtest.llm_awq:1 tpot_ms 50",
        "loadtest.llm_awq:1 p99_e2e_s 4",
        "loadtest.llm_awq:1 no failures",
        "loadtest.run the run is whole",
    ]
    suite = suite_of(found)
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("9", "0", "0")
    assert (suite.get("time"), suite.get("timestamp")) == ("60.000", "2027-01-15T08:00:00+00:00")
    assert all(len(case) == 0 for case in suite.iter("testcase"))


def test_a_missed_limit_is_a_failure_with_the_figure() -> None:
    found = result_of(answer(ttft=0.75), sla=SLA)
    (missed,) = cases_of(found)["loadtest.llm ttft_ms 500"]
    assert (missed.tag, missed.get("message")) == (
        "failure",
        "ttft_ms: 750.1 ms, the limit is 500 ms (missed by 50 %)",
    )
    assert suite_of(found).get("failures") == "1"


def test_failed_requests_are_a_failure_without_any_sla() -> None:
    found = result_of(
        answer(), failure(1), failure(2), failure(3, kind=ErrorKind.SERVER, message="<boom> \x00\x1b[31m 错")
    )
    (failed,) = cases_of(found)["loadtest.llm no failures"]
    assert failed.get("message") == "3 of 4 requests failed: 2 truncated, 1 server"
    assert failed.text == "2 times: the stream ended early\n1 times: <boom> \ufffd\ufffd[31m 错"


def test_so_many_failures_as_the_sla_allows_are_none() -> None:
    sla = SlaLimits(max_failures_percent=50)
    kept = cases_of(result_of(answer(), failure(1), sla=sla))["loadtest.llm failures at most 50 %"]
    missed = cases_of(result_of(answer(), failure(1), failure(2), sla=sla))["loadtest.llm failures at most 50 %"]
    assert (len(kept), len(missed)) == (0, 1)


def test_a_target_without_requests_is_an_error() -> None:
    found = Ledger(options(), None, started_at=START).result(seconds=5, client=HEALTHY)
    (error,) = cases_of(found)["loadtest.llm no failures"]
    assert (error.tag, error.get("message")) == ("error", 'no request to "llm" ended after the warm-up')


def test_a_partial_run_is_an_error_that_says_why() -> None:
    found = result_of(answer(), partial=("interrupted after 12 s", 'worker "host_1" was lost'))
    (error,) = cases_of(found)["loadtest.run the run is whole"]
    assert (error.tag, error.get("message")) == ("error", 'interrupted after 12 s; worker "host_1" was lost')
    assert suite_of(found).get("errors") == "1"


def test_a_saturated_client_is_said() -> None:
    found = result_of(answer(), client=ClientHealth(workers=1, cpu_percent=99, saturated=("busy", "late")))
    assert suite_of(found).findtext("system-out") == "busy\nlate"
