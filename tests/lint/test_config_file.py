"""config.pbtxt as values with positions."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.lint.config_file import ConfigFile, find_placeholder, parse_config
from tools.lint.findings import Place
from tools.lint.schema import InstanceGroup, QueuePolicy, Tensor, VersionPolicy

PATH = Path("m/config.pbtxt")
TEXT = """name: "m"
platform: "ensemble"
max_batch_size: 4
input [
  { name: "a" data_type: TYPE_STRING dims: [ 1 ] optional: true },
  { name: "b" data_type: TYPE_FP32 dims: [ -1, 3 ] reshape { shape: [ -1 ] } }
]
version_policy { specific { versions: [ 1, 3 ] } }
instance_group { count: 2 kind: KIND_GPU gpus: [ 0, 1 ] rate_limiter { } }
ensemble_scheduling {
  step [
    { model_name: "x" model_version: -1 },
    { model_name: "y"
      input_map { key: "in" value: "a" }
      input_map { key: "other" value: "b" }
      output_map { key: "out" value: "c" }
    }
  ]
}
parameters { key: "one" value { string_value: "1" } }
parameters { key: "two" value { string_value: "2" } }
"""


@pytest.fixture
def file() -> ConfigFile:
    return parse_config(PATH, TEXT)


def test_values(file: ConfigFile) -> None:
    config = file.config
    assert config is not None
    assert config.inputs == (
        Tensor("a", "TYPE_STRING", (1,), optional=True),
        Tensor("b", "TYPE_FP32", (-1, 3), reshape=(-1,)),
    )
    assert config.version_policy == VersionPolicy("specific", versions=(1, 3))
    assert config.instance_groups == (InstanceGroup("", "KIND_GPU", 2, (0, 1), rate_limited=True),)
    assert config.parameters == {"one": "1", "two": "2"}
    assert config.ensemble is not None
    assert config.ensemble.steps[1].input_map == {"in": "a", "other": "b"}
    assert config.decoupled is None
    assert config.is_ensemble


def test_queue_policies() -> None:
    text = """dynamic_batching {
      default_queue_policy { timeout_action: DELAY default_timeout_microseconds: 5 }
      priority_queue_policy { key: 2 value { max_queue_size: 7 allow_timeout_override: true } }
    }"""
    config = parse_config(PATH, text).config
    assert config is not None
    assert config.dynamic_batching is not None
    assert config.dynamic_batching.queue_policies == (
        QueuePolicy(delays=True, default_timeout_microseconds=5, allow_timeout_override=False, max_queue_size=0),
        QueuePolicy(delays=False, default_timeout_microseconds=0, allow_timeout_override=True, max_queue_size=7),
    )


def test_an_empty_version_policy_loads_all_versions() -> None:
    config = parse_config(PATH, "version_policy { }").config
    assert config is not None
    assert config.version_policy == VersionPolicy("all")


@pytest.mark.parametrize(
    ("fields", "line", "column"),
    [
        (("max_batch_size",), 3, 1),
        (("input", 0), 5, 3),
        (("input", 1, "dims"), 6, 36),
        (("input", 1, "reshape", 0, "shape"), 6, 62),
        (("ensemble_scheduling", 0, "step", 1, "model_name"), 13, 7),
        (("ensemble_scheduling", 0, "step", 1, "model_version"), 13, 5),
        (("instance_group", 0, "kind"), 9, 27),
    ],
)
def test_positions(file: ConfigFile, fields: tuple[str | int, ...], line: int, column: int) -> None:
    assert file.at(*fields) == Place(PATH, line, column)


def test_a_field_that_is_not_there_stands_for_the_whole_file(file: ConfigFile) -> None:
    assert file.at("dynamic_batching") == Place(PATH)


def test_positions_of_map_entries(file: ConfigFile) -> None:
    assert file.entry_at("two", "parameters") == Place(PATH, 21, 1)
    assert file.entry_at("other", "ensemble_scheduling", 0, "step", 1, "input_map") == Place(PATH, 15, 7)
    assert file.entry_at("no", "ensemble_scheduling", 0, "step", 1, "output_map") == Place(PATH, 16, 7)


def test_writes_tells_a_written_default_from_an_absent_field(file: ConfigFile) -> None:
    assert file.writes("ensemble_scheduling", 0, "step", 0, "model_version")
    assert not file.writes("ensemble_scheduling", 0, "step", 1, "model_version")


@pytest.mark.parametrize(
    ("value", "placeholder"),
    [
        ("${model_dir}", "${model_dir}"),
        ("/models/${NAME}/1", "${NAME}"),
        ("{{ model }}", "{{ model }}"),
        ("/models/{{ model.name }}", "{{ model.name }}"),
        ("$$TRITON_MODEL_DIRECTORY/env", None),
        ("costs $5", None),
        ("{% for m in messages %}{{ m.content }}{% endfor %}", None),
        ("{{ messages[0]['content'] }}", None),
        ("{{ bos_token + text }}", None),
    ],
)
def test_placeholders_in_strings(value: str, placeholder: str | None) -> None:
    assert find_placeholder(value) == placeholder


def test_protobufs_own_words_where_there_are_no_better_ones() -> None:
    file = parse_config(PATH, "\nmax_batch_size: 99999999999")
    assert file.config is None
    assert file.problems[0].message.endswith("Value out of range: 99999999999")
    assert file.problems[0].line == 2
