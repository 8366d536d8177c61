from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tests.drafting.full_disk import full_disk
from tools.drafting import checkpoint
from tools.drafting.checkpoint import Progress
from tools.drafting.errors import DraftError


def test_a_full_disk_keeps_the_checkpoint_before(tmp_path: Path) -> None:
    file = tmp_path / "checkpoint.pt"
    head = torch.nn.Linear(64, 64)
    optimizer = torch.optim.AdamW(head.parameters())
    checkpoint.save(file, Progress("settings", step=1), head, optimizer)
    with full_disk(), pytest.raises(DraftError, match=rf'^"{file}" cannot be written \('):
        checkpoint.save(file, Progress("settings", step=2), head, optimizer)
    assert checkpoint.load(file, "settings", head, optimizer).step == 1
    assert list(tmp_path.iterdir()) == [file]
