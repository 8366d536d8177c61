"""The texts that prompts are made of, in pieces that may be parted: English words, Chinese characters.

Every prompt begins with a number of its own. A server that keeps the keys and values of earlier prompts looks them up
from the start (https://docs.vllm.ai/en/latest/design/prefix_caching/), so two prompts that differ in their first words
share nothing, and no run is flattered by what it asked before.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random
from typing import Final

from .definition import Language

_TEXTS: Final[dict[Language, Path]] = {
    "en": Path(__file__).parents[2] / "tools" / "evaluation" / "data" / "text",
    "zh": Path(__file__).parent / "texts",
}
_SENTENCE_END: Final = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])|\n+")
_NUMBERS: Final = 10**9

_FILLERS: Final[dict[Language, tuple[str, ...]]] = {"en": (" a", " the", "1", "."), "zh": ("的", "一", "1", " a")}

_TASKS: Final[dict[Language, tuple[str, ...]]] = {
    "en": (
        "Summarise these notes in three sentences.",
        "Write a letter to a friend about what follows.",
        "List the facts that are stated here.",
        "What would you ask the author of these lines?",
        "Continue this story.",
        "Explain this to a child of ten.",
        "Find a title for this and say why it fits.",
        "Tell me what is surprising about this.",
    ),
    "zh": (
        "请用三句话概括下面的内容。",
        "请把下面的事情讲给一位朋友听。",
        "请列出文中提到的事实。",
        "读完以后，你想问作者什么问题？",
        "请接着把这个故事写下去。",
        "请用孩子能听懂的话解释一下。",
        "请给这段文字起一个题目，并说明理由。",
        "这段话里最让人意外的是什么？",
    ),
}


@dataclass(frozen=True)
class Corpus:
    """One language's texts.

    Attributes:
        sentences: without the blanks around them.
        fillers: short pieces, by which a text that is a few tokens short is made longer.
    """

    language: Language
    sentences: tuple[str, ...]
    fillers: tuple[str, ...]

    def pieces(self, random: Random) -> Iterator[str]:
        """A text without end, in pieces to be joined: a number, a task, then sentences in any order."""
        yield from f"{random.randrange(_NUMBERS):09d}"
        yield "：" if self.language == "zh" else "."
        yield from self._parted(random.choice(_TASKS[self.language]))
        while True:
            for sentence in random.sample(self.sentences, len(self.sentences)):
                yield from self._parted(sentence)

    def _parted(self, sentence: str) -> Iterable[str]:
        return sentence if self.language == "zh" else (f" {word}" for word in sentence.split())


@cache
def corpus(language: Language) -> Corpus:
    files = sorted(_TEXTS[language].glob("*.txt"))
    text = "\n".join(file.read_text(encoding="utf-8") for file in files)
    sentences = tuple(sentence.strip() for sentence in _SENTENCE_END.split(text) if sentence.strip())
    return Corpus(language, sentences, _FILLERS[language])
