import json
import os
import pty
import select
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

from tests.client.fakes.running import running
from tests.client.fakes.triton import (
    Fail,
    FakeModel,
    FakeTriton,
    Say,
    Seen,
    Step,
    WaitForCancel,
    engine,
    ensemble,
    tokenizer,
)
from tools.bootstrap.layout import Layout
from tools.cli import ask
from tools.client.address import ServerAddress

HOME = Path(__file__).resolve().parents[2]
ANSWER = (Say("The sky ", 2), Say("is 蓝色", 3, input_tokens=4), Say("", 0, "stop"))

Serve = Callable[..., tuple[FakeTriton, ServerAddress]]


@pytest.fixture(autouse=True)
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Servers that happen to run in this checkout are not looked at."""
    layout = Layout(tmp_path)
    monkeypatch.setattr(Layout, "of_this_checkout", lambda: layout)


@pytest.fixture
def serve() -> Iterator[Serve]:
    with ExitStack() as servers:

        def start(*models: FakeModel) -> tuple[FakeTriton, ServerAddress]:
            triton = FakeTriton(*models)
            return triton, servers.enter_context(running(triton))

        yield start


def run(*arguments: str, typed: str | None = None) -> Result:
    app = typer.Typer()
    ask.register(app)
    return CliRunner().invoke(app, arguments, input=typed, env={"COLUMNS": "200", "TERM": "dumb"})


def at(address: ServerAddress) -> tuple[str, str]:
    return "--url", f"127.0.0.1:{address.grpc_port}"


def told(result: Result) -> str:
    """stderr on one line, without the frame of a usage error."""
    return " ".join(result.stderr.replace("│", "").split())


def test_the_answer_goes_to_stdout_and_its_measurements_to_stderr(serve: Serve) -> None:
    triton, address = serve(tokenizer(), ensemble("chat_bf16", *ANSWER), engine("llm_bf16"))

    result = run("ask", "Why?", *at(address))

    assert result.exit_code == 0
    assert result.stdout == "The sky is 蓝色\n"
    assert result.stderr.startswith("chat_bf16:1 | 5 tokens | TTFT ")
    (seen,) = triton.seen
    assert seen.inputs["messages"] == ['[{"role": "user", "content": "Why?"}]']
    assert seen.sampling == {"temperature": 0.0, "max_tokens": 128}
    assert seen.parameters["timeout"] == 120_000_000


def test_options_reach_the_model(serve: Serve) -> None:
    states = {"1": ("READY", ""), "2": ("READY", "")}
    triton, address = serve(tokenizer(), engine("llm_baseline", *ANSWER, states=states))
    options = ["--max-tokens", "9", "--temperature", "0.7", "--top-p", "0.9", "--stop", "a", "--stop", "b"]
    options += ["--seed", "3", "--system", "be brief"]

    result = run("ask", "-", "-m", "llm_baseline:1", *options, *at(address), typed="Why?\n")

    assert result.exit_code == 0
    seen = triton.seen[-1]
    assert (seen.model, seen.version) == ("llm_baseline", "1")
    assert seen.inputs["text_input"] == ["<system> be brief <user> Why?"]
    assert seen.sampling == {"temperature": 0.7, "max_tokens": 9, "top_p": 0.9, "stop": ["a", "b"], "seed": 3}


def test_http_and_port_base(serve: Serve) -> None:
    triton, address = serve(ensemble("chat_bf16", *ANSWER))

    result = run("ask", "Why?", "--protocol", "http", "--port-base", str(address.http_port))

    assert result.stdout == "The sky is 蓝色\n"
    assert triton.seen[0].shapes == {}


RECORD_KEYS = {
    "rung": str,
    "model": str,
    "version": int,
    "url": str,
    "question": str,
    "sampling_parameters": dict,
    "answer": str,
    "finish_reason": str,
    "num_input_tokens": int,
    "num_output_tokens": int,
    "ttft_ms": float,
    "tpot_ms": float,
    "e2e_ms": float,
    "tokens_per_s": float,
    "template_ms": float,
    "error": dict,
}


def record(line: str) -> dict[str, object]:
    """A record whose keys and types are those that are promised."""
    value = json.loads(line)
    assert list(value) == list(RECORD_KEYS)
    for key, kind in RECORD_KEYS.items():
        assert value[key] is None or type(value[key]) is kind, key
    return dict(value)


def test_json(serve: Serve) -> None:
    _, address = serve(tokenizer(), engine("llm_bf16", *ANSWER))

    result = run("ask", "Why?", "--json", "--model", "llm_bf16", *at(address))

    assert result.exit_code == 0
    assert result.stderr == ""
    answer = record(result.stdout)
    assert answer["answer"] == "The sky is 蓝色"
    assert (answer["rung"], answer["model"], answer["version"]) == ("v2", "llm_bf16", 1)
    assert (answer["num_input_tokens"], answer["num_output_tokens"]) == (4, 5)
    assert answer["url"] == f"grpc://127.0.0.1:{address.grpc_port}"
    assert answer["error"] is None
    assert all(answer[key] is not None for key in ("ttft_ms", "tpot_ms", "e2e_ms", "tokens_per_s", "template_ms"))


def test_json_of_a_failure(serve: Serve) -> None:
    _, address = serve(ensemble("chat_bf16", Say("The"), Fail("UNAVAILABLE", "the engine is restarting")))

    result = run("ask", "Why?", "--json", *at(address))

    assert result.exit_code == 1
    answer = record(result.stdout)
    assert answer["model"] == "chat_bf16"
    assert answer["answer"] is None
    assert answer["error"] == {"code": "UNAVAILABLE", "message": "the engine is restarting"}


def test_json_without_a_server() -> None:
    result = run("ask", "Why?", "--json", "--url", "127.0.0.1:1")

    assert result.exit_code == 1
    answer = record(result.stdout)
    assert answer["model"] is None
    assert answer["error"] == {
        "code": "UNREACHABLE",
        "message": "no tritonserver answers at grpc://127.0.0.1:1: Connection refused",
    }


def test_json_of_every_rung(serve: Serve) -> None:
    broken = engine("llm_baseline", Fail("INTERNAL", "out of memory"))
    _, address = serve(tokenizer(), broken, engine("llm_bf16", *ANSWER))

    result = run("ask", "Why?", "--all", "--json", *at(address))

    assert result.exit_code == 1
    failed, answered = map(record, result.stdout.splitlines())
    assert (failed["rung"], failed["model"], failed["version"]) == ("v0", "llm_baseline", 1)
    assert failed["error"] == {"code": "INTERNAL", "message": "out of memory"}
    assert (answered["rung"], answered["answer"]) == ("v2", "The sky is 蓝色")


def test_every_rung_in_a_table(serve: Serve) -> None:
    states = {"1": ("READY", ""), "2": ("READY", ""), "3": ("READY", "")}
    _, address = serve(tokenizer(), engine("llm_baseline", *ANSWER, states=states), engine("llm_bf16", *ANSWER))

    result = run("ask", "Why?", "--all", *at(address))

    assert result.exit_code == 0
    assert result.stdout.count("The sky is 蓝色") == 4
    for rung in ("v0", "v1", "v1b", "v2"):
        assert f" {rung} " in result.stdout
    assert result.stderr.startswith(
        "  v0 llm_baseline:1 warming up\n  v0 llm_baseline:1 answered\n  v1 llm_baseline:2 "
    )


def test_no_rung_is_ready(serve: Serve) -> None:
    _, address = serve(ensemble("chat_bf16", *ANSWER))

    result = run("ask", "Why?", "--all", *at(address))

    assert result.exit_code == 1
    assert "error: no rung of the ladder is ready; see `./ladder status`" in result.stderr


def test_a_failure_after_half_an_answer(serve: Serve) -> None:
    _, address = serve(ensemble("chat_bf16", Say("The sky"), Fail("UNAVAILABLE", "the engine [died]")))

    result = run("ask", "Why?", *at(address))

    assert result.exit_code == 1
    assert result.stdout == "The sky\n"
    assert result.stderr == 'error: model "chat_bf16": the engine [died] (UNAVAILABLE)\n'


def test_no_server() -> None:
    result = run("ask", "Why?", "--url", "http://127.0.0.1:1")

    assert result.exit_code == 1
    assert result.stdout == ""
    assert told(result) == (
        "error: no tritonserver answers at http://127.0.0.1:1: [Errno 111] Connection refused "
        "Start one with `./ladder up`, or name another with --port-base or --url."
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["ask", " "], "Invalid value for QUESTION: it is empty"),
        (["ask", "caf\udce9"], "Invalid value for QUESTION: it is not UTF-8"),
        (["ask", "x", "--system", "caf\udce9"], "Invalid value for --system: it is not UTF-8"),
        (["ask", "x", "--all", "-m", "y"], "--all asks every rung and --model one; give one of them"),
        (["ask", "x", "-m", "y:z"], '"y:z": the version "z" is not a positive integer; write MODEL:VERSION'),
        (["ask", "x", "--url", "y"], 'Invalid value for --url: "y" is not of the form host:port'),
        (["ask", "x", "--url", "y:1", "--port-base", "1"], "--url and --port-base name two servers; give one of them"),
        (["ask", "x", "--url", "http://y:1", "--protocol", "grpc"], "speaks http, but the protocol asked for is grpc"),
        (["ask", "x", "--max-tokens", "0"], "--max-tokens"),
        (["chat", "-m", "y:z"], '"y:z": the version "z" is not a positive integer; write MODEL:VERSION'),
    ],
)
def test_wrong_usage(arguments: list[str], message: str) -> None:
    result = run(*arguments)

    assert result.exit_code == 2
    assert message in told(result)


def echo(seen: Seen) -> Sequence[Step]:
    words = seen.inputs["text_input"][0].rpartition("<user> ")[2].split()
    return [Say(f"{word.upper()} ") for word in words] + [Say("", 0, "stop")]


def test_chat_on_a_pipe(serve: Serve) -> None:
    triton, address = serve(tokenizer(), engine("llm_bf16", script=echo))

    result = run("chat", *at(address), typed="hello\n\nagain\n")

    assert result.exit_code == 0
    assert result.stdout == "HELLO \nAGAIN \n"
    assert triton.seen[-1].sampling == {"temperature": 0.2, "max_tokens": 256, "top_p": 0.9}


def test_chat_on_a_pipe_tells_failure_by_its_exit_code(serve: Serve) -> None:
    _, address = serve(tokenizer(), engine("llm_bf16", script=echo))

    result = run("chat", *at(address), typed="/nonsense\nhello\n")

    assert result.exit_code == 1
    assert result.stdout == "HELLO \n"
    assert 'error: there is no command "/nonsense"' in result.stderr


def test_chat_with_an_unknown_model(serve: Serve) -> None:
    _, address = serve(tokenizer(), engine("llm_bf16", script=echo))

    result = run("chat", "-m", "llm_bf61", *at(address), typed="hello\n")

    assert result.exit_code == 1
    assert result.stdout == ""
    assert 'error: model "llm_bf61": the server knows no such model' in result.stderr


class Typist:
    """A chat on a terminal of its own."""

    def __init__(self, address: ServerAddress, history: Path) -> None:
        # Ctrl-C becomes a signal only on a controlling terminal.
        program = (
            "import fcntl, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); "
            "import typer, tools.cli.ask as ask; app = typer.Typer(); ask.register(app); "
            f"app(['chat', '--url', '127.0.0.1:{address.grpc_port}', '--history', {str(history)!r}])"
        )
        self._keys, terminal = pty.openpty()
        self.process = subprocess.Popen(
            [sys.executable, "-c", program],
            stdin=terminal,
            stdout=terminal,
            stderr=terminal,
            cwd=HOME,
            env={**os.environ, "TERM": "dumb"},
            start_new_session=True,
        )
        os.close(terminal)
        self.screen = ""

    def type(self, keys: str) -> None:
        os.write(self._keys, keys.encode())

    def wait_for(self, text: str, limit_s: float = 30) -> None:
        """Read until the text has appeared on the screen since the last wait."""
        gives_up_at = time.monotonic() + limit_s
        while text not in self.screen:
            readable, _, _ = select.select([self._keys], [], [], max(0, gives_up_at - time.monotonic()))
            if not readable:
                raise AssertionError(f"{text!r} never came; the screen shows {self.screen!r}")
            self.screen += os.read(self._keys, 4096).decode("utf-8", "replace")
        self.screen = self.screen.partition(text)[2]

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self._keys)


@pytest.mark.slow
def test_ctrl_c_on_a_real_terminal(serve: Serve, tmp_path: Path) -> None:
    def endless_story(seen: Seen) -> Sequence[Step]:
        prompt = seen.inputs["text_input"][0]
        return [Say("Once "), WaitForCancel()] if prompt.endswith("story") else echo(seen)

    triton, address = serve(tokenizer(), engine("llm_bf16", script=endless_story))
    with closing(Typist(address, tmp_path / "history")) as typist:
        typist.wait_for("you>")
        typist.type("a story\n")
        typist.wait_for("Once")
        typist.type("\x03")
        typist.wait_for("(answer cancelled)")
        assert triton.cancelled.wait(5)
        typist.wait_for("you>")
        typist.type("hello\n")
        typist.wait_for("HELLO")
        typist.wait_for("you>")
        typist.type("\x04")
        assert typist.process.wait(10) == 0

    assert (tmp_path / "history").read_text(encoding="utf-8") == "a story\nhello\n"
