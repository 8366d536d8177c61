"""The baseline as Triton calls it, with the mock behind it."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.backends.models import arguments
from tests.fixtures.fake_pb_utils import InferenceRequest, TritonModelException
from tests.waiting import NEVER_S, wait_until
from tools.backends.baseline.model import TritonPythonModel
from tools.engine.adapters.mock import mock_tokens
from tools.wire.messages import Submit, ToEngine

ENDLESS = '{"max_tokens": 1000000}'


@contextmanager
def serving(folder: Path, *, batching: bool = False, **parameters: str) -> Iterator[TritonPythonModel]:
    model = TritonPythonModel()
    model.initialize(
        arguments(
            folder,
            name="llm_baseline",
            version="3",
            model_json={"step_s": 0.002, "batching": batching},
            parameters=parameters,
            config={"max_batch_size": 8},
        )
    )
    try:
        yield model
    finally:
        model.finalize()


@pytest.fixture
def model(places: Path, tmp_path: Path) -> Iterator[TritonPythonModel]:
    with serving(tmp_path / "llm") as model:
        yield model


def request(prompt: str = "a b", sampling: str = '{"max_tokens": 3}', **inputs: Any) -> InferenceRequest:
    """A request with a batch dimension of 1, as Triton's batcher hands it on."""
    given = {"text_input": prompt, "stream": True, "sampling_parameters": sampling, **inputs}
    arrays = {
        name: np.array([[value.encode() if isinstance(value, str) else value]])
        if not isinstance(value, np.ndarray)
        else value
        for name, value in given.items()
    }
    return InferenceRequest({name: _objects(array) for name, array in arrays.items()})


def _objects(array: np.ndarray) -> np.ndarray:
    return array.astype(np.object_) if array.dtype.kind == "S" else array


@contextmanager
def executing(model: TritonPythonModel, *requests: InferenceRequest) -> Iterator[threading.Thread]:
    """execute() in a thread of its own, which must have returned at the end."""
    thread = threading.Thread(target=model.execute, args=(list(requests),))
    thread.start()
    yield thread
    thread.join(NEVER_S)
    assert not thread.is_alive(), "execute() hangs"


def submitted(model: TritonPythonModel, monkeypatch: pytest.MonkeyPatch) -> list[Submit]:
    """Submit messages as the engine gets them from now on."""
    found: list[Submit] = []
    send = model._engine.send

    def record(message: ToEngine) -> None:
        if isinstance(message, Submit):
            found.append(message)
        send(message)

    monkeypatch.setattr(model._engine, "send", record)
    return found


@pytest.mark.slow
def test_execute_returns_when_all_its_requests_have_ended(model: TritonPythonModel) -> None:
    requests = [request(f"word{i}", f'{{"max_tokens": {3 * i + 1}}}') for i in range(4)]
    model.execute(requests)
    for i, asked in enumerate(requests):
        assert asked.sender.finished.is_set()
        assert asked.sender.text == "".join(mock_tokens(f"word{i}", 3 * i + 1))


@pytest.mark.slow
def test_execute_blocks_as_long_as_one_request_runs(model: TritonPythonModel) -> None:
    short, endless = request(), request(sampling=ENDLESS)
    with executing(model, short, endless) as thread:
        assert short.sender.finished.wait(NEVER_S)
        wait_until(lambda: endless.sender.responses)
        assert thread.is_alive()
        assert not endless.sender.finished.is_set()
        endless.sender.cancelled = True
    assert endless.sender.error is not None
    assert endless.sender.error.code() == "CANCELLED"
    assert endless.sender.error.message().startswith("the client cancelled the request after ")


@pytest.mark.slow
def test_every_output_has_the_batch_dimension(model: TritonPythonModel) -> None:
    asked = request(return_finish_reason=True, return_num_input_tokens=True, return_num_output_tokens=True)
    model.execute([asked])
    for response in asked.sender.responses:
        assert response.names() == ["text_output", "finish_reason", "num_input_tokens", "num_output_tokens"]
        assert [tensor.as_numpy().shape for tensor in response.output_tensors()] == [(1, 1)] * 4


