from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

import pytest

from tests.client.conftest import Serve
from tests.client.fakes.triton import Fail, FakeModel, Say, Seen, Step, WaitForCancel, engine, ensemble, tokenizer
from tools.client.address import Protocol, ServerAddress
from tools.client.chat.loop import Chat, ChatSettings
from tools.client.client import Client
from tools.client.request import Target

CTRL_C = KeyboardInterrupt
Line = str | type[KeyboardInterrupt]


class ScriptedTerminal:
    """Types the given lines; Ctrl-C comes when an answer contains `interrupt_at`."""

    def __init__(self, lines: Iterable[Line], *, interactive: bool = True, interrupt_at: str | None = None) -> None:
        self.interactive = interactive
        self._lines = iter(lines)
        self._interrupt_at = interrupt_at
        self.answers = ""
        self.notices: list[str] = []
        self.errors: list[str] = []

    def read_line(self) -> str:
        line = next(self._lines, None)
        if line is None:
            raise EOFError
        if not isinstance(line, str):
            raise line
        return line

    def write_answer(self, piece: str) -> None:
        self.answers += piece
        if self._interrupt_at is not None and self._interrupt_at in piece:
            self._interrupt_at = None
            raise KeyboardInterrupt

    def end_answer(self) -> None:
        self.answers += "\n"

    def notice(self, text: str) -> None:
        self.notices.append(text)

    def error(self, text: str) -> None:
        self.errors.append(text)


def echo(seen: Seen) -> Sequence[Step]:
    words = seen.inputs["text_input"][0].rpartition("<user> ")[2].split()
    return [Say(f"{word.upper()} ") for word in words] + [Say("", 0, "stop")]


MODELS = (tokenizer(), engine("llm_bf16", script=echo), engine("llm_awq", script=echo))


@contextmanager
def chatting(address: ServerAddress, terminal: ScriptedTerminal, **settings: object) -> Iterator[Chat]:
    with Client(address.endpoint(Protocol.GRPC)) as client:
        yield Chat(client, terminal, ChatSettings(Target("llm_bf16"), **settings))  # type: ignore[arg-type]


def prompts(seen: Sequence[Seen], model: str = "llm_bf16") -> list[str]:
    return [each.inputs["text_input"][0] for each in seen if each.model == model]


def test_a_conversation_grows(serve: Serve) -> None:
    triton, address = serve(*MODELS)
    terminal = ScriptedTerminal(["hello", "", "again"])

    with chatting(address, terminal, system="be brief", sampling={"max_tokens": 7}) as chat:
        assert chat.run()

    assert terminal.answers == "HELLO \nAGAIN \n"
    assert prompts(triton.seen) == [
        "<system> be brief <user> hello",
        "<system> be brief <user> hello <assistant> HELLO  <user> again",
    ]
    assert triton.seen[-1].sampling == {"max_tokens": 7}
    assert terminal.notices[0].startswith("(llm_bf16:1 | 1 tokens | TTFT ")
    assert terminal.errors == []


def test_an_error_is_told_and_its_turn_forgotten(serve: Serve) -> None:
    def fail_once(seen: Seen) -> Sequence[Step]:
        if "bad" in seen.inputs["text_input"][0]:
            return [Say("half "), Fail("UNAVAILABLE", "the engine is restarting")]
        return echo(seen)

    triton, address = serve(tokenizer(), engine("llm_bf16", script=fail_once))
    terminal = ScriptedTerminal(["bad", "good"])

    with chatting(address, terminal) as chat:
        assert not chat.run()

    assert terminal.answers == "half \nGOOD \n"
    assert terminal.errors == ['model "llm_bf16": the engine is restarting (UNAVAILABLE)']
    assert prompts(triton.seen)[-1] == "<user> good"


