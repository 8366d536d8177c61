"""Quoting: any text survives the way through the template into the language of the file."""

from __future__ import annotations

import json

import jinja2
import pytest
from google.protobuf import text_format
from hypothesis import example, given
from hypothesis import strategies as st
from tritonclient.grpc import model_config_pb2

from tools.rendering.environment import json_text, pbtxt_string, template_environment

ANY_TEXT = st.text(st.characters(exclude_categories=["Cs"]))


@given(ANY_TEXT)
@example('say "hi"\\ \n\r\t\x00\x01\x7f7 \u2028 你好 🦙 é')
@example("{{ profile }} {% raw %} #}")
@example("\x0012")
def test_any_text_survives_protobufs_text_format(text: str) -> None:
    quoted = pbtxt_string(text)
    assert "\n" not in quoted
    config = text_format.Parse(f"name: {quoted}", model_config_pb2.ModelConfig())
    assert config.name == text


@given(st.recursive(st.none() | st.booleans() | st.integers() | ANY_TEXT, lambda inner: st.lists(inner), max_leaves=10))
def test_any_value_survives_json(value: object) -> None:
    assert json.loads(json_text(value)) == value


@pytest.mark.parametrize("function", [pbtxt_string, json_text])
def test_a_lone_surrogate_is_refused(function: object) -> None:
    assert callable(function)
    with pytest.raises(UnicodeEncodeError):
        function("\ud800")


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_numbers_that_json_lacks_are_refused(number: float) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        json_text(number)


def test_json_keeps_the_order_of_keys() -> None:
    assert json_text({"b": 1, "a": "é"}) == '{\n  "b": 1,\n  "a": "é"\n}'


def test_an_undefined_name_fails() -> None:
    with pytest.raises(jinja2.UndefinedError, match="'nothing' is undefined"):
        template_environment().from_string("{{ nothing }}").render()


def test_an_undefined_attribute_fails() -> None:
    with pytest.raises(jinja2.UndefinedError, match="has no attribute 'nmae'"):
        template_environment().from_string("{{ tensor.nmae }}").render(tensor=object())


def test_every_template_compiles() -> None:
    environment = template_environment()
    names = environment.list_templates()
    assert "macros.j2" in names
    for name in names:
        environment.get_template(name)
