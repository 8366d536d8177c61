"""The code at the end of an error's text."""

from __future__ import annotations

from typing import get_args

import pytest

from tools.wire.error_codes import GRPC_NAMES, ErrorCode, split_code, with_code


def test_every_code_has_its_name() -> None:
    assert set(GRPC_NAMES) == set(get_args(ErrorCode))


@pytest.mark.parametrize("code", GRPC_NAMES)
def test_what_was_put_together_comes_apart(code: ErrorCode) -> None:
    said = with_code('the engine [died]\nof "x"', code)
    assert split_code(said) == ('the engine [died]\nof "x"', GRPC_NAMES[code])
    # An ensemble writes before it, nothing after it.
    assert split_code(f"in ensemble 'chat_bf16', {said}")[1] == GRPC_NAMES[code]


@pytest.mark.parametrize("text", ["", "no such model", "tensor [1, 2]", "a [UNAVAILABLE] b", "it is [unavailable]"])
def test_other_texts_stay_as_they_are(text: str) -> None:
    assert split_code(text) == (text, None)
