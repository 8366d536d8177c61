"""Campaigns whose commands are not run, and one that is."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from tools.benchmark.campaign import (
    Campaign,
    CampaignOrder,
    LadderCommand,
    StageRecord,
    read_campaign,
    run_campaign,
    wanted_names,
)
from tools.benchmark.errors import BenchmarkError
from tools.bootstrap.layout import Layout

HOME = Layout.of_this_checkout().home
CAMPAIGN = Campaign.model_validate(
    {
        "name": "small",
        "groups": [
            {
                "name": "served",
                "serve": ["up"],
                "stop": ["down"],
                "stages": [
                    {"name": "one", "command": ["report", "--out", "{out}/one"], "budget_s": 50, "least_s": 10},
                    {"name": "two", "command": ["bench"], "budget_s": 50, "least_s": 10},
                ],
            },
            {"name": "alone", "stages": [{"name": "three", "command": ["eval"], "budget_s": 50, "least_s": 10}]},
            {
                "name": "written",
                "stages": [
                    {"name": "last", "command": ["write"], "budget_s": 50, "always": True, "exit_codes": [0, 1]}
                ],
            },
        ],
    }
)


class FakeLadder:
    """Notes what it is asked; `codes` are exit codes by a command's first word, 0 for the others."""

    def __init__(self, **codes: int | None) -> None:
        self.asked: list[str] = []
        self.seconds: list[float] = []
        self._codes = codes

    def __call__(self, words: Sequence[str], log: Path, seconds: float) -> int | None:
        self.asked.append(" ".join(words))
        self.seconds.append(seconds)
        log.write_text("first\nthe reason\n", encoding="utf-8")
        return self._codes.get(words[0], 0)


def run(out: Path, ladder: FakeLadder, budget_s: float = 1000.0, **order: object) -> dict[str, StageRecord]:
    records = run_campaign(CAMPAIGN, CampaignOrder(out, budget_s, **order), ladder, lambda _: None)  # type: ignore[arg-type]
    return {record.name: record for record in records}


def test_stages_of_a_group_share_a_server_that_is_stopped(tmp_path: Path) -> None:
    ladder = FakeLadder()
    records = run(tmp_path, ladder)
    assert ladder.asked == ["up", f"report --out {tmp_path}/one", "bench", "down", "eval", "write"]
    assert {record.state for record in records.values()} == {"done"}
    written = json.loads((tmp_path / "stages" / "one.json").read_text(encoding="utf-8"))
    assert (written["state"], written["exit_code"], written["reason"]) == ("done", 0, "")


def test_what_is_done_is_not_done_again_but_for_what_is_always(tmp_path: Path) -> None:
    run(tmp_path, FakeLadder())
    ladder = FakeLadder()
    assert set(run(tmp_path, ladder)) == {"one", "two", "three", "last"}
    assert ladder.asked == ["write"]
    again = FakeLadder()
    run(tmp_path, again, again=True)
    assert "bench" in again.asked


def test_a_stage_with_another_command_counts_as_none(tmp_path: Path) -> None:
    run(tmp_path / "a", FakeLadder())
    (tmp_path / "a").rename(tmp_path / "b")
    ladder = FakeLadder()
    run(tmp_path / "b", ladder)
    assert ladder.asked == ["up", f"report --out {tmp_path}/b/one", "down", "write"]


def test_a_failure_is_recorded_with_its_last_words_and_the_others_go_on(tmp_path: Path) -> None:
    ladder = FakeLadder(report=2)
    records = run(tmp_path, ladder)
    assert records["one"].state == "failed"
    assert records["one"].reason == f'exit code 2: first / the reason (in "{tmp_path}/stages/one.log")'
    assert [records[name].state for name in ("two", "three", "last")] == ["done"] * 3
    ladder = FakeLadder()
    run(tmp_path, ladder)
    assert ladder.asked == ["write"], "what failed is not tried again unless it is asked for"


def test_a_server_that_does_not_start_fails_its_stages_alone(tmp_path: Path) -> None:
    ladder = FakeLadder(up=1)
    records = run(tmp_path, ladder)
    assert records["two"].reason.startswith("its server did not start: exit code 1: first / the reason")
    assert records["three"].state == "done"
    assert ladder.asked == ["up", "down", "eval", "write"]


