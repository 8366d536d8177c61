"""A vLLM that answers from a function, in place of the package."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from transformers import AutoTokenizer

Answer = Callable[[list[int], Any], tuple[list[int], str, str]]
"""(prompt's ids, sampling parameters) -> answer's ids, text, finish reason."""


@dataclass
class FakeVllm:
    """What the code under test asked for, and what it is answered."""

    answer: Answer
    metrics: Sequence[Any] = ()
    engines: list[dict[str, Any]] = field(default_factory=list)
    prompts: list[list[int]] = field(default_factory=list)

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        fake = self

        class LLM:
            def __init__(self, **arguments: Any) -> None:
                fake.engines.append(arguments)
                self._model = arguments["model"]

            def get_tokenizer(self) -> Any:
                return AutoTokenizer.from_pretrained(self._model)

            def generate(self, prompts: Any, parameters: Any, use_tqdm: bool = True) -> list[Any]:
                each = parameters if isinstance(parameters, list) else [parameters] * len(prompts)
                return [
                    fake._output(prompt["prompt_token_ids"], one) for prompt, one in zip(prompts, each, strict=True)
                ]

            def get_metrics(self) -> Sequence[Any]:
                return fake.metrics

        module = ModuleType("vllm")
        module.__dict__.update(LLM=LLM, SamplingParams=SimpleNamespace, __version__="0.0")
        # The code under test sets it for good.
        monkeypatch.setenv("VLLM_ENABLE_V1_MULTIPROCESSING", "0")
        monkeypatch.setitem(sys.modules, "vllm", module)

    def _output(self, prompt: list[int], parameters: Any) -> Any:
        self.prompts.append(prompt)
        ids, text, reason = self.answer(prompt, parameters)
        return SimpleNamespace(outputs=[SimpleNamespace(token_ids=ids, text=text, finish_reason=reason)])