def test_ctrl_c_cancels_the_answer_only(serve: Serve) -> None:
    def endless_at_first(seen: Seen) -> Sequence[Step]:
        return [Say("Once "), WaitForCancel()] if "more" not in seen.inputs["text_input"][0] else echo(seen)

    triton, address = serve(tokenizer(), engine("llm_bf16", script=endless_at_first))
    terminal = ScriptedTerminal(["a story", "more"], interrupt_at="Once")

    with chatting(address, terminal) as chat:
        assert chat.run()
        assert triton.cancelled.wait(5)

    assert terminal.answers == "Once \nMORE \n"
    assert terminal.notices[0] == "(answer cancelled)"
    # What was read stays part of the conversation.
    assert prompts(triton.seen)[-1] == "<user> a story <assistant> Once  <user> more"


def test_ctrl_c_ends_a_chat_on_a_pipe(serve: Serve) -> None:
    _, address = serve(*MODELS)
    terminal = ScriptedTerminal(["hello", "again"], interactive=False, interrupt_at="HELLO")

    with chatting(address, terminal) as chat, pytest.raises(KeyboardInterrupt):
        chat.run()


def test_ctrl_c_twice_at_the_prompt_leaves(serve: Serve) -> None:
    _, address = serve(*MODELS)
    terminal = ScriptedTerminal([CTRL_C, "hello", CTRL_C, CTRL_C, "never read"])

    with chatting(address, terminal) as chat:
        assert chat.run()

    assert terminal.answers == "HELLO \n"
    assert terminal.notices.count("\n(Ctrl-C again or Ctrl-D leaves)") == 2


def bounded(limit: int) -> FakeModel:
    """A tokenizer that refuses more than `limit` words, in the engine's words."""

    def template(seen: Seen) -> Sequence[Step]:
        (step,) = tokenizer().script(seen)
        length = step.values["num_input_tokens"][0]  # type: ignore[union-attr]
        if length >= limit:
            text = f'"messages" has {length} tokens: the context takes {limit}, of which at least one is for the answer'
            return [Fail("INVALID_ARGUMENT", text)]
        return [step]

    return tokenizer(script=template)


def test_the_oldest_turns_are_forgotten_when_the_context_is_full(serve: Serve) -> None:
    triton, address = serve(bounded(10), engine("llm_bf16", script=echo))
    terminal = ScriptedTerminal(["a", "b", "c d e f"])

    with chatting(address, terminal, system="s") as chat:
        assert chat.run()

    assert prompts(triton.seen)[-1] == "<system> s <user> c d e f"
    assert "(the context is full: your oldest 2 turns are forgotten)" in terminal.notices
    assert terminal.errors == []


def test_a_message_that_alone_is_too_long_is_refused_and_the_chat_goes_on(serve: Serve) -> None:
    triton, address = serve(bounded(7), engine("llm_bf16", script=echo))
    terminal = ScriptedTerminal(["a", "b c d e f g h", "i"])

    with chatting(address, terminal) as chat:
        assert not chat.run()

    assert terminal.errors == [
        'model "chat_tokenizer": "messages" has 8 tokens: the context takes 7, of which at least one is for the answer '
        "(INVALID_ARGUMENT)"
    ]
    assert terminal.answers == "A \nI \n"
    # Nothing was forgotten in vain.
    assert prompts(triton.seen)[-1] == "<user> a <assistant> A  <user> i"


def test_an_answer_cut_off_by_the_context_makes_room_for_the_next(serve: Serve) -> None:
    triton, address = serve(tokenizer(), engine("llm_bf16", Say("cut", 3, "length")))
    terminal = ScriptedTerminal(["a", "b"])

    with chatting(address, terminal, sampling={"max_tokens": 8}) as chat:
        chat.run()

    assert prompts(triton.seen) == ["<user> a", "<user> b"]
    assert "(the context is full: your oldest turn is forgotten)" in terminal.notices


def test_an_answer_cut_off_by_max_tokens_forgets_nothing(serve: Serve) -> None:
    triton, address = serve(tokenizer(), engine("llm_bf16", Say("cut", 8, "length")))
    terminal = ScriptedTerminal(["a", "b"])

    with chatting(address, terminal, sampling={"max_tokens": 8}) as chat:
        chat.run()

    assert prompts(triton.seen)[-1] == "<user> a <assistant> cut <user> b"


