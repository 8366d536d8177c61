"""The blocking client: a request in, chunks and a measured completion out, the same on every rung."""

from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from time import perf_counter
from typing import Self

from tools.client.address import Endpoint, Protocol
from tools.client.completion import Chunk, Completion, CompletionBuilder
from tools.client.contract import PreparedRequest, Prompt, needs_template, prepare, template_tensors
from tools.client.errors import ModelNotReadyError, ModelUnknownError, no_template
from tools.client.grpc_transport import GrpcTransport
from tools.client.http_transport import HttpTransport
from tools.client.request import ChatRequest, Message, Request, Target
from tools.client.server_info import ServerInfo
from tools.client.transport import Transport

CHAT_TOKENIZER = Target("chat_tokenizer")


class AnswerStream:
    """The chunks of one answer, in order of arrival."""

    def __init__(self, chunks: Iterator[Chunk], builder: CompletionBuilder) -> None:
        self._chunks = chunks
        self._builder = builder

    def __iter__(self) -> Iterator[Chunk]:
        return self._chunks

    @property
    def completion(self) -> Completion:
        """The answer so far; the whole one once the iteration has ended."""
        return self._builder.build()


class Client:
    """One server, over one protocol. Threads may share it; each request is a call or connection of its own.

    Conversations go as `messages` to models that take them (the `chat_*` ensembles). For a bare engine the server's
    `chat_tokenizer` is asked first, as a request of its own that is not part of the measured times.
    """

    def __init__(self, endpoint: Endpoint, *, tokenizer: Target = CHAT_TOKENIZER) -> None:
        self.endpoint = endpoint
        self.server = ServerInfo.at(endpoint)
        self._tokenizer = tokenizer
        self._transport: Transport = (
            GrpcTransport(endpoint) if endpoint.protocol is Protocol.GRPC else HttpTransport(endpoint)
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextmanager
    def stream(self, target: Target, request: Request) -> Generator[AnswerStream]:
        """Send a request; iterate over the result for its chunks. Leaving the block early cancels it on the server.

        Raises:
            ClientError: here or while iterating, whatever keeps the answer from being complete.
        """
        prepared, template_s = self._prepare(target, request)
        builder = CompletionBuilder(
            target, streamed=prepared.stream, num_input_tokens=prepared.num_input_tokens, template_s=template_s
        )
        with closing(self._chunks(prepared, builder)) as chunks:
            yield AnswerStream(chunks, builder)

    def complete(self, target: Target, request: Request) -> Completion:
        """Send a request and wait for the whole answer.

        Raises:
            ClientError: whatever keeps the answer from being complete.
        """
        with self.stream(target, request) as answer:
            for _ in answer:
                pass
        return answer.completion

    def apply_template(self, messages: Sequence[Message], deadline_s: float | None = None) -> Prompt:
        """Have the server's `chat_tokenizer` turn a conversation into a prompt.

        Raises:
            ClientError: the server has no tokenizer that is ready, or the tokenizer refuses the conversation.
        """
        contract = self.server.contract(self._tokenizer)
        tensors = template_tensors(messages, self._tokenizer)
        return Prompt.from_outputs(
            self._transport.infer(self._tokenizer, contract, tensors, deadline_s), self._tokenizer
        )

    def close(self) -> None:
        """Close all connections."""
        self._transport.close()
        self.server.close()

    def _prepare(self, target: Target, request: Request) -> tuple[PreparedRequest, float | None]:
        contract = self.server.contract(target)
        if not isinstance(request, ChatRequest) or not needs_template(request, contract):
            return prepare(request, target, contract), None
        started_at = perf_counter()
        try:
            prompt = self.apply_template(request.messages, request.deadline_s)
        except (ModelUnknownError, ModelNotReadyError) as error:
            raise no_template(error, target) from error
        return prepare(request, target, contract, prompt), perf_counter() - started_at

    def _chunks(self, prepared: PreparedRequest, builder: CompletionBuilder) -> Generator[Chunk]:
        builder.start(perf_counter())
        with closing(self._transport.stream(prepared)) as chunks:
            try:
                for chunk in chunks:
                    builder.add(chunk)
                    yield chunk
            except ModelUnknownError:
                # The model was there when its contract was read; find out what has become of it.
                self.server.explain(prepared.target)
                raise
