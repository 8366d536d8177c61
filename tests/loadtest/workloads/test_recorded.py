"""Requests out of a JSONL file: each line once in its turn, as it was written; broken lines by their number."""

from __future__ import annotations

import json
import tempfile
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loadtest.errors import LoadTestError
from loadtest.workloads.catalogue import load_workload
from loadtest.workloads.planned import PlannedRequest, Workload, stream
from tests.loadtest.workloads.tokenizers import options, words_and_marks
from tools.client.request import Message

TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=30)
MESSAGES = st.builds(
    lambda before, last: [*before, {"role": "user", "content": last}],
    st.lists(
        st.fixed_dictionaries({"role": st.sampled_from(["system", "user", "assistant"]), "content": TEXT}), max_size=3
    ),
    TEXT,
)
LINE = st.one_of(st.fixed_dictionaries({"prompt": TEXT}), st.fixed_dictionaries({"messages": MESSAGES})).flatmap(
    lambda line: st.fixed_dictionaries(
        {key: st.just(value) for key, value in line.items()},
        optional={"max_tokens": st.integers(1, 4096), "sampling": st.just({"temperature": 0.5})},
    )
)


def written(folder: Path, *lines: Any) -> str:
    file = folder / "own.jsonl"
    file.write_text("".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines), "utf-8")
    return str(file)


def first_requests(workload: Workload, sessions: int, *, user: int = 0) -> list[PlannedRequest]:
    requests = [session.next(None) for session in islice(workload.sessions(stream(0, 0, user)), sessions)]
    return [request for request in requests if request is not None]


def as_line(request: PlannedRequest) -> str:
    line: dict[str, Any] = {"max_tokens": request.max_tokens, "sampling": dict(request.sampling)}
    if request.prompt is not None:
        line["prompt"] = request.prompt
    else:
        line["messages"] = [message.as_json() for message in request.messages]
    return json.dumps(line, sort_keys=True)


@pytest.mark.slow
@settings(max_examples=40)
@given(st.lists(LINE, min_size=1, max_size=12), st.sampled_from(["\n", "\r\n", "\n\n"]), st.booleans())
def test_what_is_written_is_asked_once_in_each_round(lines: list[dict[str, Any]], end: str, ascii_only: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "own.jsonl"
        text = end.join(json.dumps(line, ensure_ascii=ascii_only) for line in lines)
        file.write_bytes(text.encode())
        workload = load_workload(options(str(file)), count_tokens=None)
        asked = [as_line(request) for request in first_requests(workload, 2 * len(lines), user=3)]
    expected = sorted(json.dumps({"max_tokens": 256, "sampling": {}, **line}, sort_keys=True) for line in lines)
    assert sorted(asked[: len(lines)]) == expected
    assert asked[len(lines) :] == asked[: len(lines)]


def test_users_walk_differently_and_each_the_same_way_again(tmp_path: Path) -> None:
    workload = load_workload(options(written(tmp_path, *({"prompt": str(at)} for at in range(500)))), count_tokens=None)
    walks = [[each.prompt for each in first_requests(workload, 40, user=user)] for user in (0, 1, 2, 0)]
    assert walks[0] == walks[3]
    assert len({tuple(walk) for walk in walks}) == 3
    assert workload.description == "The 500 requests of own.jsonl."


def test_a_sharegpt_line_asks_its_questions_one_after_the_other(tmp_path: Path) -> None:
    said = [
        {"from": "gpt", "value": "left over from before"},
        {"from": "system", "value": "Be brief.", "weight": 0},
        {"from": "human", "value": "First?"},
        {"from": "gpt", "value": "recorded"},
        {"from": "human", "value": "Second?"},
        {"from": "gpt", "value": "recorded too"},
    ]
    workload = load_workload(options(written(tmp_path, {"id": "x_0", "conversations": said})), count_tokens=None)
    session = next(workload.sessions(stream(0, 0, 0)))
    first, second = session.next(None), session.next("the model's own")
    assert first is not None
    assert second is not None
    assert first.messages == (Message("system", "Be brief."), Message("user", "First?"))
    assert second.messages == (*first.messages, Message("assistant", "the model's own"), Message("user", "Second?"))
    assert first.session == second.session
    assert session.next("again") is None


@pytest.mark.parametrize("line", [{"prompt": "p"}, {"messages": [{"role": "user", "content": "q"}]}])
def test_other_lines_are_one_request(tmp_path: Path, line: dict[str, Any]) -> None:
    session = next(load_workload(options(written(tmp_path, line)), count_tokens=None).sessions(stream(0, 0, 0)))
    assert session.next(None) is not None
    assert session.next("answer") is None


def test_a_conversation_ends_with_a_failed_turn(tmp_path: Path) -> None:
    said = [{"from": "human", "value": "First?"}, {"from": "human", "value": "Second?"}]
    workload = load_workload(options(written(tmp_path, {"conversations": said})), count_tokens=None)
    session = next(workload.sessions(stream(0, 0, 0)))
    assert session.next(None) is not None
    assert session.next(None) is None
    assert session.next("late") is None


def test_the_users_own_options_go_first(tmp_path: Path) -> None:
    line = {"prompt": "p", "max_tokens": 9, "sampling": {"temperature": 1.0, "top_p": 0.9}}
    asked = options(written(tmp_path, line), output_tokens=4, sampling={"temperature": 0.0})
    (request,) = first_requests(load_workload(asked, count_tokens=None), 1)
    assert request.max_tokens == 4
    assert request.sampling == {"temperature": 0.0, "top_p": 0.9}


GOOD = {"prompt": "p"}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "Invalid JSON: EOF while parsing an object column 1"),
        ("[{}]",
         'a JSON array, where one object a line is expected: {"messages": [{"role": "user", "content": "..."}]}, '
         '{"prompt": "..."} or {"conversations": [...]}'),
        ("7", "Input should be an object"),
        ({}, "a line has messages, prompt or conversations: this line has none of them"),
        ({"prompt": "p", "messages": [{"role": "user", "content": "q"}]},
         "a line has messages, prompt or conversations: this line has messages and prompt"),
        ({"prompt": "p", "max_token": 5}, 'unknown key "max_token": did you mean "max_tokens"?'),
        ({"prompt": "p", "max_tokens": 0}, "max_tokens: Input should be greater than or equal to 1"),
        ({"prompt": "p", "max_tokens": "5"}, "max_tokens: Input should be a valid integer"),
        ('{"prompt": "p", "sampling": {"top_p": NaN}}',
         "sampling: a sampling parameter is not finite, which JSON cannot say: leave it out"),
        ({"prompt": ""}, "prompt: String should have at least 1 character"),
        ({"prompt": "p", "sampling": {"max_tokens": 5}},
         'sampling: "max_tokens" is a key of the line, beside "sampling"'),
        ({"messages": []}, "messages: List should have at least 1 item after validation, not 0"),
        ({"messages": [{"role": "user"}]}, "messages.0.content: this key is required"),
        ({"messages": [{"role": "bot", "content": "x"}]},
         "messages.0.role: Input should be 'system', 'user' or 'assistant'"),
        ({"messages": [{"role": "user", "content": "x"}, {"role": "assistant", "content": "y"}]},
         "messages: the last message is the assistant's: the last one must be the user's, to be answered"),
        ({"conversations": [{"from": "gpt", "value": "x"}]},
         'conversations: no message is "from": "human", so nothing is asked'),
        ({"conversations": [{"from": "human", "value": ""}]}, 'conversations: a message "from": "human" is empty'),
        ({"conversations": [{"value": "x"}]}, "conversations.0.from: this key is required"),
    ],
)  # fmt: skip
def test_a_broken_line_is_named_with_its_number(tmp_path: Path, line: Any, message: str) -> None:
    path = written(tmp_path, GOOD, "", line, GOOD)
    with pytest.raises(LoadTestError) as caught:
        load_workload(options(path), count_tokens=None)
    assert str(caught.value) == f'workload file "{path}" line 3: {message}'


