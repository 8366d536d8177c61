"""The format suite's cases: what passes, and the words for what does not."""

from __future__ import annotations

import asyncio

import pytest

from tests.evaluation.fake_rung import FakeRung, completion, no_step
from tools.evaluation.format_cases import JsonCase, RepetitionCase, StopCase, ToolCallCase, cases, loop_in
from tools.evaluation.format_suite import measure_format

JSON = JsonCase(kind="json", name="j", prompt="p", keys={"city": "string", "count": "number", "open": "boolean"})
TOOL = ToolCallCase(kind="tool_call", name="t", prompt="p", tools={"add": {"a": "number"}, "now": {}})
STOP = StopCase(kind="stop", name="s", prompt="p", stop=("end", "</b>"))
TALK = RepetitionCase(kind="repetition", name="r", question="q")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (' {"city": "Oslo", "count": 2, "open": true}', None),
        ('{"open": false, "count": 2.5, "city": ""}', None),
        ('{"city": "Oslo", "count": 2', "it is no JSON ("),
        ('{"city": "Oslo", "count": 2, "open": true} and', "it is no JSON ("),
        ("[1]", 'it is JSON, but no object: "[1]"'),
        ('{"city": "Oslo"}', "its keys are city, not city, count, open"),
        ("{}", "its keys are none, not city, count, open"),
        ('{"city": "Oslo", "count": "2", "open": true}', 'its "count" is ""2"", not a number'),
        ('{"city": "Oslo", "count": true, "open": true}', 'its "count" is "true", not a number'),
        ('{"city": "Oslo", "count": 2, "open": 1}', 'its "open" is "1", not a boolean'),
    ],
)
def test_json(text: str, problem: str | None) -> None:
    found = JSON.problem(completion(text))
    assert found == problem or (found is not None and problem is not None and found.startswith(problem))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('{"name": "add", "arguments": {"a": 2}}', None),
        ('{"arguments": {}, "name": "now"}', None),
        ("add(2)", "it is no JSON ("),
        ('{"name": "add", "arguments": {"a": 2}, "id": 1}', 'it is not of the form {"name": ..., "arguments": {...}}'),
        ('{"name": "add", "arguments": [2]}', 'it is not of the form {"name": ..., "arguments": {...}}'),
        ('{"name": "sub", "arguments": {"a": 2}}', 'it calls "sub", which is none of the tools add, now'),
        ('{"name": ["add"], "arguments": {"a": 2}}', 'it calls ["add"], which is none of the tools add, now'),
        ('{"name": "add", "arguments": {"b": 2}}', "its keys are b, not a"),
    ],
)
def test_tool_call(text: str, problem: str | None) -> None:
    found = TOOL.problem(completion(text))
    assert found == problem or (found is not None and problem is not None and found.startswith(problem))


@pytest.mark.parametrize(
    ("text", "finish", "problem"),
    [
        (" and so on ", "stop", None),
        (" and so on end", "stop", 'the stop word "end" is in the text'),
        (" and so on", "length", 'no stop word came within 64 tokens: "and so on"'),
        ("\n", "stop", "nothing stands before the stop word"),
    ],
)
def test_stop_words(text: str, finish: str, problem: str | None) -> None:
    assert STOP.problem(completion(text, finish=finish)) == problem


@pytest.mark.parametrize(
    ("text", "run"),
    [
        ("a " * 12, "a"),
        ("a " * 11, None),
        ("it was very, very, very, very, very cold", None),
        ("start " + "I do not know. " * 4, "I do not know."),
        ("start " + "I do not know. " * 3, None),
        ("one two three " * 4 + "and then it ends well", "one two three"),
        ("- a red apple\n- a red pear\n- a red plum\n- a red rose\n- a red hat\n", None),
        ("", None),
    ],
)
def test_loops(text: str, run: str | None) -> None:
    found = loop_in(text)
    assert (found is None) == (run is None)
    if found is not None and run is not None:
        # Which word of the loop comes first is of no matter.
        assert sorted(found.split()) == sorted(run.split())


def test_a_loop_and_an_empty_answer_are_problems() -> None:
    assert TALK.problem(completion("Well, it depends.")) is None
    assert TALK.problem(completion(" ")) == "the answer is empty"
    assert TALK.problem(completion("no " * 20)) == 'it repeats "no"'


def test_the_suite_counts_by_kind_and_keeps_the_reasons() -> None:
    rung = FakeRung(lambda request: completion("no json" if request.prompt == "p" else "", finish="stop"))
    found = asyncio.run(measure_format(rung, [JSON, STOP], no_step))
    assert found.passed_percent == 50
    assert {kind: (of.cases, of.passed) for kind, of in found.kinds.items()} == {"json": (1, 0), "stop": (1, 1)}
    assert found.kinds["json"].failures == {"j": 'it is no JSON (Expecting value: line 1 column 1 (char 0)): "no json"'}


def test_the_shipped_cases_have_names_of_their_own_and_are_greedy() -> None:
    shipped = cases()
    assert len({case.name for case in shipped}) == len(shipped)
    assert {case.kind for case in shipped} == {"json", "tool_call", "stop", "repetition"}
    assert all(case.request().sampling["temperature"] == 0 for case in shipped)
