"""Training a head: the same code in float32 on a CPU and under bfloat16 autocast on one GPU."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from pydantic import BaseModel, ConfigDict

from tools.drafting import checkpoint
from tools.drafting.architecture import Target, head_config
from tools.drafting.batches import batches, collate, plan_batches
from tools.drafting.checkpoint import Point, Progress
from tools.drafting.conversations import Conversation, Dataset
from tools.drafting.errors import DraftError
from tools.drafting.features import Teacher
from tools.drafting.head import Eagle3Head
from tools.drafting.objective import Outcome, assess, mean_acceptance_length
from tools.drafting.vocabulary import coverage, most_frequent, token_counts

_WARM_UP: Final = 0.05
_LAST_RATE: Final = 0.02
_CLIP: Final = 1.0
# Unseen conversations that the loss is measured on while training; acceptance is measured on all of them, in vLLM.
_UNSEEN: Final = 64


class TrainingSettings(BaseModel):
    """`steps` drafts are unrolled; a batch has about `batch_tokens` positions, padding included.

    `seconds` ends a run earlier than `epochs` would, with the learning rate brought down in time.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    epochs: int = 10
    steps: int = 3
    draft_vocab_size: int = 8192
    batch_tokens: int = 16384
    learning_rate: float = 1e-3
    seconds: float = 1e9
    seed: int = 0


@dataclass(frozen=True)
class Trained:
    head: Eagle3Head
    config: dict[str, Any]
    progress: Progress
    total_steps: int
    coverage: float
    device: str


def train(
    target: Target,
    data: Dataset,
    settings: TrainingSettings,
    work: Path,
    report: Callable[[str], None],
    device: str | None = None,
) -> Trained:
    """Goes on from the checkpoint in `work`, if there is one. Raises DraftError."""
    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    run = _Run(target, data, settings, work, device)
    run.go(report)
    return Trained(run.head, run.config, run.progress, run.total_steps, run.coverage, _device_name(device))


