from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tools.artifacts.errors import ArtifactError
from tools.artifacts.maker import follow


def run(tmp_path: Path, program: str, variables: dict[str, str] | None = None) -> list[str]:
    lines: list[str] = []
    follow([sys.executable, "-c", program], tmp_path / "logs" / "made.log", lines.append, '"models/x"', variables)
    return lines


def test_lines_are_progress_and_variables_reach_the_process(tmp_path: Path) -> None:
    assert run(tmp_path, "import os; print('one'); print(os.environ['A'])", {"A": "two"}) == ["one", "two"]


def test_a_full_disk_is_called_that(tmp_path: Path) -> None:
    with pytest.raises(ArtifactError) as failure:
        run(tmp_path, "import sys; sys.exit('OSError: [Errno 28] No space left on device')")
    assert str(failure.value).splitlines() == [
        '"models/x" could not be made:',
        "  OSError: [Errno 28] No space left on device",
        "The disk is full: free some space and run the command again.",
    ]
