"""The data of a head: prompts with the target's own answers, as token ids in safetensors shards.

Which side of the split a conversation is on follows from its prompt's text alone, so no later run and no other engine
process can put a prompt that was trained on among the unseen ones.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from tools.artifacts.manifest import sha256_of
from tools.drafting.errors import DraftError
from tools.drafting.whole_file import whole_file

UNSEEN_PERCENT: Final = 3


@dataclass(frozen=True)
class Conversation:
    """`tokens` [n] int32: the rendered prompt, from `answer_start` on the answer with its end token."""

    tokens: NDArray[np.int32]
    answer_start: int
    unseen: bool

    @property
    def answer(self) -> NDArray[np.int32]:
        return self.tokens[self.answer_start :]

    @property
    def prompt(self) -> NDArray[np.int32]:
        return self.tokens[: self.answer_start]


def is_unseen(prompt: str) -> bool:
    """Whether the prompt is kept from training. Case, punctuation and spacing make no other prompt."""
    digest = hashlib.sha256(normalised(prompt).encode()).digest()
    return int.from_bytes(digest[:8], "big") % 100 < UNSEEN_PERCENT


def normalised(prompt: str) -> str:
    """What is compared when two prompts are held to be the same."""
    return " ".join(re.findall(r"\w+", prompt.casefold()))


@dataclass(frozen=True)
class Dataset:
    """Every conversation of a folder, without repetitions. `sha256` is over the shards, in order of their names."""

    conversations: Sequence[Conversation]
    sha256: str
    origin: str

    @classmethod
    def read(cls, folder: Path, target_sha256: str) -> Self:
        """Raises DraftError when there is nothing, or what another target answered."""
        shards = shards_in(folder)
        if not shards:
            raise DraftError(f'"{folder}" holds no conversations: write some first, with ./ladder draft train')
        seen: set[bytes] = set()
        conversations: list[Conversation] = []
        origins: set[str] = set()
        digest = hashlib.sha256()
        for shard in shards:
            digest.update(sha256_of(shard).encode())
            made_by, origin = _labels(shard)
            origins.add(origin)
            if made_by != target_sha256:
                raise DraftError(
                    f'"{shard}" holds the answers of another target: delete "{folder}", or name another folder of work'
                )
            for conversation in _read(shard):
                key = conversation.tokens.tobytes()
                if key not in seen:
                    seen.add(key)
                    conversations.append(conversation)
        return cls(conversations, digest.hexdigest(), ", ".join(sorted(origins)))

    @property
    def training(self) -> list[Conversation]:
        return [conversation for conversation in self.conversations if not conversation.unseen]

    @property
    def unseen(self) -> list[Conversation]:
        return [conversation for conversation in self.conversations if conversation.unseen]


def shards_in(folder: Path, writer: int | None = None) -> list[Path]:
    """In order of their names; with `writer` those that this one wrote."""
    return sorted(folder.glob(f"conversations-{'*' if writer is None else f'{writer:02d}'}-*.safetensors"))


def write_shard(
    folder: Path, writer: int, conversations: Sequence[Conversation], *, target_sha256: str, origin: str
) -> Path:
    """A new shard of this writer, whole or not at all; `origin` says where the prompts are from. Raises DraftError."""
    file = folder / f"conversations-{writer:02d}-{len(shards_in(folder, writer)):04d}.safetensors"
    tensors = {
        "tokens": np.concatenate([conversation.tokens for conversation in conversations]),
        "lengths": np.array([len(conversation.tokens) for conversation in conversations], dtype=np.int32),
        "answer_starts": np.array([conversation.answer_start for conversation in conversations], dtype=np.int32),
        "unseen": np.array([conversation.unseen for conversation in conversations], dtype=np.uint8),
    }
    with whole_file(file) as partial:
        save_file(tensors, partial, metadata={"target_sha256": target_sha256, "origin": origin})
    return file


def answer_tokens_in(shards: Sequence[Path]) -> int:
    """Answer tokens in the shards, read from the lengths alone."""
    total = 0
    for shard in shards:
        with safe_open(str(shard), framework="numpy") as content:
            total += int(content.get_tensor("lengths").sum() - content.get_tensor("answer_starts").sum())
    return total


def _labels(shard: Path) -> tuple[str, str]:
    try:
        with safe_open(str(shard), framework="numpy") as content:
            metadata = content.metadata() or {}
    except SafetensorError as error:
        raise DraftError(f'"{shard}" is damaged ({error}): delete it and run the command again') from error
    return metadata.get("target_sha256", ""), metadata.get("origin", "")


def _read(shard: Path) -> Iterator[Conversation]:
    with safe_open(str(shard), framework="numpy") as content:
        tokens, lengths, starts, unseen = (
            content.get_tensor(name) for name in ("tokens", "lengths", "answer_starts", "unseen")
        )
    parts = np.split(tokens, np.cumsum(lengths)[:-1])
    for part, start, apart in zip(parts, starts, unseen, strict=True):
        yield Conversation(part, int(start), bool(apart))
