"""Where each rung's question stands, while every rung is asked in turn."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.text import Text

from tools.client.answers_table import shortened
from tools.client.question import OnProgress, RungProgress, Stage

_TAIL_WIDTH = 80


@contextmanager
def rung_progress(console: Console) -> Iterator[OnProgress]:
    """Yields what `ask_rungs` reports to: a line that changes on a terminal, one line a stage elsewhere."""
    with console.status("looking for rungs") as status:

        def show(progress: RungProgress) -> None:
            head = f"{progress.rung.label} {progress.rung.target} {progress.stage.name.lower().replace('_', ' ')}"
            status.update(Text(f"{head}  {shortened(progress.text[-_TAIL_WIDTH:], _TAIL_WIDTH)}"))
            if not console.is_terminal and progress.stage is not Stage.ANSWERING:
                console.print(Text(f"  {head}"))

        yield show
