"""The checks against a tokenizer made in memory, right at first and then with one thing wrong at a time."""

from __future__ import annotations

from typing import Any

import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from tools.artifacts.errors import ArtifactError
from tools.artifacts.tokenizer_checks import TURN_END, TURN_START, check_tokenizer

CHATML = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def make(
    *,
    special: tuple[str, ...] = (TURN_START, TURN_END),
    eos: str = TURN_END,
    template: str | None = CHATML,
    digits: bool = True,
    lossless: bool = True,
) -> Any:
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = sorted(byte_level.alphabet())
    newline = "\u010a"
    vocabulary = {token: index for index, token in enumerate([TURN_START, TURN_END, *alphabet, newline * 2])}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[(newline, newline)]))
    steps = [pre_tokenizers.Digits(individual_digits=True)] if digits else []
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([*steps, byte_level])
    if lossless:
        tokenizer.decoder = decoders.ByteLevel()
    made = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token=eos)
    made.add_special_tokens({"additional_special_tokens": list(special)})
    made.chat_template = template
    return made


def test_a_right_tokenizer_passes() -> None:
    check_tokenizer(make())


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ({"special": (TURN_START,), "eos": "<|x|>"}, '"<|im_end|>" is not one token'),
        ({"eos": TURN_START}, 'its end of sequence is "<|im_start|>", not "<|im_end|>": answers would not end'),
        ({"template": None}, "it has no chat template"),
        ({"template": "{{ messages[0].content }}"}, "its chat template is not ChatML: one turn becomes 'Hi'"),
        ({"digits": False}, "it does not split digits off before it splits words"),
        ({"lossless": False}, "encoding and decoding 'Plain text"),
    ],
)
def test_what_is_wrong_is_named(wrong: dict[str, Any], reason: str) -> None:
    with pytest.raises(ArtifactError) as refusal:
        check_tokenizer(make(**wrong))
    assert reason in str(refusal.value)
