"""What a ChatML tokenizer must do. A wrong one loads without a word, and the model then answers nonsense."""

from __future__ import annotations

from typing import Any, Final

from tools.artifacts.errors import ArtifactError

TURN_START: Final = "<|im_start|>"
TURN_END: Final = "<|im_end|>"
SAMPLES: Final = (
    "Plain text, twice  spaced.\n\tIndented.",
    "你好，世界。café naïve e\u0301",
    "🙂 👩\u200d👩\u200d👧 🇩🇪",
    " 2024-11-30\n\n1. one\n 2. two",
)


def check_tokenizer(tokenizer: Any) -> None:
    """`tokenizer` has transformers' interface. Raises ArtifactError naming the first thing that is wrong."""
    for token in (TURN_START, TURN_END):
        ids = tokenizer.encode(f"{token}x", add_special_tokens=False)
        if tokenizer.convert_ids_to_tokens(ids[:1]) != [token]:
            raise _wrong(f'"{token}" is not one token')
        if tokenizer.decode(ids, skip_special_tokens=True) != "x":
            raise _wrong(f'"{token}" is not marked as special, so it would show in answers')
    if tokenizer.eos_token != TURN_END:
        raise _wrong(f'its end of sequence is "{tokenizer.eos_token}", not "{TURN_END}": answers would not end')
    for text in SAMPLES:
        ids = tokenizer.encode(text)
        if tokenizer.decode(ids) != text:
            raise _wrong(f"encoding and decoding {text!r} gives {tokenizer.decode(ids)!r}")
    if len(tokenizer.tokenize("\n\n12")) != 3:
        raise _wrong("it does not split digits off before it splits words")
    conversation = [{"role": "user", "content": "Hi"}]
    if not tokenizer.chat_template:
        raise _wrong("it has no chat template")
    prompt = tokenizer.apply_chat_template(conversation, tokenize=False, add_generation_prompt=True)
    if not prompt.endswith(f"{TURN_START}user\nHi{TURN_END}\n{TURN_START}assistant\n"):
        raise _wrong(f"its chat template is not ChatML: one turn becomes {prompt!r}")


def _wrong(what: str) -> ArtifactError:
    return ArtifactError(f"the tokenizer is unusable: {what}: report this as a bug")
