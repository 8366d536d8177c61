"""What the page on workloads shows can be run as it stands, and it names every workload."""

from __future__ import annotations

import re
from pathlib import Path

from loadtest.workloads.catalogue import load_workload, workload_names
from loadtest.workloads.planned import stream
from tests.loadtest.workloads.tokenizers import options

PAGE = Path(__file__).parents[3] / "loadtest" / "workloads" / "README.md"


def test_every_workload_is_in_the_table() -> None:
    rows = re.findall(r"^\| (`.*?) \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(re.findall(r"`([^`]+)`", " ".join(rows))) == workload_names()


def test_every_example_runs(tmp_path: Path) -> None:
    blocks = re.findall(r"```(json|yaml)\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    names = ["requests.jsonl", "support.yaml", "mixture.yaml"]
    assert [kind for kind, _ in blocks] == ["json", "yaml", "yaml"]
    for name, (_, text) in zip(names, blocks, strict=True):
        (tmp_path / name).write_text(text, encoding="utf-8")
    for name in names:
        workload = load_workload(options(str(tmp_path / name)), count_tokens=None)
        sessions = workload.sessions(stream(0, 0, 0))
        assert all(next(sessions).next(None) is not None for _ in range(20))
