"""`./ladder up`."""

from __future__ import annotations

import signal
import time
from typing import Annotated, NoReturn

import typer
from rich.console import Console
from rich.text import Text

from tools.artifacts.errors import ArtifactError
from tools.bootstrap.errors import BootstrapError
from tools.bootstrap.layout import Layout
from tools.cli.instances import PortBaseOption
from tools.cli.loading_display import LoadingDisplay
from tools.cli.rung_answers import ask_and_print
from tools.cli.served import (
    AcceptFailedArtifactsOption,
    AcceptLintErrorsOption,
    ModelsOption,
    RepositoryOption,
    repositories_to_serve,
    wanted_models,
)
from tools.cli.signals import end_in_order_on
from tools.client.address import Protocol
from tools.lint.findings import LintInputError
from tools.rendering.files import RenderError
from tools.serving.errors import ServingError
from tools.serving.loading import Loading
from tools.serving.repository import LoadPlan
from tools.serving.server import Server, ServerPlan, require_served_paths, require_startable
from tools.serving.states import READY, states_of
from tools.serving.status import ModelStatus, model_states
from tools.spec.loading import DEFAULT_PROFILE, ProfileError

QUESTION = "What is the capital of France? Answer in one sentence."

_FAILED = 1
_INTERRUPTED = 130
_POLL_S = 0.3


def register(app: typer.Typer) -> None:
    """Add the command `up`."""
    app.command("up")(up)


def up(
    profile: Annotated[str, typer.Option(help="Name of a shipped profile, or path of a YAML file.")] = DEFAULT_PROFILE,
    models: ModelsOption = "",
    repository: RepositoryOption = None,
    port_base: PortBaseOption = 8000,
    detach: Annotated[bool, typer.Option("--detach", help="Leave the server running and return.")] = False,
    accept_failed_artifacts: AcceptFailedArtifactsOption = False,
    accept_lint_errors: AcceptLintErrorsOption = False,
    question: Annotated[str, typer.Option(help="What every rung is asked; empty to ask nothing.")] = QUESTION,
) -> None:
    """Serve the ladder and ask one question on every rung.

    Makes what is missing (artifacts, rendered repositories), lints what it serves, starts tritonserver on loopback,
    loads the models, and stays until Ctrl-C. Exits with 1 when the lint finds errors, when nothing could be loaded, or
    when the server dies.
    """
    console = Console(stderr=True, highlight=False)
    end_in_order_on(signal.SIGTERM, signal.SIGHUP)
    try:
        # At the start of the server it would be said as well, but making artifacts comes before that.
        layout = Layout.of_this_checkout()
        require_startable(port_base, layout)
        require_served_paths([layout.home])
        served = repositories_to_serve(
            profile,
            repository,
            wanted_models(models),
            console,
            accept_failed_artifacts=accept_failed_artifacts,
            accept_lint_errors=accept_lint_errors,
        )
        request = ServerPlan(port_base, served.profile, served.repositories, served.plan.names)
        _serve(request, served.plan, question, console, detach=detach)
    except (ProfileError, ArtifactError, BootstrapError, RenderError, LintInputError, ServingError) as error:
        _fail(console, str(error))
    except KeyboardInterrupt:
        raise typer.Exit(_INTERRUPTED) from None


def _serve(request: ServerPlan, plan: LoadPlan, question: str, console: Console, *, detach: bool) -> None:
    with Server.start(request, Layout.of_this_checkout()) as server:
        try:
            _load(server, plan, console)
            if question:
                ask_and_print(server.address, question, console)
            base = request.port_base
            if detach:
                server.detach()
                stop = f"./ladder down{_port_option(base)}"
                console.print(f"Serving in the background: {_ports(base)}. Stop it: {stop}", soft_wrap=True)
                return
            console.print(f"Serving: {_ports(base)}. Ctrl-C stops it.")
            while True:
                server.require_alive()
                time.sleep(_POLL_S)
        except KeyboardInterrupt:
            server.stop(lambda line: console.print(Text(f"  {line}"), soft_wrap=True))
            raise


def _load(server: Server, plan: LoadPlan, console: Console) -> None:
    """Loads the plan's models. Raises ServingError when none of them becomes ready."""
    endpoint = server.address.endpoint(Protocol.GRPC)
    with console.status("starting tritonserver"):
        server.wait_until_live()
    with Loading(plan, endpoint) as loading, LoadingDisplay(console) as display:
        states: list[ModelStatus] = []
        finished = False
        while not finished:
            # Read before the states, so that the last look comes after the last load.
            finished = loading.done
            server.require_alive()
            states = states_of(plan, loading, model_states(server.instance.port_base))
            display.show(states)
            if not finished:
                time.sleep(_POLL_S)
    ready = [state for state in states if state.state == READY]
    if not ready:
        raise ServingError(f"no model could be loaded (reasons above)\n{server.log_tail()}")
    if len(ready) < len(states):
        console.print(f"{len(states) - len(ready)} of {len(states)} could not be loaded (reasons above).", style="red")


def _ports(base: int) -> str:
    return f"HTTP {base}, gRPC {base + 1}, metrics {base + 2} on 127.0.0.1"


def _port_option(base: int) -> str:
    return "" if base == 8000 else f" --port-base {base}"


def _fail(console: Console, text: str) -> NoReturn:
    console.print(Text(f"error: {text}", style="red"), soft_wrap=True)
    raise typer.Exit(_FAILED)
