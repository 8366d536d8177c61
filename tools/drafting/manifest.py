"""What a head was made from and how good it is, as `ladder-manifest.json` in its folder."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from tools.artifacts.manifest import Manifest
from tools.drafting.training import TrainingSettings


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class DataFigures(_Part):
    """`sha256` is over the shards; tokens are answer tokens."""

    sha256: str
    prompts: str
    training_conversations: int
    training_tokens: int
    unseen_conversations: int
    draft_vocabulary_coverage: float


class TrainingFigures(_Part):
    """`loss` and `unseen_loss` are of the last measurement."""

    settings: TrainingSettings
    steps: int
    seconds: float
    device: str
    loss: float
    unseen_loss: float


class Acceptance(_Part):
    """vLLM's own counters, over greedy answers to unseen prompts.

    `mean_length` = 1 + accepted / drafts: tokens of one step of the target. `rate` = accepted / drafted.
    `by_position`: share of the drafts whose i-th token was accepted.
    """

    num_speculative_tokens: int
    prompts: int
    answer_tokens: int
    max_tokens: int
    drafts: int
    drafted_tokens: int
    accepted_tokens: int
    mean_length: float
    rate: float
    by_position: list[float]
    dtype: str
    device: str
    vllm: str


class HeadManifest(Manifest):
    """`source` and `source_sha256` are the target's name and the hash of its weights."""

    model_config = ConfigDict(extra="forbid")

    aux_layers: list[int]
    draft_vocab_size: int
    data: DataFigures
    training: TrainingFigures
    acceptance: Acceptance | None = None
