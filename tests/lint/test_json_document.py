"""JSON with positions."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.lint.findings import Place
from tools.lint.json_document import parse_json

PATH = Path("model.json")
TEXT = """{
  "model": "a \\" b: {",
  "speculative_config": { "method": "eagle3",
    "layers": [ 1, { "deep": true }, "x" ] },
  "\\u0061": null
}"""


def test_positions() -> None:
    document = parse_json(PATH, TEXT)
    assert document.object is not None
    assert document.at("model") == Place(PATH, 2, 3)
    assert document.at("speculative_config", "method") == Place(PATH, 3, 27)
    assert document.at("speculative_config", "layers", 1, "deep") == Place(PATH, 4, 22)
    assert document.at("a") == Place(PATH, 5, 3)


def test_a_key_that_is_not_there_stands_at_what_would_hold_it() -> None:
    document = parse_json(PATH, TEXT)
    assert document.at("speculative_config", "model") == Place(PATH, 3, 3)
    assert document.at("nothing") == Place(PATH)


def test_strings_with_their_paths() -> None:
    strings = dict(parse_json(PATH, TEXT).strings())
    assert strings == {
        ("model",): 'a " b: {',
        ("speculative_config", "method"): "eagle3",
        ("speculative_config", "layers", 2): "x",
    }


def test_duplicate_keys_only_within_one_object() -> None:
    document = parse_json(PATH, '{"a": {"b": 1}, "c": {"b": 1},\n "a": 2}')
    assert [(duplicate.key, duplicate.place.line) for duplicate in document.duplicates] == [("a", 2)]


@pytest.mark.parametrize(
    ("text", "says", "line"),
    [
        ("", "the file is empty", 1),
        ("{\n 'a': 1}", "JSON strings stand in double quotes", 2),
        ('{"a": 1 // b\n}', "JSON has no comments", 1),
        ('{"a": ${x}}', "a template placeholder was not rendered here", 1),
        ('{"a": {{ x }}}', "a template placeholder was not rendered here", 1),
        ('{"a": [1,]}', "there is a comma after the last element", 1),
        ('{"a": None}', "Python's True, False and None", 1),
        ("\ufeff{}", "unexpected UTF-8 BOM", 1),
        ('{"a":' * 100_000, "nested too deeply", 1),
        ("1" * 5000, "4300 digits", 1),
    ],
)
def test_problems(text: str, says: str, line: int) -> None:
    document = parse_json(PATH, text)
    assert document.object is None
    assert document.problem is not None
    assert says in document.problem.message
    assert document.problem.line == line
    assert list(document.strings()) == []
