"""One question to every ready rung, with its progress, then the table of answers."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from tools.client.address import ServerAddress
from tools.client.answers_table import answers_table, shortened
from tools.client.errors import ClientError
from tools.client.question import RungProgress, Stage, ask_every_rung

_MAX_TOKENS = 48
_PROGRESS_WIDTH = 80


def ask_and_print(address: ServerAddress, question: str, console: Console) -> None:
    """Asks and prints; a rung that fails has its error in the table."""
    console.print(Text(f"Asking every rung: {question}"))
    try:
        with console.status("looking for rungs") as status:

            def show(progress: RungProgress) -> None:
                stage = progress.stage.name.lower().replace("_", " ")
                head = f"{progress.rung.label} {progress.rung.target} {stage}"
                status.update(Text(f"{head}  {shortened(progress.text[-_PROGRESS_WIDTH:], _PROGRESS_WIDTH)}"))
                if not console.is_terminal and progress.stage in (Stage.WARMING_UP, Stage.ANSWERED, Stage.FAILED):
                    console.print(f"  {head}", markup=False)

            answers = ask_every_rung(address, question, _MAX_TOKENS, show)
    except ClientError as error:
        console.print(Text(f"error: {error}", style="red"), soft_wrap=True)
        return
    if answers:
        Console(highlight=False).print(answers_table(answers))
    else:
        console.print("None of the served models is a rung of the ladder: nothing was asked.")
