"""Files of Locust's own that cannot be written."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from tests.client.fakes.running import running
from tests.loadtest.run.locust_process import LOCUSTFILE, PATIENCE_S, result_in, slow_triton
from tools.bootstrap.processes import isolated
from tools.client.address import Protocol

pytestmark = pytest.mark.slow


def ended(folder: Path, *arguments: str, most_bytes: int) -> tuple[int, str]:
    """A run of 200 requests, none of whose files may become longer than so many bytes; its exit code and words."""
    with running(slow_triton()) as server:
        given = ("--headless", "--only-summary", "--host", server.endpoint(Protocol.HTTP).url, "--targets", "quick")
        asked = ("--requests", "200", "-u", "4", "--output-tokens", "2")
        done = subprocess.run(
            [sys.executable, "-m", "locust", "-f", str(LOCUSTFILE), *given, *asked, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=folder,
            env={**isolated(os.environ), "COLUMNS": "200"},
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, resource.RLIM_INFINITY)),
            timeout=PATIENCE_S,
            check=False,
        )
    assert "Traceback" not in done.stdout
    return done.returncode, done.stdout


@pytest.mark.parametrize(
    ("option", "file", "name", "most_bytes"),
    [
        ("--json-file", "locust", "locust.json", 200),
        ("--html", "locust.html", "locust.html", 20_000),
        ("--csv", "locust", "locust_*.csv", 200),
    ],
)
def test_a_file_of_locusts_is_named_and_the_results_are_kept(
    tmp_path: Path, option: str, file: str, name: str, most_bytes: int
) -> None:
    code, said = ended(tmp_path, option, str(tmp_path / file), most_bytes=most_bytes)

    assert code == 2, said
    assert f'error: "{tmp_path / name}" cannot be written: file too large: free some space' in said
    assert "200" in said


def test_a_html_file_in_no_folder_is_named_and_the_results_are_kept(tmp_path: Path) -> None:
    given = ("--html", "/dev/null/x/report_{u}.html", "--out", str(tmp_path / "out"))
    code, said = ended(tmp_path, *given, most_bytes=10_000_000)

    assert code == 2, said
    assert 'error: "/dev/null/x" cannot be written: not a directory: name another with --html' in said
    assert sum(target.requests for target in result_in(tmp_path / "out").targets) == 200


def test_a_disk_that_fills_keeps_what_it_has_room_for_and_marks_it(tmp_path: Path) -> None:
    code, said = ended(tmp_path, "--out", str(tmp_path / "out"), most_bytes=20_000)
    records = tmp_path / "out" / "records.jsonl"
    result = result_in(tmp_path / "out")

    assert code == 2, said
    assert f'"{records}" cannot be written: file too large: free some space' in said
    assert not records.exists()
    assert sum(target.requests for target in result.targets) == 200
    assert any(str(records) in reason for reason in result.partial)
    assert "cannot be written" in (tmp_path / "out" / "junit.xml").read_text(encoding="utf-8")
    assert not list((tmp_path / "out").glob(".*"))
