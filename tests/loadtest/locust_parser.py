"""Locust's own parser with our options, without its events and without the configuration files of this machine."""

from __future__ import annotations

from argparse import Namespace

from locust.argument_parser import LocustArgumentParser, get_empty_argument_parser, setup_parser_arguments

from loadtest.arguments import add_arguments


def parser(*command_line: str) -> LocustArgumentParser:
    """As it is for this command line."""
    locusts = get_empty_argument_parser(default_config_files=())
    setup_parser_arguments(locusts)
    add_arguments(locusts, command_line)
    return locusts


def parsed(*command_line: str) -> Namespace:
    """What Locust makes of the command line."""
    return parser(*command_line).parse_args(list(command_line))
