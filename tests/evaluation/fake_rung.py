"""A rung without a server: a character is a token, and a function answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tools.client.completion import Completion
from tools.client.contract import ModelContract, TensorSpec
from tools.client.request import GenerateRequest, Request, Target
from tools.evaluation.rung import Step

TARGET = Target("llm_fake", 1)


def completion(text: str = "", *, finish: str = "stop", prompt_logprobs: str | None = None) -> Completion:
    """An answer of which only these are looked at."""
    return Completion(
        served_by=TARGET, texts=(text,), finish_reasons=(finish,), num_input_tokens=None, num_output_tokens=1,
        ttft_s=None, tpot_s=None, e2e_s=0.0, tokens_per_s=None, itl_s=(), num_responses=1,
        prompt_logprobs=prompt_logprobs,
    )  # fmt: skip


@dataclass
class FakeRung:
    """`leading` are the special tokens before every text; `vllm` is whether it has the inputs and outputs of vLLM."""

    answer: Callable[[GenerateRequest], Completion] = lambda _: completion()
    leading: Sequence[int] = ()
    vllm: bool = True
    asked: list[Request] = field(default_factory=list)

    @property
    def contract(self) -> ModelContract:
        names = ["return_logprobs"] if self.vllm else []
        outputs = ["prompt_logprobs"] if self.vllm else []
        return ModelContract(
            name=TARGET.model,
            batched=False,
            decoupled=True,
            inputs={name: TensorSpec(name, "BOOL", (1,), optional=True) for name in names},
            outputs={name: TensorSpec(name, "BYTES", (1,), optional=False) for name in outputs},
            parameters={},
        )

    async def complete(self, request: Request) -> Completion:
        self.asked.append(request)
        assert isinstance(request, GenerateRequest)
        return self.answer(request)

    async def complete_all(self, requests: Sequence[Request], step: Step) -> list[Completion]:
        answers = []
        for request in requests:
            answers.append(await self.complete(request))
            step()
        return answers

    async def tokenize(self, text: str) -> list[int]:
        return [*self.leading, *map(ord, text)]


def no_step() -> None:
    """Nobody watches."""