def test_another_model_goes_on_with_the_conversation(serve: Serve) -> None:
    triton, address = serve(*MODELS)
    terminal = ScriptedTerminal(["hello", "/model", "/model llm_awq:1", "again"])

    with chatting(address, terminal) as chat:
        assert chat.run()

    assert prompts(triton.seen, "llm_awq") == ["<user> hello <assistant> HELLO  <user> again"]
    assert "the model is llm_bf16" in terminal.notices
    assert "the model is llm_awq:1 from now on; the conversation goes on" in terminal.notices


def test_models_that_cannot_be_chosen(serve: Serve) -> None:
    _, address = serve(*MODELS, engine("llm_eagle", states={"1": ("LOADING", "")}))
    terminal = ScriptedTerminal(["/model llm_bf61", "/model llm_eagle", "/model chat_tokenizer", "/model a:b", "hello"])

    with chatting(address, terminal) as chat:
        assert not chat.run()

    unknown, loading, speechless, malformed = terminal.errors
    assert unknown.startswith('model "llm_bf61": the server knows no such model; ')
    assert loading.startswith('model "llm_eagle": not ready: version 1 is LOADING')
    assert speechless == 'model "chat_tokenizer" writes no text; /models lists those that do'
    assert malformed == '"a:b": the version "b" is not a positive integer; write MODEL:VERSION'
    assert terminal.answers == "HELLO \n"


def test_models_are_listed_with_what_they_add(serve: Serve) -> None:
    _, address = serve(*MODELS, ensemble("chat_bf16"), engine("llm_eagle", states={"1": ("LOADING", "")}))
    terminal = ScriptedTerminal(["/models"])

    with chatting(address, terminal) as chat:
        assert chat.run()

    assert terminal.notices == [
        "  chat_bf16:1",
        "  llm_awq:1  v3: AWQ, 4-bit weights",
        "* llm_bf16:1  v2: vLLM: paged KV cache, continuous batching",
    ]


def test_reset_and_system(serve: Serve) -> None:
    triton, address = serve(*MODELS)
    terminal = ScriptedTerminal(
        ["/system", "a", "/reset", "b", "/system be brief", "c", "/system", "/system -", "d", "/exit now", "never said"]
    )

    with chatting(address, terminal) as chat:
        assert chat.run()

    assert prompts(triton.seen) == ["<user> a", "<user> b", "<system> be brief <user> c", "<user> d"]
    told = [notice for notice in terminal.notices if not notice.startswith("(")]
    assert told == [
        "no system message: the chat template's own applies",
        "the conversation is forgotten",
        "the conversation is forgotten",
        "system message: be brief",
        "system message: be brief",
        "the conversation is forgotten",
        "no system message: the chat template's own applies",
    ]


def test_parameters(serve: Serve) -> None:
    triton, address = serve(*MODELS)
    terminal = ScriptedTerminal(
        ["/params", "/params temperature=0.5 stop=é", "a", "/params temperature= stop=", "/params x"]
    )

    with chatting(address, terminal) as chat:
        assert not chat.run()

    assert triton.seen[-1].sampling == {"temperature": 0.5, "stop": "é"}
    assert terminal.notices[0] == "no sampling parameters: the engine's own apply"
    assert terminal.notices[1] == 'temperature=0.5 stop="é"'
    assert terminal.notices[-1] == "no sampling parameters: the engine's own apply"
    assert terminal.errors == ['"x" is not of the form NAME=VALUE, for example temperature=0.7']


def test_help_and_unknown_commands(serve: Serve) -> None:
    _, address = serve(*MODELS)
    terminal = ScriptedTerminal(["/help", "/hepl"])

    with chatting(address, terminal) as chat:
        assert not chat.run()

    assert [notice.split()[0] for notice in terminal.notices] == [
        "/model",
        "/models",
        "/reset",
        "/system",
        "/params",
        "/help",
        "/exit",
    ]
    assert terminal.errors == [
        'there is no command "/hepl": did you mean "/help"? To say it to the model, write "//hepl".'
    ]
