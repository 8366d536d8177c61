from __future__ import annotations

import io

import pytest
from rich.console import Console

from tools.cli.loading_display import LoadingDisplay, models_table, shortened
from tools.serving.status import ModelStatus


def model(name: str, version: int | None, state: str, reason: str = "") -> ModelStatus:
    return ModelStatus(name=name, version=version, state=state, reason=reason)


def test_without_a_terminal_each_change_is_one_line() -> None:
    output = io.StringIO()
    with LoadingDisplay(Console(file=output, width=60)) as display:
        display.show([model("llm", None, "WAITING"), model("tok", 1, "LOADING")])
        display.show([model("llm", 1, "LOADING"), model("tok", 1, "LOADING")])
        display.show([model("llm", 1, "UNAVAILABLE", "because of " + "x" * 60), model("tok", 1, "READY")])
    assert [line.split(" s  ")[1] for line in output.getvalue().splitlines()] == [
        "llm  WAITING",
        "tok version 1  LOADING",
        "llm version 1  LOADING",
        f"llm version 1  UNAVAILABLE: because of {'x' * 60}",
        "tok version 1  READY",
    ]


def test_on_a_terminal_the_last_table_stays() -> None:
    output = io.StringIO()
    with LoadingDisplay(Console(file=output, width=100, force_terminal=True, color_system=None)) as display:
        display.show([model("llm", 1, "READY")])
    assert output.getvalue().rstrip().splitlines()[-1].split() == ["llm", "1", "READY"]


@pytest.mark.parametrize(("state", "shown"), [("READY", "READY"), ("", "not loaded"), ("UNAVAILABLE", "UNAVAILABLE")])
def test_the_table_names_states(state: str, shown: str) -> None:
    output = io.StringIO()
    Console(file=output, width=100).print(models_table([model("llm", None, state, "[red]why[/red]")]))
    assert shown in output.getvalue()
    assert "[red]why[/red]" in output.getvalue()


def test_of_a_long_reason_the_end_is_kept() -> None:
    assert shortened("x" * 1000 + "the cause").endswith("the cause")
    assert len(shortened("x" * 1000)) == 403
