from __future__ import annotations

from typing import Any

import pytest

from tools.engine.errors import LaunchError
from tools.engine.generation.arguments import BaselineArguments
from tools.engine.model_json import read_arguments

COMPLETE = {"model": "models/m", "attention": "sdpa", "batching": True, "max_model_len": 2048, "dtype": "float32"}


def read(**changes: Any) -> BaselineArguments:
    arguments = {name: value for name, value in (COMPLETE | changes).items() if value is not None}
    return read_arguments(arguments, BaselineArguments, '"llm_baseline" version 3')


def test_complete_arguments_are_read() -> None:
    assert read() == BaselineArguments("models/m", "sdpa", True, 2048, "float32")


def test_dtype_defaults_to_bfloat16() -> None:
    assert read(dtype=None).dtype == "bfloat16"


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"atention": "sdpa"}, 'key "atention" is unknown: did you mean "attention"?'),
        (
            {"zzz": 1},
            'key "zzz" is unknown: known ones are attention, batching, dtype, load_format, max_model_len, model',
        ),
        ({"attention": "flash"}, '"attention" is "flash": write "eager" or "sdpa" or "flash_attention_2"'),
        ({"batching": "true"}, "Expected `bool`, got `str` - at `$.batching`"),
        ({"max_model_len": None}, "Object missing required field `max_model_len`"),
        ({"max_model_len": 1.5}, "Expected `int`, got `float` - at `$.max_model_len`"),
    ],
)
def test_wrong_arguments_are_refused_by_name(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(LaunchError) as refused:
        read(**changes)
    assert str(refused.value) == f'model.json of "llm_baseline" version 3: {says}'
