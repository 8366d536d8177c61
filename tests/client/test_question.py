from collections.abc import Sequence
from io import StringIO

import pytest
from rich.console import Console

from tests.client.conftest import Serve
from tests.client.fakes.triton import Fail, Say, Seen, Step, engine, tokenizer
from tools.client.address import Protocol, ServerAddress
from tools.client.answers_table import answers_table, shortened, summary
from tools.client.client import Client
from tools.client.completion import Completion
from tools.client.errors import ServerUnreachableError
from tools.client.question import WARM_UP_TOKENS, OnProgress, Question, RungAnswer, RungProgress, Stage, ask_rungs
from tools.client.request import Target
from tools.client.rungs import LADDER, ROUTER
from tools.client.sampling import GREEDY

THREE = {"1": ("READY", ""), "2": ("UNAVAILABLE", "unloaded"), "3": ("READY", "")}


def ask(address: ServerAddress, on_progress: OnProgress, protocol: Protocol = Protocol.GRPC) -> list[RungAnswer]:
    with Client(address.endpoint(protocol)) as client:
        return list(ask_rungs(client, Question("Why blue?", sampling={**GREEDY, "max_tokens": 32}), on_progress))


def three_words(_: Seen) -> Sequence[Step]:
    return [Say("The "), Say("sky "), Say("is", 2), Say("", 0, "stop")]


def test_every_ready_rung_gets_the_same_request(serve: Serve, protocol: Protocol) -> None:
    triton, address = serve(
        tokenizer(),
        engine("llm_bf16", script=three_words),
        engine("llm_baseline", script=three_words, states=THREE),
        engine("not_on_the_ladder", script=three_words),
    )

    answers = ask(address, lambda _: None, protocol)

    assert [answer.rung.label for answer in answers] == ["v0", "v1b", "v2"]
    assert [answer.completion.text for answer in answers if answer.completion] == ["The sky is"] * 3
    asked = [seen for seen in triton.seen if seen.model != "chat_tokenizer"]
    assert [(seen.model, seen.version, seen.sampling["max_tokens"]) for seen in asked] == [
        ("llm_baseline", "1", WARM_UP_TOKENS),
        ("llm_baseline", "1", 32),
        ("llm_baseline", "3", WARM_UP_TOKENS),
        ("llm_baseline", "3", 32),
        ("llm_bf16", "1", WARM_UP_TOKENS),
        ("llm_bf16", "1", 32),
    ]
    assert {seen.inputs["text_input"][0] for seen in asked} == {"<user> Why blue?"}
    assert {seen.sampling["temperature"] for seen in asked} == {0.0}


def test_the_release_router_is_asked_last(serve: Serve) -> None:
    _, address = serve(tokenizer(), engine("chat", script=three_words), engine("llm_eagle", script=three_words))

    answers = ask(address, lambda _: None)

    assert [(answer.rung.label, str(answer.rung.target)) for answer in answers] == [
        ("v4", "llm_eagle:1"),
        ("v5", "chat:1"),
    ]


def test_progress_tells_what_happens(serve: Serve) -> None:
    _, address = serve(tokenizer(), engine("llm_bf16", script=three_words))
    progress: list[RungProgress] = []

    ask(address, progress.append)

    assert [(step.stage, step.text) for step in progress] == [
        (Stage.WARMING_UP, ""),
        (Stage.ANSWERING, ""),
        (Stage.ANSWERING, "The "),
        (Stage.ANSWERING, "The sky "),
        (Stage.ANSWERING, "The sky is"),
        (Stage.ANSWERING, "The sky is"),
        (Stage.ANSWERING, "The sky is"),
        (Stage.ANSWERED, "The sky is"),
    ]


def test_a_rung_that_fails_does_not_stop_the_others(serve: Serve) -> None:
    _, address = serve(
        tokenizer(),
        engine("llm_baseline", Fail("UNAVAILABLE", "the engine is restarting [5 s]")),
        engine("llm_bf16", script=three_words),
    )
    progress: list[RungProgress] = []

    failed, answered = ask(address, progress.append)

    message = 'model "llm_baseline:1": the engine is restarting [5 s] (UNAVAILABLE)'
    assert failed.completion is None
    assert str(failed.error) == message
    assert RungProgress(failed.rung, Stage.FAILED, message) in progress
    assert answered.completion is not None
    table = " ".join(drawn([failed, answered]).replace("│", "").split())
    assert "the engine is restarting [5 s]" in table
    assert "The sky is" in table


def test_no_rung_no_answer(serve: Serve) -> None:
    _, address = serve(tokenizer())

    assert ask(address, lambda _: None) == []


def test_no_server() -> None:
    with pytest.raises(ServerUnreachableError):
        ask(ServerAddress("127.0.0.1", 1, 1, 1), lambda _: None)


def drawn(answers: Sequence[object]) -> str:
    console = Console(file=StringIO(), width=100)
    console.print(answers_table(answers))  # type: ignore[arg-type]
    return console.file.getvalue()  # type: ignore[attr-defined]


def test_the_table(serve: Serve) -> None:
    _, address = serve(tokenizer(), engine("llm_bf16", script=three_words))

    table = drawn(ask(address, lambda _: None))

    for expected in ("v2", "llm_bf16:1", "paged KV cache", "The sky is", "TTFT ms", "TPOT ms", "tokens/s"):
        assert expected in table
    assert "after a warm-up of 4 tokens that is not counted" in " ".join(table.split())


def completion(**changes: object) -> Completion:
    values: dict[str, object] = {
        "served_by": Target("llm_bf16", 1),
        "texts": ("x",),
        "finish_reasons": ("stop",),
        "num_input_tokens": 3,
        "num_output_tokens": 8,
        "ttft_s": 0.1234,
        "tpot_s": 0.05,
        "e2e_s": 0.5,
        "tokens_per_s": 16.0,
        "itl_s": (),
        "num_responses": 2,
    }
    return Completion(**{**values, **changes})  # type: ignore[arg-type]


def test_the_table_names_who_answered_for_the_router() -> None:
    answers = [RungAnswer(LADDER[3], completion()), RungAnswer(ROUTER, completion(served_by=Target("llm_awq", 1)))]

    direct, routed = drawn(answers).split("├")

    assert "this time" not in direct
    assert "; this time" in routed
    assert "llm_awq:1" in routed


def test_summary() -> None:
    assert summary(completion()) == "llm_bf16:1 | 8 tokens | TTFT 123.4 ms | TPOT 50.0 ms | 16.0 tokens/s"


def test_summary_of_what_was_not_measured() -> None:
    bare = completion(num_output_tokens=None, ttft_s=None, tpot_s=None, tokens_per_s=None, finish_reasons=("length",))

    assert summary(bare) == "llm_bf16:1 | cut off at max_tokens"


@pytest.mark.parametrize(
    ("text", "expected"),
    [("a\n b", "a b"), ("abcdefgh", "abcdefgh"), ("abcdefghi", "abcde..."), ("abcd fghi", "abcd...")],
)
def test_shortened(text: str, expected: str) -> None:
    assert shortened(text, 8) == expected