def test_a_stage_that_runs_out_of_time_is_continued(tmp_path: Path) -> None:
    assert run(tmp_path, FakeLadder(bench=None))["two"].state == "out of time"
    ladder = FakeLadder()
    assert run(tmp_path, ladder)["two"].state == "done"
    assert ladder.asked == ["up", "bench", "down", "write"]


def test_with_too_little_time_left_only_what_is_always_runs(tmp_path: Path) -> None:
    ladder = FakeLadder()
    assert set(run(tmp_path, ladder, budget_s=5)) == {"last"}
    assert ladder.asked == ["write"]


def test_a_stage_may_take_its_budget_or_what_is_left_of_the_campaigns(tmp_path: Path) -> None:
    ladder = FakeLadder()
    run(tmp_path, ladder, budget_s=30)
    by_command = dict(zip([words.split()[0] for words in ladder.asked], ladder.seconds, strict=True))
    assert 25 < by_command["report"] <= 30
    assert by_command["write"] == 50


def test_an_exit_code_that_a_stage_allows_is_no_failure(tmp_path: Path) -> None:
    assert run(tmp_path, FakeLadder(write=1))["last"].state == "done"
    assert run(tmp_path, FakeLadder(write=2))["last"].state == "failed"


def test_only_the_named_stages_run(tmp_path: Path) -> None:
    ladder = FakeLadder()
    run(tmp_path, ladder, only=wanted_names(["three", " "]))
    assert ladder.asked == ["eval"]
    with pytest.raises(BenchmarkError, match='"small" has no stage "four": it has one, two, three, last'):
        run(tmp_path, ladder, only=frozenset({"four"}))


def test_a_group_stops_its_server_when_it_is_interrupted(tmp_path: Path) -> None:
    class Interrupted(FakeLadder):
        def __call__(self, words: Sequence[str], log: Path, seconds: float) -> int | None:
            if words[0] == "bench":
                raise KeyboardInterrupt
            return super().__call__(words, log, seconds)

    ladder = Interrupted()
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, ladder)
    assert ladder.asked[-1] == "down"
    assert (tmp_path / "stages" / "one.json").is_file()


@pytest.mark.parametrize("file", sorted((HOME / "tools/benchmark/campaigns").glob("h200.yaml")))
def test_shipped_campaigns_are_campaigns(file: Path) -> None:
    campaign = read_campaign(file)
    for group in campaign.groups:
        assert (group.serve is None) == (group.stop is None)
    for stage in campaign.stages:
        profiles = [stage.command[i + 1] for i, word in enumerate(stage.command) if word == "--profile"]
        assert all((HOME / profile).is_file() for profile in profiles)


def test_a_file_that_is_no_campaign_is_refused_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    file.write_text("name: x\ngroups:\n  - name: g\n    stages:\n      - {name: a, command: [x], budget: 3}\n")
    with pytest.raises(BenchmarkError, match=r"c\.yaml:5: groups\.0\.stages\.0\.budget"):
        read_campaign(file)
    file.write_text(
        "name: x\ngroups:\n  - name: g\n    stages:\n      - {name: a, command: [x], budget_s: 3}\n"
        "      - {name: a, command: [y], budget_s: 3}\n"
    )
    with pytest.raises(BenchmarkError, match='two stages are called "a"'):
        read_campaign(file)
    with pytest.raises(BenchmarkError, match="cannot be read"):
        read_campaign(tmp_path / "none.yaml")


@pytest.mark.slow
def test_a_command_runs_with_its_output_in_the_log_and_ends_in_time(tmp_path: Path) -> None:
    command = LadderCommand(Layout.of_this_checkout())
    log = tmp_path / "log"
    assert command(["lint", "--list-rules"], log, 60.0) == 0
    assert "$ ./ladder lint --list-rules" in log.read_text(encoding="utf-8")
    assert "TL721" in log.read_text(encoding="utf-8")
    assert command(["bench", "campaign", "nowhere.yaml", "--out", str(tmp_path)], log, 60.0) == 1
    assert command(["lint", "--list-rules"], log, 0.01) is None
