"""One question to every ready rung, with its progress, then the table of answers."""

from __future__ import annotations

from rich.console import Console
from rich.status import Status
from rich.text import Text

from tools.client.address import Protocol, ServerAddress
from tools.client.answers_table import answers_table, shortened
from tools.client.client import Client
from tools.client.errors import ClientError
from tools.client.question import Question, RungProgress, Stage, ask_rungs
from tools.client.rungs import rungs_among
from tools.client.sampling import GREEDY

_MAX_TOKENS = 48
_PROGRESS_WIDTH = 80


def ask_and_print(address: ServerAddress, text: str, console: Console) -> None:
    """Asks and prints: progress to `console`, the table to stdout. A rung that fails has its error in the table."""
    question = Question(text, sampling={**GREEDY, "max_tokens": _MAX_TOKENS})
    try:
        with Client(address.endpoint(Protocol.GRPC)) as client:
            if not rungs_among(client.server.ready_targets()):
                return
            console.print(Text(f"Asking every rung: {text}"), soft_wrap=True)
            with console.status("") as status:
                answers = list(ask_rungs(client, question, lambda progress: _show(progress, status, console)))
    except ClientError as error:
        console.print(Text(f"error: {error}", style="red"), soft_wrap=True)
        return
    Console(highlight=False).print(answers_table(answers))


def _show(progress: RungProgress, status: Status, console: Console) -> None:
    head = f"{progress.rung.label} {progress.rung.target} {progress.stage.name.lower().replace('_', ' ')}"
    status.update(Text(f"{head}  {shortened(progress.text[-_PROGRESS_WIDTH:], _PROGRESS_WIDTH)}"))
    # Elsewhere than on a terminal a status is not shown; each step is then a line.
    if not console.is_terminal and progress.stage is not Stage.ANSWERING:
        console.print(Text(f"  {head}"), soft_wrap=True)
