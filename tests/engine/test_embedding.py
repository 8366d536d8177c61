from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools.engine.embedding import EmbeddingRequest
from tools.engine.errors import RequestError


@pytest.mark.parametrize(
    ("text", "parsed"),
    [
        ('{"input": "Hi"}', EmbeddingRequest("Hi", None, None)),
        ('{"input": [1, 2]}', EmbeddingRequest(None, [1, 2], None)),
        ('{"input": "Hi", "pooling_params": {}}', EmbeddingRequest("Hi", None, None)),
        ('{"input": "Hi", "pooling_params": {"dimensions": 64}}', EmbeddingRequest("Hi", None, 64)),
        ('{"input": "Hi", "pooling_params": {"dimensions": [64]}}', EmbeddingRequest("Hi", None, 64)),
        ('{"input": "Hi", "pooling_params": {"dimensions": null}}', EmbeddingRequest("Hi", None, None)),
    ],
)
def test_text_or_tokens(text: str, parsed: EmbeddingRequest) -> None:
    assert EmbeddingRequest.parse(text) == parsed


NOT_INPUT = '"input" of "embedding_request" must be a text or a list of token ids, and not empty'
DIMENSIONS = '"dimensions" of "embedding_request" is {}: it takes a whole number, 1 or more'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", '"embedding_request" is not valid JSON: Expecting property name'),
        ("[" * 100_000, '"embedding_request" is not valid JSON: maximum recursion depth'),
        (r'{"input": "\ud800"}', '"embedding_request" is not valid JSON: half a surrogate pair is no character'),
        ("[1]", '"embedding_request" must be a JSON object such as {"input": "text"}'),
        ("{}", NOT_INPUT),
        ('{"input": ""}', NOT_INPUT),
        ('{"input": []}', NOT_INPUT),
        ('{"input": ["a"]}', NOT_INPUT),
        ('{"input": [true]}', NOT_INPUT),
        ('{"input": 5}', NOT_INPUT),
        ('{"input": "a", "pooling_params": 5}', '"pooling_params" of "embedding_request" must be a JSON object'),
        ('{"input": "a", "pooling_params": {"dimensions": 0}}', DIMENSIONS.format("0")),
        ('{"input": "a", "pooling_params": {"dimensions": "8"}}', DIMENSIONS.format('"8"')),
        ('{"input": "a", "pooling_params": {"dimensions": [1, 2]}}', DIMENSIONS.format("[1, 2]")),
        ('{"input": "a", "pooling_params": {"dimensions": true}}', DIMENSIONS.format("true")),
    ],
)
def test_what_is_wrong_is_named(text: str, message: str) -> None:
    with pytest.raises(RequestError) as caught:
        EmbeddingRequest.parse(text)
    assert str(caught.value).startswith(message)
    assert caught.value.code == "INVALID_ARG"


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["input", "dimensions"]), inner),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(["input", "pooling_params"]), values) | values)
def test_arbitrary_json_is_read_or_refused(value: object) -> None:
    try:
        parsed = EmbeddingRequest.parse(json.dumps(value))
    except RequestError as error:
        error.as_failure().message.encode()
    else:
        assert (parsed.text is None) != (parsed.token_ids is None)
