"""`./ladder eval` against a scripted server: the table, the JSON, the verdict, the exit codes."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import typer
import yaml
from typer.testing import CliRunner, Result

from tests.client.fakes.running import running
from tests.client.fakes.triton import (
    ENGINE_INPUTS,
    ENGINE_OUTPUTS,
    Fail,
    FakeModel,
    FakeTriton,
    Outputs,
    Say,
    Seen,
    Step,
    WaitForCancel,
    engine,
    ensemble,
    tokenizer,
)
from tools.artifacts.quality import failed_reasons
from tools.bootstrap.layout import Layout
from tools.cli import evaluate
from tools.client.address import ServerAddress
from tools.evaluation import rung
from tools.spec.loading import load_profile

HOME = Path(__file__).resolve().parents[2]
SHIPPED = HOME / "tools" / "spec" / "profiles" / "cpu-smollm2.yaml"
BF16 = "models/smollm2-135m-instruct"
QUALITY = {"perplexity_increase_percent": 3.0, "agreement_min_percent": 50.0}

Serve = Callable[..., ServerAddress]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout of its own: servers that happen to run in this one are not looked at."""
    layout = Layout(tmp_path)
    monkeypatch.setattr(Layout, "of_this_checkout", lambda: layout)
    monkeypatch.setattr(rung, "PAUSES_S", ())
    (tmp_path / BF16).mkdir(parents=True)
    (tmp_path / "models/awq").mkdir()
    (tmp_path / "text.txt").write_text("abcdefgh", encoding="utf-8")
    return tmp_path


@pytest.fixture
def profile(home: Path) -> str:
    """The shipped profile with an AWQ rung, and limits."""
    data: dict[str, Any] = yaml.safe_load(SHIPPED.read_text(encoding="utf-8"))
    data["artifacts"]["awq"] = {"path": "models/awq", "group_size": 64}
    plain = data["variants"]["llm_bf16"]["versions"][1]
    data["variants"]["llm_awq"] = {
        "kind": "vllm",
        "versions": {1: {**plain, "model": "models/awq", "dtype": "float16"}},
    }
    data["quality"] = QUALITY
    file = home / "profile.yaml"
    file.write_text(yaml.safe_dump(data), encoding="utf-8")
    return str(file)


@pytest.fixture
def serve() -> Iterator[Serve]:
    with ExitStack() as servers:
        yield lambda *models: servers.enter_context(running(FakeTriton(*models)))


def characters(seen: Seen) -> Sequence[Step]:
    """A tokenizer whose tokens are characters, " A" to " D" after the cue apart."""
    if "messages" in seen.inputs:
        text = json.loads(seen.inputs["messages"][0])[0]["content"]
    else:
        text = seen.inputs["text_input"][0]
    ids = [ord(char) for char in text.replace("Answer: ", "Answer:")]
    return [Outputs({"prompt": [text], "input_ids": ids, "num_input_tokens": [len(ids)]})]


def llm(name: str, loss: float = 1.0, answer: str = "fine", **changes: Any) -> FakeModel:
    """Every token of a prompt costs `loss` nats; multiple choice is always answered with B."""

    def script(seen: Seen) -> Sequence[Step]:
        if "prompt_logprobs" in seen.sampling:
            ids = seen.inputs["input_ids"]
            positions = [None, *({str(token): {"logprob": -loss}} for token in ids[1:])]
            return [Say("x", prompt_logprobs=json.dumps(positions)), Say("", 0, "length", final=True)]
        text = " B" if "A. " in seen.inputs["text_input"][0] else answer
        return [Say(text), Say("", 0, "stop", final=True)]

    return engine(name, script=script, **changes)


def baseline() -> FakeModel:
    """Has neither the inputs nor the outputs that only vLLM has."""
    inputs = {name: kind for name, kind in ENGINE_INPUTS.items() if name != "return_logprobs"}
    outputs = {name: kind for name, kind in ENGINE_OUTPUTS.items() if name != "prompt_logprobs"}
    return FakeModel("llm_baseline", llm("x").script, inputs, outputs, states={"3": ("READY", "")})


def run(*arguments: str, columns: int = 200) -> Result:
    app = typer.Typer()
    evaluate.register(app)
    return CliRunner().invoke(app, arguments, env={"COLUMNS": str(columns), "TERM": "dumb"})


def at(address: ServerAddress) -> list[str]:
    return ["--url", f"127.0.0.1:{address.grpc_port}"]


def told(result: Result) -> str:
    return " ".join(result.stderr.split())


def report(result: Result) -> dict[str, Any]:
    found = json.loads(result.stdout)
    found["rungs"] = {rung["rung"]: rung for rung in found["rungs"]}
    return found


