"""What `./ladder` does first: answer what needs nothing, prepare environments, hand over to the command line."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from tools.bootstrap.commands import COMMANDS, Command
from tools.bootstrap.doctor import main as doctor
from tools.bootstrap.environments import ENGINE, ENVIRONMENTS, is_ready, is_usable
from tools.bootstrap.errors import BootstrapError
from tools.bootstrap.failures import end_on, flushed
from tools.bootstrap.layout import Layout
from tools.bootstrap.preparation import prepare, prepare_from_kit
from tools.bootstrap.processes import isolated
from tools.bootstrap.version import VERSION

HELP_FLAGS = {"-h", "--help"}
INTERRUPTED = 130


def main(arguments: Sequence[str]) -> int:
    """Runs one command line, returns the exit code: 0, 1 for an error, 2 for a wrong command line, 130 for Ctrl-C."""
    try:
        return flushed(run(arguments, Layout.of_this_checkout()))
    except BootstrapError as error:
        print(f"ladder: error: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        return end_on(error)
    except KeyboardInterrupt:
        print("ladder: interrupted; the next run continues from here", file=sys.stderr)
        return INTERRUPTED


def run(arguments: Sequence[str], layout: Layout) -> int:
    if not arguments or arguments[0] in HELP_FLAGS | {"help"}:
        print(general_help())
        return 0
    if arguments[0] == "--version":
        print(f"ladder {VERSION}")
        return 0
    command = next((known for known in COMMANDS if known.name == arguments[0]), None)
    if command is None:
        print(f'ladder: error: no command "{arguments[0]}"{_nearest(arguments[0])}', file=sys.stderr)
        return 2
    rest = arguments[1:]
    if command.name == "doctor":
        return doctor.main(rest, layout)
    if command.name == "setup":
        return _setup(rest, layout)
    if HELP_FLAGS & set(rest) and not is_usable(ENGINE, layout):
        print(f"./ladder {command.name}: {command.summary}")
        print("Its options are shown once the environments are prepared: ./ladder setup")
        return 0
    _prepare_for(command, layout, only_help=bool(HELP_FLAGS & set(rest)))
    return _hand_over(arguments, layout)


def _prepare_for(command: Command, layout: Layout, *, only_help: bool) -> None:
    if command.needs == "usable tools" or only_help:
        if not is_usable(ENGINE, layout):
            raise BootstrapError(
                f'"{command.name}" needs the engine environment, which is not there (so nothing of this checkout runs, '
                "unless it was deleted meanwhile): ./ladder setup builds it"
            )
    elif command.needs == "tools":
        prepare([ENGINE], layout)
    elif command.needs == "everything":
        prepare(ENVIRONMENTS, layout)


def _setup(arguments: Sequence[str], layout: Layout) -> int:
    if HELP_FLAGS & set(arguments):
        print(
            "usage: ./ladder setup [--from-kit DIR]\n\nPrepares the engine and server environments under .ladder/env. "
            "Safe to repeat.\n\n  --from-kit DIR  from an offline kit, where no package index is in reach"
        )
        return 0
    if len(arguments) == 2 and arguments[0] == "--from-kit":
        prepare_from_kit(Path(arguments[1]), layout)
    elif arguments:
        print(f'ladder: error: "setup" takes nothing but --from-kit DIR, got "{arguments[0]}"', file=sys.stderr)
        return 2
    else:
        prepare(ENVIRONMENTS, layout)
    for environment in ENVIRONMENTS:
        state = "ready" if is_ready(environment, layout) else "not ready"
        print(f"{environment.name} environment: {state} ({layout.environment(environment.name)})")
    return 0


def _hand_over(arguments: Sequence[str], layout: Layout) -> NoReturn:
    """Becomes the command line, isolated from the user's PYTHONPATH, with text as UTF-8 whatever the locale."""
    python = str(layout.environment_python(ENGINE.name))
    command = [python, "-I", "-X", "utf8", str(layout.home / "tools" / "cli"), *arguments]
    sys.stdout.flush()
    sys.stderr.flush()
    # Relative paths of models start at the checkout, whichever folder the command was given in.
    variables = isolated(os.environ) | {"LADDER_HOME": str(layout.home)}
    os.execve(python, command, variables)  # noqa: S606 - no shell is wanted


def general_help() -> str:
    width = max(len(command.name) for command in COMMANDS)
    return "\n".join(
        [
            "usage: ./ladder COMMAND [OPTIONS]",
            "",
            "Serves a chat model through a real tritonserver as a ladder of optimisations.",
            "",
            *(f"  {command.name:<{width}}  {command.summary}" for command in COMMANDS),
            "",
            "./ladder COMMAND --help shows a command's options. Start with: ./ladder doctor, then ./ladder up",
        ]
    )


def _nearest(word: str) -> str:
    # Imported here: every start of every command pays for what the top of this file imports.
    from difflib import get_close_matches

    near = get_close_matches(word, [command.name for command in COMMANDS], n=1)
    return f': did you mean "{near[0]}"?' if near else ": ./ladder --help lists them"
