from __future__ import annotations

import logging
import time
from pathlib import Path

import pytest

from tests.backends.models import arguments
from tests.fixtures import fake_pb_utils
from tests.waiting import wait_until
from tools.backends import unloading
from tools.backends.model_config import ModelConfig
from tools.backends.unloading import UnloadWatch, take_out_of_service


def test_a_model_with_one_version_is_unloaded(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    take_out_of_service(ModelConfig.from_arguments(arguments(tmp_path, name="llm")), "it died")
    assert fake_pb_utils.unloaded == ["llm"]
    assert "given up, unloading the model: it died" in caplog.text


def test_other_versions_are_left_to_serve(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "2").mkdir()
    take_out_of_service(ModelConfig.from_arguments(arguments(tmp_path)), "it died")
    assert fake_pb_utils.unloaded == []
    assert "given up: it died; other versions of the model serve on" in caplog.text


def test_a_server_that_does_not_unload_is_no_error(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(name: str) -> None:
        raise fake_pb_utils.TritonModelException("not in explicit mode")

    monkeypatch.setattr(fake_pb_utils, "unload_model", refuse)
    with caplog.at_level(logging.ERROR):
        take_out_of_service(ModelConfig.from_arguments(arguments(tmp_path)), "it died")
    assert "the model cannot be unloaded: its requests fail with UNAVAILABLE one by one" in caplog.text
    assert "not in explicit mode" in caplog.text


class Engine:
    """What the watch sees and asks of an engine."""

    def __init__(self) -> None:
        self.open_streams = 0
        self.asked = 0
        self.retired = 0

    def retire(self) -> None:
        self.retired += 1


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Engine:
    engine = Engine()

    def is_model_ready(model_name: str, model_version: str) -> bool:
        engine.asked += 1
        assert (model_name, model_version) == ("llm", "1")
        return model_name not in fake_pb_utils.unloaded

    monkeypatch.setattr(unloading, "_POLL_S", 0.001)
    monkeypatch.setattr(fake_pb_utils, "is_model_ready", is_model_ready)
    return engine


def test_streams_of_a_model_that_is_being_unloaded_are_retired_once(tmp_path: Path, engine: Engine) -> None:
    engine.open_streams = 2
    UnloadWatch(ModelConfig.from_arguments(arguments(tmp_path, name="llm")), engine)  # type: ignore[arg-type]
    wait_until(lambda: engine.asked > 2)
    assert engine.retired == 0
    fake_pb_utils.unload_model("llm")
    wait_until(lambda: engine.retired)
    asked = engine.asked
    time.sleep(0.02)
    assert (engine.retired, engine.asked) == (1, asked)


def test_without_streams_the_server_is_not_asked(tmp_path: Path, engine: Engine) -> None:
    watch = UnloadWatch(ModelConfig.from_arguments(arguments(tmp_path, name="llm")), engine)  # type: ignore[arg-type]
    fake_pb_utils.unload_model("llm")
    time.sleep(0.02)
    assert (engine.asked, engine.retired) == (0, 0)
    watch.stop()
    engine.open_streams = 1
    time.sleep(0.02)
    assert engine.asked <= 1
