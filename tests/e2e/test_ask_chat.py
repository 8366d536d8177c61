"""The project's client, `ask` and `chat` against the real server and the real model."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.deployment import Deployment
from tools.client.address import Protocol, ServerAddress
from tools.client.async_client import AsyncClient
from tools.client.client import Client
from tools.client.completion import Completion
from tools.client.errors import RequestRefusedError
from tools.client.question import Question
from tools.client.request import ChatRequest, GenerateRequest, Message, Target

pytestmark = pytest.mark.e2e

HOME = Path(__file__).resolve().parents[2]
BF16 = Target("llm_bf16", 1)
# Asked without "in one sentence" the model begins with "The" or "L'Étoile", as the rounding of the CPU at hand decides.
CAPITAL = Question(
    "What is the capital of France? Answer in one sentence.", sampling={"temperature": 0.0, "max_tokens": 24}
)


@pytest.fixture
def address(server: Deployment) -> ServerAddress:
    return server.address


def ladder(address: ServerAddress, *arguments: str, typed: str | None = None) -> subprocess.CompletedProcess[str]:
    program = "import sys; from tools.cli.app import main; sys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", program, *arguments, "--port-base", str(address.http_port)]
    return subprocess.run(command, cwd=HOME, input=typed, capture_output=True, text=True, timeout=240, check=False)


@pytest.mark.parametrize("protocol", list(Protocol), ids=str)
@pytest.mark.parametrize("model", ["llm_baseline:1", "llm_baseline:3", "llm_bf16", "chat_baseline", "chat_bf16"])
def test_a_question_is_answered_and_measured(address: ServerAddress, protocol: Protocol, model: str) -> None:
    with Client(address.endpoint(protocol)) as client:
        completion = client.complete(Target.parse(model), CAPITAL.request())

    assert "Paris" in completion.text
    assert completion.finish_reason == "stop"
    assert completion.num_input_tokens is not None
    assert completion.num_output_tokens is not None
    assert 2 <= completion.num_output_tokens <= 24
    assert completion.ttft_s is not None
    assert completion.tpot_s is not None
    assert completion.ttft_s < completion.e2e_s


def test_both_protocols_count_the_same_prompt(address: ServerAddress) -> None:
    completions = []
    for protocol in Protocol:
        with Client(address.endpoint(protocol)) as client:
            completions.append(client.complete(BF16, CAPITAL.request()))

    over_grpc, over_http = completions
    assert over_grpc.num_input_tokens == over_http.num_input_tokens
    assert over_grpc.served_by == over_http.served_by == BF16


def test_max_tokens_is_what_the_server_counts(address: ServerAddress) -> None:
    request = GenerateRequest(prompt="Once upon a time", sampling={"max_tokens": 17, "ignore_eos": True})

    with Client(address.endpoint(Protocol.GRPC)) as client:
        completion = client.complete(BF16, request)

    assert completion.num_output_tokens == 17
    assert completion.finish_reason == "length"


@pytest.mark.parametrize("protocol", list(Protocol), ids=str)
def test_one_client_holds_many_streams(address: ServerAddress, protocol: Protocol) -> None:
    async def run() -> list[Completion]:
        requests = [
            GenerateRequest(prompt=f"The number after {number} is", sampling={"max_tokens": 8, "ignore_eos": True})
            for number in range(16)
        ]
        async with AsyncClient(address.endpoint(protocol)) as client:
            return await asyncio.gather(*(client.complete(BF16, request) for request in requests))

    assert [completion.num_output_tokens for completion in asyncio.run(run())] == [8] * 16


def test_an_overlong_conversation_is_refused_before_the_engine(address: ServerAddress) -> None:
    request = ChatRequest(messages=[Message("user", "word " * 9000)], sampling={"max_tokens": 8})

    with (
        Client(address.endpoint(Protocol.GRPC)) as client,
        pytest.raises(RequestRefusedError, match=r'^model "chat_tokenizer": "messages" has \d+ tokens: the context'),
    ):
        client.complete(BF16, request)


def test_ask_streams_to_stdout(address: ServerAddress) -> None:
    asked = ladder(address, "ask", CAPITAL.text, "--max-tokens", "24")

    assert asked.returncode == 0, asked.stderr
    assert "Paris" in asked.stdout
    assert "chat_bf16:1 | " in asked.stderr
    assert " tokens/s" in asked.stderr


def test_ask_every_rung_in_json(address: ServerAddress) -> None:
    asked = ladder(address, "ask", CAPITAL.text, "--all", "--json", "--max-tokens", "24")

    assert asked.returncode == 0, asked.stderr
    records = [json.loads(line) for line in asked.stdout.splitlines()]
    assert [record["rung"] for record in records] == ["v0", "v1", "v1b", "v2", "v3", "v4", "v5"]
    assert records[-1]["model"] == "llm_bf16", "who answered for the router"
    assert all("Paris" in record["answer"] for record in records)


def test_chat_goes_on_after_a_line_that_is_too_long(address: ServerAddress) -> None:
    lines = [CAPITAL.text, "word " * 9000, CAPITAL.text]

    chatted = ladder(address, "chat", "--temperature", "0", "--max-tokens", "24", typed="\n".join(lines) + "\n")

    assert chatted.returncode == 1
    assert chatted.stdout.count("Paris") == 2
    assert chatted.stderr.count("error: ") == 1
    assert " tokens: the context takes " in chatted.stderr
