from __future__ import annotations

import pytest

from tools.engine.errors import RequestError
from tools.engine.prompt_tokens import check_tokens


@pytest.mark.parametrize("ids", [[0], [9], [0, 9, 3], [1] * 7])
def test_a_prompt_that_fits_is_taken(ids: list[int]) -> None:
    check_tokens(ids, "input_ids", max_model_len=8, vocab_size=10)


@pytest.mark.parametrize(
    ("ids", "says"),
    [
        ([], '"input_ids" is empty: a prompt needs at least one token'),
        (
            [1] * 8,
            '"input_ids" has 8 tokens: the context takes 8, of which at least one is for the answer, so at most 7',
        ),
        ([1, 10], '"input_ids" has the token 10: the vocabulary is 0 to 9'),
        ([-1, 3], '"input_ids" has the token -1: the vocabulary is 0 to 9'),
    ],
)
def test_others_are_refused(ids: list[int], says: str) -> None:
    with pytest.raises(RequestError) as refused:
        check_tokens(ids, "input_ids", max_model_len=8, vocab_size=10)
    assert str(refused.value) == says
    assert refused.value.code == "INVALID_ARG"


def test_tokens_of_the_tokenizer_itself_need_no_vocabulary() -> None:
    check_tokens([10**6], "text_input", max_model_len=8, vocab_size=None)
