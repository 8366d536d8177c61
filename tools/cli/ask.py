"""`./ladder ask` and `./ladder chat`."""

import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from tools.bootstrap.layout import Layout
from tools.cli.connection import PortBaseOption, ProtocolOption, UrlOption, endpoint_from
from tools.cli.rung_progress import rung_progress
from tools.client.address import Endpoint
from tools.client.answers_table import answers_table, summary
from tools.client.chat.commands import HELP
from tools.client.chat.loop import Chat, ChatSettings
from tools.client.chat.terminal import StandardTerminal, line_editing
from tools.client.choice import default_target
from tools.client.client import Client
from tools.client.completion import Completion
from tools.client.errors import ClientError
from tools.client.question import Question, RungAnswer, ask_rungs
from tools.client.record import answer_record
from tools.client.request import Target
from tools.client.rungs import rung_of
from tools.client.sampling import sampling_parameters

_FAILED = 1

ModelOption = Annotated[
    str | None,
    typer.Option(
        "--model",
        "-m",
        metavar="MODEL[:VERSION]",
        help="Model to ask.  [default: chat_bf16 if it is ready, else the first ready model that writes text]",
    ),
]
SystemOption = Annotated[
    str | None, typer.Option("--system", help="System message; without one the chat template's own applies.")
]
MaxTokensOption = Annotated[int, typer.Option("--max-tokens", min=1, help="Longest answer, in tokens.")]
TemperatureOption = Annotated[
    float, typer.Option("--temperature", min=0.0, help="0 is greedy: the same question gives the same answer.")
]
TopPOption = Annotated[float, typer.Option("--top-p", min=0.0, max=1.0, help="Nucleus sampling; 1 is off.")]
StopOption = Annotated[
    list[str] | None, typer.Option("--stop", help="Text that ends the answer; may be given several times.")
]
SeedOption = Annotated[int | None, typer.Option("--seed", help="Makes sampling with a temperature repeatable.")]
DeadlineOption = Annotated[
    float, typer.Option("--deadline", min=0.001, metavar="SECONDS", help="Give up on an answer after this long.")
]


def register(app: typer.Typer) -> None:
    """Add the commands `ask` and `chat`."""
    app.command("ask")(ask_command)
    app.command("chat")(chat_command)


def ask_command(
    question: Annotated[str, typer.Argument(metavar="QUESTION", help="The question; - reads it from stdin.")],
    model: ModelOption = None,
    every_rung: Annotated[bool, typer.Option("--all", help="Ask every ready rung and compare.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object an answer, one a line.")] = False,
    system: SystemOption = None,
    max_tokens: MaxTokensOption = 128,
    temperature: TemperatureOption = 0.0,
    top_p: TopPOption = 1.0,
    stop: StopOption = None,
    seed: SeedOption = None,
    deadline: DeadlineOption = 120.0,
    url: UrlOption = None,
    port_base: PortBaseOption = None,
    protocol: ProtocolOption = None,
) -> None:
    """Ask one question. The answer streams to stdout; its TTFT, TPOT and tokens/s go to stderr.

    Exits with 1 if there is no whole answer (with --all: from every rung), with 2 for wrong usage.
    """
    text = sys.stdin.read().rstrip("\n") if question == "-" else question
    if not text.strip():
        raise typer.BadParameter("it is empty", param_hint="QUESTION")
    _require_utf8(text, "QUESTION")
    _require_utf8(system or "", "--system")
    if every_rung and model is not None:
        raise typer.BadParameter("--all asks every rung and --model one; give one of them")
    target = _parse_target(model)
    endpoint = endpoint_from(url, port_base, protocol)
    sampling = sampling_parameters(
        max_tokens=max_tokens, temperature=temperature, top_p=top_p, stop=stop or (), seed=seed
    )
    asked = Question(text, system, sampling, deadline)
    with Client(endpoint) as client:
        if every_rung:
            whole = _ask_all(client, asked, as_json=as_json)
        elif as_json:
            whole = _print_record(client, target, asked)
        else:
            whole = _print_answer(client, target, asked)
    if not whole:
        raise typer.Exit(_FAILED)