@pytest.mark.slow
def test_every_rung_in_a_table(serve: Serve, profile: str) -> None:
    models = (llm("llm_bf16"), llm("llm_awq", 1.02, "fish"), baseline(), tokenizer(script=characters))
    result = run("--profile", profile, *at(serve(*models)))

    assert result.exit_code == 0, result.output
    for text in ("v2", "llm_bf16:1", "2.72", "the reference", "(+2.0 %)", "50.0 %", "0 of 12 identical", "inside",
                 'not measured: llm_baseline:3: it has no output "prompt_logprobs"', "not judged:"):  # fmt: skip
        assert text in result.stdout
    assert "llm_awq:1 choice: 24 requests" in result.stderr
    assert (
        'llm_awq:1: verdict not recorded: this checkout has not started the server with the profile "cpu-smollm2"'
        in (told(result))
    )


@pytest.mark.slow
def test_the_report_holds_figures_settings_and_what_they_were_made_with(serve: Serve, profile: str, home: Path) -> None:
    address = serve(llm("llm_bf16"), llm("llm_awq", 1.01), tokenizer(script=characters))
    out = home / "report.json"
    result = run("llm_awq", "--profile", profile, "--text", str(home / "text.txt"), "--limit", "2", "--seed", "5",
                 "--json", "--out", str(out), *at(address))  # fmt: skip

    assert result.exit_code == 0, result.output
    assert out.read_text(encoding="utf-8") == result.stdout
    found = report(result)
    assert found["complete"] is True
    assert (found["profile"], found["reference"]) == ("cpu-smollm2", "llm_bf16:1")
    assert (found["settings"]["seed"], found["settings"]["limit"]) == (5, 2)
    assert found["machine"]["versions"]["tritonserver"] == "2.51.0"
    assert found["git"] == {"commit": None, "dirty": False}
    assert list(found["rungs"]) == ["llm_bf16:1", "llm_awq:1"]
    awq = found["rungs"]["llm_awq:1"]
    assert awq["artifact"] == "models/awq"
    assert awq["perplexity"]["perplexity"] == pytest.approx(2.7456, rel=1e-4)
    assert awq["perplexity"]["tokens"] == 7
    assert awq["choice"]["questions"] == 4
    assert awq["agreement"]["equal_percent"] == 100
    assert awq["verdict"] == {"failures": [], "not_judged": []}


@pytest.mark.slow
def test_a_rung_outside_a_threshold(serve: Serve, profile: str) -> None:
    address = serve(llm("llm_bf16"), llm("llm_awq", 1.1), tokenizer(script=characters))
    result = run("llm_awq", "--profile", profile, "--suites", "perplexity", "--json", *at(address))

    assert result.exit_code == 1
    awq = report(result)["rungs"]["llm_awq:1"]
    assert awq["verdict"]["failures"] == [
        'rise in perplexity against "llm_bf16:1" is 10.52 %, 7.52 over the limit of 3 %'
    ]
    assert awq["verdict"]["not_judged"] == ["agreement_min_percent"]
    assert awq["format"] is None


