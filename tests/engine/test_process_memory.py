"""The peak of several processes together."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tools.engine.process_memory import ProcessTreeMemory

_MIB = 1 << 20
# Says so once it has held the memory, and has let it go.
_HOLDER = "held = bytearray(b'x') * (100 << 20); del held; print('ready', flush=True); input()"


def test_a_child_counts_at_its_peak_and_no_more_when_it_has_gone() -> None:
    alone = ProcessTreeMemory.of_this_process().peak_bytes()
    child = subprocess.Popen([sys.executable, "-c", _HOLDER], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert child.stdout is not None
        child.stdout.readline()
        memory = ProcessTreeMemory.of_this_process()
        assert memory.peak_bytes() - alone > 100 * _MIB
    finally:
        child.communicate(b"\n")
    assert memory.peak_bytes() - alone < 100 * _MIB


def test_it_is_the_high_water_mark_that_counts(tmp_path: Path) -> None:
    for pid, peak in ((1, 2000), (2, 500)):
        (tmp_path / str(pid)).mkdir()
        (tmp_path / str(pid) / "status").write_text(f"Name:\tengine\nVmHWM:\t   {peak} kB\nVmRSS:\t     10 kB\n")
    (tmp_path / "3").mkdir()
    # A zombie has no memory.
    (tmp_path / "3/status").write_text("Name:\tengine\nState:\tZ (zombie)\n")
    assert ProcessTreeMemory([1, 2, 3, 4], tmp_path).peak_bytes() == 2500 * 1024
    assert ProcessTreeMemory([os.getpid()]).peak_bytes() > _MIB
