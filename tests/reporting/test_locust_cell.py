"""A load test as a process: its command, its end, its last words. Locust is a stand-in here."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import psutil
import pytest

from tests.reporting.examples import SETTINGS, run_result, target_result
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
        *("--input-tokens", "50", "--output-tokens", "16", "--users", "8"),
        *("--spawn-rate", "8", "--requests", "8"),
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


def test_a_master_waits_for_its_workers_at_a_port_of_this_machine() -> None:
    command = locust_command(OPTIONS, Path("cells/v2-8-1"), 2, 40001)
    assert command[-9:] == [
        *("--master", "--master-bind-host", "127.0.0.1", "--master-bind-port", "40001"),
        *("--expect-workers", "2", "--expect-workers-max-wait", "30"),
    ]


def test_workers_are_started_beside_their_master_and_end_with_it(home: Path) -> None:
    run = pretend(
        home,
        "here = pathlib.Path(sys.argv[sys.argv.index('--out') + 1] if '--out' in sys.argv else 'cell')\n"
        "if '--worker' in sys.argv:\n"
        "    (here / f'pid-{os.getpid()}').write_text(sys.argv[sys.argv.index('--master-port') + 1])\n"
        "    time.sleep(600)\n"
        "while len(list(here.glob('pid-*'))) < 2: time.sleep(0.01)\n"
        "(here / 'results.json').write_text(sys.argv[sys.argv.index('--master-bind-port') + 1])",
    )
    folder = home / "cell"
    folder.mkdir()
    run(OPTIONS, folder, 2)
    workers = list(folder.glob("pid-*"))
    assert {worker.read_text() for worker in workers} == {(folder / "results.json").read_text()}
    assert not any(psutil.pid_exists(int(worker.name.removeprefix("pid-"))) for worker in workers)
    assert (folder / "locust-worker-2.log").is_file()


def test_a_time_limit_cuts_what_runs_by_then() -> None:
    options = OPTIONS.model_copy(update={"duration_s": 30.0})
    assert locust_command(options, Path("cells/v0-8-1"))[-4:] == ["--run-time", "30", "--stop-timeout", "0"]


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
    run(OPTIONS, folder, 0)
    assert (folder / "results.json").read_text() == str(home)
    assert (folder / "locust.log").read_text() == "done\n"


@pytest.mark.slow
def test_a_missed_sla_is_a_run_and_one_without_results_is_none(home: Path) -> None:
    results = f"pathlib.Path({str(home / 'results.json')!r})"
    pretend(home, f"{results}.touch(); sys.exit(1)")(OPTIONS, home, 0)
    with pytest.raises(ReportError, match=r"code 1: ModuleNotFoundError: No module named 'gone' \(in \"[^\"]*log\"\)$"):
        pretend(home, f"{results}.unlink(); import gone")(OPTIONS, home, 0)
    with pytest.raises(ReportError, match=r"the load test ended with code 2: try another \(in"):
        pretend(home, "print('no such workload'); print(); print('try another'); sys.exit(2)")(OPTIONS, home, 0)
    with pytest.raises(ReportError, match=r'ended with code 3: it said nothing in "[^"]*locust\.log"'):
        pretend(home, "sys.exit(3)")(OPTIONS, home, 0)


@pytest.mark.slow
def test_a_load_test_that_hangs_is_ended(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tools.reporting.locust_cell._START_S", 0.5)
    options = OPTIONS.model_copy(update={"deadline_s": 0.5})
    run = pretend(home, f"pathlib.Path({str(home / 'pid')!r}).write_text(str(os.getpid())); time.sleep(600)")
    with pytest.raises(ReportError, match=r"the load test did not end within 1 s"):
        run(options, home, 0)
    assert not psutil.pid_exists(int((home / "pid").read_text()))


@pytest.mark.slow
def test_a_time_limit_is_what_it_is_waited_for(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tools.reporting.locust_cell._START_S", 0.5)
    options = OPTIONS.model_copy(update={"deadline_s": 600.0, "duration_s": 0.5})
    with pytest.raises(ReportError, match=r"the load test did not end within 1 s"):
        pretend(home, "time.sleep(600)")(options, home, 0)


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
        f"home = Path({str(home)!r})\nlocust_cell.LocustRun(home)(OPTIONS, home, 0)"
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


@pytest.mark.slow
@pytest.mark.parametrize(
    ("requests", "reason"), [(0, "no request was answered whole within the 15 s"), (8, "code 2: --")]
)
def test_a_cell_too_short_for_any_request_says_so(home: Path, requests: int, reason: str) -> None:
    options = OPTIONS.model_copy(update={"duration_s": 15.0})
    found = run_result(options, target_result((13.7, 46.6, 68), requests=requests, cut=1))
    (home / "results.json").write_text(found.model_dump_json(), encoding="utf-8")
    with pytest.raises(ReportError, match=reason):
        pretend(home, "print('------|----'); sys.exit(2)")(options, home, 0)
