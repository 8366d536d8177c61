"""The vLLM backend as Triton calls it, with the mock behind it."""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.backends.models import arguments
from tests.fixtures.fake_pb_utils import InferenceRequest, TritonModelException
from tests.waiting import NEVER_S, wait_until
from tools.backends.vllm.model import TritonPythonModel
from tools.engine.adapters.mock import mock_tokens
from tools.wire.error_codes import split_code


@pytest.fixture(autouse=True)
def _restore_root_logger() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers, root.level
    yield
    root.handlers, root.level = handlers, level


def finish(*requests: InferenceRequest) -> None:
    for request in requests:
        assert request.sender.finished.wait(NEVER_S), "the request hangs"


def error(request: InferenceRequest) -> tuple[str, str]:
    finish(request)
    last = request.sender.error
    assert last is not None
    return last.code(), split_code(last.message())[0]


@pytest.fixture
def model(places: Path, tmp_path: Path) -> Iterator[TritonPythonModel]:
    model = TritonPythonModel()
    model.initialize(arguments(tmp_path / "llm", model_json={"step_s": 0.002}, parameters={"MAX_PROMPT_BYTES": "100"}))
    yield model
    model.finalize()
    assert list(places.iterdir()) == []


@pytest.mark.slow
def test_requests_of_every_kind_side_by_side(model: TritonPythonModel) -> None:
    """One engine serves them all: streams, whole answers, several sequences, wrong ones, abandoned ones."""
    stream = InferenceRequest({"text_input": "你 好 🙂", "stream": True, "sampling_parameters": '{"max_tokens": 12}'})
    whole = InferenceRequest({"text_input": "a b"}, parameters={"max_tokens": 3})
    bare = InferenceRequest(
        {
            "text_input": "a b",
            "exclude_input_in_output": True,
            "return_finish_reason": True,
            "return_num_input_tokens": True,
            "return_num_output_tokens": True,
            "sampling_parameters": '{"n": 2, "max_tokens": 4}',
        }
    )
    not_text = InferenceRequest({"text_input": b"\xff"})
    late = InferenceRequest({"text_input": "a", "sampling_parameters": '{"max_tokens": 1000000}'}, timeout_us=50_000)
    long = InferenceRequest({"text_input": "x" * 101})
    wrong = [
        InferenceRequest({"text_input": "a", "sampling_parameters": text})
        for text in ("{", '{"temprature": 1}', '{"ignore_eos": "false"}', "[" * 50_000, '{"max_tokens": 1e400}')
    ]
    gone = InferenceRequest({"text_input": "a", "stream": True, "sampling_parameters": '{"max_tokens": 1000000}'})
    gone.sender.cancelled = True

    model.execute([stream, whole, not_text, bare, late])
    model.execute([long, *wrong, gone])

    finish(stream, whole, bare)
    assert stream.sender.text == "".join(mock_tokens("你 好 🙂", 12))
    assert len(stream.sender.responses) > 1
    assert whole.sender.text == "a b" + "a b a "
    (response,) = bare.sender.responses
    assert response.values("text_output") == ["a b a b "] * 2
    assert response.values("finish_reason") == ["length"] * 2
    assert response.values("num_input_tokens") == [2]
    assert response.values("num_output_tokens") == [4, 4]
    assert error(not_text) == ("INVALID_ARG", '"text_input" is not UTF-8: byte 0 is 0xff')
    assert error(long) == ("INVALID_ARG", '"text_input" has 101 bytes: MAX_PROMPT_BYTES allows at most 100')
    assert error(late)[0] == "UNAVAILABLE"
    assert error(late)[1].startswith("the deadline of 0.05 s passed after ")
    assert [error(request)[0] for request in wrong] == ["INVALID_ARG"] * len(wrong)
    assert error(wrong[1])[1] == 'sampling parameter "temprature" is unknown: did you mean "temperature"?'
    assert error(gone)[0] == "CANCELLED"
    assert error(gone)[1].startswith("the client cancelled the request after ")


@pytest.mark.slow
def test_a_dead_engine_fails_what_is_in_flight(model: TritonPythonModel) -> None:
    request = InferenceRequest({"text_input": "a", "stream": True, "sampling_parameters": '{"max_tokens": 1000000}'})
    model.execute([request])
    wait_until(lambda: request.sender.responses)
    os.kill(model._engine._supervisor.welcome.pid, signal.SIGKILL)
    code, message = error(request)
    assert code == "UNAVAILABLE"
    assert message.startswith('the engine of "m" version 1 died: engine process ')


@pytest.mark.slow
def test_what_is_in_flight_ends_with_the_model(places: Path, tmp_path: Path) -> None:
    model = TritonPythonModel()
    model.initialize(arguments(tmp_path / "llm", model_json={"step_s": 0.002}))
    request = InferenceRequest({"text_input": "a", "sampling_parameters": '{"max_tokens": 20}'})
    model.execute([request])
    model.finalize()
    assert request.sender.finished.is_set()
    assert request.sender.text == "a" + "".join(mock_tokens("a", 20))


NOT_DECOUPLED = {"model_transaction_policy": {}}
REFUSED: list[tuple[dict[str, Any], str]] = [
    (
        {"config": NOT_DECOUPLED},
        '"m" streams its answers: write model_transaction_policy { decoupled: true } in config.pbtxt',
    ),
    (
        {"config": {"max_batch_size": 8}},
        '"m" has max_batch_size 8: write 0, because vLLM batches by itself',
    ),
    (
        {"kind": "GPU", "model_json": {"tensor_parallel_size": 2, "pipeline_parallel_size": 2}},
        '"m" needs 4 GPUs, but KIND_GPU gives an instance one: write KIND_MODEL in config.pbtxt',
    ),
    (
        {"kind": "GPU", "model_json": {"tensor_parallel_size": "2"}},
        'model.json of "m": "tensor_parallel_size" is "2": write a whole number, 1 or more',
    ),
    (
        {"model_json": {"nonsense": 1}},
        "model.json of a mock engine: Object contains unknown field `nonsense`",
    ),
    (
        {"parameters": {"MAX_WAITING_REQUESTS": "-1"}},
        'parameter "MAX_WAITING_REQUESTS" in config.pbtxt is "-1": write a whole number, 0 or more',
    ),
    (
        {"parameters": {"ENGINE_ENVIRONMENT": "x"}},
        'parameter "ENGINE_ENVIRONMENT" of "m" is x: write a JSON object whose values are strings, '
        'such as {"HF_HUB_OFFLINE": "1"}',
    ),
    (
        {"parameters": {"ENGINE_PYTHON": "/no/python"}},
        'the engine\'s interpreter "/no/python" cannot be run in ',
    ),
]


@pytest.mark.slow
@pytest.mark.parametrize(("described", "text"), REFUSED)
def test_a_model_that_cannot_work_is_refused_with_the_reason(
    places: Path, tmp_path: Path, described: dict[str, Any], text: str
) -> None:
    with pytest.raises(TritonModelException) as caught:
        TritonPythonModel().initialize(arguments(tmp_path / "llm", **described))
    assert str(caught.value).startswith(text)
    assert list(places.iterdir()) == []
