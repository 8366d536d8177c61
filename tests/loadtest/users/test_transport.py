"""The transports to a tritonserver, under gevent, against its fake front ends."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from loadtest.errors import LoadTestError
from loadtest.options import LoadOptions, Protocol
from loadtest.statistics.outcome import ErrorKind
from loadtest.users.transport import open_transport
from tests.client.conftest import Serve
from tests.client.fakes.triton import (
    Break,
    Fail,
    NoFinal,
    Raw,
    Say,
    Step,
    WaitForCancel,
    engine,
    ensemble,
    tokenizer,
)
from tests.loadtest.users.asking import Answered, Asker
from tools.client.address import ServerAddress

STREAMS = [Protocol.GENERATE_STREAM, Protocol.GRPC]
KSERVE = [Protocol.GENERATE_STREAM, Protocol.GENERATE, Protocol.GRPC]
CHAT: dict[str, Any] = {"messages": [["user", "你好 there"]], "max_tokens": 9}
PROMPT: dict[str, Any] = {"prompt": "once upon a time", "max_tokens": 9}
ANSWER = (Say("Hel", 1), Say("lo 👋", 3, input_tokens=4), Say("", 0, "stop"))
WHOLE = (Say("Hello 👋", 4, "stop", input_tokens=4),)


def run(address: ServerAddress, protocol: Protocol, target: str = "llm_bf16", **changes: Any) -> LoadOptions:
    port, scheme = (address.grpc_port, "grpc") if protocol is Protocol.GRPC else (address.http_port, "http")
    return LoadOptions(host=f"{scheme}://127.0.0.1:{port}", targets=(target,), protocol=protocol, **changes)


def steps_of(protocol: Protocol) -> Sequence[Step]:
    return WHOLE if protocol is Protocol.GENERATE else ANSWER


@pytest.mark.parametrize("protocol", STREAMS)
def test_a_whole_answer_is_counted_by_the_server(serve: Serve, asker: Asker, protocol: Protocol) -> None:
    _, address = serve(engine("llm_bf16", *ANSWER))

    (answer,) = asker.ask(run(address, protocol), PROMPT)

    outcome = answer.outcome
    assert outcome.failure is None
    assert answer.text == "Hello 👋"
    assert (outcome.input_tokens, outcome.output_tokens, outcome.responses) == (4, 4, 2)
    assert (outcome.target, outcome.served_by, outcome.finish_reason) == ("llm_bf16", "llm_bf16:1", "stop")
    assert outcome.ttft_s is not None
    assert outcome.tpot_s is not None
    assert 0 <= outcome.send_lag_s < outcome.ttft_s <= outcome.e2e_s
    assert outcome.itl_s == (pytest.approx(outcome.e2e_s - outcome.ttft_s),)
    assert outcome.tpot_s == pytest.approx((outcome.e2e_s - outcome.ttft_s) / 3)


def test_one_json_answer_has_no_times_of_its_tokens(serve: Serve, asker: Asker) -> None:
    triton, address = serve(engine("llm_bf16", *WHOLE))

    (answer,) = asker.ask(run(address, Protocol.GENERATE), PROMPT)

    outcome = answer.outcome
    assert (outcome.failure, outcome.output_tokens, outcome.responses) == (None, 4, 1)
    assert (outcome.ttft_s, outcome.tpot_s, outcome.itl_s) == (None, None, ())
    assert outcome.e2e_s > 0
    assert triton.seen[0].inputs["stream"] == [False]


@pytest.mark.parametrize("protocol", KSERVE)
def test_what_the_model_is_sent(serve: Serve, asker: Asker, protocol: Protocol) -> None:
    triton, address = serve(engine("llm_bf16", *steps_of(protocol)))
    options = run(address, protocol, deadline_s=30, sampling={"temperature": 0.5, "top_k": 3})

    asker.ask(options, {**PROMPT, "sampling": {"top_k": 7}})

    (seen,) = triton.seen
    assert seen.inputs["text_input"] == ["once upon a time"]
    assert seen.sampling == {"temperature": 0.5, "top_k": 7, "max_tokens": 9}
    assert seen.parameters["timeout"] == 30_000_000
    for asked in ("return_finish_reason", "return_num_input_tokens", "return_num_output_tokens"):
        assert seen.inputs[asked] == [True]


@pytest.mark.parametrize("protocol", KSERVE)
def test_times_count_from_when_it_was_due(serve: Serve, asker: Asker, protocol: Protocol) -> None:
    _, address = serve(engine("llm_bf16", *steps_of(protocol)))

    (answer,) = asker.ask(run(address, protocol), PROMPT, late_s=3.0)

    assert answer.outcome.send_lag_s >= 3.0
    assert answer.outcome.e2e_s > answer.outcome.send_lag_s
    if answer.outcome.ttft_s is not None:
        assert answer.outcome.ttft_s > answer.outcome.send_lag_s


@pytest.mark.parametrize("protocol", KSERVE)
def test_what_is_due_too_long_is_not_sent(serve: Serve, asker: Asker, protocol: Protocol) -> None:
    triton, address = serve(engine("llm_bf16", *steps_of(protocol)))

    (answer,) = asker.ask(run(address, protocol, deadline_s=2), PROMPT, late_s=3.0)

    assert answer.failure.kind is ErrorKind.DEADLINE
    assert answer.failure.message == "due more than 2 s before this client came to send it"
    assert triton.seen == []


@pytest.mark.parametrize("protocol", KSERVE)
def test_a_conversation_is_templated_once(serve: Serve, asker: Asker, protocol: Protocol) -> None:
    triton, address = serve(engine("llm_bf16", *steps_of(protocol)), tokenizer())

    answers = asker.ask(run(address, protocol), CHAT, CHAT, at_once=2, prepare=True)

    assert [answer.outcome.failure for answer in answers] == [None] * 4
    assert 1 <= [seen.model for seen in triton.seen].count("chat_tokenizer") <= 2
    assert triton.seen[-1].inputs["text_input"] == ["<user> 你好 there"]
    assert triton.seen[-1].inputs["input_ids"] == [0, 1, 2]
    assert triton.config_reads == 2


@pytest.mark.parametrize("protocol", KSERVE)
def test_an_ensemble_gets_the_messages(serve: Serve, asker: Asker, protocol: Protocol) -> None:
    triton, address = serve(ensemble("chat_bf16", *steps_of(protocol)))

    (answer,) = asker.ask(run(address, protocol, "chat_bf16"), CHAT)

    assert answer.outcome.failure is None
    (seen,) = triton.seen
    assert seen.inputs["messages"] == ['[{"role": "user", "content": "你好 there"}]']


def test_a_batched_model_gets_its_batch_dimension(serve: Serve, asker: Asker) -> None:
    triton, address = serve(engine("llm_baseline", *ANSWER, max_batch_size=8), tokenizer())

    (answer,) = asker.ask(run(address, Protocol.GRPC, "llm_baseline:1"), CHAT)

    assert answer.outcome.failure is None
    assert triton.seen[-1].shapes["input_ids"] == [1, 3]
    assert triton.seen[-1].version == "1"


@pytest.mark.slow
@pytest.mark.parametrize("protocol", KSERVE)
def test_many_at_once(serve: Serve, asker: Asker, protocol: Protocol) -> None:
    """Also more than gevent's thread pool has threads, in which gRPC waits."""
    _, address = serve(engine("llm_bf16", *steps_of(protocol)))

    answers = asker.ask(run(address, protocol), PROMPT, PROMPT, at_once=30)

    assert [answer.outcome.failure for answer in answers] == [None] * 60
    assert sum(answer.outcome.output_tokens for answer in answers) == 240


