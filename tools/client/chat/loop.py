"""The chat itself: read a line, carry out a command or stream an answer, until the user leaves."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from tools.client.answers_table import summary
from tools.client.chat.commands import HELP, Command, CommandError, Say, parse_line, parse_parameters
from tools.client.chat.conversation import Conversation, is_too_long
from tools.client.chat.terminal import Terminal
from tools.client.client import Client
from tools.client.completion import Completion
from tools.client.errors import ClientError
from tools.client.request import ChatRequest, JsonValue, Target
from tools.client.rungs import rung_of


@dataclass
class ChatSettings:
    """What a chat starts with and its commands change.

    Attributes:
        sampling: sampling parameters, `max_tokens` among them.
        deadline_s: seconds after which an answer is given up.
    """

    target: Target
    system: str | None = None
    sampling: Mapping[str, JsonValue] = field(default_factory=dict)
    deadline_s: float = 120.0


class Chat:
    """One conversation with a server's models, on one terminal."""

    def __init__(self, client: Client, terminal: Terminal, settings: ChatSettings) -> None:
        self._client = client
        self._terminal = terminal
        self._target = settings.target
        self._sampling = dict(settings.sampling)
        self._deadline_s = settings.deadline_s
        self._conversation = Conversation(settings.system)
        self._context_is_full = False
        self._commands = {
            "/model": self._change_model,
            "/models": self._list_models,
            "/reset": self._reset,
            "/system": self._change_system,
            "/params": self._change_parameters,
            "/help": self._help,
        }

    def run(self) -> bool:
        """Chat until the input ends or the user leaves; False if a line could not be answered or carried out.

        Raises:
            KeyboardInterrupt: Ctrl-C where the input is no terminal.
        """
        flawless = True
        leaving = False
        while True:
            try:
                line = self._terminal.read_line()
            except EOFError:
                return flawless
            except KeyboardInterrupt:
                if not self._terminal.interactive:
                    raise
                if leaving:
                    return flawless
                leaving = True
                self._terminal.notice("\n(Ctrl-C again or Ctrl-D leaves)")
                continue
            leaving = False
            try:
                meaning = parse_line(line)
                if isinstance(meaning, Command) and meaning.name == "/exit":
                    return flawless
                self._carry_out(meaning)
            except KeyboardInterrupt:
                if not self._terminal.interactive:
                    raise
                self._terminal.notice("(cancelled)")
            except (CommandError, ClientError) as error:
                flawless = False
                self._terminal.error(str(error))

    def _carry_out(self, meaning: Command | Say | None) -> None:
        match meaning:
            case Say(text):
                self._converse(text)
            case Command(name, argument):
                self._commands[name](argument)

    def _converse(self, text: str) -> None:
        conversation = self._conversation
        before = conversation.turns
        conversation.say(text)
        forgotten = int(self._context_is_full and conversation.forget_oldest())
        pieces: list[str] = []
        completion: Completion | None = None
        while completion is None:
            try:
                completion = self._stream_answer(pieces)
            except KeyboardInterrupt:
                conversation.answer("".join(pieces))
                if not self._terminal.interactive:
                    raise
                self._terminal.notice("(answer cancelled)")
                return
            except ClientError as error:
                if is_too_long(error) and conversation.forget_oldest():
                    forgotten += 1
                    continue
                conversation.restore(before)
                raise
        conversation.answer(completion.text)
        self._context_is_full = _filled_the_context(completion, self._sampling)
        if forgotten:
            self._terminal.notice(f"(the context is full: your oldest {_turns(forgotten)} forgotten)")
        self._terminal.notice(f"({summary(completion)})")

    def _stream_answer(self, pieces: list[str]) -> Completion:
        """Write an answer as it arrives, and collect it in `pieces`, which holds what was read if this raises."""
        request = ChatRequest(
            messages=self._conversation.messages(), sampling=self._sampling, deadline_s=self._deadline_s
        )
        # Any exception, Ctrl-C included, leaves the block, which cancels the request on the server.
        with self._client.stream(self._target, request) as answer:
            try:
                for chunk in answer:
                    pieces.append(chunk.text)
                    self._terminal.write_answer(chunk.text)
            finally:
                if any(pieces):
                    self._terminal.end_answer()
        return answer.completion

    def _change_model(self, argument: str) -> None:
        if not argument:
            self._terminal.notice(f"the model is {self._target}")
            return
        try:
            target = Target.parse(argument)
        except ValueError as error:
            raise CommandError(str(error)) from error
        if "text_output" not in self._client.server.contract(target).outputs:
            raise CommandError(f'model "{target}" writes no text; /models lists those that do')
        self._target = target
        self._terminal.notice(f"the model is {target} from now on; the conversation goes on")

    def _list_models(self, _: str) -> None:
        server = self._client.server
        for target in server.ready_targets():
            if "text_output" in server.contract(target).outputs:
                rung = rung_of(target)
                here = "*" if self._target in (target, Target(target.model)) else " "
                self._terminal.notice(f"{here} {target}{f'  {rung.label}: {rung.adds}' if rung else ''}")

    def _reset(self, _: str) -> None:
        self._conversation.reset()
        self._context_is_full = False
        self._terminal.notice("the conversation is forgotten")

    def _change_system(self, argument: str) -> None:
        if argument:
            self._conversation.system = None if argument == "-" else argument
            self._reset("")
        system = self._conversation.system
        self._terminal.notice(
            "no system message: the chat template's own applies" if system is None else f"system message: {system}"
        )

    def _change_parameters(self, argument: str) -> None:
        for name, value in parse_parameters(argument).items():
            if value is None:
                self._sampling.pop(name, None)
            else:
                self._sampling[name] = value
        shown = " ".join(f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in self._sampling.items())
        self._terminal.notice(shown or "no sampling parameters: the engine's own apply")

    def _help(self, _: str) -> None:
        for line in HELP.values():
            self._terminal.notice(line)


def _filled_the_context(completion: Completion, sampling: Mapping[str, JsonValue]) -> bool:
    """Whether the answer was cut off by the end of the context rather than by `max_tokens`."""
    limit, tokens = sampling.get("max_tokens"), completion.num_output_tokens
    return completion.finish_reason == "length" and isinstance(limit, int) and tokens is not None and tokens < limit


def _turns(count: int) -> str:
    return "turn is" if count == 1 else f"{count} turns are"
