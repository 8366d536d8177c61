from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tests.drafting.fake_vllm import FakeVllm
from tools.drafting.acceptance import AcceptanceSettings, measure_acceptance
from tools.drafting.architecture import Target
from tools.drafting.errors import DraftError
from tools.drafting.manifest import Acceptance

PROMPTS = ["<|im_start|>user\nHello<|im_end|>\n", "<|im_start|>user\nWhat is the capital of France?<|im_end|>\n"]


def counters(drafts: int, by_position: list[int]) -> list[Any]:
    values = {"num_drafts": drafts, "num_draft_tokens": 3 * drafts, "num_accepted_tokens": sum(by_position)}
    return [
        SimpleNamespace(name="vllm:num_requests_running", value=1),
        *(SimpleNamespace(name=f"vllm:spec_decode_{name}", value=value) for name, value in values.items()),
        SimpleNamespace(name="vllm:spec_decode_num_accepted_tokens_per_pos", values=by_position),
    ]


def measure(target: Target) -> Acceptance:
    head = target.folder / "head"
    settings = AcceptanceSettings(num_speculative_tokens=3, max_tokens=20, at_once=2)
    return measure_acceptance(target.folder, head, PROMPTS, settings)


def test_figures_follow_from_vllms_counters(target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeVllm(lambda *_: ([1, 2, 3, 4], "", "stop"), metrics=counters(40, [30, 16, 8]))
    fake.install(monkeypatch)
    found = measure(target)
    assert (found.drafts, found.drafted_tokens, found.accepted_tokens) == (40, 120, 54)
    assert (found.mean_length, found.rate) == (2.35, 0.45)
    assert found.by_position == [0.75, 0.4, 0.2]
    assert (found.prompts, found.answer_tokens) == (2, 8)
    (engine,) = fake.engines
    assert engine["speculative_config"] == {
        "method": "eagle3",
        "model": str(target.folder / "head"),
        "num_speculative_tokens": 3,
    }
    assert engine["max_model_len"] == max(map(len, fake.prompts)) + 20 + 3 + 1
    assert engine["disable_log_stats"] is False


def test_when_nothing_was_drafted_there_is_nothing_to_report(target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    FakeVllm(lambda *_: ([1], "", "stop"), metrics=counters(0, [0, 0, 0])).install(monkeypatch)
    with pytest.raises(DraftError, match=r'^nothing was drafted with ".*head": the answers were too short, give more'):
        measure(target)
