from __future__ import annotations

import pytest

from tools.engine.errors import LaunchError
from tools.engine.limits import Limits


def test_every_limit_has_its_parameter() -> None:
    parameters = {
        "MAX_WAITING_REQUESTS": "3",
        "MAX_PROMPT_BYTES": " 4 ",
        "MAX_TOKENS_LIMIT": "0",
        "DEFAULT_DEADLINE_MS": "5",
        "REPORT_CUSTOM_METRICS": "true",
    }
    assert Limits.from_parameters(parameters) == Limits(3, 4, 0, 5)


def test_without_parameters_the_defaults_hold() -> None:
    assert Limits.from_parameters({}) == Limits(1024, 1 << 20, 0, 0)


@pytest.mark.parametrize("value", ["", "-1", "1.5", "many", "1e3"])
@pytest.mark.parametrize(
    "name", ["MAX_WAITING_REQUESTS", "MAX_PROMPT_BYTES", "MAX_TOKENS_LIMIT", "DEFAULT_DEADLINE_MS"]
)
def test_anything_but_a_whole_number_is_refused_by_name(name: str, value: str) -> None:
    with pytest.raises(LaunchError) as caught:
        Limits.from_parameters({name: value})
    assert str(caught.value) == f'parameter "{name}" in config.pbtxt is "{value}": write a whole number, 0 or more'
