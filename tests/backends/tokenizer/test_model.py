"""The tokenizer as Triton calls it, with a real engine process behind it."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.backends.models import arguments
from tests.fixtures import tiny_model
from tests.fixtures.fake_pb_utils import InferenceRequest, InferenceResponse, TritonModelException
from tests.waiting import NEVER_S, wait_until
from tools.backends.tokenizer import model as tokenizer_model
from tools.backends.tokenizer.model import TritonPythonModel
from tools.wire.error_codes import split_code
from tools.wire.messages import Tokenized

pytestmark = pytest.mark.slow

NOT_DECOUPLED = {"model_transaction_policy": {}}
MESSAGES = json.dumps([{"role": "user", "content": "你好 🙂"}], ensure_ascii=False)
PROMPT = "<|im_start|>user\n你好 🙂<|im_end|>\n<|im_start|>assistant\n"


@pytest.fixture
def model(places: Path, tmp_path: Path) -> Iterator[TritonPythonModel]:
    tiny_model.write_chatml_tokenizer(tmp_path / "tokenizer")
    model = TritonPythonModel()
    model.initialize(
        arguments(
            tmp_path / "chat_tokenizer",
            name="chat_tokenizer",
            model_json={"model": str(tmp_path / "tokenizer"), "max_model_len": 256},
            parameters={"ENGINE_ADAPTER": ""},
            config=NOT_DECOUPLED,
        )
    )
    yield model
    model.finalize()


def error(response: InferenceResponse) -> tuple[str, str]:
    found = response.error()
    assert found is not None
    return found.code(), split_code(found.message())[0]


def ask(model: TritonPythonModel, *inputs: dict[str, Any]) -> list[InferenceResponse]:
    return model.execute([InferenceRequest(given) for given in inputs])


def test_answers_come_in_the_order_of_the_requests(model: TritonPythonModel) -> None:
    chat, wrong, text, unreadable, kept = ask(
        model,
        {"messages": MESSAGES},
        {"messages": "[]"},
        {"text_input": "The quick", "exclude_input_in_output": True},
        {"messages": b"\xff"},
        {"text_input": "x", "exclude_input_in_output": False},
    )
    assert chat.names() == ["prompt", "input_ids", "num_input_tokens", "exclude_input_in_output"]
    assert [str(tensor.as_numpy().dtype) for tensor in chat.output_tensors()] == ["object", "int32", "uint32", "bool"]
    assert chat.values("prompt") == [PROMPT]
    assert chat.values("num_input_tokens") == [len(chat.values("input_ids"))]
    assert chat.values("exclude_input_in_output") == [True], "an engine must not repeat the templated prompt"
    assert error(wrong)[0] == "INVALID_ARG"
    assert error(wrong)[1].startswith('"messages" is an empty list: ')
    assert text.values("prompt") == ["The quick"]
    assert error(unreadable) == ("INVALID_ARG", '"messages" is not UTF-8: byte 0 is 0xff')
    assert kept.values("exclude_input_in_output") == [False]


def test_an_engine_that_dies_is_told_and_comes_back(model: TritonPythonModel, monkeypatch: pytest.MonkeyPatch) -> None:
    pid = model._engine._supervisor.welcome.pid
    # A stopped engine answers nothing, so that the request is certainly waiting when it dies.
    os.kill(pid, signal.SIGSTOP)
    send = model._engine.send

    def send_and_kill(message: Any) -> None:
        send(message)
        os.kill(pid, signal.SIGKILL)

    with monkeypatch.context() as patch:
        patch.setattr(model._engine, "send", send_and_kill)
        (waiting,) = ask(model, {"text_input": "x"})
    assert error(waiting)[0] == "UNAVAILABLE"
    assert error(waiting)[1].startswith('the engine of "chat_tokenizer" version 1 is down (engine process ')
    (following,) = ask(model, {"text_input": "x"})
    assert error(following)[1].endswith("it is being started again: retry in some seconds")
    wait_until(lambda: model._engine.unavailable() is None, NEVER_S)
    (again,) = ask(model, {"text_input": "The quick"})
    assert again.values("prompt") == ["The quick"]


def test_an_engine_that_does_not_answer_is_not_waited_for_for_ever(
    places: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = TritonPythonModel()
    model.initialize(arguments(tmp_path / "m", config=NOT_DECOUPLED))
    monkeypatch.setattr(tokenizer_model, "_TIMEOUT_S", 0.2)
    monkeypatch.setattr(model._engine, "send", lambda _: None)
    (response,) = ask(model, {"text_input": "x"})
    assert error(response) == ("UNAVAILABLE", "the tokenizer's engine did not answer within 0.2 s: retry later")
    # Its answer may come later: nobody waits for it, and nothing remembers it.
    model._answers.put(Tokenized(1, "x", [1]))
    assert not model._answers._answers
    model.finalize()


@pytest.mark.parametrize(
    ("config", "says"),
    [
        ({}, '"m" answers each request once: leave model_transaction_policy out of config.pbtxt'),
        (
            {**NOT_DECOUPLED, "max_batch_size": 4},
            '"m" has max_batch_size 4: write 0, because engines without a batch dimension take its outputs as they are',
        ),
    ],
)
def test_a_config_that_cannot_work_is_refused(places: Path, tmp_path: Path, config: dict[str, Any], says: str) -> None:
    with pytest.raises(TritonModelException) as refused:
        TritonPythonModel().initialize(arguments(tmp_path / "m", config=config))
    assert str(refused.value) == says


def test_a_tokenizer_that_cannot_be_loaded_is_refused_with_the_reason(places: Path, tmp_path: Path) -> None:
    with pytest.raises(TritonModelException) as refused:
        TritonPythonModel().initialize(
            arguments(
                tmp_path / "m",
                model_json={"model": "no/such", "max_model_len": 256},
                parameters={"ENGINE_ADAPTER": ""},
                config=NOT_DECOUPLED,
            )
        )
    assert str(refused.value).startswith('model folder "no/such" does not exist in "')
    assert list(places.iterdir()) == []
