from __future__ import annotations

import pytest

from loadtest.statistics.results import SlaMiss


@pytest.mark.parametrize(
    ("miss", "text"),
    [
        (
            SlaMiss(what="ttft_ms", limit=500, measured=612.34, unit="ms"),
            "ttft_ms: 612.3 ms, the limit is 500 ms (missed by 22.5 %)",
        ),
        (
            SlaMiss(what="min_qps", limit=20, measured=15, unit="good requests/s"),
            "min_qps: 15 good requests/s, the limit is 20 good requests/s (missed by 25 %)",
        ),
        (
            SlaMiss(what="max_failures_percent", limit=0, measured=0.5, unit="%"),
            "max_failures_percent: 0.5 %, the limit is 0 % (missed by 0.5 %)",
        ),
        (
            SlaMiss(what="ttft_ms", limit=500, measured=None, unit="ms"),
            "ttft_ms: nothing was measured, the limit is 500 ms",
        ),
    ],
)
def test_a_miss_says_which_figure_and_by_how_much(miss: SlaMiss, text: str) -> None:
    assert miss.text() == text
