"""The state of a training run on disk: written whole or not at all, and enough to go on as if nothing had happened."""

from __future__ import annotations

import pickle
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from tools.drafting.errors import DraftError
from tools.drafting.whole_file import whole_file


@dataclass(frozen=True)
class Point:
    """What was measured after `step` batches: the loss since the point before, and both sides' agreement by draft."""

    step: int
    seconds: float
    loss: float
    agreement: list[float]
    unseen_loss: float
    unseen_agreement: list[float]


@dataclass
class Progress:
    """`settings` are the run's own, as JSON: another run's checkpoint is refused."""

    settings: str
    step: int = 0
    seconds: float = 0.0
    points: list[Point] = field(default_factory=list)


def save(file: Path, progress: Progress, head: Any, optimizer: Any) -> None:
    """Raises DraftError when it cannot be written; the checkpoint before it stays."""
    state = {
        "settings": progress.settings,
        "step": progress.step,
        "seconds": progress.seconds,
        "points": [vars(point) for point in progress.points],
        "head": head.state_dict(),
        "optimizer": optimizer.state_dict(),
    }
    with whole_file(file) as partial:
        torch.save(state, partial)


def load(file: Path, settings: str, head: Any, optimizer: Any) -> Progress:
    """Puts the state back into `head` and `optimizer`. Without a file: the beginning. Raises DraftError."""
    if not file.exists():
        return Progress(settings)
    try:
        state = torch.load(file, map_location="cpu", weights_only=True)
    except (RuntimeError, EOFError, pickle.UnpicklingError) as error:
        raise DraftError(f'checkpoint "{file}" is damaged: delete it and train again') from error
    if state["settings"] != settings:
        raise DraftError(
            f'checkpoint "{file}" is of another run: it was trained with {state["settings"]}, now asked is {settings}; '
            "delete it to begin anew, or ask for the same again to go on"
        )
    head.load_state_dict(state["head"])
    optimizer.load_state_dict(state["optimizer"])
    return Progress(settings, state["step"], state["seconds"], [Point(**point) for point in state["points"]])
