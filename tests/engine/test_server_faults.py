"""The engine server when its adapter fails: a request alone, or the whole engine."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.engine.running import HeldAdapter, eventually, request, serving
from tools.engine import server as server_module
from tools.engine.accounting import Accounting
from tools.engine.adapters.base import Emit, EngineInfo, Work
from tools.engine.adapters.mock import MockAdapter
from tools.engine.errors import EngineDeadError, LaunchError, RequestError
from tools.wire.messages import Delta, Goodbye, Request

pytestmark = pytest.mark.anyio


def emit_all(work: Work, emit: Emit) -> None:
    """What a thread of a model library may still have under way when its request is stopped."""
    for final in (False, True, True):
        emit(work, Delta(work.request.key, ["late "], [1], ["stop" if final else None], final=final))


class FailingAdapter(HeldAdapter):
    """Does to a prompt what the prompt says."""

    sick = False

    def prepare(self, request: Request) -> tuple[Any, int]:
        if request.prompt == "unreadable":
            raise RuntimeError("no idea what \ud800 this is")
        return super().prepare(request)

    async def generate(self, group: Sequence[Work], emit: Emit) -> None:
        match group[0].request.prompt:
            case "refuse":
                raise RequestError("UNSUPPORTED", "not with this model")
            case "break":
                emit(group[0], Delta(group[0].request.key, ["half "], [1], [None]))
                raise RuntimeError("out of \ud800 luck")
            case "forget":
                return
            case "cancel":
                raise asyncio.CancelledError
            case "ignore":
                asyncio.get_running_loop().call_later(0.05, emit_all, group[0], emit)
                return
            case "die":
                raise EngineDeadError("the core is gone")
        await super().generate(group, emit)

    async def check_health(self) -> None:
        if self.sick:
            raise EngineDeadError("the core does not answer")


async def test_a_request_that_cannot_be_read_is_an_internal_error(socket: str) -> None:
    async with serving(socket, adapter=FailingAdapter({})) as engine, engine.peer() as peer:
        await peer.hello()
        await peer.submit(request(1), request(2, "unreadable"), request(3))
        assert await peer.failure(2) == (
            "INTERNAL",
            "the request could not be read: RuntimeError: no idea what \\ud800 this is",
        )
        for key in (1, 3):
            assert (await peer.ended(key)).failure is None


async def test_a_generation_that_breaks_ends_its_own_request(socket: str) -> None:
    async with serving(socket, adapter=FailingAdapter({"max_num_seqs": 1})) as engine, engine.peer() as peer:
        await peer.hello()
        for key in (1, 2, 3, 4):
            await peer.submit(request(key, "break"))
        for key in (1, 2, 3, 4):
            assert await peer.failure(key) == ("INTERNAL", "generation failed: RuntimeError: out of \\ud800 luck")
            assert [delta.texts for delta in peer.deltas[key]] == [["half "], []]
        await peer.submit(request(5))
        assert (await peer.ended(5)).failure is None


async def test_an_error_of_the_request_keeps_its_code(socket: str) -> None:
    async with serving(socket, adapter=FailingAdapter({})) as engine, engine.peer() as peer:
        await peer.hello()
        await peer.submit(request(1, "refuse"))
        assert await peer.failure(1) == ("UNSUPPORTED", "not with this model")


async def test_a_cancellation_inside_the_adapter_does_not_leave_streams_behind(socket: str) -> None:
    async with serving(socket, adapter=FailingAdapter({"max_num_seqs": 1})) as engine, engine.peer() as peer:
        await peer.hello()
        for key in (1, 2, 3):
            await peer.submit(request(key, "cancel"))
            assert (await peer.failure(key))[0] == "INTERNAL"
        await peer.submit(request(4))
        assert (await peer.ended(4)).failure is None


async def test_what_an_adapter_emits_after_the_end_is_dropped(socket: str) -> None:
    async with serving(socket, adapter=FailingAdapter({})) as engine, engine.peer() as peer:
        await peer.hello()
        await peer.submit(request(1, "ignore"))
        assert (await peer.failure(1))[0] == "INTERNAL"
        await asyncio.sleep(0.1)
        await peer.submit(request(2))
        await peer.ended(2)
        assert [delta.final for delta in peer.deltas[1]] == [True]


async def test_a_stream_without_its_last_token_does_not_hang(socket: str) -> None:
    async with serving(socket, adapter=FailingAdapter({})) as engine, engine.peer() as peer:
        await peer.hello()
        await peer.submit(request(1, "forget"))
        assert await peer.failure(1) == (
            "INTERNAL",
            "the engine ended the stream without its last token: see the engine's log",
        )


@pytest.mark.parametrize("notices", ["a request", "the health check"])
async def test_a_dead_engine_fails_every_stream_with_the_reason_and_ends(
    socket: str, notices: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_module, "HEALTH_INTERVAL_S", 0.01)
    adapter = FailingAdapter({"max_num_seqs": 1})
    async with serving(socket, adapter=adapter) as engine, engine.peer("stub") as stub, engine.peer("other") as other:
        await stub.hello(metrics=True)
        await other.hello()
        await other.submit(request(1, "hold"))
        await eventually(lambda: adapter.running == 1)
        first = "die" if notices == "a request" else "hold"
        await stub.submit(request(1, first), request(2, "never"), request(3, "never"))
        if notices == "the health check":
            await eventually(lambda: adapter.running == 2)
            adapter.sick = True
        reason = "the core does not answer" if adapter.sick else "the core is gone"
        assert await other.failure(1) == ("UNAVAILABLE", f'the engine of "llm" version 1 died: {reason}')
        for key in (1, 2, 3):
            assert await stub.failure(key) == ("UNAVAILABLE", f'the engine of "llm" version 1 died: {reason}')
        assert await stub.expect(Goodbye) == Goodbye(reason)
        with pytest.raises(EngineDeadError, match=reason):
            await engine.end()
        assert "never" not in [group[0].request.prompt for group in adapter.groups]
        assert list(Path(socket).parent.iterdir()) == []


async def test_an_engine_that_cannot_start_says_why_and_leaves_no_sockets(socket: str) -> None:
    class Hopeless(MockAdapter):
        async def start(self, accounting: Accounting) -> EngineInfo:
            raise LaunchError("no such model")

    async with serving(socket, adapter=Hopeless({})) as engine:
        with pytest.raises(LaunchError, match="no such model"):
            await engine.end()
    assert list(Path(socket).parent.iterdir()) == []


@pytest.mark.slow
async def test_what_comes_while_the_engine_loads_waits_for_it(socket: str) -> None:
    async with serving(socket, {"start_s": 0.2}) as engine, engine.peer() as peer:
        await peer.submit(request(1))
        await peer.hello()
        assert (await peer.ended(1)).failure is None