def failing(
    serve: Serve, asker: Asker, protocol: Protocol, *steps: Step, request: dict[str, Any] = PROMPT, **changes: Any
) -> Answered:
    _, address = serve(engine("llm_bf16", *steps), tokenizer())
    (answer,) = asker.ask(run(address, protocol, **changes), request)
    return answer


@pytest.mark.parametrize("protocol", STREAMS)
def test_an_error_in_the_middle_of_a_stream_is_a_failure(serve: Serve, asker: Asker, protocol: Protocol) -> None:
    answer = failing(serve, asker, protocol, Say("Hel", 2), Fail("INTERNAL", "the engine died"))

    assert answer.failure.kind is ErrorKind.SERVER
    assert answer.failure.message.startswith("the engine died (")
    assert answer.outcome.output_tokens == 2
    assert answer.outcome.finish_reason == ""


def test_an_error_in_a_200_is_a_failure(serve: Serve, asker: Asker) -> None:
    answer = failing(serve, asker, Protocol.GENERATE, Raw(b'{"error":"expects exactly 1 response"}'))

    assert answer.failure.kind is ErrorKind.SERVER
    assert answer.failure.message == "expects exactly 1 response (UNKNOWN)"


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("INVALID_ARGUMENT", ErrorKind.REFUSED),
        ("UNAVAILABLE", ErrorKind.UNAVAILABLE),
        ("CANCELLED", ErrorKind.CANCELLED),
        ("NOT_FOUND", ErrorKind.UNKNOWN_MODEL),
        ("INTERNAL", ErrorKind.SERVER),
    ],
)
@pytest.mark.parametrize("protocol", [Protocol.GRPC, Protocol.GENERATE_STREAM, Protocol.GENERATE])
def test_a_models_text_tells_kinds_apart(
    serve: Serve, asker: Asker, protocol: Protocol, code: str, kind: ErrorKind
) -> None:
    answer = failing(serve, asker, protocol, Fail(code, "the queue holds 8 requests"))

    assert answer.failure.kind is kind
    assert answer.failure.message == f"the queue holds 8 requests ({code})"


