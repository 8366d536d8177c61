"""The EAGLE-3 rung: its head drafts what the target would have said, and changes nothing of it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from tests.e2e.asking import Triton, Way, text_of
from tests.e2e.bare_vllm import Answers, ask_bare_vllm
from tests.e2e.deployment import Deployment
from tests.e2e.metrics import Scrape, at_rest
from tests.e2e.rungs import CHAT_EAGLE, EAGLE, conversation, sampling
from tools.bootstrap.layout import Layout
from tools.cli.instances import register
from tools.drafting.export import read_unseen_prompts
from tools.rendering.plan import MODEL_REPOSITORY, rendered_files
from tools.spec.loading import load_profile

# What the head must reach on prompts that it was not trained on, in tokens a step of the target.
LEAST_MEAN_LENGTH = 2.0
IDENTICAL_PROMPTS = 50
IDENTICAL_TOKENS = 24
FLOAT32 = {"dtype": "float32", "max_num_seqs": 16, "max_model_len": 256}


@pytest.fixture(scope="module")
def unseen() -> list[str]:
    """Rendered prompts that the head was not trained on."""
    draft = load_profile().artifacts.draft
    assert draft is not None
    return read_unseen_prompts(Layout.of_this_checkout().home / draft.path)


def test_the_served_head_drafts_well_and_status_says_so(server: Deployment, triton: Triton, unseen: list[str]) -> None:
    questions = [prompt.split("<|im_start|>user\n")[1].split("<|im_end|>")[0] for prompt in unseen[:12]]

    def ask(question: str) -> str:
        asked = {"messages": conversation(question), "stream": True, "sampling_parameters": sampling(64)}
        return text_of(triton.ask(Way.GRPC, CHAT_EAGLE, asked))

    before = at_rest(server.address, EAGLE.name)
    with ThreadPoolExecutor(len(questions)) as pool:
        assert all(pool.map(ask, questions))
    now = at_rest(server.address, EAGLE.name)
    counted = now.since(before)
    drafts, accepted = (counted[f"vllm:spec_decode_num_{name}_total"] for name in ("drafts", "accepted_tokens"))
    assert counted["vllm:spec_decode_num_draft_tokens_total"] == 3 * drafts
    assert 1 + accepted / drafts >= LEAST_MEAN_LENGTH
    assert f"llm_eagle version 1 drafts: {_mean_length(now):.2f} tokens a step" in _status(server)


def _mean_length(scrape: Scrape) -> float:
    accepted = scrape["vllm:spec_decode_num_accepted_tokens_total"]
    return round(1 + accepted / scrape["vllm:spec_decode_num_drafts_total"], 3)


def _status(server: Deployment) -> str:
    """What `./ladder status` prints of this server, on one line."""
    app = typer.Typer()
    register(app)
    result = CliRunner().invoke(app, ["status", "--port-base", str(server.address.http_port)])
    assert result.exit_code == 0, result.output
    return " ".join(result.stdout.split())


def test_in_float32_greedy_tokens_are_those_of_the_target_alone(unseen: list[str]) -> None:
    """Not through the server: token ids are compared, and the engine is all there is to differ.

    Short prompts, since only the answer's tokens are drafted.
    """
    profile = load_profile()
    model_json = rendered_files(profile)[MODEL_REPOSITORY / EAGLE.name / "1" / "model.json"]
    drafting: dict[str, Any] = json.loads(model_json) | FLOAT32
    alone = {name: value for name, value in drafting.items() if name != "speculative_config"}
    prompts = sorted(unseen, key=len)[:IDENTICAL_PROMPTS]
    environment = profile.environment_of(profile.variants[EAGLE.name])

    def ask(arguments: Mapping[str, Any]) -> Answers:
        return ask_bare_vllm(
            arguments, prompts, max_tokens=IDENTICAL_TOKENS, at_once=len(prompts), environment=environment
        )

    # Side by side: most of the time goes into loading, which one core does.
    with ThreadPoolExecutor(2) as pool:
        drafted, expected = pool.map(ask, (drafting, alone))
    assert len(prompts) == IDENTICAL_PROMPTS
    assert (drafted.accepted > 0, expected.accepted) == (True, 0)
    different = [
        number
        for number, (with_head, without) in enumerate(zip(drafted.tokens, expected.tokens, strict=True))
        if with_head != without
    ]
    assert not different, {prompts[number]: (drafted.texts[number], expected.texts[number]) for number in different}
