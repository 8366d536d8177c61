"""An instance, for people."""

from __future__ import annotations

from datetime import timedelta

from rich.console import Console
from rich.table import Table
from rich.text import Text

from tools.cli.loading_display import models_table
from tools.serving.status import InstanceStatus

_PHASE_STYLES = {"running": "green", "failed": "red", "orphaned": "red"}


def print_instance(instance: InstanceStatus, console: Console) -> None:
    """Ports and uptime, the models, the processes."""
    ports = instance.ports
    phase = Text(instance.phase, style=_PHASE_STYLES.get(instance.phase, "yellow"))
    uptime = timedelta(seconds=int(instance.uptime_s))
    console.print(
        Text.assemble(
            f"{instance.title}  ",
            phase,
            f" for {uptime}  HTTP {ports.http}, gRPC {ports.grpc}, metrics {ports.metrics}",
            "  in the background" if instance.detached else "",
        )
    )
    if instance.reason:
        console.print(Text(f"  {instance.reason}", style="red"))
    if instance.phase == "orphaned":
        console.print(f"  its supervisor was killed: ./ladder down --port-base {instance.port_base} clears it up")
    if instance.models:
        console.print(models_table(instance.models))
    for drafting in instance.speculation:
        by_position = ", ".join(f"{rate:.0%}" for rate in drafting.by_position)
        console.print(
            f"{drafting.name} version {drafting.version} drafts: {drafting.mean_acceptance_length:.2f} tokens a step, "
            f"{drafting.acceptance_rate:.0%} of the drafted accepted (by position {by_position})"
        )
    if instance.processes:
        console.print(_processes(instance))
    console.print()


def _processes(instance: InstanceStatus) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column("process", justify="right")
    table.add_column("what")
    table.add_column("memory", justify="right")
    for process in instance.processes:
        table.add_row(str(process.pid), process.role, f"{process.memory_bytes / 1e6:.0f} MB")
    return table
