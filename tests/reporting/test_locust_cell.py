"""A load test as a process: its command, its end, its last words. Locust is a stand-in here."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import psutil
import pytest

from tests.reporting.examples import SETTINGS
from tests.waiting import wait_until
from tools.reporting.errors import ReportError
from tools.reporting.locust_cell import LocustRun, locust_command, locust_environment

OPTIONS = SETTINGS.load("http://127.0.0.1:8000", "llm_bf16:1", 8, 1, "models/smollm2-135m-instruct")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path


def pretend(home: Path, script: str) -> LocustRun:
    """A checkout in which `python -m locust` runs this."""
    (home / "locust.py").write_text(f"import sys, os, time, pathlib\n{script}\n", encoding="utf-8")
    return LocustRun(home)


def ended(pid: int) -> bool:
    """Gone, or a zombie that its new parent has not collected yet."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def test_the_command_says_everything() -> None:
    command = locust_command(OPTIONS, Path("cells/v2-8-1"))
    assert command[1:] == [
        *("-X", "utf8", "-m", "locust", "-f", "loadtest/locustfile.py", "--headless"),
        *("--host", "http://127.0.0.1:8000", "--targets", "llm_bf16:1", "--protocol", "generate_stream"),
        *("--workload", "fixed-50-256", "--sampling", '{"temperature": 0.0}'),
        *("--input-tokens", "50", "--output-tokens", "16", "--users", "8", "--requests", "8"),
        *(
            "--tokenizer",
            "models/smollm2-135m-instruct",
            "--deadline",
            "120",
            "--seed",
            "100008",
            "--out",
            "cells/v2-8-1",
        ),
    ]


def test_without_a_tokenizer_none_is_named() -> None:
    options = OPTIONS.model_copy(update={"tokenizer": None})
    assert "--tokenizer" not in locust_command(options, Path("cells/v2-8-1"))


def test_locusts_own_variables_do_not_change_a_run(home: Path) -> None:
    variables = {"PATH": "/bin", "LOCUST_USERS": "5", "PYTHONPATH": "/elsewhere"}
    assert locust_environment(variables, home) == {"PATH": "/bin", "PYTHONPATH": str(home), "LADDER_HOME": str(home)}


def test_what_it_leaves_and_says_stays_in_the_cells_folder(home: Path) -> None:
    run = pretend(
        home,
        "out = pathlib.Path(sys.argv[sys.argv.index('--out') + 1])\n"
        "(out / 'results.json').write_text(os.environ['PYTHONPATH'])\nprint('done')",
    )
    folder = home / "cell"
    folder.mkdir()
    run(OPTIONS, folder)
    assert (folder / "results.json").read_text() == str(home)
    assert (folder / "locust.log").read_text() == "done\n"


def test_a_missed_sla_is_a_run_and_one_without_results_is_none(home: Path) -> None:
    results = f"pathlib.Path({str(home / 'results.json')!r})"
    pretend(home, f"{results}.touch(); sys.exit(1)")(OPTIONS, home)
    with pytest.raises(ReportError, match=r"code 1: ModuleNotFoundError: No module named 'gone' \(in \"[^\"]*log\"\)$"):
        pretend(home, f"{results}.unlink(); import gone")(OPTIONS, home)
    with pytest.raises(ReportError, match=r"the load test ended with code 2: try another \(in"):
        pretend(home, "print('no such workload'); print(); print('try another'); sys.exit(2)")(OPTIONS, home)
    with pytest.raises(ReportError, match=r'ended with code 3: it said nothing in "[^"]*locust\.log"'):
        pretend(home, "sys.exit(3)")(OPTIONS, home)


def test_a_load_test_that_hangs_is_ended(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tools.reporting.locust_cell._START_S", 0.5)
    options = OPTIONS.model_copy(update={"deadline_s": 0.5})
    run = pretend(home, f"pathlib.Path({str(home / 'pid')!r}).write_text(str(os.getpid())); time.sleep(600)")
    with pytest.raises(ReportError, match=r"the load test did not end within 1 s"):
        run(options, home)
    assert not psutil.pid_exists(int((home / "pid").read_text()))


@pytest.mark.slow
def test_an_interruption_leaves_no_process(home: Path) -> None:
    pid = home / "pid"
    # It ignores the signal, and has a child, as Locust's workers are.
    pretend(
        home,
        "import signal, subprocess\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        f"child = subprocess.Popen(['sleep', '600'])\n"
        f"pathlib.Path({str(pid)!r}).write_text(f'{{os.getpid()}} {{child.pid}}')\ntime.sleep(600)",
    )
    code = (
        "import sys; from pathlib import Path; from tools.reporting import locust_cell\n"
        "from tests.reporting.test_locust_cell import OPTIONS\n"
        "locust_cell._END_S = 0.2\n"
        f"home = Path({str(home)!r})\nlocust_cell.LocustRun(home)(OPTIONS, home)"
    )
    checkout = Path(__file__).resolve().parents[2]
    process = subprocess.Popen([sys.executable, "-c", code], cwd=checkout, stderr=subprocess.PIPE)
    killer = threading.Timer(60, process.kill)
    killer.start()
    try:
        wait_until(lambda: pid.is_file() and len(pid.read_text().split()) == 2)
        os.kill(process.pid, 2)
        _, errors = process.communicate()
    finally:
        killer.cancel()
    assert b"KeyboardInterrupt" in errors
    for number in pid.read_text().split():
        wait_until(lambda number=number: ended(int(number)))
