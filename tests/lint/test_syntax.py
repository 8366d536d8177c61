"""The forgiving parser: every mistake is named where it stands, and mended where that needs no guess."""

from __future__ import annotations

import pytest
from google.protobuf import text_format
from tritonclient.grpc import model_config_pb2

from tools.lint.mistakes import Mistake
from tools.lint.syntax import ParsedText, parse_forgiving


def parse(text: str) -> ParsedText:
    return parse_forgiving(text, model_config_pb2.ModelConfig.DESCRIPTOR)


def strict(text: str) -> model_config_pb2.ModelConfig:
    return text_format.Parse(text, model_config_pb2.ModelConfig())


VALID = """
# a comment with "quotes" and { braces
name: 'm'
backend: "py" "thon"   # two strings make one
max_batch_size: 0x10;
input [ { name: "a", data_type: TYPE_FP32 dims: [ -1, 2 ] }, < name: "b" data_type: 13 dims: [ ] > ]
input { name: "c" data_type: TYPE_BOOL dims: 1 dims: 2 }
parameters: { key: "k", value: { string_value: "a\\"b\\n" } }
model_transaction_policy { decoupled: t }
optimization { graph { level: -1 } }
model_metrics { metric_control { histogram_options { buckets: [ .5, 1e3, -2, inf, -Infinity ] } } }
"""


def test_valid_text_has_no_problems() -> None:
    strict(VALID)
    assert parse(VALID).problems == ()


def test_mended_text_of_valid_text_means_the_same() -> None:
    mended = parse(VALID).mended
    assert mended is not None
    assert strict(mended) == strict(VALID)


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        (
            "dynamic batching { max_queue_delay_microseconds: 5 }",
            "dynamic_batching { max_queue_delay_microseconds: 5 }",
        ),
        ("version policy { all { } }", "version_policy { all { } }"),
        ('input { data_type: "TYPE_FP32" }', "input { data_type: TYPE_FP32 }"),
        ("instance_group { kind: kind_model }", "instance_group { kind: KIND_MODEL }"),
        ('parameters { key: "a" value: "b" }', 'parameters { key: "a" value { string_value: "b" } }'),
        ('parameters { key: "a" value: 4 }', 'parameters { key: "a" value { string_value: "4" } }'),
        ("max_batch_size: 4 max_batch_size: 5", "max_batch_size: 4"),
        ("input { dims: [ 1, ] }", "input { dims: [ 1 ] }"),
        ("input [ { dims: 1 }, ]", "input { dims: 1 }"),
        ('max_batch_size: "4"', "max_batch_size: 4"),
        ('model_transaction_policy { decoupled: "True" }', "model_transaction_policy { decoupled: true }"),
        ("name: m", 'name: "m"'),
        ("max_batch_size = 4", "max_batch_size: 4"),
        ("max_batch_size 4", "max_batch_size: 4"),
        ("input { dims: [ 1 2 ] }", "input { dims: [ 1, 2 ] }"),
        ('// c\nname: "m" // d', 'name: "m"'),
    ],
)
def test_mends_what_needs_no_guess(wrong: str, right: str) -> None:
    with pytest.raises(text_format.ParseError):
        strict(wrong)
    mended = parse(wrong).mended
    assert mended is not None
    assert strict(mended) == strict(right)


@pytest.mark.parametrize(
    ("text", "mistake"),
    [
        ("max_batch_sizes: 4", Mistake.UNKNOWN_FIELD),
        ("max_batch_size: ${x}", Mistake.PLACEHOLDER),
        ("max_batch_size: {{ x }}", Mistake.PLACEHOLDER),
        ("input {{ x }}", Mistake.PLACEHOLDER),
        ("dynamic_batching { } sequence_batching { }", Mistake.SECOND_OF_ONEOF),
        ("input { name: 'a'", Mistake.UNBALANCED),
        ("input { data_type: TYPE_WHATEVER }", Mistake.UNKNOWN_ENUM),
        ("max_batch_size: 1.5", Mistake.WRONG_TYPE),
        ("max_batch_size: { }", Mistake.WRONG_TYPE),
        ("input: 4", Mistake.WRONG_TYPE),
        ("max_batch_size:", Mistake.OTHER),
        ('ensemble_scheduling { step { input_map { "a": "b" } } }', Mistake.JSON),
    ],
)
def test_does_not_guess(text: str, mistake: Mistake) -> None:
    parsed = parse(text)
    assert mistake in {problem.mistake for problem in parsed.problems}
    assert parsed.mended is None


def test_goes_on_behind_a_mistake() -> None:
    parsed = parse('backnd: "x" { y: 1 }\ndynamic batching { }\nmax_batch_size: "4"\nfoo bar { baz: 1 }\nname: x')
    found = [(problem.line, problem.mistake) for problem in parsed.problems]
    assert found[0] == (1, Mistake.UNKNOWN_FIELD)
    assert (2, Mistake.BLANK_IN_NAME) in found
    assert (3, Mistake.WRONG_TYPE) in found
    assert (4, Mistake.UNKNOWN_FIELD) in found
    assert found[-1] == (5, Mistake.WRONG_TYPE)


def test_stops_naming_mistakes_in_what_is_no_config() -> None:
    assert len(parse("? " * 10_000).problems) == 40


@pytest.mark.parametrize(
    "text", ["input { dims: [ ; > ] }", "input [ > ]", "[", "input [", "name: [", "}}}>>>", "-", "name: -"]
)
def test_comes_to_an_end(text: str) -> None:
    assert parse(text).problems
