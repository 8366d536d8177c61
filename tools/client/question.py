"""One question, to one model or to every rung of the ladder."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto

from tools.client.client import Client
from tools.client.completion import Completion
from tools.client.errors import ClientError
from tools.client.request import ChatRequest, JsonValue, Message
from tools.client.rungs import ROUTER, Rung, rungs_among
from tools.client.sampling import GREEDY

WARM_UP_TOKENS = 4
# An eager baseline on two slow cores writes a few tokens a second; what takes longer than this hangs.
DEADLINE_S = 300.0


@dataclass(frozen=True, slots=True)
class Question:
    """A question as every model is asked it.

    Attributes:
        sampling: sampling parameters, `max_tokens` among them.
        deadline_s: seconds after which an answer is given up.
    """

    text: str
    system: str | None = None
    sampling: Mapping[str, JsonValue] = field(default_factory=lambda: GREEDY)
    deadline_s: float = DEADLINE_S

    def request(self) -> ChatRequest:
        """The request for the whole answer."""
        return self._request(self.sampling)

    def warm_up(self) -> ChatRequest:
        """The same request, cut off after a few tokens: it pays for whatever only a first request pays for."""
        return self._request({**self.sampling, "max_tokens": WARM_UP_TOKENS})

    def _request(self, sampling: Mapping[str, JsonValue]) -> ChatRequest:
        messages = [Message("user", self.text)]
        if self.system:
            messages.insert(0, Message("system", self.system))
        return ChatRequest(messages=messages, sampling=sampling, deadline_s=self.deadline_s)


class Stage(Enum):
    """Where a rung's question stands."""

    WARMING_UP = auto()
    ANSWERING = auto()
    ANSWERED = auto()
    FAILED = auto()


@dataclass(frozen=True, slots=True)
class RungProgress:
    """A step forward on one rung. `text` is the answer so far, or the error's text."""

    rung: Rung
    stage: Stage
    text: str = ""


@dataclass(frozen=True, slots=True)
class RungAnswer:
    """What a rung answered: a completion, or the error in its place."""

    rung: Rung
    completion: Completion | None
    error: ClientError | None = None


OnProgress = Callable[[RungProgress], None]


def ask_rungs(client: Client, question: Question, on_progress: OnProgress) -> Iterator[RungAnswer]:
    """Ask every ready rung in turn, and the release router last, streaming, each after a warm-up that is not counted.

    Args:
        on_progress: called at every change of stage and with every chunk. Its own time is within what is measured.

    Yields:
        One answer for each that is ready, lowest first; one that fails yields its error.

    Raises:
        ServerUnreachableError: there is no server.
    """
    ready = client.server.ready_targets()
    for rung in (*rungs_among(ready), *([ROUTER] if ROUTER.target in ready else [])):
        yield _ask(client, rung, question, on_progress)


def _ask(client: Client, rung: Rung, question: Question, on_progress: OnProgress) -> RungAnswer:
    try:
        on_progress(RungProgress(rung, Stage.WARMING_UP))
        client.complete(rung.target, question.warm_up())
        on_progress(RungProgress(rung, Stage.ANSWERING))
        text = ""
        with client.stream(rung.target, question.request()) as answer:
            for chunk in answer:
                text += chunk.text
                on_progress(RungProgress(rung, Stage.ANSWERING, text))
    except ClientError as error:
        on_progress(RungProgress(rung, Stage.FAILED, str(error)))
        return RungAnswer(rung, None, error)
    on_progress(RungProgress(rung, Stage.ANSWERED, text))
    return RungAnswer(rung, answer.completion)
