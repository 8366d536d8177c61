"""The target answers prompts, by vLLM: the data of self-distillation.

One process is one engine. A model this small keeps a GPU waiting for Python, so several processes write side by side
(`writing.py`), each its own shards.
"""

from __future__ import annotations

import itertools
import os
import random
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from tools.drafting.conversations import Conversation, is_unseen, normalised, shards_in, write_shard
from tools.drafting.errors import DraftError

SELF_WRITTEN: Final = "user turns written by the target"
_KV_CACHE_BYTES: Final = 12 << 30
_LONGEST_PROMPT: Final = 160
_SENTINEL: Final = "\N{WHITE SQUARE}"
# Half of the answers as `ask` gives them, half with the variety that a client's own sampling brings.
_TEMPERATURES: Final = (0.0, 0.7)


class WritingSettings(BaseModel):
    """How conversations are written, whether by one engine or by several."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    tokens: int = Field(description="answer tokens, those of earlier runs included")
    seconds: float = Field(1e9, description="no new batch after this")
    longest: int = Field(512, description="tokens of a conversation, prompt included")
    at_once: int = Field(64, description="conversations that an engine answers and writes together")
    seed: int = 0
    prompts: Path | None = Field(None, description="a prompt a line; without it the target writes the user's turns")


class WriterSettings(WritingSettings):
    """One engine's share: it writes shards until it has `tokens` of its own or `seconds` have passed.

    `writer` of `writers` takes every so many-th prompt of `prompts`.
    """

    target: Path
    target_sha256: str
    folder: Path
    writer: int
    writers: int


def write_conversations(settings: WriterSettings) -> None:
    """Raises DraftError for a prompt file that yields nothing."""
    deadline = time.monotonic() + settings.seconds
    written = _Shards(settings)
    engine = _Engine(settings, seed=settings.seed + settings.writer + 1000 * written.count)
    for prompts in engine.batches_of_prompts():
        written.add(engine.answered(prompts))
        if written.tokens >= settings.tokens or time.monotonic() > deadline:
            return


def read_prompts(file: Path) -> list[str]:
    """One prompt a line, empty lines left out, each once. Raises DraftError."""
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise DraftError(
            f'prompt file "{file}" cannot be read ({error}): name a UTF-8 text, a prompt a line'
        ) from error
    prompts = list(dict.fromkeys(line.strip() for line in lines if line.strip()))
    if not prompts:
        raise DraftError(f'prompt file "{file}" holds no prompt: write one a line')
    return prompts


class _Shards:
    """What this writer has on disk, from earlier runs too."""

    def __init__(self, settings: WriterSettings) -> None:
        self._settings = settings
        self._origin = SELF_WRITTEN if settings.prompts is None else settings.prompts.name
        self.tokens = 0
        self.count = len(shards_in(settings.folder, settings.writer))

    def add(self, conversations: Sequence[Conversation]) -> None:
        if not conversations:
            return
        settings = self._settings
        write_shard(
            settings.folder,
            settings.writer,
            conversations,
            target_sha256=settings.target_sha256,
            origin=self._origin,
        )
        self.tokens += sum(len(conversation.answer) for conversation in conversations)


class _Engine:
    """vLLM in this process, so that ending the process ends all of it."""

    def __init__(self, settings: WriterSettings, seed: int) -> None:
        os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
        import torch
        from vllm import LLM

        self._settings = settings
        self._random = random.Random(seed)  # noqa: S311  # shuffles prompts
        self._asked: set[str] = set()
        # Its sizes are given, not measured: engines that start together would measure each other.
        device: dict[str, Any] = (
            {"kv_cache_memory_bytes": _KV_CACHE_BYTES, "gpu_memory_utilization": 0.05}
            if torch.cuda.is_available()
            else {}
        )
        self._llm = LLM(
            model=str(settings.target),
            dtype="bfloat16",
            max_model_len=settings.longest,
            max_num_seqs=min(settings.at_once, 1024),
            enforce_eager=True,
            seed=seed,
            disable_log_stats=True,
            **device,
        )
        self._tokenizer = self._llm.get_tokenizer()

    def batches_of_prompts(self) -> Iterator[list[str]]:
        """Prompts that this engine was not asked yet; without end when the target writes them."""
        settings = self._settings
        if settings.prompts is None:
            while True:
                yield self._self_written(settings.at_once)
        mine = read_prompts(settings.prompts)[settings.writer :: settings.writers]
        self._random.shuffle(mine)
        for start in range(0, len(mine), settings.at_once):
            yield mine[start : start + settings.at_once]

    def answered(self, prompts: Sequence[str]) -> list[Conversation]:
        """The conversations that fit, an answer of at least two tokens each."""
        from vllm import SamplingParams

        rendered = [(prompt, self._rendered(prompt)) for prompt in prompts]
        fitting = [(prompt, ids) for prompt, ids in rendered if len(ids) <= _LONGEST_PROMPT]
        if not fitting:
            return []
        parameters = [
            SamplingParams(temperature=temperature, max_tokens=self._settings.longest - len(ids), detokenize=False)
            for (_, ids), temperature in zip(fitting, itertools.cycle(_TEMPERATURES), strict=False)
        ]
        outputs = self._llm.generate(
            [{"prompt_token_ids": ids} for _, ids in fitting], parameters, use_tqdm=self._shows_progress
        )
        conversations = []
        for (prompt, ids), output in zip(fitting, outputs, strict=True):
            answer = list(output.outputs[0].token_ids)
            if len(answer) > 1:
                tokens = np.array([*ids, *answer], dtype=np.int32)
                conversations.append(Conversation(tokens, len(ids), is_unseen(prompt)))
        return conversations

    def _self_written(self, number: int) -> list[str]:
        """After nothing but the opening of a user's turn, a chat model goes on as the user.

        Xu et al., "Magpie: Alignment Data Synthesis from Scratch by Prompting Aligned LLMs with Nothing", 2024.
        """
        from vllm import SamplingParams

        opening = self._tokenizer.encode(self._template(_SENTINEL).split(_SENTINEL)[0], add_special_tokens=False)
        parameters = SamplingParams(n=1, temperature=1.0, max_tokens=_LONGEST_PROMPT - 32, skip_special_tokens=True)
        outputs = self._llm.generate(
            [{"prompt_token_ids": opening}] * number, parameters, use_tqdm=self._shows_progress
        )
        prompts = []
        for output in outputs:
            text = output.outputs[0].text.strip()
            key = normalised(text)
            if output.outputs[0].finish_reason == "stop" and key and key not in self._asked:
                self._asked.add(key)
                prompts.append(text)
        return prompts

    def _rendered(self, prompt: str) -> list[int]:
        ids: list[int] = self._tokenizer.encode(self._template(prompt, answer=True), add_special_tokens=False)
        return ids

    def _template(self, prompt: str, *, answer: bool = False) -> str:
        text: str = self._tokenizer.apply_chat_template(
            [{"role": "user", "content": prompt}], tokenize=False, add_generation_prompt=answer
        )
        return text

    @property
    def _shows_progress(self) -> bool:
        # One bar stands for all engines.
        return self._settings.writer == 0