def test_a_file_in_another_encoding_is_named_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "own.jsonl"
    file.write_bytes(b'{"prompt": "p"}\n{"prompt": "caf\xe9"}\n')
    with pytest.raises(LoadTestError, match=r'own\.jsonl" line 2: Invalid JSON: invalid unicode code point'):
        load_workload(options(str(file)), count_tokens=None)


@pytest.mark.parametrize("text", ["", "\n \n"])
def test_an_empty_file(tmp_path: Path, text: str) -> None:
    file = tmp_path / "own.jsonl"
    file.write_text(text)
    with pytest.raises(LoadTestError) as caught:
        load_workload(options(str(file)), count_tokens=None)
    assert str(caught.value) == (
        f'workload file "{file}" is empty: write one request a line, {{"messages": [{{"role": "user", '
        '"content": "..."}]}, {"prompt": "..."} or {"conversations": [...]}'
    )


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    (tmp_path / "own.jsonl").mkdir()
    with pytest.raises(LoadTestError, match=r'own\.jsonl" cannot be read: Is a directory'):
        load_workload(options(str(tmp_path / "own.jsonl")), count_tokens=None)


def test_prompt_lengths_are_those_of_the_file(tmp_path: Path) -> None:
    path = written(tmp_path, GOOD)
    with pytest.raises(LoadTestError) as caught:
        load_workload(options(path, input_tokens=5), count_tokens=None)
    assert (
        str(caught.value)
        == f'workload "{path}" asks what its lines say, so --input-tokens does not apply: leave it out'
    )


def test_a_file_that_changes_under_the_run_is_said(tmp_path: Path) -> None:
    path = written(tmp_path, *[{"prompt": "p" * 20}] * 3)
    sessions = load_workload(options(path), count_tokens=None).sessions(stream(0, 0, 0))
    next(sessions)
    Path(path).write_text("gone")
    with pytest.raises(LoadTestError, match="is not the one that was checked when the run began: leave it alone"):
        next(sessions)


def test_the_longest_line_must_fit_the_context(tmp_path: Path) -> None:
    path = written(tmp_path, GOOD, {"prompt": "one two three four", "max_tokens": 10}, GOOD)
    workload = load_workload(options(path), count_tokens=words_and_marks)
    workload.check_context(14)
    with pytest.raises(LoadTestError) as caught:
        workload.check_context(13)
    assert str(caught.value) == (
        f'workload "{path}" line 2 has 4 prompt and 10 output tokens, 14 together, and the model\'s context has 13: '
        "shorten the line, or ask for fewer with --output-tokens"
    )
    load_workload(options(path), count_tokens=None).check_context(10)