class _Run:
    def __init__(self, target: Target, data: Dataset, settings: TrainingSettings, work: Path, device: str) -> None:
        if not data.training or not data.unseen:
            raise DraftError(
                f"{len(data.training)} conversations to train on and {len(data.unseen)} unseen ones: "
                "write more, there must be some of both"
            )
        torch.manual_seed(settings.seed)
        self._data, self._settings, self._device = data, settings, device
        self._file = work / "checkpoint.pt"
        counts = token_counts((conversation.answer for conversation in data.training), target.vocab_size)
        draft_ids = most_frequent(counts, settings.draft_vocab_size)
        self.coverage = coverage(counts, draft_ids)
        self.config = head_config(target, settings.draft_vocab_size)
        self._teacher = Teacher(target.folder, target.aux_layers, device)
        self.head = Eagle3Head(self.config).to(device)
        self.head.begin_from(
            torch.from_numpy(draft_ids).to(device), self._teacher.output_layer, self._teacher.last_norm
        )
        self._optimizer = torch.optim.AdamW(
            self.head.parameters(), lr=settings.learning_rate, betas=(0.9, 0.95), weight_decay=0.01
        )
        self.progress = checkpoint.load(
            self._file, f"{settings.model_dump_json()} on {data.sha256}", self.head, self._optimizer
        )
        lengths = [len(conversation.tokens) for conversation in data.training]
        self.total_steps = settings.epochs * len(self._plan(lengths))
        self._interval = max(1, self.total_steps // 40)

    def _plan(self, lengths: Sequence[int]) -> list[list[int]]:
        return plan_batches(lengths, self._settings.batch_tokens, np.random.default_rng((self._settings.seed, 0)))

    def go(self, report: Callable[[str], None]) -> None:
        progress, settings = self.progress, self._settings
        before = progress.seconds
        begun = time.monotonic()
        losses, agreements = [], []
        stream = batches(
            self._data.training,
            tokens=settings.batch_tokens,
            steps=settings.steps,
            seed=settings.seed,
            skip=progress.step,
        )
        while progress.step < self.total_steps and progress.seconds < settings.seconds:
            batch = next(stream).to(self._device)
            outcome = self._outcome(batch)
            self._descend(outcome)
            losses.append(outcome.loss.detach())
            agreements.append(outcome.agreement)
            progress.step += 1
            progress.seconds = before + time.monotonic() - begun
            if progress.step % self._interval == 0 or progress.step == self.total_steps:
                self._measure(torch.stack(losses), torch.stack(agreements), report)
                losses, agreements = [], []
                checkpoint.save(self._file, progress, self.head, self._optimizer)
        if losses:
            self._measure(torch.stack(losses), torch.stack(agreements), report)
        checkpoint.save(self._file, progress, self.head, self._optimizer)

    def _outcome(self, batch: Any) -> Outcome:
        lesson = self._teacher.teach(batch, self.head.draft_ids)
        lowered = torch.autocast("cuda", torch.bfloat16) if self._device == "cuda" else nullcontext()
        with lowered:
            return assess(self.head, batch, lesson, self._settings.steps)

    def _descend(self, outcome: Outcome) -> None:
        for group in self._optimizer.param_groups:
            group["lr"] = self._settings.learning_rate * self._share_of_rate()
        self._optimizer.zero_grad(set_to_none=True)
        outcome.loss.backward()
        torch.nn.utils.clip_grad_norm_(self.head.parameters(), _CLIP)
        self._optimizer.step()

    def _share_of_rate(self) -> float:
        """Linear warm-up, then half a cosine down; by steps or by time, whichever is further on."""
        done = max((self.progress.step + 1) / self.total_steps, self.progress.seconds / self._settings.seconds)
        if done < _WARM_UP:
            return done / _WARM_UP
        rest = min(1.0, (done - _WARM_UP) / (1 - _WARM_UP))
        return _LAST_RATE + (1 - _LAST_RATE) * (1 + math.cos(math.pi * rest)) / 2

    def _measure(self, losses: Any, agreements: Any, report: Callable[[str], None]) -> None:
        with torch.no_grad():
            unseen_loss, unseen_agreement = self._on_unseen()
        progress = self.progress
        point = Point(
            step=progress.step,
            seconds=round(progress.seconds, 1),
            loss=float(losses.mean()),
            agreement=agreements.mean(0).tolist(),
            unseen_loss=unseen_loss,
            unseen_agreement=unseen_agreement,
        )
        progress.points.append(point)
        left = self._seconds_left()
        report(
            f"step {point.step} of {self.total_steps}, {point.seconds:.0f} s, about {left:.0f} s left: "
            f"loss {point.loss:.3f}, unseen {point.unseen_loss:.3f}; "
            f"about {mean_acceptance_length(point.unseen_agreement):.2f} tokens a step on unseen prompts"
        )

    def _on_unseen(self) -> tuple[float, list[float]]:
        chosen: list[Conversation] = list(self._data.unseen[:_UNSEEN])
        at_once = max(1, self._settings.batch_tokens // 512)
        total, loss, agreement = 0, 0.0, torch.zeros(self._settings.steps)
        for start in range(0, len(chosen), at_once):
            batch = collate(chosen[start : start + at_once], self._settings.steps).to(self._device)
            outcome = self._outcome(batch)
            total += outcome.positions
            loss += float(outcome.loss) * outcome.positions
            agreement += outcome.agreement.cpu() * outcome.positions
        return loss / total, (agreement / total).tolist()

    def _seconds_left(self) -> float:
        progress = self.progress
        by_steps = progress.seconds / progress.step * (self.total_steps - progress.step)
        return max(0.0, min(by_steps, self._settings.seconds - progress.seconds))


def _device_name(device: str) -> str:
    return str(torch.cuda.get_device_name()) if device == "cuda" else "CPU"
