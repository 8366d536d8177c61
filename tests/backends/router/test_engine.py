"""The router's own engine process: the release it tells, and what happens when it dies."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.backends.engines import HASTY
from tests.backends.models import arguments
from tests.fixtures import tiny_model
from tests.waiting import wait_until
from tools.backends.model_config import ModelConfig
from tools.backends.router.engine import RouterEngine
from tools.release.file import write_release
from tools.spec.release import ReleaseTarget, everything_to
from tools.wire.messages import Failure, Tokenize, Tokenized
from tools.wire.release import Released

pytestmark = pytest.mark.slow


class Heard:
    """A router's engine, and everything that it has said."""

    def __init__(self, folder: Path) -> None:
        self.release_file = folder / "chat" / "release.yaml"
        tiny_model.write_chatml_tokenizer(folder / "tokenizer")
        config = ModelConfig.from_arguments(
            arguments(
                folder / "chat",
                name="chat",
                model_json={"model": str(folder / "tokenizer"), "max_model_len": 256},
                parameters={"RELEASE_FILE": "release.yaml"},
            )
        )
        self.tokenized: list[Tokenized] = []
        self.released: list[Released] = []
        self.down: list[Failure] = []
        self.engine = RouterEngine(
            config,
            on_tokenized=self.tokenized.append,
            on_released=self.released.append,
            on_down=self.down.append,
            on_failed=lambda reason: self.down.append(Failure("INTERNAL", reason)),
            patience=HASTY,
        )

    def release_to(self, model: str) -> None:
        write_release(self.release_file, everything_to(ReleaseTarget(model=model, version=1)))

    @property
    def targets(self) -> list[str]:
        return [said.release.routes[0].targets[0].model for said in self.released if said.release is not None]


@pytest.fixture
def heard(tmp_path: Path, places: Path) -> Iterator[Heard]:
    heard = Heard(tmp_path)
    yield heard
    heard.engine.stop()


def test_it_tells_the_release_tokenizes_and_comes_back_with_the_newest(heard: Heard) -> None:
    heard.release_to("one")
    welcome = heard.engine.start()
    wait_until(lambda: heard.targets == ["one"])
    assert heard.engine.tokenize(Tokenize(1, None, "The quick")) is None
    wait_until(lambda: [(said.prompt, said.failure) for said in heard.tokenized] == [("The quick", None)])
    os.kill(welcome.pid, signal.SIGKILL)
    wait_until(lambda: heard.down)
    assert heard.down[0].code == "UNAVAILABLE"
    assert heard.down[0].message.startswith('the tokenizer of "chat" version 1 is down (engine process ')
    heard.release_to("two")
    wait_until(lambda: heard.targets[-1] == "two")
    assert heard.engine.tokenize(Tokenize(2, None, "brown")) is None
    wait_until(lambda: len(heard.tokenized) == 2)


def test_while_it_is_down_there_is_nobody_to_ask(heard: Heard) -> None:
    heard.release_to("one")
    heard.engine.start()
    heard.engine.stop()
    failure = heard.engine.tokenize(Tokenize(1, None, "x"))
    assert failure == Failure(
        "UNAVAILABLE",
        'the tokenizer of "chat" version 1 is down (the model was unloaded): retry in some seconds',
    )


def test_without_a_release_it_does_not_start_and_says_why(heard: Heard) -> None:
    heard.release_file.write_text("routes: []\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r'^"chat" version 1 has no release to go by: .*release.yaml:1: routes: '):
        heard.engine.start()
    assert heard.released == []
