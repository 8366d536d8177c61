"""Waiting for gRPC calls so that Ctrl-C may end it at any moment.

An exception raised by a signal handler while the main thread waits inside grpc can leave the lock of the call locked
for ever (it may hit `Condition.__enter__` just after the lock was taken): cancelling the call, or the next one on the
channel, then hangs. So grpc waits in threads of its own, and the caller on a `SimpleQueue`, which ends cleanly.
"""

from collections.abc import Generator
from queue import SimpleQueue
from threading import Thread
from time import perf_counter
from typing import Any

import grpc


def answer_of(method: Any, request: Any, timeout_s: float | None) -> Any:
    """The response of a unary method of a stub.

    Raises:
        grpc.RpcError: the call failed.
    """
    done: SimpleQueue[Any] = SimpleQueue()
    call = method.future(request, timeout=timeout_s)
    call.add_done_callback(done.put)
    try:
        done.get()
    except BaseException:
        call.cancel()
        raise
    return call.result()


def responses_of(call: Any) -> Generator[tuple[Any, float]]:
    """The responses of a streaming call, each with `time.perf_counter()` when it was read.

    The reading goes on while the caller is busy with a response, so a slow caller does not blur the times. Closing the
    generator early cancels the call.

    Raises:
        grpc.RpcError: the call failed.
    """
    received: SimpleQueue[tuple[Any, float] | grpc.RpcError | None] = SimpleQueue()

    def read() -> None:
        try:
            for response in call:
                received.put((response, perf_counter()))
        except grpc.RpcError as error:
            received.put(error)
        else:
            received.put(None)

    Thread(target=read, name="grpc-responses", daemon=True).start()
    try:
        while (item := received.get()) is not None:
            if isinstance(item, grpc.RpcError):
                raise item
            yield item
    finally:
        call.cancel()