@pytest.mark.slow
def test_ragged_input_ids_are_read_away_from_the_batch_dimension(
    model: TritonPythonModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = submitted(model, monkeypatch)
    model.execute([request(input_ids=np.array([[5, 6, 7]], np.int32)), request(input_ids=np.array([[8]], np.int32))])
    assert [wire.token_ids for wire in found[0].requests] == [[5, 6, 7], [8]]


@pytest.mark.slow
@pytest.mark.parametrize("batching", [True, False])
def test_a_batch_is_generated_together_only_where_model_json_says_so(
    places: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, batching: bool
) -> None:
    with serving(tmp_path / "llm", batching=batching) as model:
        found = submitted(model, monkeypatch)
        model.execute([request(), request(), request()])
        assert [(len(message.requests), message.together) for message in found] == [(3, batching)]


@pytest.mark.slow
def test_a_wrong_request_fails_alone(model: TritonPythonModel) -> None:
    good = request()
    two_prompts = request()
    two_prompts._inputs["text_input"] = np.array([[b"a"], [b"b"]], np.object_)
    unknown = request(sampling='{"temprature": 1}')
    model.execute([two_prompts, good, unknown])
    assert good.sender.text == "a b a "
    assert two_prompts.sender.error is not None
    assert two_prompts.sender.error.code() == "INVALID_ARG"
    assert two_prompts.sender.error.message() == '"text_input" has 2 elements: it takes exactly 1 [INVALID_ARGUMENT]'
    assert unknown.sender.error is not None
    assert unknown.sender.error.message() == (
        'sampling parameter "temprature" is unknown: did you mean "temperature"? [INVALID_ARGUMENT]'
    )


@pytest.mark.slow
def test_nothing_but_wrong_requests_does_not_block(model: TritonPythonModel) -> None:
    wrong = request(stream=np.array([[True, True]]))
    model.execute([wrong])
    assert wrong.sender.error is not None
    assert wrong.sender.error.message() == '"stream" has 2 elements: it takes exactly 1 [INVALID_ARGUMENT]'


@pytest.mark.slow
def test_a_response_that_cannot_be_sent_does_not_block(model: TritonPythonModel) -> None:
    broken = request()

    def fail() -> None:
        raise TritonModelException("the client is gone")

    broken.sender.on_send = fail
    with executing(model, broken):
        pass


@pytest.mark.slow
def test_a_dead_engine_ends_execute_and_the_next_request_is_told(model: TritonPythonModel) -> None:
    asked = request(sampling=ENDLESS)
    with executing(model, asked):
        wait_until(lambda: asked.sender.responses)
        os.kill(model._engine._supervisor.welcome.pid, signal.SIGKILL)
    assert asked.sender.error is not None
    assert asked.sender.error.code() == "UNAVAILABLE"
    assert asked.sender.error.message().startswith('the engine of "llm_baseline" version 3 died: engine process ')
    following = request()
    model.execute([following])
    assert following.sender.error is not None
    assert "it is being started again: retry in some seconds" in following.sender.error.message()


@pytest.mark.slow
def test_the_engine_is_told_how_many_can_come_together(places: Path, tmp_path: Path) -> None:
    with serving(tmp_path / "llm") as model:
        assert model._engine._supervisor._launch.parameters["MAX_BATCH_SIZE"] == "8"


@pytest.mark.parametrize(
    ("config", "says"),
    [
        (
            {"model_transaction_policy": {}, "max_batch_size": 8},
            '"m" streams its answers: write model_transaction_policy { decoupled: true } in config.pbtxt',
        ),
        (
            {"max_batch_size": 0},
            '"m" has max_batch_size 0: write 1 or more, because its requests are gathered by Triton\'s dynamic batcher',
        ),
    ],
)
def test_a_config_that_cannot_work_is_refused(places: Path, tmp_path: Path, config: dict[str, Any], says: str) -> None:
    with pytest.raises(TritonModelException) as refused:
        TritonPythonModel().initialize(arguments(tmp_path / "llm", config=config))
    assert str(refused.value) == says
    assert list(places.iterdir()) == []