@pytest.mark.parametrize("protocol", [Protocol.GENERATE_STREAM, Protocol.GENERATE])
def test_a_text_without_a_code_has_only_the_status_of_http(serve: Serve, asker: Asker, protocol: Protocol) -> None:
    answer = failing(serve, asker, protocol, Fail("UNAVAILABLE", "the queue holds 8 requests", coded=False))

    assert answer.failure.kind is ErrorKind.REFUSED
    assert answer.failure.message == "the queue holds 8 requests (HTTP 400)"


@pytest.mark.parametrize("protocol", STREAMS)
def test_a_broken_connection_is_a_truncated_answer(serve: Serve, asker: Asker, protocol: Protocol) -> None:
    answer = failing(serve, asker, protocol, Say("Hel", 2), Break())

    reason = {
        Protocol.GENERATE_STREAM: "the connection was closed in the middle of the answer",
        Protocol.GRPC: "the connection broke: Socket closed",
    }
    assert answer.failure.kind is ErrorKind.TRUNCATED
    assert answer.failure.message == f"the stream ended before its final response: {reason[protocol]}"
    assert answer.outcome.output_tokens == 2


@pytest.mark.parametrize("protocol", STREAMS)
def test_a_stream_without_its_end_is_a_truncated_answer(serve: Serve, asker: Asker, protocol: Protocol) -> None:
    answer = failing(serve, asker, protocol, Say("Hel", 2), NoFinal())

    assert answer.failure.kind is ErrorKind.TRUNCATED


def test_a_final_flag_without_a_finish_reason_is_a_truncated_answer(serve: Serve, asker: Asker) -> None:
    answer = failing(serve, asker, Protocol.GRPC, Say("Hel", 2), Say("", 0, final=True))

    assert answer.failure.kind is ErrorKind.TRUNCATED
    assert answer.failure.message == "the answer ended without a finish reason"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b'data: {"text_output": "Hello", "finish_reason": "stop"}\n\n', "the server did not say how many tokens"),
        (b'data: {"text_output": 1, "num_output_tokens": "many"}\n\n', 'the response \'{"text_output": 1, '),
        (b"data: <html>\n\n", "the response '<html>' is not JSON"),
    ],
)
def test_what_is_not_tritons_is_malformed(serve: Serve, asker: Asker, data: bytes, message: str) -> None:
    answer = failing(serve, asker, Protocol.GENERATE_STREAM, Raw(data))

    assert answer.failure.kind is ErrorKind.MALFORMED
    assert answer.failure.message.startswith(message)
    assert answer.outcome.output_tokens == 0


@pytest.mark.parametrize("protocol", KSERVE)
def test_an_empty_answer_is_a_failure(serve: Serve, asker: Asker, protocol: Protocol) -> None:
    answer = failing(serve, asker, protocol, Say("", 0, "stop"))

    assert answer.failure.kind is ErrorKind.MALFORMED
    assert answer.failure.message == "the answer is empty: no token was generated"


@pytest.mark.parametrize("protocol", KSERVE)
def test_an_exact_length_has_to_come(serve: Serve, asker: Asker, protocol: Protocol) -> None:
    request = {**PROMPT, "exact": True}
    answer = failing(serve, asker, protocol, *steps_of(protocol), request=request)

    assert answer.failure.kind is ErrorKind.TRUNCATED
    assert answer.failure.message == "4 tokens were generated, exactly 9 were asked for"


