"""The client for asyncio: what load generators use to hold hundreds of streams in one thread."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from time import perf_counter
from typing import Self

from tools.client.address import Endpoint, Protocol
from tools.client.client import CHAT_TOKENIZER
from tools.client.completion import Chunk, Completion, CompletionBuilder
from tools.client.contract import (
    PreparedRequest,
    Prompt,
    TensorValues,
    needs_template,
    prepare,
    template_tensors,
    text_tensors,
)
from tools.client.errors import ModelNotReadyError, ModelUnknownError, no_template
from tools.client.grpc_transport import AsyncGrpcTransport
from tools.client.http_transport import AsyncHttpTransport
from tools.client.request import ChatRequest, Message, Request, Target
from tools.client.server_info import ServerInfo
from tools.client.transport import AsyncTransport


class AsyncAnswerStream:
    """The chunks of one answer, in order of arrival."""

    def __init__(self, chunks: AsyncIterator[Chunk], builder: CompletionBuilder) -> None:
        self._chunks = chunks
        self._builder = builder

    def __aiter__(self) -> AsyncIterator[Chunk]:
        return self._chunks

    @property
    def completion(self) -> Completion:
        """The answer so far; the whole one once the iteration has ended."""
        return self._builder.build()


class AsyncClient:
    """`Client` for one event loop; make it while the loop runs.

    What the server says about itself is asked for in a worker thread, once per target.
    """

    def __init__(self, endpoint: Endpoint, *, tokenizer: Target = CHAT_TOKENIZER) -> None:
        self.endpoint = endpoint
        self.server = ServerInfo.at(endpoint)
        self._tokenizer = tokenizer
        self._transport: AsyncTransport = (
            AsyncGrpcTransport(endpoint) if endpoint.protocol is Protocol.GRPC else AsyncHttpTransport(endpoint)
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @asynccontextmanager
    async def stream(self, target: Target, request: Request) -> AsyncGenerator[AsyncAnswerStream]:
        """See `Client.stream`; cancelling the task cancels the request on the server."""
        prepared, template_s = await self._prepare(target, request)
        builder = CompletionBuilder(
            target, streamed=prepared.stream, num_input_tokens=prepared.num_input_tokens, template_s=template_s
        )
        async with aclosing(self._chunks(prepared, builder)) as chunks:
            yield AsyncAnswerStream(chunks, builder)

    async def complete(self, target: Target, request: Request) -> Completion:
        """See `Client.complete`."""
        async with self.stream(target, request) as answer:
            async for _ in answer:
                pass
        return answer.completion

    async def apply_template(self, messages: Sequence[Message], deadline_s: float | None = None) -> Prompt:
        """See `Client.apply_template`."""
        return await self._ask_tokenizer(template_tensors(messages, self._tokenizer), deadline_s)

    async def tokenize(self, text: str, deadline_s: float | None = None) -> Prompt:
        """Have the server's `chat_tokenizer` encode a text as it is, without a template.

        Raises:
            ClientError: the server has no tokenizer that is ready, or the tokenizer refuses the text.
        """
        return await self._ask_tokenizer(text_tensors(text, self._tokenizer), deadline_s)

    async def close(self) -> None:
        """Close all connections."""
        await self._transport.close()
        self.server.close()

    async def _ask_tokenizer(self, tensors: Mapping[str, TensorValues], deadline_s: float | None) -> Prompt:
        contract = await asyncio.to_thread(self.server.contract, self._tokenizer)
        outputs = await self._transport.infer(self._tokenizer, contract, tensors, deadline_s)
        return Prompt.from_outputs(outputs, self._tokenizer)

    async def _prepare(self, target: Target, request: Request) -> tuple[PreparedRequest, float | None]:
        contract = await asyncio.to_thread(self.server.contract, target)
        if not isinstance(request, ChatRequest) or not needs_template(request, contract):
            return prepare(request, target, contract), None
        started_at = perf_counter()
        try:
            prompt = await self.apply_template(request.messages, request.deadline_s)
        except (ModelUnknownError, ModelNotReadyError) as error:
            raise no_template(error, target) from error
        return prepare(request, target, contract, prompt), perf_counter() - started_at

    async def _chunks(self, prepared: PreparedRequest, builder: CompletionBuilder) -> AsyncGenerator[Chunk]:
        builder.start(perf_counter())
        async with aclosing(self._transport.stream(prepared)) as chunks:
            try:
                async for chunk in chunks:
                    builder.add(chunk)
                    yield chunk
            except ModelUnknownError:
                # The model was there when its contract was read; find out what has become of it.
                await asyncio.to_thread(self.server.explain, prepared.target)
                raise
