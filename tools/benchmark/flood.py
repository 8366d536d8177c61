"""`python -m tools.benchmark.flood`: drives a served model with as little work per response as gRPC for Python allows.

A few bidirectional ModelStreamInfer calls carry all requests, so a stream costs no task and no call of its own. Every
request's tokens are counted: a measurement in which one is missing fails.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import sys
from collections.abc import AsyncIterator
from time import perf_counter
from typing import Any

import grpc
from pydantic import BaseModel
from tritonclient.grpc import service_pb2, service_pb2_grpc

from tools.client.address import Protocol, ServerAddress
from tools.client.contract import prepare
from tools.client.errors import ClientError
from tools.client.grpc_channel import open_async_channel
from tools.client.grpc_codec import encode_request
from tools.client.request import GenerateRequest, Target
from tools.client.server_info import ServerInfo

from .cpu_time import CLIENT, cpu_seconds
from .errors import BenchmarkError
from .workload import ServedLoad, Tally, Trouble

TEXT_PROMPT = "the quick brown fox jumps over the lazy dog"


def main() -> int:
    """Answers orders until standard input ends."""
    for line in sys.stdin:
        print(_answer(ServedLoad.model_validate_json(line)).model_dump_json(), flush=True)
    return 0


def _answer(order: ServedLoad) -> BaseModel:
    try:
        messages = _messages(order)
        return asyncio.run(_Flood(order, messages).run())
    except (BenchmarkError, ClientError) as error:
        return Trouble(error=str(error))
    except grpc.RpcError as error:
        return Trouble(error=f"the connection to the server broke: {error.details()}")


def _messages(order: ServedLoad) -> list[Any]:
    """One ModelInferRequest per prompt."""
    load, target = order.load, Target(order.model)
    with ServerInfo.at(ServerAddress(grpc_port=order.port).endpoint(Protocol.GRPC)) as info:
        contract = info.contract(target)
    sampling = {"max_tokens": load.tokens, "temperature": 0.0, "ignore_eos": True}
    return [
        encode_request(
            prepare(
                GenerateRequest(
                    prompt="" if prompt else TEXT_PROMPT,
                    input_ids=prompt or None,
                    sampling=sampling,
                    return_finish_reason=False,
                    return_num_input_tokens=False,
                ),
                target,
                contract,
            )
        )
        for prompt in load.prompts
    ]


class _Flood:
    """One order. A request's id begins with the number of the stream that it is one of."""

    def __init__(self, order: ServedLoad, messages: list[Any]) -> None:
        self._order = order
        self._load = order.load
        self._messages = messages
        self._window = _Window({**order.processes, CLIENT: (os.getpid(),)})
        self._queues: list[asyncio.Queue[Any]] = []
        self._numbers = itertools.count()
        self._received: dict[str, int] = {}
        self._sent_at: dict[str, float] = {}
        self._begun: set[int] = set()
        self._last_requests = not self._load.seconds

    async def run(self) -> Tally:
        """Raises BenchmarkError when a request fails or is short of tokens, grpc.RpcError when the server goes."""
        endpoint = ServerAddress(grpc_port=self._order.port).endpoint(Protocol.GRPC)
        # Without a pool of its own each channel would share one connection with the others.
        channels = [
            open_async_channel(endpoint, ("grpc.use_local_subchannel_pool", 1))
            for _ in range(min(self._order.connections, self._load.streams))
        ]
        self._queues = [asyncio.Queue() for _ in channels]
        try:
            for channel in channels:
                await channel.channel_ready()
            if self._last_requests:
                self._window.open()
            for stream in range(self._load.streams):
                self._ask(stream)
            async with asyncio.TaskGroup() as tasks:
                for channel, queue in zip(channels, self._queues, strict=True):
                    tasks.create_task(self._connection(channel, queue))
        except ExceptionGroup as group:
            raise group.exceptions[0] from None
        finally:
            for channel in channels:
                await channel.close()
        return self._window.tally()

    def _ask(self, stream: int) -> None:
        number = next(self._numbers)
        message = service_pb2.ModelInferRequest()
        message.CopyFrom(self._messages[number % len(self._messages)])
        message.id = f"{stream}-{number}"
        self._received[message.id] = 0
        self._sent_at[message.id] = perf_counter()
        self._queues[stream % len(self._queues)].put_nowait(message)

    async def _connection(self, channel: Any, queue: asyncio.Queue[Any]) -> None:
        call = service_pb2_grpc.GRPCInferenceServiceStub(channel).ModelStreamInfer(_requests(queue))
        async for response in call:
            if response.error_message:
                raise BenchmarkError(f'"{self._order.model}" failed a request: {response.error_message}')
            self._take(response.infer_response)

    def _take(self, response: Any) -> None:
        request_id = response.id
        tokens = _num_output_tokens(response)
        self._window.count(tokens)
        if tokens and not self._received[request_id]:
            self._begin(request_id)
        self._received[request_id] += tokens
        if response.parameters["triton_final_response"].bool_param:
            self._end(request_id)

    def _begin(self, request_id: str) -> None:
        """The first response of a request. The window opens with the last stream's first one."""
        self._window.ttft(self._sent_at.pop(request_id), perf_counter())
        if self._load.seconds and len(self._begun) < self._load.streams:
            self._begun.add(_stream(request_id))
            if len(self._begun) == self._load.streams:
                self._window.open()
                asyncio.get_running_loop().call_later(self._load.seconds, self._close)

    def _end(self, request_id: str) -> None:
        tokens = self._received.pop(request_id)
        if tokens != self._load.tokens:
            raise BenchmarkError(
                f'request "{request_id}" to "{self._order.model}" got {tokens} of {self._load.tokens} tokens: '
                "the backend lost some, or the engine stopped early"
            )
        if not self._last_requests:
            self._ask(_stream(request_id))
        elif not self._received:
            self._close()
            for queue in self._queues:
                queue.put_nowait(None)

    def _close(self) -> None:
        self._last_requests = True
        self._window.close()


