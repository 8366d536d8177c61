"""What `./ladder up` promises with the default profile: every rung is there, answers in words, and goes again."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.serving.ladder import assert_nothing_left, ladder, running

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1200)]

BASE = 18228
RUNGS = (
    *(("llm_baseline", version) for version in (1, 2, 3)),
    *((model, 1) for model in ("llm_bf16", "llm_awq", "llm_eagle")),
)
CHAT = tuple((model, 1) for model in ("chat_baseline", "chat_bf16", "chat_awq", "chat_eagle", "chat_tokenizer", "chat"))


@pytest.fixture(scope="module")
def startup() -> Iterator[str]:
    """What `./ladder up --detach` printed; the server is there until the last of these tests."""
    started = ladder("up", "--detach", "--port-base", str(BASE), timeout=900)
    try:
        assert started.returncode == 0, started.stderr
        yield " ".join((started.stdout + started.stderr).split())
    finally:
        ladder("down", "--port-base", str(BASE))
    assert_nothing_left(BASE)


def test_every_model_of_the_profile_is_ready(startup: str) -> None:
    states = {(model.name, model.version): model.state for model in running(BASE).models}
    assert states == dict.fromkeys([*RUNGS, *CHAT], "READY")


def test_every_rung_answered_the_question_and_was_measured(startup: str) -> None:
    table = startup.partition("One question, every rung")[2]
    for heading in ("TTFT ms", "TPOT ms", "tokens/s"):
        assert heading in table
    for model, version in RUNGS:
        assert f"{model}:{version}" in table
    assert len(re.findall(r"\bParis\b", table)) >= len(RUNGS)


def test_every_process_of_the_instance_is_accounted_for(startup: str) -> None:
    roles = [process.role for process in running(BASE).processes]
    assert roles[:2] == ["supervisor", "tritonserver"]
    stubs = sorted(role for role in roles if role.startswith("stub of "))
    own = [*RUNGS, ("chat_tokenizer", 1), ("chat", 1)]
    assert stubs == sorted(f"stub of {name} version {version}" for name, version in own)
    assert roles.count("engine") >= len(stubs)


def test_ask_reaches_it(startup: str) -> None:
    question = "What is the capital of France? Answer in one sentence."
    answer = ladder("ask", question, "--model", "chat_bf16", "--port-base", str(BASE))
    assert answer.returncode == 0, answer.stderr
    assert "Paris" in answer.stdout