@pytest.mark.slow
@pytest.mark.parametrize("protocol", KSERVE)
def test_the_deadline_holds_without_the_servers_help(serve: Serve, asker: Asker, protocol: Protocol) -> None:
    answer = failing(serve, asker, protocol, Say("Hel", 2), WaitForCancel(), deadline_s=0.2)

    assert answer.failure.kind is ErrorKind.DEADLINE
    assert answer.failure.message == "no whole answer within 0.2 s of when it was due"
    assert answer.outcome.e2e_s >= 0.2


@pytest.mark.slow
@pytest.mark.parametrize("protocol", KSERVE)
@pytest.mark.parametrize("end", ["close_after_s", "kill_after_s"])
def test_what_is_ended_here_ends_on_the_server(serve: Serve, asker: Asker, protocol: Protocol, end: str) -> None:
    triton, address = serve(engine("llm_bf16", Say("Hel", 2), WaitForCancel()))

    answers = asker.ask(run(address, protocol), PROMPT, PROMPT, **{end: 0.3})

    assert triton.cancelled.wait(5)
    if end == "close_after_s":
        # The second is not sent any more.
        assert [answer.failure.kind for answer in answers] == [ErrorKind.CANCELLED] * 2
        assert answers[0].failure.message == "this load test ended it"
        assert len(triton.seen) == 1
    else:
        assert answers == []


@pytest.mark.parametrize("protocol", KSERVE)
def test_nobody_listens(asker: Asker, protocol: Protocol) -> None:
    (answer,) = asker.ask(run(ServerAddress("127.0.0.1", 1, 1, 1), protocol), PROMPT)

    assert answer.failure.kind is ErrorKind.UNREACHABLE
    assert answer.failure.message.startswith("no tritonserver answers at ")
    assert "Connection refused" in answer.failure.message
    assert answer.outcome.served_by == ""


@pytest.mark.parametrize("protocol", KSERVE)
def test_an_unknown_model(serve: Serve, asker: Asker, protocol: Protocol) -> None:
    _, address = serve(engine("llm_awq"))

    (answer,) = asker.ask(run(address, protocol), PROMPT)

    assert answer.failure.kind is ErrorKind.UNKNOWN_MODEL
    assert answer.failure.message.startswith("the server knows no such model; ready are llm_awq")


@pytest.mark.slow
@pytest.mark.parametrize("protocol", [Protocol.GENERATE_STREAM, Protocol.GENERATE])
@pytest.mark.parametrize(("hangs_up", "connections"), [(False, 1), (True, 3)])
def test_a_connection_is_kept_unless_the_server_closes_it(
    serve: Serve, asker: Asker, protocol: Protocol, hangs_up: bool, connections: int
) -> None:
    triton, address = serve(engine("llm_bf16", *steps_of(protocol)))
    triton.hangs_up = hangs_up

    answers = asker.ask(run(address, protocol), PROMPT, PROMPT, PROMPT, pause_s=0.1)

    assert [answer.outcome.failure for answer in answers] == [None] * 3
    # One more was there to read the model's contract.
    assert triton.connections == connections + 1


@pytest.mark.parametrize(
    ("host", "protocol", "message"),
    [
        (
            "http://127.0.0.1:8001",
            Protocol.GRPC,
            'host "http://127.0.0.1:8001" is an address of http, but protocol "grpc" speaks grpc: '
            "give the server's grpc port as grpc://HOST:PORT, or take another protocol",
        ),
        (
            "grpc://127.0.0.1:8001",
            Protocol.GENERATE,
            'host "grpc://127.0.0.1:8001" is an address of grpc, but protocol "generate" speaks http: '
            "give the server's http port as http://HOST:PORT, or take another protocol",
        ),
        ("localhost", Protocol.OPENAI, 'host "localhost" is not of the form host:port, for example 127.0.0.1:8001'),
        ("ftp://x:1", Protocol.GENERATE, 'host "ftp://x:1": unknown scheme "ftp"; use one of http, https, grpc, grpcs'),
    ],
)
def test_hosts_that_are_no_address(host: str, protocol: Protocol, message: str) -> None:
    with pytest.raises(LoadTestError) as failure:
        open_transport(LoadOptions(host=host, targets=("llm_bf16",), protocol=protocol), "llm_bf16")

    assert str(failure.value) == message
