"""What a line typed into the chat means: something to say, or a command. Pure."""

import difflib
import json
from dataclasses import dataclass

from tools.client.request import JsonValue

HELP = {
    "/model": "/model NAME[:VERSION]  go on with another model",
    "/models": "/models  the models that are ready",
    "/reset": "/reset  forget the conversation, keep the system message",
    "/system": "/system [TEXT]  show or set the system message and begin again; `/system -` removes it",
    "/params": "/params [NAME=VALUE ...]  show or set sampling parameters; `NAME=` removes one",
    "/help": "/help  this list",
    "/exit": "/exit  leave, as do Ctrl-D and Ctrl-C twice",
}


class CommandError(ValueError):
    """The line begins with a slash but is no command that can be carried out."""


@dataclass(frozen=True, slots=True)
class Command:
    """A command and the rest of its line."""

    name: str
    argument: str


@dataclass(frozen=True, slots=True)
class Say:
    """Something to say to the model."""

    text: str


def parse_line(line: str) -> Command | Say | None:
    """What the line means; None for a blank one. A leading `//` says text that begins with a slash.

    Raises:
        CommandError: an unknown command; names the nearest known one.
    """
    text = line.strip()
    if not text:
        return None
    if text.startswith("//"):
        return Say(text[1:])
    if not text.startswith("/"):
        return Say(text)
    name, _, argument = text.partition(" ")
    if name not in HELP:
        nearest = difflib.get_close_matches(name, HELP, n=1)
        hint = f'did you mean "{nearest[0]}"?' if nearest else "/help lists them."
        raise CommandError(f'there is no command "{name}": {hint} To say it to the model, write "/{name}".')
    return Command(name, argument.strip())


def parse_parameters(argument: str) -> dict[str, JsonValue]:
    """Read `name=value ...`. A value is JSON where it can be read as such, text otherwise; None removes a parameter.

    Raises:
        CommandError: a part without `=`.
    """
    changes: dict[str, JsonValue] = {}
    for part in argument.split():
        name, separator, value = part.partition("=")
        if not separator or not name:
            raise CommandError(f'"{part}" is not of the form NAME=VALUE, for example temperature=0.7')
        changes[name] = _value(value)
    return changes


def _value(text: str) -> JsonValue:
    if not text:
        return None
    try:
        value: JsonValue = json.loads(text)
    except ValueError:
        return text
    return value
