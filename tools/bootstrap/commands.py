"""The commands of `./ladder`: one line each, which module registers it, and what must be prepared before it runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

Needs = Literal["nothing", "tools", "usable tools", "everything"]


@dataclass(frozen=True)
class Command:
    """`module` has `register(app: typer.Typer) -> None`; None for commands that the bootstrap answers itself.

    Needs: "tools" is the engine environment, "usable tools" takes one of an older lock file too (so that what runs can
    be stopped after an update) and never builds, "everything" is both environments.
    """

    name: str
    summary: str
    needs: Needs
    module: str | None


COMMANDS: Final = (
    Command("up", "Serve the ladder and ask one question on every rung.", "everything", "tools.cli.up"),
    Command("down", "Stop what `up` started.", "usable tools", "tools.cli.instances"),
    Command("status", "Show what runs: models, ports, processes.", "usable tools", "tools.cli.instances"),
    Command("logs", "Show the server's log.", "usable tools", "tools.cli.instances"),
    Command("chat", "Chat in the terminal with a rung.", "tools", "tools.cli.ask"),
    Command("ask", "Ask one question.", "tools", "tools.cli.ask"),
    Command("render", "Render the model repositories from a profile, or check them.", "tools", "tools.cli.render"),
    Command("lint", "Check Triton model repositories, this one's or anybody's.", "tools", "tools.cli.lint"),
    Command("release", "Give a new version its share step by step, or take it back.", "tools", "tools.cli.release"),
    Command("plan", "Plan GPU memory: what fits, and how many requests at once.", "tools", "tools.cli.plan"),
    Command("quantize", "Make the profile's 4-bit AWQ weights, and measure them.", "tools", "tools.cli.quantize"),
    Command("draft", "Train a head for speculative decoding, or measure one.", "tools", "tools.cli.draft"),
    Command("eval", "Measure how good the rungs' answers are.", "tools", "tools.cli.evaluate"),
    Command("loadtest", "Load-test a running server, in Locust's web UI or without.", "tools", "tools.cli.loadtest"),
    Command("report", "Measure what each rung brings, with one load for all.", "everything", "tools.cli.report"),
    Command("bench", "Measure the backend, or what Triton costs.", "everything", "tools.cli.bench"),
    Command("test", "Run linters, type checks and tests.", "everything", "tools.cli.checks"),
    Command("kit", "Build an offline kit for a machine without a package index.", "tools", "tools.cli.kit"),
    Command("setup", "Prepare both environments now, without starting anything.", "everything", None),
    Command("doctor", "Check this machine: GPU, CPU, memory, disk, ports, environments.", "nothing", None),
)  # fmt: skip
