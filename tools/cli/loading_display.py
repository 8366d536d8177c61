"""The states of models while they are being loaded: a live table on a terminal, one line per change elsewhere."""

from __future__ import annotations

import time
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from tools.serving.status import ModelStatus

_STYLES = {"READY": "green", "LOADING": "yellow", "UNAVAILABLE": "red", "FAILED": "red"}
_REASON_WIDTH = 400


class LoadingDisplay:
    """Shows what `show` is given; used as a context."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live = Live(console=console, refresh_per_second=8, transient=True) if console.is_terminal else None
        self._started = time.monotonic()
        self._shown: dict[tuple[str, int | None], str] = {}
        self._last: Sequence[ModelStatus] = ()

    def __enter__(self) -> Self:
        if self._live:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._live:
            self._live.stop()
            self._console.print(models_table(self._last))

    def show(self, models: Sequence[ModelStatus]) -> None:
        """The models as they are now."""
        self._last = models
        if self._live:
            self._live.update(models_table(models, f"{time.monotonic() - self._started:.0f} s"))
            return
        for model in models:
            key = (model.name, model.version)
            if self._shown.get(key) != model.state:
                self._shown[key] = model.state
                self._console.print(self._line(model), soft_wrap=True)

    def _line(self, model: ModelStatus) -> Text:
        version = "" if model.version is None else f" version {model.version}"
        reason = f": {shortened(model.reason)}" if model.reason else ""
        return Text(f"  {time.monotonic() - self._started:4.0f} s  {model.name}{version}  {model.state}{reason}")


def models_table(models: Sequence[ModelStatus], title: str = "") -> Table:
    """Model, version, state and the reason for it."""
    table = Table(box=None, header_style="bold", pad_edge=False, title=title or None, title_justify="left")
    for heading in ("model", "version", "state"):
        table.add_column(heading, no_wrap=True)
    table.add_column("reason" if any(model.reason for model in models) else "", overflow="fold")
    for model in models:
        version = "" if model.version is None else str(model.version)
        style = _STYLES.get(model.state, "dim")
        table.add_row(
            model.name, version, Text(model.state or "not loaded", style=style), Text(shortened(model.reason))
        )
    return table


def shortened(reason: str) -> str:
    """The end of a reason, where a traceback says what happened."""
    return reason if len(reason) <= _REASON_WIDTH else f"...{reason[-_REASON_WIDTH:]}"
