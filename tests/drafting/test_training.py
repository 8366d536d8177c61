from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tools.drafting import training
from tools.drafting.architecture import Target
from tools.drafting.conversations import Dataset
from tools.drafting.errors import DraftError
from tools.drafting.training import Trained, TrainingSettings, train

pytestmark = pytest.mark.slow

SETTINGS = TrainingSettings(epochs=3, draft_vocab_size=64, batch_tokens=512, learning_rate=3e-3)


def trained(target: Target, data: Dataset, work: Path, settings: TrainingSettings = SETTINGS) -> Trained:
    work.mkdir(exist_ok=True)
    return train(target, data, settings, work, lambda _: None, device="cpu")


def test_the_loss_falls(target: Target, data: Dataset, tmp_path: Path) -> None:
    points = trained(target, data, tmp_path / "work", SETTINGS.model_copy(update={"epochs": 8})).progress.points
    assert points[-1].loss < 0.9 * points[0].loss


def test_a_resumed_run_ends_with_the_same_weights(
    target: Target, data: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = trained(target, data, tmp_path / "whole")
    stop_after = 5
    save = training.checkpoint.save

    def interrupted(file: Path, progress: training.Progress, head: object, optimizer: object) -> None:
        save(file, progress, head, optimizer)
        if progress.step == stop_after:
            raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(training.checkpoint, "save", interrupted)
        with pytest.raises(KeyboardInterrupt):
            trained(target, data, tmp_path / "halved")
    resumed = trained(target, data, tmp_path / "halved")
    assert resumed.progress.step == whole.progress.step > stop_after
    for name, tensor in whole.head.state_dict().items():
        assert torch.equal(tensor, resumed.head.state_dict()[name]), name


def test_a_checkpoint_of_another_run_is_refused(target: Target, data: Dataset, tmp_path: Path) -> None:
    trained(target, data, tmp_path / "work")
    other = SETTINGS.model_copy(update={"seed": 1})
    with pytest.raises(DraftError, match=r'checkpoint ".*checkpoint\.pt" is of another run.*delete it to begin anew'):
        trained(target, data, tmp_path / "work", other)


def test_a_damaged_checkpoint_is_named(target: Target, data: Dataset, tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (work / "checkpoint.pt").write_bytes(b"PK half a file")
    with pytest.raises(DraftError, match=r'checkpoint ".*" is damaged: delete it and train again'):
        trained(target, data, work)


def test_time_that_is_up_ends_the_run_with_a_head(target: Target, data: Dataset, tmp_path: Path) -> None:
    ended = trained(target, data, tmp_path / "work", SETTINGS.model_copy(update={"seconds": 1e-6}))
    assert ended.progress.step == 1
    assert len(ended.progress.points) == 1


def test_both_sides_of_the_split_are_needed(target: Target, data: Dataset, tmp_path: Path) -> None:
    seen = Dataset(data.training, data.sha256, data.origin)
    with pytest.raises(DraftError, match="20 conversations to train on and 0 unseen ones: write more"):
        trained(target, seen, tmp_path / "work")
