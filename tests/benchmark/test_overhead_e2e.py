"""`./ladder bench overhead` with the real model: two engines are loaded, which takes a minute or two."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import psutil
import pytest

from tests.serving.ladder import HOME, assert_nothing_left, ladder, wait_for
from tools.benchmark.overhead import OverheadReport

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(480)]

BASE = 18514
PORT = ("--port-base", str(BASE))
SMALL = ("--streams", "4,8", "--tokens", "8", "--prompt-tokens", "10", "--repeats", "1")


def test_both_sides_are_measured_and_nothing_is_left() -> None:
    result = ladder("bench", "overhead", *PORT, *SMALL, "--json", timeout=450)
    assert result.returncode == 0, result.stderr
    report = OverheadReport.model_validate_json(result.stdout)
    assert report.settings.model == "llm_bf16"
    assert report.engine_arguments["model"] == "models/smollm2-135m-instruct"
    assert [(row.streams, len(row.ratio.values)) for row in report.rows] == [(4, 2), (8, 1)]
    for row in report.rows:
        assert row.bare_tokens_per_s.median > 0
        pairs = zip(row.served_tokens_per_s.values, row.bare_tokens_per_s.values, strict=True)
        assert row.ratio.values == pytest.approx([served / bare for served, bare in pairs])
        assert row.served_ttft_ms.median > 0
    assert_nothing_left(BASE)


def test_ctrl_c_while_the_bare_engine_loads_leaves_nothing(tmp_path: Path) -> None:
    log = tmp_path / "bench.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [HOME / "ladder", "bench", "overhead", *PORT, *SMALL],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=os.environ,
            start_new_session=True,
        )
    assert wait_for(lambda: "loading the bare engine" in log.read_text(encoding="utf-8"), 240)
    time.sleep(5)
    children = psutil.Process(process.pid).children(recursive=True)
    assert any("tools.benchmark.bare" in child.cmdline() for child in children)
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 130
    assert psutil.wait_procs(children, timeout=10)[1] == []
    assert_nothing_left(BASE)
