"""Asking a tritonserver: what its generate endpoints and its gRPC stream have in common.

A bare engine (`llm_*`) takes a prompt, so for messages the server's `chat_tokenizer` applies the chat template first:
once per conversation and process, as a request of its own that is in none of the measured times. `chat_*` take the
messages as they are and tokenize within their time.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from threading import Lock
from typing import Any, ClassVar, Final, Protocol
from weakref import WeakValueDictionary

from loadtest.options import LoadOptions
from loadtest.workloads.planned import PlannedRequest
from tools.client.address import Endpoint
from tools.client.client import CHAT_TOKENIZER
from tools.client.contract import ModelContract, PreparedRequest, Prompt, TensorValues, prepare, template_tensors
from tools.client.errors import ClientError, DeadlineExceededError, ModelNotReadyError, ModelUnknownError, no_template
from tools.client.request import ChatRequest, GenerateRequest, JsonValue, Message, Target
from tools.client.server_info import ServerInfo
from tools.client.transport import Transport as ClientTransport

from .answer import Answer, Attempt, late, never_sent
from .verdict import ENDED_HERE, failure_of

_PROMPTS_KEPT: Final = 1024

Conversation = tuple[Message, ...]
Infer = Callable[[Target, ModelContract, Mapping[str, TensorValues], float | None], Mapping[str, Sequence[Any]]]


class Connection(ClientTransport, Protocol):
    """A connection that carries one request at a time and can be interrupted."""

    def interrupt(self) -> None:
        """From another greenlet: end the request that runs, on the server too, and any later one at once."""


class KserveServer:
    """What this process knows of one server, shared by all transports to it: contracts and templated prompts."""

    _known: ClassVar[WeakValueDictionary[Endpoint, KserveServer]] = WeakValueDictionary()

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._contracts: dict[Target, ModelContract] = {}
        self._prompts: OrderedDict[Conversation, Prompt] = OrderedDict()
        self._asking = Lock()

    @classmethod
    def at(cls, endpoint: Endpoint) -> KserveServer:
        """The one for this endpoint; it is forgotten with the last transport that holds it."""
        server = cls._known.get(endpoint)
        if server is None:
            server = cls._known[endpoint] = cls(endpoint)
        return server

    def contract(self, target: Target) -> ModelContract:
        """See `ServerInfo.contract`; asked for once, by whoever comes first."""
        with self._asking:
            if target not in self._contracts:
                with ServerInfo.at(self._endpoint) as info:
                    self._contracts[target] = info.contract(target)
            return self._contracts[target]

    def prompt(self, messages: Conversation, target: Target, infer: Infer, deadline_s: float) -> Prompt:
        """The conversation with the chat template applied, for `target`.

        Raises:
            ClientError: there is no `chat_tokenizer`, or it refuses the conversation.
        """
        known = self._prompts.get(messages)
        if known is not None:
            self._prompts.move_to_end(messages)
            return known
        try:
            contract = self.contract(CHAT_TOKENIZER)
            tensors = template_tensors(messages, CHAT_TOKENIZER)
            outputs = infer(CHAT_TOKENIZER, contract, tensors, deadline_s)
        except (ModelUnknownError, ModelNotReadyError) as error:
            raise no_template(error, target) from error
        prompt = self._prompts[messages] = Prompt.from_outputs(outputs, CHAT_TOKENIZER)
        if len(self._prompts) > _PROMPTS_KEPT:
            self._prompts.popitem(last=False)
        return prompt


class KserveTransport:
    """See `loadtest.users.transport.Transport`."""

    def __init__(self, options: LoadOptions, target: str, endpoint: Endpoint, connection: Connection, *, stream: bool):
        self._options = options
        self._name = target
        self._target = Target.parse(target)
        self._server = KserveServer.at(endpoint)
        self._connection = connection
        self._stream = stream
        self._running = False
        self._closed = False

    def lay_out(self, request: PlannedRequest) -> PreparedRequest:
        """The request on the model's inputs, the chat template applied where the model wants a prompt.

        Raises:
            ClientError: the server, the model or its tokenizer cannot be asked, or refuses the request.
        """
        contract = self._server.contract(self._target)
        prompt = None
        if request.messages and not contract.takes_messages:
            prompt = self._server.prompt(
                request.messages, self._target, self._connection.infer, self._options.deadline_s
            )
        common: dict[str, Any] = {
            "sampling": sampling_of(self._options, request),
            "stream": self._stream,
            "deadline_s": self._options.deadline_s,
        }
        asked: ChatRequest | GenerateRequest
        if request.prompt is not None:
            asked = GenerateRequest(prompt=request.prompt, **common)
        else:
            asked = ChatRequest(messages=request.messages, **common)
        return prepare(asked, self._target, contract, prompt)

    def prepare(self, request: PlannedRequest) -> None:
        """See `Transport.prepare`."""
        try:
            self.lay_out(request)
        except ClientError:
            # `send` meets the same error, and has an outcome to put it in.
            return

    def send(self, request: PlannedRequest, due_at: float) -> Answer:
        """See `Transport.send`."""
        attempt = Attempt(self._name, request, due_at, self._options.deadline_s)
        if self._closed:
            return attempt.fail(ENDED_HERE)
        if attempt.is_late:
            return attempt.fail(never_sent(self._options.deadline_s))
        self._running = True
        try:
            prepared = self.lay_out(request)
            attempt.start(streamed=self._stream, num_input_tokens=prepared.num_input_tokens)
            with closing(self._connection.stream(prepared)) as chunks:
                for chunk in chunks:
                    attempt.add(chunk)
        except ClientError as error:
            if self._closed:
                return attempt.fail(ENDED_HERE)
            if isinstance(error, DeadlineExceededError):
                return attempt.fail(late(self._options.deadline_s))
            return attempt.fail(failure_of(error))
        finally:
            self._running = False
            if self._closed:
                self._connection.close()
        return attempt.end()

    def close(self) -> None:
        """See `Transport.close`."""
        self._closed = True
        self._connection.interrupt()
        if not self._running:
            self._connection.close()


def sampling_of(options: LoadOptions, request: PlannedRequest) -> dict[str, JsonValue]:
    """The engine's sampling parameters: the run's, over them the request's own and its length."""
    exact: dict[str, JsonValue] = {"ignore_eos": True} if request.exact else {}
    return {**options.sampling, **request.sampling, **exact, "max_tokens": request.max_tokens}
