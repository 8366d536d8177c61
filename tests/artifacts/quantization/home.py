"""A checkout in a temporary folder: a source checkpoint, a profile for it, and a quantising process of the test's."""

from __future__ import annotations

import shutil
from pathlib import Path

from tools.bootstrap.layout import Layout
from tools.spec.loading import load_profile
from tools.spec.model import QualityBar
from tools.spec.profile import Profile

SHARE = QualityBar(max_share_of_rounding=0.5)
WORKER = Path("tools") / "artifacts" / "quantization" / "worker" / "__main__.py"


def profile_of(layout: Layout, gate: QualityBar = SHARE, group_size: int = 64) -> Profile:
    """The default profile with models/tiny and models/tiny-awq."""
    profile = load_profile("cpu-smollm2")
    awq = profile.artifacts.awq
    assert awq is not None
    artifacts = profile.artifacts.model_copy(
        update={
            "bf16": profile.artifacts.bf16.model_copy(update={"path": "models/tiny"}),
            "awq": awq.model_copy(update={"path": "models/tiny-awq", "gate": gate, "group_size": group_size}),
        }
    )
    return profile.model_copy(update={"artifacts": artifacts})


def write_worker(layout: Layout, program: str) -> None:
    """Puts a program in the place of the quantising process."""
    entry = layout.home / WORKER
    shutil.rmtree(entry.parent, ignore_errors=True)
    entry.parent.mkdir(parents=True)
    entry.write_text(program, encoding="utf-8")
    locks = layout.locks
    locks.mkdir(parents=True, exist_ok=True)
    (locks / "quantize.txt").write_text("one==1\n", encoding="utf-8")
