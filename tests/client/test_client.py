"""The blocking and the asyncio client, over both protocols, against a scripted server."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from tests.client.conftest import Serve
from tests.client.fakes.triton import (
    Break,
    Fail,
    NoFinal,
    Raw,
    Say,
    Seen,
    Step,
    WaitForCancel,
    engine,
    ensemble,
    tokenizer,
)
from tools.client.address import Endpoint, Protocol
from tools.client.async_client import AsyncClient
from tools.client.client import Client
from tools.client.completion import Completion
from tools.client.errors import (
    ClientError,
    DeadlineExceededError,
    MalformedResponseError,
    ModelNotReadyError,
    ModelUnknownError,
    RequestCancelledError,
    RequestRefusedError,
    ServerFaultError,
    ServerUnreachableError,
    StreamTruncatedError,
    UnavailableError,
)
from tools.client.request import ChatRequest, GenerateRequest, Message, Request, Target

ENGINE = Target("llm_bf16")
CHAT = ChatRequest(messages=[Message("user", "你好 there")], sampling={"max_tokens": 9}, request_id="r-1")
PROMPT = GenerateRequest(prompt="once upon", request_id="r-2")

Complete = Callable[[Endpoint, Target, Request], Completion]


def complete_blocking(endpoint: Endpoint, target: Target, request: Request) -> Completion:
    with Client(endpoint) as client:
        return client.complete(target, request)


def complete_async(endpoint: Endpoint, target: Target, request: Request) -> Completion:
    async def run() -> Completion:
        async with AsyncClient(endpoint) as client:
            return await client.complete(target, request)

    return asyncio.run(run())


@pytest.fixture(params=[complete_blocking, complete_async], ids=["blocking", "asyncio"])
def complete(request: pytest.FixtureRequest) -> Complete:
    return request.param


ANSWER = (Say("Hel", 1), Say("lo 👋", 3, input_tokens=4), Say("", 0, "stop"))


def test_a_stream_adds_up(serve: Serve, protocol: Protocol, complete: Complete) -> None:
    triton, address = serve(engine("llm_bf16", *ANSWER))

    completion = complete(address.endpoint(protocol), ENGINE, PROMPT)

    assert completion.text == "Hello 👋"
    assert completion.finish_reason == "stop"
    assert completion.num_output_tokens == 4
    assert completion.num_input_tokens == 4
    assert completion.served_by == Target("llm_bf16", 1)
    assert completion.ttft_s is not None
    assert 0 < completion.ttft_s <= completion.e2e_s
    assert len(completion.itl_s) == 1
    (seen,) = triton.seen
    assert seen.request_id == "r-2"
    assert seen.inputs["text_input"] == ["once upon"]
    assert seen.inputs["stream"] == [True]


def test_one_response(serve: Serve, protocol: Protocol, complete: Complete) -> None:
    triton, address = serve(engine("llm_bf16", Say("Hello", 2, "length", input_tokens=3)))

    completion = complete(address.endpoint(protocol), ENGINE, replace(PROMPT, stream=False))

    assert completion.text == "Hello"
    assert completion.finish_reason == "length"
    assert completion.num_output_tokens == 2
    assert completion.ttft_s is None
    assert triton.seen[0].inputs["stream"] == [False]


def test_a_final_flag_on_the_last_response_ends_the_stream(serve: Serve, complete: Complete) -> None:
    _, address = serve(engine("llm_bf16", Say("Hi", 1), Say("", 0, "stop", final=True)))

    completion = complete(address.endpoint(Protocol.GRPC), ENGINE, PROMPT)

    assert completion.text == "Hi"
    assert completion.num_responses == 2


def test_several_sequences(serve: Serve, protocol: Protocol, complete: Complete) -> None:
    both = Say(("a", "b"), (1, 2), ("stop", "length"))
    _, address = serve(engine("llm_bf16", both))

    completion = complete(address.endpoint(protocol), ENGINE, replace(PROMPT, sampling={"n": 2}))

    assert completion.texts == ("a", "b")
    assert completion.finish_reasons == ("stop", "length")
    assert completion.num_output_tokens == 3


@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_events_cut_anywhere(serve: Serve, complete: Complete, size: int) -> None:
    triton, address = serve(engine("llm_bf16", Say("你好", 2), Say("👋🏽é", 3, "stop")))
    triton.write_size = size

    completion = complete(address.endpoint(Protocol.HTTP), ENGINE, PROMPT)

    assert completion.text == "你好👋🏽é"
    assert completion.num_output_tokens == 5


def test_the_batch_dimension_is_hidden(serve: Serve, complete: Complete) -> None:
    triton, address = serve(engine("llm_baseline", *ANSWER, max_batch_size=8), tokenizer())

    completion = complete(address.endpoint(Protocol.GRPC), Target("llm_baseline"), CHAT)

    assert completion.text == "Hello 👋"
    _, asked = triton.seen
    assert asked.shapes["text_input"] == [1, 1]
    assert asked.shapes["input_ids"] == [1, 3]
    assert asked.shapes["stream"] == [1, 1]


def test_a_model_without_batches_gets_no_batch_dimension(serve: Serve, complete: Complete) -> None:
    triton, address = serve(engine("llm_bf16", *ANSWER), tokenizer())

    complete(address.endpoint(Protocol.GRPC), ENGINE, CHAT)

    assert triton.seen[-1].shapes["input_ids"] == [3]


def test_a_conversation_to_an_engine_is_templated_first(serve: Serve, protocol: Protocol, complete: Complete) -> None:
    triton, address = serve(engine("llm_bf16", *ANSWER), tokenizer())

    completion = complete(address.endpoint(protocol), ENGINE, CHAT)

    templated, asked = triton.seen
    assert templated.model == "chat_tokenizer"
    assert asked.inputs["text_input"] == ["<user> 你好 there"]
    assert asked.inputs["input_ids"] == [0, 1, 2]
    assert asked.inputs["exclude_input_in_output"] == [True]
    assert asked.sampling == {"max_tokens": 9}
    assert completion.template_s is not None
    assert completion.template_s > 0


def test_a_conversation_to_an_ensemble_goes_as_messages(serve: Serve, protocol: Protocol, complete: Complete) -> None:
    triton, address = serve(ensemble("chat_bf16", *ANSWER))

    completion = complete(address.endpoint(protocol), Target("chat_bf16"), CHAT)

    (asked,) = triton.seen
    assert asked.inputs["messages"] == ['[{"role": "user", "content": "你好 there"}]']
    assert completion.template_s is None


def test_a_version_is_asked_by_name(serve: Serve, protocol: Protocol, complete: Complete) -> None:
    states = {"1": ("READY", ""), "2": ("READY", "")}
    triton, address = serve(engine("llm_bf16", *ANSWER, states=states))

    assert complete(address.endpoint(protocol), Target("llm_bf16", 1), PROMPT).served_by.version == 1
    assert complete(address.endpoint(protocol), Target("llm_bf16"), PROMPT).served_by.version == 2
    assert [seen.version for seen in triton.seen] == ["1", ""]


def test_deadline_and_priority_are_request_parameters(serve: Serve, protocol: Protocol, complete: Complete) -> None:
    triton, address = serve(engine("llm_bf16", *ANSWER))

    complete(address.endpoint(protocol), ENGINE, replace(PROMPT, deadline_s=30, priority=2))

    parameters = triton.seen[0].parameters
    assert parameters["timeout"] == 30_000_000
    assert parameters["priority"] == 2


def failing(
    serve: Serve, protocol: Protocol, complete: Complete, steps: Sequence[Step], request: Request = PROMPT
) -> ClientError:
    _, address = serve(engine("llm_bf16", *steps))
    with pytest.raises(ClientError) as failure:
        complete(address.endpoint(protocol), ENGINE, request)
    return failure.value


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("INVALID_ARGUMENT", RequestRefusedError),
        ("UNAVAILABLE", UnavailableError),
        ("CANCELLED", RequestCancelledError),
        ("INTERNAL", ServerFaultError),
        ("UNIMPLEMENTED", RequestRefusedError),
        ("NOT_FOUND", ModelUnknownError),
    ],
)
@pytest.mark.parametrize("before", [(), (Say("Hel"),)], ids=["first", "after data"])
def test_a_models_text_tells_its_code(
    serve: Serve, protocol: Protocol, complete: Complete, before: tuple[Step, ...], code: str, kind: type[ClientError]
) -> None:
    error = failing(serve, protocol, complete, [*before, Fail(code, "the queue holds 8 requests")])

    assert type(error) is kind
    assert str(error) == f'model "llm_bf16": the queue holds 8 requests ({code})'


def test_a_text_without_a_code_has_only_the_status_of_http(serve: Serve, complete: Complete) -> None:
    error = failing(serve, Protocol.HTTP, complete, [Fail("UNAVAILABLE", "the queue holds 8 requests", coded=False)])

    assert type(error) is RequestRefusedError
    assert str(error) == 'model "llm_bf16": the queue holds 8 requests (HTTP 400)'


def test_http_without_a_stream_gives_the_body_of_a_400(serve: Serve, complete: Complete) -> None:
    steps = [Fail("INVALID_ARGUMENT", '"max_tokens" is 0')]

    error = failing(serve, Protocol.HTTP, complete, steps, replace(PROMPT, stream=False))

    assert str(error) == 'model "llm_bf16": "max_tokens" is 0 (INVALID_ARGUMENT)'


def test_http_error_after_data_is_a_failure(serve: Serve, complete: Complete) -> None:
    error = failing(serve, Protocol.HTTP, complete, [Say("Hel"), Fail("UNAVAILABLE", "engine died", coded=False)])

    assert type(error) is ServerFaultError
    assert str(error) == 'model "llm_bf16": engine died (UNKNOWN)'


def test_generate_that_answers_with_an_error_in_a_200(serve: Serve, complete: Complete) -> None:
    body = b'{"error":"generate expects model to produce exactly 1 response"}'

    error = failing(serve, Protocol.HTTP, complete, [Raw(body)], replace(PROMPT, stream=False))

    assert str(error) == 'model "llm_bf16": generate expects model to produce exactly 1 response (UNKNOWN)'


def test_a_broken_connection_is_a_truncated_stream(serve: Serve, protocol: Protocol, complete: Complete) -> None:
    error = failing(serve, protocol, complete, [Say("Hel"), Break()])

    assert type(error) is StreamTruncatedError
    assert str(error).startswith('model "llm_bf16": the stream ended before its final response: the connection broke: ')
    assert str(error).endswith("(TRUNCATED)")


def test_an_end_without_a_final_response_is_a_truncated_stream(
    serve: Serve, protocol: Protocol, complete: Complete
) -> None:
    error = failing(serve, protocol, complete, [Say("Hel"), NoFinal()])

    reason = {Protocol.GRPC: "the server closed it without one", Protocol.HTTP: "no response carried a finish reason"}
    assert str(error) == (
        f'model "llm_bf16": the stream ended before its final response: {reason[protocol]} (TRUNCATED)'
    )


def test_half_an_event_is_a_truncated_stream(serve: Serve, complete: Complete) -> None:
    error = failing(serve, Protocol.HTTP, complete, [Say("Hel", 1, "stop"), Raw(b'data: {"text_ou')])

    assert str(error) == (
        'model "llm_bf16": the stream ended before its final response: '
        "it broke off within 'data: {\"text_ou' (TRUNCATED)"
    )


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"data: [DONE]\n\n", "the response '[DONE]' is not JSON: "),
        (b"data: [1]\n\n", "the response '[1]' is not a JSON object"),
        (b'data: {"text_output":"\xff"}\n\n', "the stream is not UTF-8: "),
    ],
)
def test_events_that_are_not_tritons(serve: Serve, complete: Complete, data: bytes, message: str) -> None:
    error = failing(serve, Protocol.HTTP, complete, [Raw(data)])

    assert type(error) is MalformedResponseError
    assert str(error).startswith(f'model "llm_bf16": {message}')


def test_nobody_listens(nowhere: Endpoint, complete: Complete) -> None:
    with pytest.raises(ServerUnreachableError) as failure:
        complete(nowhere, ENGINE, PROMPT)

    assert str(failure.value).startswith(f"no tritonserver answers at {nowhere.url}: ")
    assert "Connection refused" in str(failure.value)
    assert str(failure.value).endswith("\nStart one with `./ladder up`, or name another with --port-base or --url.")


def test_an_unknown_model(serve: Serve, protocol: Protocol, complete: Complete) -> None:
    _, address = serve(engine("llm_bf16"), engine("llm_awq"), tokenizer())

    with pytest.raises(ModelUnknownError) as failure:
        complete(address.endpoint(protocol), Target("llm_bf61"), PROMPT)

    assert str(failure.value) == (
        'model "llm_bf61": the server knows no such model; ready are chat_tokenizer, llm_awq, llm_bf16; '
        'did you mean "llm_bf16"? (NOT_FOUND)'
    )


def test_an_unknown_version(serve: Serve, protocol: Protocol, complete: Complete) -> None:
    states = {"1": ("READY", ""), "2": ("LOADING", "")}
    _, address = serve(engine("llm_baseline", states=states))

    with pytest.raises(ModelUnknownError) as failure:
        complete(address.endpoint(protocol), Target("llm_baseline", 4), PROMPT)

    assert str(failure.value) == (
        'model "llm_baseline:4": there is no version 4; the server has 1 (READY), 2 (LOADING) (NOT_FOUND)'
    )


def test_a_model_that_is_not_ready(serve: Serve, protocol: Protocol, complete: Complete) -> None:
    states = {"1": ("UNAVAILABLE", "Internal: no such folder\nAt:\n  model.py"), "2": ("LOADING", "")}
    _, address = serve(engine("llm_bf16", states=states))

    with pytest.raises(ModelNotReadyError) as failure:
        complete(address.endpoint(protocol), ENGINE, PROMPT)

    assert str(failure.value) == (
        'model "llm_bf16": not ready: version 1 is UNAVAILABLE (Internal: no such folder); version 2 is LOADING. '
        "See `./ladder status` and `./ladder logs` (UNAVAILABLE)"
    )


def test_a_conversation_without_a_tokenizer(serve: Serve, protocol: Protocol, complete: Complete) -> None:
    _, address = serve(engine("llm_bf16", *ANSWER))

    with pytest.raises(ModelUnknownError) as failure:
        complete(address.endpoint(protocol), ENGINE, CHAT)

    assert str(failure.value) == (
        'model "llm_bf16": it takes a prompt, not messages, and the chat template cannot be applied: '
        'model "chat_tokenizer": the server knows no such model; ready are llm_bf16; ask for one of them '
        "(NOT_FOUND)"
    )


def test_the_tokenizers_refusal_names_the_tokenizer(serve: Serve, protocol: Protocol, complete: Complete) -> None:
    def refuse(_: Seen) -> Sequence[Step]:
        return [Fail("INVALID_ARGUMENT", 'message 1 has role "robot"')]

    triton, address = serve(engine("llm_bf16", *ANSWER), tokenizer(script=refuse))

    with pytest.raises(RequestRefusedError, match=r'^model "chat_tokenizer": message 1 has role "robot"'):
        complete(address.endpoint(protocol), ENGINE, CHAT)

    assert [seen.model for seen in triton.seen] == ["chat_tokenizer"]


@pytest.mark.parametrize("target", ["llm_bf16", "chat_bf16"])
def test_what_is_no_character_is_not_sent(serve: Serve, protocol: Protocol, complete: Complete, target: str) -> None:
    triton, address = serve(engine("llm_bf16", *ANSWER), ensemble("chat_bf16", *ANSWER), tokenizer())
    typed = b"caf\xe9".decode("utf-8", "surrogateescape")

    with pytest.raises(RequestRefusedError, match=r"holds '\\udce9', which is no character: is the input UTF-8\?"):
        complete(address.endpoint(protocol), Target(target), ChatRequest(messages=[Message("user", typed)]))

    assert triton.seen == []


@pytest.mark.slow
def test_the_deadline_holds_without_the_servers_help(
    serve: Serve, protocol: Protocol, complete: Complete, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tools.client.grpc_transport.DEADLINE_GRACE_S", 0.0)
    monkeypatch.setattr("tools.client.http_transport.DEADLINE_GRACE_S", 0.0)

    error = failing(serve, protocol, complete, [Say("Hel"), WaitForCancel()], replace(PROMPT, deadline_s=0.2))

    assert type(error) is DeadlineExceededError
    assert str(error) == 'model "llm_bf16": no whole answer within the deadline of 0.2 s (DEADLINE_EXCEEDED)'


def test_leaving_a_stream_cancels_it_on_the_server(serve: Serve, protocol: Protocol) -> None:
    triton, address = serve(engine("llm_bf16", Say("Hel"), WaitForCancel()))

    with Client(address.endpoint(protocol)) as client, client.stream(ENGINE, PROMPT) as answer:
        assert next(iter(answer)).text == "Hel"
        assert not triton.cancelled.is_set()

        # Left by the end of the block, as by any exception.

    assert triton.cancelled.wait(5)
    assert answer.completion.text == "Hel"
    assert answer.completion.finish_reason is None


def test_a_stream_that_failed_is_read_to_its_end_and_not_cancelled(serve: Serve, complete: Complete) -> None:
    """tritonserver may lose a request that is cancelled at its end."""
    triton, address = serve(engine("llm_bf16", Fail("UNAVAILABLE", "the engine died"), WaitForCancel(limit_s=0.2)))

    with pytest.raises(UnavailableError, match="the engine died"):
        complete(address.endpoint(Protocol.GRPC), ENGINE, PROMPT)

    assert triton.not_cancelled.is_set()


def test_cancelling_the_task_cancels_the_request_on_the_server(serve: Serve, protocol: Protocol) -> None:
    triton, address = serve(engine("llm_bf16", Say("Hel"), WaitForCancel()))

    async def run() -> None:
        started = asyncio.Event()

        async def ask(client: AsyncClient) -> None:
            async with client.stream(ENGINE, PROMPT) as answer:
                async for _ in answer:
                    started.set()

        async with AsyncClient(address.endpoint(protocol)) as client:
            task = asyncio.create_task(ask(client))
            await started.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert await asyncio.to_thread(triton.cancelled.wait, 5)

    asyncio.run(run())


def test_one_client_holds_many_streams(serve: Serve, protocol: Protocol) -> None:
    def echo(seen: Seen) -> Sequence[Step]:
        return [Say(f"{word} ") for word in seen.inputs["text_input"][0].split()] + [Say("", 0, "stop")]

    triton, address = serve(engine("llm_bf16", script=echo))
    prompts = [" ".join([f"p{number}"] * 20) for number in range(12)]

    async def run() -> list[Completion]:
        async with AsyncClient(address.endpoint(protocol)) as client:
            requests = [client.complete(ENGINE, GenerateRequest(prompt=prompt)) for prompt in prompts]
            return await asyncio.gather(*requests)

    completions = asyncio.run(run())

    assert [completion.text.strip() for completion in completions] == prompts
    assert {completion.num_output_tokens for completion in completions} == {20}
    assert len({seen.request_id for seen in triton.seen}) == 12


def test_the_contract_is_read_once(serve: Serve, protocol: Protocol) -> None:
    triton, address = serve(engine("llm_bf16", *ANSWER))

    with Client(address.endpoint(protocol)) as client:
        for _ in range(3):
            client.complete(ENGINE, PROMPT)
        assert triton.config_reads == 1
        client.server.forget()
        client.complete(ENGINE, PROMPT)
        assert triton.config_reads == 2


def test_a_model_that_has_gone_since_its_contract_was_read(serve: Serve, protocol: Protocol) -> None:
    triton, address = serve(engine("llm_bf16", *ANSWER), engine("llm_awq"))

    with Client(address.endpoint(protocol)) as client:
        client.complete(ENGINE, PROMPT)
        gone: Any = {"1": ("UNAVAILABLE", "unloaded")}
        triton.models["llm_bf16"].states = gone
        with pytest.raises(ModelNotReadyError, match=r"not ready: version 1 is UNAVAILABLE \(unloaded\)"):
            client.complete(ENGINE, PROMPT)
