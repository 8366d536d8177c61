"""The command line: every command in one list, each module imported only when its command is used.

`./ladder lint` starts in a fraction of a second because nothing here imports what `up` needs.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence

import typer

from tools.bootstrap.commands import COMMANDS
from tools.bootstrap.errors import BootstrapError
from tools.bootstrap.failures import end_on, flushed

_INTERRUPTED = 130


def main(arguments: Sequence[str]) -> int:
    """Runs one command line, which starts with the command's name. Returns the exit code."""
    try:
        return flushed(_run(arguments))
    except OSError as error:
        return end_on(error)


def _run(arguments: Sequence[str]) -> int:
    try:
        command = application(arguments[0])
        command(args=list(arguments), prog_name="./ladder", standalone_mode=True)
    except BootstrapError as error:
        print(f"ladder: error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return _INTERRUPTED
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    return 0


def application(command: str) -> typer.Typer:
    """The application with the commands of the module that holds `command`."""
    app = typer.Typer(
        name="ladder",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_show_locals=False,
        rich_markup_mode=None,
    )

    # With one command alone, typer would take its name for an argument.
    @app.callback()
    def _several_commands() -> None: ...

    module = next(known.module for known in COMMANDS if known.name == command)
    if module is None:
        raise BootstrapError(f'"{command}" is answered before the command line starts')
    importlib.import_module(module).register(app)
    return app
