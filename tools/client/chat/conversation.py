"""The conversation as the model is shown it, and what to forget when it outgrows the context. Pure."""

import re
from collections.abc import Sequence

from tools.client.errors import ClientError, RequestRefusedError
from tools.client.request import Message

# Refusals of a prompt that is too long: this project's engines and tokenizer, their bound on bytes, vLLM on its own.
_TOO_LONG = re.compile(r"the context takes \d+|MAX_PROMPT_BYTES allows at most|maximum (context|model) length")


def is_too_long(error: ClientError) -> bool:
    """Whether a request was refused because its prompt does not fit the model's context."""
    return isinstance(error, RequestRefusedError) and _TOO_LONG.search(error.message) is not None


class Conversation:
    """A system message and the turns so far, oldest first; user and assistant take turns, the user begins."""

    def __init__(self, system: str | None = None) -> None:
        self.system = system
        self._turns: list[Message] = []

    @property
    def turns(self) -> Sequence[Message]:
        """What was said so far, without the system message."""
        return tuple(self._turns)

    def messages(self) -> list[Message]:
        """What the model is shown."""
        system = [Message("system", self.system)] if self.system else []
        return [*system, *self._turns]

    def say(self, text: str) -> None:
        """The user's turn."""
        self._turns.append(Message("user", text))

    def answer(self, text: str) -> None:
        """The model's turn. An empty answer takes back the turn it answers: templates want turns to alternate."""
        if text:
            self._turns.append(Message("assistant", text))
        else:
            self._turns.pop()

    def restore(self, turns: Sequence[Message]) -> None:
        """Go back to earlier turns, as `turns` gave them."""
        self._turns = list(turns)

    def forget_oldest(self) -> bool:
        """Forget the oldest question with its answer; False if only the turn to be answered is left."""
        if len(self._turns) <= 1:
            return False
        del self._turns[:2]
        return True

    def reset(self) -> None:
        """Forget all turns; the system message stays."""
        self._turns.clear()
