"""Parameter values as text: what a release file and a request say has to meet."""

from __future__ import annotations

import pytest

from tools.wire.release import Shadow, Target, parameter_text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("gold", "gold"),
        ("", ""),
        (True, "true"),
        (False, "false"),
        (1, "1"),
        (1.0, "1"),
        (2.5, "2.5"),
        (1e16, "10000000000000000"),
    ],
)
def test_values_compare_as_text(value: object, text: str) -> None:
    assert parameter_text(value) == text


def test_a_target_is_the_same_whatever_its_weight() -> None:
    assert Target("m", 1, 5, 2).identity == Target("m", 1).identity == Shadow("m", 1, 10, 1).identity == ("m", 1)
