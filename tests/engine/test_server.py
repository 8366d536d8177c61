"""The engine server over real sockets, with a mock for a model: streams, queue, endings, several peers."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest

from tests.engine.peer import Peer
from tests.engine.running import PID, HeldAdapter, eventually, request, serving
from tools.engine.adapters.mock import mock_tokens
from tools.engine.limits import Limits
from tools.wire.messages import PROTOCOL, Cancel, Drain, Goodbye, Hello, Ping, Pong, Tokenize, Tokenized, Welcome

pytestmark = pytest.mark.anyio


def answer(prompt: str, count: int) -> str:
    return "".join(mock_tokens(prompt, count))


async def occupy(peer: Peer, *keys: int) -> None:
    """Submit requests that hold their places. Two fit where max_num_seqs is 1: the engine is given one in reserve."""
    await peer.submit(*[request(key, "hold") for key in keys])


# Greetings


async def test_the_welcome_says_what_the_engine_is(socket: str) -> None:
    async with serving(socket, {"max_num_seqs": 5, "max_model_len": 77}) as engine, engine.peer() as peer:
        assert await peer.hello() == Welcome(PROTOCOL, "mock", PID, 77, 5, "")


async def test_another_protocol_gets_a_goodbye_with_both_numbers(socket: str) -> None:
    async with serving(socket) as engine, engine.peer() as peer:
        await peer.hello()
        await peer.send(Hello(99, peer.name))
        assert (await peer.expect(Goodbye)).reason == (
            f"peer speaks protocol 99, this engine {PROTOCOL}: install both from one release"
        )


async def test_a_ping_is_answered_with_its_nonce(socket: str) -> None:
    async with serving(socket) as engine, engine.peer() as peer:
        await peer.hello()
        await peer.send(Ping(17))
        assert await peer.expect(Pong) == Pong(17, "")


# Answers


async def test_a_stream_is_the_answer_in_pieces(socket: str) -> None:
    async with serving(socket) as engine, engine.peer() as peer:
        await peer.hello()
        await peer.submit(request(1, "你 好 e\u0301 🙂", max_tokens=9))
        await peer.ended(1)
        deltas = peer.deltas[1]
        assert len(deltas) > 1
        assert peer.text(1) == answer("你 好 e\u0301 🙂", 9)
        assert sum(delta.token_counts[0] for delta in deltas) == 9
        assert {delta.num_input_tokens for delta in deltas} == {4}
        assert [delta.final for delta in deltas] == [False] * (len(deltas) - 1) + [True]
        assert [delta.finish_reasons for delta in deltas] == [[None]] * (len(deltas) - 1) + [["length"]]


async def test_without_stream_the_answer_is_one_delta(socket: str) -> None:
    async with serving(socket) as engine, engine.peer() as peer:
        await peer.hello()
        await peer.submit(request(1, "a b", max_tokens=7, stream=False))
        await peer.ended(1)
        (delta,) = peer.deltas[1]
        assert (delta.texts, delta.token_counts, delta.finish_reasons) == ([answer("a b", 7)], [7], ["length"])
        assert (delta.num_input_tokens, delta.final, delta.failure) == (2, True, None)


async def test_each_of_n_sequences_has_its_column(socket: str) -> None:
    async with serving(socket) as engine, engine.peer() as peer:
        await peer.hello()
        await peer.submit(request(1, "a b", max_tokens=4, n=3), request(2, "c", max_tokens=4, n=2, stream=False))
        await peer.ended(1)
        await peer.ended(2)
        assert [peer.text(1, i) for i in range(3)] == [answer("a b", 4)] * 3
        assert peer.deltas[2][0].token_counts == [4, 4]


async def test_what_one_step_produces_leaves_in_one_message(socket: str) -> None:
    async with serving(socket, {"step_s": 0.01}) as engine, engine.peer() as peer:
        await peer.hello()
        await peer.submit(*[request(key, max_tokens=5) for key in range(8)])
        for key in range(8):
            await peer.ended(key)
        assert max(len(step.deltas) for step in peer.steps) == 8


async def test_peers_are_told_apart_even_with_the_same_keys(socket: str) -> None:
    async with serving(socket) as engine, engine.peer("a") as a, engine.peer("b") as b:
        await a.hello()
        await b.hello()
        await a.submit(*[request(key, f"a{key}") for key in range(20)])
        await b.submit(*[request(key, f"b{key}") for key in range(20)])
        for key in range(20):
            await a.ended(key)
            await b.ended(key)
            assert a.text(key) == answer(f"a{key}", 16)
            assert b.text(key) == answer(f"b{key}", 16)


async def test_the_request_id_is_the_clients_and_told_apart_where_two_run_at_once(socket: str) -> None:
    adapter = HeldAdapter({})
    async with serving(socket, adapter=adapter) as engine, engine.peer() as peer:
        await peer.hello()
        await peer.submit(*[request(key, "hold", request_id="job") for key in (1, 2, 3)], request(4, "hold"))
        await eventually(lambda: len(adapter.groups) == 4)
        assert [work.request_id for (work,) in adapter.groups] == ["job", "job#2", "job#3", "ladder-4"]
        adapter.gate.set()
        for key in (1, 2, 3, 4):
            await peer.ended(key)
        await peer.submit(request(5, request_id="job"))
        await peer.ended(5)
        assert adapter.groups[-1][0].request_id == "job"


async def test_a_chat_is_sent_on_to_the_tokenizer(socket: str) -> None:
    async with serving(socket) as engine, engine.peer() as peer:
        await peer.hello()
        await peer.send(Tokenize(3, None, "text"))
        tokenized = await peer.expect(Tokenized)
        assert tokenized.key == 3
        assert tokenized.failure is not None
        assert tokenized.failure.message == 'engine "mock" does not render chats: send them to "chat_tokenizer"'


# Refusals


async def test_a_wrong_parameter_ends_its_own_request_only(socket: str) -> None:
    async with serving(socket) as engine, engine.peer() as peer:
        await peer.hello()
        await peer.submit(request(1, max_tokens=0), request(2, max_tokens=3))
        assert await peer.failure(1) == (
            "INVALID_ARG",
            'sampling parameter "max_tokens" is 0: it takes a whole number, at least 1 and at most 2147483647',
        )
        assert (await peer.ended(2)).failure is None


@pytest.mark.parametrize(
    "parameters",
    ['{"max_tokens": 1' + "0" * 400 + "}", r'{"\ud800": 1}', r'{"stop": "\ud800"}', "[" * 50_000, '{"n": NaN}'],
)
async def test_hostile_parameters_do_not_reach_others(socket: str, parameters: str) -> None:
    async with serving(socket) as engine, engine.peer() as peer:
        await peer.hello()
        await peer.submit(request(1), request(2, parameters=parameters), request(3))
        assert (await peer.failure(2))[0] == "INVALID_ARG"
        assert (await peer.ended(1)).failure is None
        assert (await peer.ended(3)).failure is None


async def test_a_prompt_over_the_limit_is_refused_in_bytes(socket: str) -> None:
    async with serving(socket, limits=Limits(max_prompt_bytes=6)) as engine, engine.peer() as peer:
        await peer.hello()
        await peer.submit(request(1, "你好"), request(2, "你好!"))
        assert (await peer.ended(1)).failure is None
        assert await peer.failure(2) == ("INVALID_ARG", '"text_input" has 7 bytes: MAX_PROMPT_BYTES allows at most 6')


async def test_a_prompt_over_the_context_is_refused(socket: str) -> None:
    async with serving(socket, {"max_model_len": 3}) as engine, engine.peer() as peer:
        await peer.hello()
        await peer.submit(request(1, "a b"), request(2, "a b c"))
        assert (await peer.ended(1)).failure is None
        assert await peer.failure(2) == ("INVALID_ARG", '"text_input" has 3 tokens: the context takes at most 2')


@pytest.mark.parametrize("at_once", [True, False], ids=["one message", "many messages"])
async def test_a_full_queue_refuses_with_its_depth(socket: str, at_once: bool) -> None:
    adapter = HeldAdapter({"max_num_seqs": 1})
    async with serving(socket, adapter=adapter, limits=Limits(max_waiting_requests=3)) as engine, engine.peer() as peer:
        await peer.hello()
        if at_once:
            await occupy(peer, 1, 2, 3, 4, 5, 6)
        else:
            for key in (1, 2, 3, 4, 5, 6):
                await occupy(peer, key)
        assert await peer.failure(6) == (
            "UNAVAILABLE",
            "the queue is full: 3 requests wait and MAX_WAITING_REQUESTS is 3. "
            "Retry later or send the request to another instance",
        )
        adapter.gate.set()
        for key in (1, 2, 3, 4, 5):
            assert (await peer.ended(key)).failure is None
        await peer.submit(request(7))
        assert (await peer.ended(7)).failure is None


async def test_without_a_queue_what_does_not_run_at_once_is_refused(socket: str) -> None:
    adapter = HeldAdapter({"max_num_seqs": 1})
    async with serving(socket, adapter=adapter, limits=Limits(max_waiting_requests=0)) as engine, engine.peer() as peer:
        await peer.hello()
        await occupy(peer, 1, 2, 3)
        assert (await peer.failure(3))[1].startswith("the queue is full: 0 requests wait")
        adapter.gate.set()
        await peer.ended(1)
        await peer.ended(2)


# Order


async def test_the_queue_is_served_by_priority_and_then_by_age(socket: str) -> None:
    adapter = HeldAdapter({"max_num_seqs": 1})
    async with serving(socket, adapter=adapter) as engine, engine.peer() as peer:
        await peer.hello()
        await occupy(peer, 1, 2)
        priorities = {3: 0, 4: 101, 5: 7, 6: 1, 7: 7, 8: 0, 9: 100}
        await peer.submit(*[request(key, priority=priority) for key, priority in priorities.items()])
        await eventually(lambda: len(engine.server._live) == 9)
        adapter.gate.set()
        for key in range(1, 10):
            await peer.ended(key)
        assert [group[0].request.key for group in adapter.groups[2:]] == [6, 5, 7, 3, 8, 9, 4]


# Deadlines and cancellation


async def test_a_deadline_can_pass_in_the_queue(socket: str) -> None:
    adapter = HeldAdapter({"max_num_seqs": 1})
    async with serving(socket, adapter=adapter) as engine, engine.peer() as peer:
        await peer.hello()
        await occupy(peer, 1, 2)
        await peer.submit(request(3, timeout_us=20_000))
        assert await peer.failure(3) == (
            "UNAVAILABLE",
            "the deadline of 0.02 s passed in the queue: "
            'allow more time with the request parameter "timeout" (microseconds) or ask for fewer tokens',
        )
        adapter.gate.set()
        await peer.ended(2)
        assert [group[0].request.key for group in adapter.groups] == [1, 2]


@pytest.mark.slow
@pytest.mark.parametrize("stream", [True, False])
async def test_a_deadline_can_pass_while_it_runs(socket: str, stream: bool) -> None:
    async with serving(socket, {"step_s": 0.01}) as engine, engine.peer() as peer:
        await peer.hello()
        await peer.submit(request(1, max_tokens=1_000_000, timeout_us=200_000, stream=stream))
        code, message = await peer.failure(1)
        assert code == "UNAVAILABLE"
        match = re.match(r"the deadline of 0\.2 s passed after (\d+) tokens: allow more time", message)
        assert match
        received = sum(sum(delta.token_counts) for delta in peer.deltas[1])
        assert received == (int(match[1]) if stream else 0)
        await eventually(lambda: not engine.adapter._streams)


async def test_the_default_deadline_is_for_requests_without_their_own(socket: str) -> None:
    limits = Limits(default_deadline_ms=50)
    async with serving(socket, adapter=HeldAdapter({}), limits=limits) as engine, engine.peer() as peer:
        await peer.hello()
        await peer.submit(request(1, "hold"), request(2, "hold", timeout_us=3_600_000_000))
        assert (await peer.failure(1))[1].startswith("the deadline of 0.05 s passed after 0 tokens")
        assert not peer.deltas[2]
        await peer.send(Cancel([2]))
        assert (await peer.failure(2))[0] == "CANCELLED"


async def test_a_deadline_met_leaves_nothing_behind(socket: str) -> None:
    async with serving(socket) as engine, engine.peer() as peer:
        await peer.hello()
        await peer.submit(request(1, timeout_us=50_000, max_tokens=1))
        assert (await peer.ended(1)).failure is None
        await asyncio.sleep(0.1)
        await peer.send(Ping(1))
        await peer.expect(Pong)
        assert len(peer.deltas[1]) == 1


async def test_cancelled_in_the_queue_it_never_reaches_the_model(socket: str) -> None:
    adapter = HeldAdapter({"max_num_seqs": 1})
    async with serving(socket, adapter=adapter, limits=Limits(max_waiting_requests=1)) as engine, engine.peer() as peer:
        await peer.hello()
        await occupy(peer, 1, 2)
        await peer.submit(request(3))
        await peer.send(Cancel([3]))
        assert await peer.failure(3) == ("CANCELLED", "the client cancelled the request after 0 tokens")
        await peer.submit(request(4))
        adapter.gate.set()
        assert (await peer.ended(4)).failure is None
        assert [group[0].request.key for group in adapter.groups] == [1, 2, 4]


@pytest.mark.parametrize(
    ("reason", "message"),
    [("client", "the client cancelled the request after"), ("unload", "the model is being unloaded after")],
)
async def test_cancelled_while_it_runs_it_stops(socket: str, reason: str, message: str) -> None:
    async with serving(socket, {"step_s": 0.005}) as engine, engine.peer() as peer:
        await peer.hello()
        await peer.submit(request(1, max_tokens=1_000_000))
        await peer.begun(1)
        await peer.send(Cancel([1, 999], reason))
        code, text = await peer.failure(1)
        assert code == "CANCELLED"
        tokens = sum(sum(delta.token_counts) for delta in peer.deltas[1])
        assert text == f"{message} {tokens} tokens"
        await eventually(lambda: not engine.adapter._streams)


async def test_a_cancelled_answer_without_stream_is_an_error_and_no_partial_answer(socket: str) -> None:
    async with serving(socket, {"step_s": 0.001}) as engine, engine.peer() as peer:
        await peer.hello()
        await peer.submit(request(1, max_tokens=1_000_000, stream=False))
        await eventually(lambda: engine.adapter._generated > 3)
        await peer.send(Cancel([1]))
        assert (await peer.failure(1))[0] == "CANCELLED"
        assert [delta.texts for delta in peer.deltas[1]] == [[]]


async def test_places_of_cancelled_requests_are_given_back(socket: str) -> None:
    adapter = HeldAdapter({"max_num_seqs": 2})
    async with serving(socket, adapter=adapter) as engine, engine.peer() as peer:
        await peer.hello()
        for round_ in range(20):
            keys = range(round_ * 5, round_ * 5 + 5)
            await peer.submit(*[request(key, "hold") for key in keys])
            await peer.send(Cancel(list(keys)))
            for key in keys:
                assert (await peer.failure(key))[0] == "CANCELLED"
        await peer.submit(*[request(key) for key in range(1000, 1010)])
        for key in range(1000, 1010):
            assert (await peer.ended(key)).failure is None
        await eventually(lambda: adapter.running == 0)


async def test_small_requests_move_up_when_the_large_one_before_them_is_cancelled(socket: str) -> None:
    adapter = HeldAdapter({"max_num_seqs": 4})
    async with serving(socket, adapter=adapter) as engine, engine.peer() as peer:
        await peer.hello()
        await peer.submit(request(1, "hold", n=4), request(2, "hold", n=4), request(3, "a"))
        await peer.send(Cancel([2]))
        assert (await peer.ended(3)).failure is None
        await peer.send(Cancel([1]))
        await peer.ended(1)


# Groups


async def test_what_comes_together_is_generated_together(socket: str) -> None:
    adapter = HeldAdapter({})
    async with serving(socket, adapter=adapter) as engine, engine.peer() as peer:
        await peer.hello()
        await peer.submit(request(1), request(2, max_tokens=0), request(3, stream=False), together=True)
        await peer.ended(1)
        await peer.ended(3)
        assert (await peer.failure(2))[0] == "INVALID_ARG"
        assert [[work.request.key for work in group] for group in adapter.groups] == [[1, 3]]


async def test_one_of_a_group_can_go_and_the_others_get_their_answers(socket: str) -> None:
    async with serving(socket, {"step_s": 0.002}) as engine, engine.peer() as peer:
        await peer.hello()
        await peer.submit(*[request(key, "a b", max_tokens=50) for key in (1, 2, 3)], together=True)
        await peer.begun(2)
        await peer.send(Cancel([2]))
        assert (await peer.failure(2))[0] == "CANCELLED"
        for key in (1, 3):
            assert (await peer.ended(key)).failure is None
            assert peer.text(key) == answer("a b", 50)


async def test_a_group_that_nobody_wants_any_more_is_stopped(socket: str) -> None:
    adapter = HeldAdapter({"max_num_seqs": 2})
    async with serving(socket, adapter=adapter) as engine, engine.peer() as peer:
        await peer.hello()
        await peer.submit(request(1, "hold"), request(2, "hold"), together=True)
        await peer.send(Cancel([1]))
        await peer.ended(1)
        assert adapter.running == 1
        await peer.send(Cancel([2]))
        await peer.ended(2)
        await eventually(lambda: adapter.running == 0)


async def test_a_waiting_group_counts_each_of_its_requests(socket: str) -> None:
    adapter = HeldAdapter({"max_num_seqs": 1})
    async with serving(socket, adapter=adapter, limits=Limits(max_waiting_requests=3)) as engine, engine.peer() as peer:
        await peer.hello()
        await occupy(peer, 1, 2)
        await peer.submit(request(3), request(4), request(5), together=True)
        await peer.submit(request(6))
        assert (await peer.failure(6))[1].startswith("the queue is full: 3 requests wait")
        adapter.gate.set()
        for key in (1, 2, 3, 4, 5):
            await peer.ended(key)


# Peers that go away


async def test_a_lost_peer_takes_its_running_and_its_waiting_requests_along(socket: str) -> None:
    adapter = HeldAdapter({"max_num_seqs": 2, "step_s": 0.002})
    async with serving(socket, adapter=adapter) as engine, engine.peer("stays") as stays:
        await stays.hello()
        leaves = engine.peer("leaves")
        await leaves.hello()
        await leaves.submit(*[request(key, "a", max_tokens=1_000_000) for key in range(3)])
        await leaves.submit(*[request(key, "waits") for key in range(3, 9)])
        await leaves.begun(2)
        leaves.close()
        await stays.submit(request(1, "here"))
        assert (await stays.ended(1)).failure is None
        assert stays.text(1) == answer("here", 16)
        assert {group[0].request.prompt for group in adapter.groups} == {"a", "here"}
        await eventually(lambda: adapter.running == 0)


async def test_a_peer_that_comes_back_under_its_name_is_served(socket: str) -> None:
    async with serving(socket) as engine:
        async with engine.peer("same") as first:
            await first.hello()
        async with engine.peer("same") as second:
            await second.hello()
            await second.submit(request(1))
            assert (await second.ended(1)).failure is None


# Frames that are no messages


async def test_garbage_is_dropped_and_the_engine_serves_on(socket: str) -> None:
    deep = b"\x93\xa7goodbye\xa1a" + b"\x91" * 100_000 + b"\xc0"
    garbage: list[tuple[bytes, ...]] = [
        (b"",), (b"peer",), (b"peer", b"", b""), (b"peer", b""), (b"peer", b"\xc1"), (b"peer", b"\x90"),
        (b"peer", b"\x91\xa5hello"), (b"peer", b"\x92\xa7unknown\x01"), (b"peer", b"\x92\xa4ping\xa1x"),
        (b"\xff\xfe", b"\x92\xa4ping\x01"), (b"", b"\x92\xa4ping\x01"), (b"nobody", b"\x92\xa4ping\x01"),
        (b"peer", b"\x92\xa6cancel\x91\xa1x"), (b"peer", b"\xa0" * 1000), (b"peer", b"\x92\xa4ping\x01" + b"junk"),
        (b"peer", b"\x93\xa4ping\x01" + b"\x91" * 100_000 + b"\xc0"), (b"peer", deep),
        (b"peer", b"\x92\xa6submit\x91\x93\x01\xa0\xa2\xff\xff"),
    ]  # fmt: skip
    async with serving(socket) as engine, engine.peer() as peer:
        await peer.hello()
        for frames in garbage:
            await peer.send_frames(*frames)
        await peer.submit(request(1))
        assert (await peer.ended(1)).failure is None


# The end


async def test_a_drain_lets_what_runs_finish_and_takes_nothing_new(socket: str) -> None:
    adapter = HeldAdapter({})
    async with serving(socket, adapter=adapter) as engine, engine.peer() as peer:
        await peer.hello()
        await peer.submit(request(1, "hold"))
        await peer.send(Drain(60))
        await peer.submit(request(2))
        assert await peer.failure(2) == (
            "UNAVAILABLE",
            "the model is being unloaded: send the request to another instance",
        )
        assert not engine.task.done()
        adapter.gate.set()
        assert (await peer.ended(1)).failure is None
        assert peer.text(1) == answer("hold", 16)
        await engine.end()
        assert list(Path(socket).parent.iterdir()) == []


async def test_after_its_grace_a_drain_cancels_the_rest(socket: str) -> None:
    adapter = HeldAdapter({"max_num_seqs": 1})
    async with serving(socket, adapter=adapter) as engine, engine.peer() as peer:
        await peer.hello()
        await occupy(peer, 1, 2, 3)
        await peer.send(Drain(0.05))
        for key in (1, 2, 3):
            assert await peer.failure(key) == ("CANCELLED", "the model is being unloaded after 0 tokens")
        await engine.end()
        assert len(adapter.groups) == 2


async def test_a_retired_engine_refuses_and_stays_until_it_is_drained(socket: str) -> None:
    async with serving(socket, adapter=HeldAdapter({})) as engine, engine.peer() as peer:
        await peer.hello()
        await peer.submit(request(1, "hold"))
        await peer.send(Ping(1))
        await peer.expect(Pong)
        engine.server.retire(0.05)
        assert (await peer.failure(1))[0] == "CANCELLED"
        await peer.submit(request(2))
        assert (await peer.failure(2))[1].startswith("the model is being unloaded")
        await peer.send(Ping(2))
        await peer.expect(Pong)
        assert not engine.task.done()
