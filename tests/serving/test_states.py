from __future__ import annotations

from dataclasses import dataclass, field

from tools.serving.repository import LoadPlan, RepositoryModel
from tools.serving.states import states_of
from tools.serving.status import ModelStatus

PLAN = LoadPlan((RepositoryModel("llm"), RepositoryModel("tokenizer"), RepositoryModel("chat", ("llm", "tokenizer"))))


@dataclass
class FakeLoading:
    errors: dict[str, str] = field(default_factory=dict)

    def error(self, model: str) -> str:
        return self.errors.get(model, "")


def listed(name: str, version: int | None, state: str = "READY", reason: str = "") -> ModelStatus:
    return ModelStatus(name=name, version=version, state=state, reason=reason)


def test_before_the_server_knows_anything_models_wait() -> None:
    states = states_of(PLAN, FakeLoading(), [listed("llm", None, "")])
    assert [(state.name, state.state, state.reason) for state in states] == [
        ("llm", "WAITING", ""),
        ("tokenizer", "WAITING", ""),
        ("chat", "WAITING", "for llm, tokenizer"),
    ]


def test_versions_are_shown_as_the_server_lists_them_and_others_left_out() -> None:
    server = [listed("llm", 1), listed("llm", 2, "UNAVAILABLE", "why"), listed("other", 1), listed("tokenizer", 1)]
    states = states_of(PLAN, FakeLoading({"chat": 'step "llm" did not load'}), server)
    assert [(state.name, state.version, state.state, state.reason) for state in states] == [
        ("llm", 1, "READY", ""),
        ("llm", 2, "UNAVAILABLE", "why"),
        ("tokenizer", 1, "READY", ""),
        ("chat", None, "FAILED", 'step "llm" did not load'),
    ]