def chat_command(
    model: ModelOption = None,
    system: SystemOption = None,
    max_tokens: MaxTokensOption = 256,
    temperature: TemperatureOption = 0.2,
    top_p: TopPOption = 0.9,
    stop: StopOption = None,
    seed: SeedOption = None,
    deadline: DeadlineOption = 120.0,
    url: UrlOption = None,
    port_base: PortBaseOption = None,
    protocol: ProtocolOption = None,
    history: Annotated[
        Path | None,
        typer.Option("--history", dir_okay=False, help="Keeps the lines you type.  [default: .ladder/chat_history]"),
    ] = None,
) -> None:
    """Chat with a model; /help lists the commands. Ctrl-C while an answer streams cancels that answer only.

    With a pipe for stdin every line is a turn, only answers go to stdout, and the exit code is 1 if one failed.
    """
    target = _parse_target(model)
    endpoint = endpoint_from(url, port_base, protocol)
    sampling = sampling_parameters(
        max_tokens=max_tokens, temperature=temperature, top_p=top_p, stop=stop or (), seed=seed
    )
    terminal = StandardTerminal()
    with Client(endpoint) as client:
        try:
            target = target or default_target(client.server)
            client.server.contract(target)
        except ClientError as error:
            terminal.error(str(error))
            raise typer.Exit(_FAILED) from error
        chat = Chat(client, terminal, ChatSettings(target, system, sampling, deadline))
        if not terminal.interactive:
            if not chat.run():
                raise typer.Exit(_FAILED)
            return
        terminal.notice(f"{target} at {endpoint.url}; /help lists the commands, Ctrl-D leaves")
        with line_editing(history or Layout.of_this_checkout().private / "chat_history", sorted(HELP)):
            chat.run()


def _require_utf8(text: str, option: str) -> None:
    # Python reads other bytes as half surrogate pairs, which neither a model nor JSON takes.
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise typer.BadParameter("it is not UTF-8", param_hint=option) from error


def _parse_target(model: str | None) -> Target | None:
    """The value of --model.

    Raises:
        typer.BadParameter: not of the form MODEL or MODEL:VERSION.
    """
    try:
        return None if model is None else Target.parse(model)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--model") from error


def _print_error(console: Console, error: ClientError) -> None:
    """An error's text in red, nothing in it taken for markup."""
    console.print(Text(f"error: {error}", style="red"), soft_wrap=True)


def _print_answer(client: Client, target: Target | None, question: Question) -> bool:
    console = Console(stderr=True)
    try:
        target = target or default_target(client.server)
        completion = _stream_to_stdout(client, target, question)
    except ClientError as error:
        _print_error(console, error)
        return False
    console.print(Text(summary(completion), style="dim"), soft_wrap=True)
    return True


def _stream_to_stdout(client: Client, target: Target, question: Question) -> Completion:
    on_a_new_line = True
    with client.stream(target, question.request()) as answer:
        try:
            for chunk in answer:
                sys.stdout.write(chunk.text)
                sys.stdout.flush()
                on_a_new_line = on_a_new_line and not chunk.text
        finally:
            # Also after Ctrl-C or an error: what follows must not be glued to half an answer.
            if not on_a_new_line:
                sys.stdout.write("\n")
                sys.stdout.flush()
    return answer.completion


def _print_record(client: Client, target: Target | None, question: Question) -> bool:
    completion = failure = None
    try:
        target = target or default_target(client.server)
        completion = client.complete(target, question.request())
    except ClientError as error:
        failure = error
    rung = rung_of(completion.served_by if completion is not None else target) if target is not None else None
    record = answer_record(
        rung=rung,
        target=target,
        endpoint=client.endpoint,
        question=question,
        completion=completion,
        error=failure,
    )
    print(record.model_dump_json())
    return failure is None


def _ask_all(client: Client, question: Question, *, as_json: bool) -> bool:
    console = Console(stderr=True)
    answers: list[RungAnswer] = []
    try:
        with rung_progress(console) as show:
            for answer in ask_rungs(client, question, show):
                answers.append(answer)
                if as_json:
                    _print_rung_record(client.endpoint, question, answer)
    except ClientError as error:
        _print_error(console, error)
        return False
    if not answers:
        console.print("error: no rung of the ladder is ready; see `./ladder status`", style="red")
        return False
    if not as_json:
        Console().print(answers_table(answers))
    return all(answer.error is None for answer in answers)


def _print_rung_record(endpoint: Endpoint, question: Question, answer: RungAnswer) -> None:
    record = answer_record(
        rung=answer.rung,
        target=answer.rung.target,
        endpoint=endpoint,
        question=question,
        completion=answer.completion,
        error=answer.error,
    )
    print(record.model_dump_json(), flush=True)
