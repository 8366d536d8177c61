"""Which verdicts are kept beside the weights."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.evaluation.test_verdict import REFERENCE, SHIPPED
from tools.artifacts.quality import QUALITY, failed_reasons
from tools.benchmark.machine import Machine
from tools.evaluation.recording import record_verdicts
from tools.evaluation.results import Evaluation, GitState, Verdict
from tools.spec.loading import load_profile

PROFILE = load_profile("h200-llama2-7b")
BF16, AWQ = "models/llama-2-7b-chat", "models/llama-2-7b-chat-awq"
PASSED = Verdict(failures=(), not_judged=())
FAILED = Verdict(failures=("perplexity is 9.00, 1.00 over the limit of 8",), not_judged=())
PARTLY = Verdict(failures=(), not_judged=("mmlu_loss_points",))


@pytest.fixture
def home(tmp_path: Path) -> Path:
    for path in (BF16, AWQ):
        (tmp_path / path).mkdir(parents=True)
    return tmp_path


def evaluation(verdict: Verdict | None, artifact: str | None = AWQ, **changes: Any) -> Evaluation:
    found = Evaluation(
        started_at=datetime(2026, 11, 30, tzinfo=UTC),
        seconds=1.0,
        complete=True,
        machine=Machine(cpu="c", cores=1, memory_gib=1, gpus=(), system="s", load_before=0, versions={}),
        git=GitState(commit=None, dirty=False),
        profile=PROFILE.name,
        server="grpc://127.0.0.1:8001",
        settings=SHIPPED,
        reference="llm_bf16:1",
        rungs=(
            REFERENCE.model_copy(update={"artifact": BF16}),
            REFERENCE.model_copy(update={"rung": "llm_awq:1", "artifact": artifact, "verdict": verdict}),
        ),
    )
    return found.model_copy(update=changes)


@pytest.mark.parametrize(("verdict", "reasons"), [(PASSED, 0), (FAILED, 1)])
def test_a_certain_verdict_is_recorded(home: Path, verdict: Verdict, reasons: int) -> None:
    outcome = record_verdicts(evaluation(verdict), PROFILE, home)
    assert outcome["llm_awq:1"] == f'recorded in "{AWQ}/{QUALITY}"'
    assert len(failed_reasons(home / AWQ)) == reasons
    assert outcome["llm_bf16:1"] == 'not recorded: the profile "h200-llama2-7b" sets no limit for it'
    assert not (home / BF16 / QUALITY).exists()


def test_a_short_run_does_not_undo_what_a_long_one_found(home: Path) -> None:
    record_verdicts(evaluation(FAILED), PROFILE, home)
    outcome = record_verdicts(evaluation(PARTLY), PROFILE, home)
    assert outcome["llm_awq:1"] == "not recorded: mmlu_loss_points not judged"
    assert len(failed_reasons(home / AWQ)) == 1


def test_nothing_is_recorded_of_what_is_not_certain(home: Path) -> None:
    of_another = evaluation(PASSED)
    awq = of_another.rungs[1]
    for found, reason in (
        (evaluation(PASSED, complete=False), "not recorded: not everything was measured"),
        (evaluation(PASSED, None), 'not recorded: the profile "h200-llama2-7b" does not have this model'),
        (evaluation(PASSED, rungs=(awq, awq)), f'not recorded: the reference does not serve "{BF16}"'),
    ):
        assert record_verdicts(found, PROFILE, home)["llm_awq:1"] == reason
    assert not list(home.rglob(QUALITY))
