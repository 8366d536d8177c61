from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools.engine.chat.conversation import ROLES, check_encodable, parse_messages
from tools.engine.errors import RequestError

EXAMPLE = '[{"role": "user", "content": "Hello"}]'
ALLOWED = '"system", "user", "assistant"'
TAKES = 'a string or a list of {"type": "text", "text": ...} parts'


def refusal(text: str) -> str:
    with pytest.raises(RequestError) as refused:
        parse_messages(text)
    assert refused.value.code == "INVALID_ARG"
    return str(refused.value)


def test_a_conversation_is_read_as_it_stands() -> None:
    conversation = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "你好"},
        {"role": "assistant", "content": "嗨"},
        {"role": "user", "content": " "},
    ]
    assert parse_messages(json.dumps(conversation)) == conversation


def test_text_parts_are_joined_by_lines() -> None:
    parts = [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]
    assert parse_messages(json.dumps([{"role": "user", "content": parts}])) == [{"role": "user", "content": "one\ntwo"}]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", '"messages" is not valid JSON (Expecting value: line 1 column 1 (char 0)): ""'),
        ("[{'role'}]", '"messages" is not valid JSON (Expecting property name enclosed in double quotes'),
        ('{"role": "user"}', f'"messages" must be a JSON list such as {EXAMPLE}, got {{"role": "user"}}'),
        ('"hi"', f'"messages" must be a JSON list such as {EXAMPLE}, got "hi"'),
        ("[]", f'"messages" is an empty list: it takes at least one message, such as {EXAMPLE}'),
        ("[" * 100_000, '"messages" is not valid JSON ('),
    ],
)
def test_what_is_no_list_of_messages_is_refused(text: str, says: str) -> None:
    assert refusal(text).startswith(says)


USER = {"role": "user", "content": "Hi"}


@pytest.mark.parametrize(
    ("messages", "says"),
    [
        (["Hi"], 'message 0 is "Hi": it must be an object such as {"role": "user", "content": "Hello"}'),
        ([USER, None], 'message 1 is null: it must be an object such as {"role": "user", "content": "Hello"}'),
        ([{"content": "Hi"}], f'message 0 has no "role": it takes one of {ALLOWED}'),
        ([USER, {**USER, "role": "bot"}], f'message 1 has the role "bot": it takes one of {ALLOWED}'),
        ([{**USER, "role": 5}], f"message 0 has the role 5: it takes one of {ALLOWED}"),
        ([{**USER, "role": ["user"]}], f'message 0 has the role ["user"]: it takes one of {ALLOWED}'),
        ([USER, {**USER, "role": "system"}], 'message 1 has the role "system": only message 0 may have it'),
        ([{"role": "user"}], f'message 0 ("user") has no "content": it takes {TAKES}'),
        ([{**USER, "content": None}], f'message 0 ("user"): "content" is null: it takes {TAKES}'),
        ([{**USER, "content": 5}], f'message 0 ("user"): "content" is 5: it takes {TAKES}'),
        (
            [USER, {"role": "assistant", "content": ""}],
            'message 1 ("assistant"): "content" is empty: leave the message',
        ),
        ([{**USER, "content": []}], 'message 0 ("user"): "content" is empty: leave the message out or write something'),
        ([{**USER, "contents": "x"}], 'message 0 has the unknown key "contents": did you mean "content"?'),
        ([{**USER, "tool_calls": []}], 'message 0 has the unknown key "tool_calls": it takes "role" and "content"'),
        (
            [{**USER, "content": [{"type": "text", "text": "a"}, {"type": "image_url", "image_url": {}}]}],
            'message 0 ("user"): content part 1 has the type "image_url": only "text" is taken',
        ),
        (
            [{**USER, "content": ["a"]}],
            'message 0 ("user"): content part 0 is "a": it takes {"type": "text", "text": ...}',
        ),
        (
            [{**USER, "content": [{"type": "text"}]}],
            'message 0 ("user"): content part 0 needs a string "text", got null',
        ),
    ],
)
def test_a_wrong_message_is_named_with_its_index_role_and_value(messages: list[Any], says: str) -> None:
    assert refusal(json.dumps(messages)).startswith(says)


def test_half_a_surrogate_pair_is_refused() -> None:
    says = refusal('[{"role": "user", "content": "ok \\ud83d"}]')
    assert says == (
        'message 0 ("user"): "content" holds half a surrogate pair (\\ud83d at character 3): '
        "it is no character, send both halves"
    )
    assert parse_messages('[{"role": "user", "content": "\\ud83d\\ude42"}]')[0]["content"] == "🙂"


def test_half_a_surrogate_pair_in_a_refused_value_is_shown_as_ascii() -> None:
    says = refusal('[{"role": "\\ud83d", "content": "x"}]')
    assert says.encode().startswith(b'message 0 has the role "\\ud83d"')


@pytest.mark.parametrize("text", ["", "plain", "🙂"])
def test_whole_characters_pass(text: str) -> None:
    check_encodable(text, "x")


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
)
messages = st.lists(
    st.fixed_dictionaries(
        {"role": st.sampled_from([*ROLES, "bot"]) | json_values, "content": st.text() | json_values},
        optional={"name": json_values},
    )
)


@pytest.mark.slow
@given(messages | json_values)
def test_any_json_is_either_a_conversation_or_refused(value: Any) -> None:
    refused = None
    conversation = []
    try:
        conversation = parse_messages(json.dumps(value))
    except RequestError as error:
        refused = error
    if refused is not None:
        assert refused.code == "INVALID_ARG"
        assert str(refused).encode()
    else:
        assert conversation
        assert all(message["role"] in ROLES and message["content"] for message in conversation)
