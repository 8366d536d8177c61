"""The time that is left."""

from __future__ import annotations

from tests.reporting.planned import planned
from tools.reporting.pace import Pace


def test_a_rungs_own_pace_counts_and_before_it_the_others_at_that_level() -> None:
    pace = Pace()
    assert pace.left_s([planned("v0", 1)]) is None
    pace.took(planned("v0", 1), 10.0)
    pace.took(planned("v2", 1), 2.0)
    pace.took(planned("v2", 1, 2), 4.0)
    assert pace.left_s([planned("v0", 1, 2), planned("v2", 1, 3)]) == 13.0
    assert pace.left_s([planned("v4", 1)]) == 4.0
    assert pace.left_s([planned("v4", 1), planned("v4", 8)]) is None
    assert pace.left_s([]) == 0.0
