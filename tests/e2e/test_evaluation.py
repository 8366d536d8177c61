"""`./ladder eval` on the real model: its figures are those of the model, not of the way they were asked for."""

from __future__ import annotations

import math
from collections.abc import Iterator

import pytest

from tests.e2e.deployment import Deployment
from tools.bootstrap.layout import Layout
from tools.client.address import Protocol
from tools.evaluation.perplexity import read_texts
from tools.evaluation.results import Choice, Evaluation, NotMeasured, Perplexity, Settings, Suite
from tools.evaluation.run import DATA
from tools.evaluation.session import Order, evaluate
from tools.spec.loading import load_profile

WINDOW = 512


class Silent:
    """Nobody watches."""

    def begin(self, rung: str, suite: str, total: int) -> None:
        """See `Progress`."""

    def step(self) -> None:
        """See `Progress`."""


@pytest.fixture(scope="module")
def found(server: Deployment) -> Evaluation:
    """Perplexity and a few questions, on vLLM and on the baseline."""
    settings = Settings(
        suites=(Suite.PERPLEXITY, Suite.CHOICE), text=None, mmlu=None, limit=3, seed=0, window=WINDOW, concurrency=4,
        deadline_s=240.0,
    )  # fmt: skip
    order = Order(
        server.address.endpoint(Protocol.GRPC), load_profile(), ["llm_bf16", "llm_baseline:3"], None, settings
    )
    return evaluate(order, Layout.of_this_checkout().home, Silent()).found


def test_perplexity_is_that_of_the_same_weights_in_transformers(found: Evaluation) -> None:
    measured = found.rungs[0].perplexity
    assert isinstance(measured, Perplexity), measured
    losses = list(_losses_in_transformers())
    assert measured.tokens == len(losses)
    assert measured.perplexity == pytest.approx(math.exp(sum(losses) / len(losses)), rel=0.01)


def _losses_in_transformers() -> Iterator[float]:
    """Loss in nats of every token of the shipped texts that has another before it in its window."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    folder = Layout.of_this_checkout().home / load_profile().artifacts.bf16.path
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16)
    for text in read_texts(DATA / "text"):
        ids = torch.tensor(tokenizer.encode(text))
        for window in ids.split(WINDOW):
            with torch.inference_mode():
                logits = model(window[None]).logits[0, :-1].float()
            yield from torch.nn.functional.cross_entropy(logits, window[1:], reduction="none").tolist()


def test_both_engines_choose_the_same_letters(found: Evaluation) -> None:
    """One is held to the four letters, the other picks its likeliest token: of the same weights it is the same."""
    vllm, baseline = (result.choice for result in found.rungs)
    assert isinstance(vllm, Choice), vllm
    assert isinstance(baseline, Choice), baseline
    assert vllm.questions == baseline.questions == 6
    assert (vllm.unanswered, vllm.shortened) == (0, 0)
    # bfloat16 rounds differently in both engines, so one close call may fall on either side.
    assert abs(vllm.correct - baseline.correct) <= 1 + baseline.unanswered


def test_the_baseline_says_why_its_perplexity_is_not_measured(found: Evaluation) -> None:
    assert found.rungs[1].perplexity == NotMeasured(not_measured='it has no output "prompt_logprobs"')
    assert found.complete