@pytest.mark.slow
def test_the_verdict_on_weights_of_this_checkout_is_kept(
    serve: Serve, profile: str, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = serve(llm("llm_bf16"), llm("llm_awq", 1.1), tokenizer(script=characters))
    arguments = ("models/awq", "--suites", "perplexity,agreement", *at(address))
    monkeypatch.chdir(home)
    # Started with this profile, so it need not be named.
    monkeypatch.setattr(evaluate, "instance_at", lambda _: SimpleNamespace(profile="cpu-smollm2"))
    monkeypatch.setattr(evaluate, "load_profile", lambda _: load_profile(profile))

    result = run(*arguments)

    assert result.exit_code == 1
    assert 'llm_awq:1: verdict recorded in "models/awq/ladder-quality.json"' in told(result)
    assert failed_reasons(home / "models/awq") == (
        'llm_awq:1: rise in perplexity against "llm_bf16:1" is 10.52 %, 7.52 over the limit of 3 %',
    )
    (home / "models/awq/ladder-quality.json").unlink()
    assert run("--profile", "another", *arguments).exit_code == 1
    assert failed_reasons(home / "models/awq") == ()


@pytest.mark.slow
def test_a_rung_that_breaks_leaves_the_others_measured(serve: Serve, profile: str) -> None:
    broken = engine("llm_awq", Fail("UNAVAILABLE", "the engine died"))
    address = serve(llm("llm_bf16"), broken, tokenizer(script=characters))
    arguments = ("--profile", profile, "--suites", "format", *at(address))
    result = run("--json", *arguments)

    assert result.exit_code == 2
    assert told(result).endswith("error: not everything could be measured: the reasons are in the report")
    found = report(result)
    assert found["complete"] is False
    assert found["rungs"]["llm_bf16:1"]["format"]["kinds"]["stop"]["passed"] == 4
    assert found["rungs"]["llm_awq:1"]["format"] == {
        "not_measured": 'model "llm_awq:1": the engine died (UNAVAILABLE)',
        "error": True,
    }
    table = run(*arguments).stdout
    assert "(partial: not everything was measured)" in table
    assert 'failed: llm_awq:1: model "llm_awq:1": the engine died (UNAVAILABLE)' in table


@pytest.mark.slow
def test_a_model_that_takes_no_work_for_a_moment_is_asked_again(
    serve: Serve, profile: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rung, "PAUSES_S", (0.0,))
    seen: list[str] = []

    def script(request: Seen) -> Sequence[Step]:
        prompt = request.inputs["text_input"][0]
        seen.append(prompt)
        return (
            [Fail("UNAVAILABLE", "queue full")]
            if seen.count(prompt) == 1
            else [Say("x", 1, "stop"), Say("", 0, final=True)]
        )

    address = serve(engine("llm_bf16", script=script), tokenizer(script=characters))
    result = run("llm_bf16", "--profile", profile, "--suites", "format", "--json", *at(address))

    assert result.exit_code == 0, result.output
    assert report(result)["complete"] is True


def test_no_server(profile: str) -> None:
    result = run("--profile", profile, "--url", "127.0.0.1:1")

    assert result.exit_code == 2
    assert result.stdout == ""
    assert "error: no tritonserver answers at grpc://127.0.0.1:1" in told(result)
    assert told(result).endswith("Start one with `./ladder up`, or name another with --port-base or --url.")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["llm_bf61"], 'error: model "llm_bf61" is not ready at this server; ready are '),
        (["chat_bf16"], 'error: model "chat_bf16:1" is no engine: prompts and their tokens go to the model behind it, '
                        'such as "llm_bf16"'),
        (["models/nothing"], 'error: no model of the profile "cpu-smollm2" serves "models/nothing"'),
        (["--reference", "llm_bf61"], 'error: model "llm_bf61" is not ready at this server'),
        (["--mmlu", "nowhere"], 'error: "nowhere" holds no test/SUBJECT_test.csv'),
        (["--text", "nowhere"], 'error: no text file "nowhere"'),
        (["--profile", "nowhere"], 'error: no profile "nowhere"'),
        (["--out", "nowhere/report.json"], 'Invalid value for --out: "nowhere" is no folder: make it first'),
        (["--suites", "speed"], 'Invalid value for --suites: "speed" is no suite: known are perplexity, choice, '),
    ],
)  # fmt: skip
def test_wrong_words(serve: Serve, arguments: list[str], message: str) -> None:
    address = serve(llm("llm_bf16"), ensemble("chat_bf16", Say("x")), tokenizer(script=characters))
    result = run(*arguments, *at(address))

    assert result.exit_code == 2
    assert message in told(result).replace("│ ", "").replace(" │", "")


def test_a_server_without_a_tokenizer_is_named(serve: Serve) -> None:
    result = run("llm_bf16", "--suites", "perplexity", *at(serve(llm("llm_bf16"))))

    assert result.exit_code == 2
    assert 'failed: llm_bf16:1: model "chat_tokenizer": the server knows no such model' in result.stdout


@pytest.mark.slow
def test_ctrl_c_leaves_a_report_that_says_it_is_partial(serve: Serve, profile: str, home: Path) -> None:
    def script(seen: Seen) -> Sequence[Step]:
        if "prompt_logprobs" in seen.sampling:
            return llm("x").script(seen)
        # The command runs in this process's main thread, the server does not.
        os.kill(os.getpid(), signal.SIGINT)
        return [Say("x"), WaitForCancel()]

    out = home / "report.json"
    address = serve(engine("llm_bf16", script=script), tokenizer(script=characters))
    suites = ["--suites", "perplexity,format", "--concurrency", "1"]
    result = run("llm_bf16", *suites, "--profile", profile, "--out", str(out), *at(address))

    assert result.exit_code == 130
    assert "(partial: not everything was measured)" in result.stdout
    found = json.loads(out.read_text(encoding="utf-8"))
    assert found["complete"] is False
    assert found["rungs"][0]["perplexity"]["perplexity"] == pytest.approx(2.718, rel=1e-3)
    assert found["rungs"][0]["format"] is None
    assert [file.name for file in home.iterdir() if file.name.startswith(".")] == []


@pytest.mark.slow
def test_words_stay_whole_in_a_terminal_of_80_columns(serve: Serve, profile: str) -> None:
    address = serve(llm("llm_bf16"), baseline(), tokenizer(script=characters))
    result = run("--profile", profile, *at(address), columns=80)

    assert max(map(len, result.stdout.splitlines())) <= 80
    for word in ("perplexity", "repetition", "agreement", "llm_baseline:3", "measured"):
        assert word in result.stdout.partition("Differences")[0]


def test_a_link_given_as_out_stays_one(serve: Serve, profile: str, home: Path) -> None:
    address = serve(llm("llm_bf16"), tokenizer(script=characters))
    kept, link = home / "kept.json", home / "link.json"
    kept.touch()
    link.symlink_to(kept)
    result = run("--profile", profile, "--suites", "choice", "--limit", "1", "--out", str(link), *at(address))

    assert result.exit_code == 0, result.output
    assert link.is_symlink()
    assert json.loads(kept.read_text(encoding="utf-8"))["complete"]
