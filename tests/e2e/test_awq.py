"""The AWQ rung as it is served."""

from __future__ import annotations

import re

from tests.e2e.asking import Triton, Way, text_of
from tests.e2e.deployment import Deployment
from tests.e2e.rungs import AWQ, sampling

PROMPT = "<|im_start|>user\nWhat is the capital of France?<|im_end|>\n<|im_start|>assistant\n"


def test_it_answers_in_coherent_words(triton: Triton) -> None:
    story = {"text_input": "Once upon a time, there was a little girl who", "sampling_parameters": sampling(64)}
    told = text_of(triton.ask(Way.GENERATE, AWQ, story | {"exclude_input_in_output": True}))
    words = re.findall(r"[A-Za-z']+", told.lower())
    assert len(words) > 30
    # Noise is made of rare pieces or of one piece repeated; English of common words, few of them twice in a row.
    assert len(set(words)) > 0.4 * len(words)
    assert sum(word in {"the", "a", "and", "to", "of", "was", "her", "she", "in"} for word in words) > 0.2 * len(words)


def test_it_knows_what_the_original_knows(triton: Triton) -> None:
    asked = {"text_input": PROMPT, "sampling_parameters": sampling(24), "exclude_input_in_output": True}
    assert "Paris" in text_of(triton.ask(Way.GENERATE, AWQ, asked))


def test_vllm_detected_awq_by_itself(server: Deployment) -> None:
    [line] = [
        line for line in server.log.splitlines() if "quantization=" in line and "smollm2-135m-instruct-awq" in line
    ]
    assert re.search(r"quantization=\w*awq\b", line)
    assert "dtype=torch.float16" in line
