"""LoRA adapters and embeddings on the real engine."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModel, AutoTokenizer

from tests.e2e import repository
from tests.e2e.asking import Model, RefusedError, Triton, Way, text_of
from tests.e2e.deployment import Deployment
from tests.e2e.rungs import sampling
from tools.bootstrap.layout import Layout
from tools.spec.loading import load_profile

LORA = Model(repository.LORA)
EMBEDDER = Model(repository.EMBEDDER)
PROMPT = "The capital of France is"


@pytest.fixture(scope="module")
def lora(server: Deployment) -> Iterator[None]:
    with server.loaded(LORA.name):
        yield


@pytest.fixture(scope="module")
def embedder(server: Deployment) -> Iterator[None]:
    with server.loaded(EMBEDDER.name):
        yield


def answer(triton: Triton, **parameters: Any) -> str:
    inputs = {"text_input": PROMPT, "exclude_input_in_output": True, "sampling_parameters": sampling(8, **parameters)}
    return text_of(triton.ask(Way.GRPC, LORA, inputs))


@pytest.mark.usefixtures("lora")
def test_an_adapter_is_used_where_it_is_named_and_nowhere_else(triton: Triton) -> None:
    plain = answer(triton)
    assert plain.startswith(" Paris")
    assert answer(triton, lora_name=repository.LORA_STRONG) != plain
    assert answer(triton, lora_name=repository.LORA_IDLE) == plain
    assert answer(triton) == plain


@pytest.mark.usefixtures("lora")
def test_an_adapter_that_is_not_there_is_refused_with_those_that_are(triton: Triton) -> None:
    with pytest.raises(RefusedError) as caught:
        answer(triton, lora_name="nobody")
    assert str(caught.value) == (
        'INVALID_ARGUMENT: sampling parameter "lora_name" is "nobody": multi_lora.json has "idle", "strong"'
    )


def embed(triton: Triton, request: dict[str, Any]) -> np.ndarray:
    [response] = triton.ask(Way.GRPC, EMBEDDER, {"embedding_request": json.dumps(request)})
    return np.array(json.loads(response["text_output"][0]))


@pytest.mark.usefixtures("embedder")
def test_an_embedding_is_the_last_hidden_state_of_the_model(triton: Triton) -> None:
    checkpoint = Layout.of_this_checkout().home / load_profile().artifacts.bf16.path
    tokenizer = AutoTokenizer.from_pretrained(checkpoint)
    model = AutoModel.from_pretrained(checkpoint, dtype=torch.float32)
    ids = tokenizer(PROMPT).input_ids
    with torch.no_grad():
        expected = model(torch.tensor([ids])).last_hidden_state[0, -1]
    expected = (expected / expected.norm()).numpy()
    assert embed(triton, {"input": PROMPT}) == pytest.approx(expected, abs=1e-3)
    assert embed(triton, {"input": ids}) == pytest.approx(expected, abs=1e-3)


@pytest.mark.usefixtures("embedder")
def test_an_embedder_refuses_to_generate_and_to_cut_what_was_not_trained_for_it(triton: Triton) -> None:
    with pytest.raises(RefusedError, match=r'^UNIMPLEMENTED: this model only embeds: send an "embedding_request"'):
        triton.ask(Way.GRPC, EMBEDDER, {"text_input": PROMPT})
    with pytest.raises(RefusedError, match=r"^INVALID_ARGUMENT: vLLM refuses the request: "):
        embed(triton, {"input": PROMPT, "pooling_params": {"dimensions": 64}})