class _Window:
    """What is measured: from `open` to the first `close`."""

    def __init__(self, processes: dict[str, tuple[int, ...]]) -> None:
        self._processes = processes
        self._opened = 0.0
        self._responses = self._tokens = 0
        self._ttft: list[float] = []
        self._cpu: dict[str, float] = {}
        self._tally: Tally | None = None

    def open(self) -> None:
        self._cpu = cpu_seconds(self._processes)
        self._responses = self._tokens = 0
        self._opened = perf_counter()

    def count(self, tokens: int) -> None:
        """One response with these tokens."""
        self._responses += 1
        self._tokens += tokens

    def ttft(self, sent: float, received: float) -> None:
        if self._opened and sent >= self._opened:
            self._ttft.append(received - sent)

    def close(self) -> None:
        if self._tally is None:
            seconds = perf_counter() - self._opened
            used = {role: total - self._cpu[role] for role, total in cpu_seconds(self._processes).items()}
            self._tally = Tally(
                seconds=seconds,
                tokens=self._tokens,
                responses=self._responses,
                ttft_s=tuple(self._ttft),
                cpu_s=used,
            )

    def tally(self) -> Tally:
        if self._tally is None:
            raise BenchmarkError("the server ended its streams before the measurement was over: see its log")
        return self._tally


async def _requests(queue: asyncio.Queue[Any]) -> AsyncIterator[Any]:
    while (message := await queue.get()) is not None:
        yield message


def _num_output_tokens(response: Any) -> int:
    for tensor, raw in zip(response.outputs, response.raw_output_contents, strict=True):
        if tensor.name == "num_output_tokens":
            return int.from_bytes(raw, "little")
    return 0


def _stream(request_id: str) -> int:
    return int(request_id.partition("-")[0])


if __name__ == "__main__":
    sys.exit(main())
