import pytest

from tools.client.chat.conversation import Conversation, is_too_long
from tools.client.errors import ClientError, RequestRefusedError, UnavailableError
from tools.client.request import Message
from tools.engine.errors import RequestError
from tools.engine.prompt_tokens import check_tokens


def told(conversation: Conversation) -> list[str]:
    return [f"{message.role}: {message.content}" for message in conversation.messages()]


def talk(*pairs: tuple[str, str], system: str | None = None) -> Conversation:
    conversation = Conversation(system)
    for question, answer in pairs:
        conversation.say(question)
        conversation.answer(answer)
    return conversation


def test_turns_in_order_behind_the_system_message() -> None:
    conversation = talk(("a", "b"), ("c", "d"), system="be brief")

    assert told(conversation) == ["system: be brief", "user: a", "assistant: b", "user: c", "assistant: d"]
    assert conversation.turns[0] == Message("user", "a")


def test_an_empty_answer_takes_the_question_back() -> None:
    assert told(talk(("a", "b"), ("c", ""))) == ["user: a", "assistant: b"]


def test_the_oldest_exchange_is_forgotten_first_and_the_question_last() -> None:
    conversation = talk(("a", "b"), ("c", "d"), system="s")
    conversation.say("e")

    assert conversation.forget_oldest()
    assert told(conversation) == ["system: s", "user: c", "assistant: d", "user: e"]
    assert conversation.forget_oldest()
    assert not conversation.forget_oldest()
    assert told(conversation) == ["system: s", "user: e"]


def test_earlier_turns_come_back() -> None:
    conversation = talk(("a", "b"))
    before = conversation.turns
    conversation.say("c")
    conversation.forget_oldest()
    conversation.restore(before)

    assert told(conversation) == ["user: a", "assistant: b"]


def test_reset_keeps_the_system_message() -> None:
    conversation = talk(("a", "b"), system="s")
    conversation.reset()

    assert told(conversation) == ["system: s"]


def the_engines_refusal() -> str:
    with pytest.raises(RequestError) as refusal:
        check_tokens(list(range(9)), "messages", 8, None)
    return str(refusal.value)


@pytest.mark.parametrize(
    "message",
    [
        the_engines_refusal(),
        '"messages" has 70000 bytes: MAX_PROMPT_BYTES allows at most 65536',
        "The decoder prompt (length 9000) is longer than the maximum model length of 8192.",
        "This model's maximum context length is 8192 tokens.",
    ],
)
def test_a_refusal_for_length(message: str) -> None:
    assert is_too_long(RequestRefusedError("INVALID_ARGUMENT", message))


@pytest.mark.parametrize(
    "error",
    [
        RequestRefusedError("INVALID_ARGUMENT", '"max_tokens" is 4096: MAX_TOKENS_LIMIT allows at most 1024'),
        UnavailableError("UNAVAILABLE", "the context takes 8"),
    ],
)
def test_other_errors(error: ClientError) -> None:
    assert not is_too_long(error)
