from __future__ import annotations

from pathlib import Path

import pytest

from tests.drafting.full_disk import full_disk
from tools.artifacts.manifest import MANIFEST
from tools.drafting import acceptance
from tools.drafting.acceptance import AcceptanceSettings
from tools.drafting.architecture import Target
from tools.drafting.commands import Work, accept_stage, train_stage
from tools.drafting.conversations import Dataset
from tools.drafting.errors import DraftError
from tools.drafting.manifest import Acceptance, HeadManifest
from tools.drafting.training import TrainingSettings

pytestmark = pytest.mark.slow

MEASURED = Acceptance(
    num_speculative_tokens=3, prompts=4, answer_tokens=99, max_tokens=8, drafts=40, drafted_tokens=120,
    accepted_tokens=54, mean_length=2.35, rate=0.45, by_position=[0.75, 0.4, 0.2], dtype="bfloat16", device="CPU",
    vllm="0.0",
)  # fmt: skip


@pytest.fixture
def head(target: Target, data: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Trained by the stage; what vLLM would measure on it is given."""
    monkeypatch.setattr(acceptance, "measure_acceptance", lambda *_, **__: MEASURED)
    settings = TrainingSettings(epochs=1, draft_vocab_size=64, batch_tokens=2048)
    train_stage(target, Work(tmp_path), tmp_path / "head", settings, lambda _: None)
    return tmp_path / "head"


def accept(target: Target, head: Path, *, save: bool) -> list[str]:
    said: list[str] = []
    accept_stage(target, head, AcceptanceSettings(prompts=4, max_tokens=8), save=save, report=said.append)
    return said


def test_training_leaves_a_head_a_history_and_a_picture(head: Path) -> None:
    assert sorted(file.name for file in head.parent.iterdir()) == [
        "checkpoint.pt", "data", "head", "history.json", "loss.png",
    ]  # fmt: skip


def test_figures_go_into_the_manifest_when_told(target: Target, head: Path) -> None:
    said = "mean acceptance length 2.350 over 4 unseen prompts, 99 tokens; by position 0.750, 0.400, 0.200"
    before = (head / MANIFEST).read_bytes()
    assert accept(target, head, save=False) == [said]
    assert (head / MANIFEST).read_bytes() == before
    assert accept(target, head, save=True) == [said]
    manifest = HeadManifest.read(head)
    assert manifest is not None
    assert manifest.acceptance == MEASURED


def test_a_full_disk_keeps_the_manifest_before(target: Target, head: Path) -> None:
    before = (head / MANIFEST).read_bytes()
    with full_disk(), pytest.raises(DraftError, match=rf'^"{head / MANIFEST}" cannot be written \('):
        accept(target, head, save=True)
    assert (head / MANIFEST).read_bytes() == before
    assert not list(head.glob(".*"))
