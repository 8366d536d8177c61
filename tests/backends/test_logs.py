from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from tests.fixtures.fake_pb_utils import Logger
from tools.backends.logs import log_to_triton


@pytest.fixture(autouse=True)
def _restore_root_logger() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers, root.level
    yield
    root.handlers, root.level = handlers, level


def test_records_go_to_tritons_log_with_the_model_that_says_them() -> None:
    log_to_triton("llm", "2")
    log = logging.getLogger("tools.backends.x")
    log.debug("unseen")
    log.info("%d ready", 3)
    log.warning("slow")
    log.error("broken")
    log.critical("gone")
    assert Logger.lines == [
        ("info", "[llm:2] 3 ready"),
        ("warning", "[llm:2] slow"),
        ("error", "[llm:2] broken"),
        ("error", "[llm:2] gone"),
    ]


def test_a_traceback_is_part_of_the_message() -> None:
    log_to_triton("llm", "2")
    try:
        int("why")
    except ValueError:
        logging.getLogger().exception("failed")
    ((level, message),) = Logger.lines
    assert level == "error"
    assert message.startswith("[llm:2] failed\nTraceback")
    assert message.endswith("ValueError: invalid literal for int() with base 10: 'why'")


def test_there_is_one_handler_however_often_a_model_is_loaded() -> None:
    for _ in range(3):
        log_to_triton("llm", "2")
    logging.getLogger().info("once")
    assert len(Logger.lines) == 1
