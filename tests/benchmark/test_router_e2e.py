"""`./ladder bench router` on a real tritonserver."""

from __future__ import annotations

import pytest

from tests.serving.ladder import assert_nothing_left, ladder
from tools.benchmark.router import RouterReport

pytestmark = [pytest.mark.e2e, pytest.mark.light, pytest.mark.timeout(480)]

BASE = 18554


# In a fresh clone it makes the tokenizer's model first, beside other tests.
def test_both_ways_are_measured_and_nothing_is_left() -> None:
    small = ("--streams", "4", "--tokens", "20", "--seconds", "0.5", "--repeats", "2", "--json")
    result = ladder("bench", "router", "--port-base", str(BASE), *small, timeout=450)
    assert result.returncode == 0, result.stderr
    report = RouterReport.model_validate_json(result.stdout)
    assert report.ttft.direct_ms.low > 0
    assert report.ttft.routed_ms.low > 0
    (row,) = report.rows
    assert (row.streams, len(row.ratio.values)) == (4, 2)
    assert row.routed_tokens_per_s.low > 0
    assert_nothing_left(BASE)
