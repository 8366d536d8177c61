"""The stub's sockets against an engine that is nothing but sockets."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import zmq

from tests.waiting import NEVER_S, wait_until
from tools.backends.link import EngineLink
from tools.wire.launch import answers_endpoint, requests_endpoint
from tools.wire.messages import (
    PROTOCOL,
    Cancel,
    Goodbye,
    Hello,
    Ping,
    Pong,
    ToEngine,
    ToPeer,
    Welcome,
    decode_to_engine,
    encode,
)

WELCOME = Welcome(PROTOCOL, "test", 1, 10, 2)


class SocketEngine:
    """Receives what the link sends and answers what the test says."""

    def __init__(self, socket: str) -> None:
        self._context = zmq.Context()
        self._requests = self._context.socket(zmq.PULL)
        self._requests.bind(requests_endpoint(socket))
        self._answers = self._context.socket(zmq.ROUTER)
        self._answers.setsockopt(zmq.ROUTER_MANDATORY, 1)
        self._answers.bind(answers_endpoint(socket))

    def receive(self) -> tuple[str, ToEngine]:
        assert self._requests.poll(int(NEVER_S * 1000)), "nothing came"
        peer, frame = self._requests.recv_multipart()
        return peer.decode(), decode_to_engine(frame)

    def answer(self, peer: str, message: ToPeer | bytes) -> None:
        frame = message if isinstance(message, bytes) else encode(message)
        wait_until(lambda: self._sent(peer, frame))

    def _sent(self, peer: str, frame: bytes) -> bool:
        try:
            self._answers.send_multipart([peer.encode(), frame])
        except zmq.ZMQError as error:
            assert error.errno == zmq.EHOSTUNREACH  # noqa: PT017 - the peer has not connected yet
            return False
        return True

    def close(self) -> None:
        self._context.destroy(linger=0)


@pytest.fixture
def socket(sockets: Path) -> str:
    return str(sockets / "engine")


@pytest.fixture
def engine(socket: str) -> Iterator[SocketEngine]:
    engine = SocketEngine(socket)
    yield engine
    engine.close()


class Received:
    """What the link handed on."""

    def __init__(self) -> None:
        self.messages: list[ToPeer] = []

    def __call__(self, message: ToPeer) -> None:
        self.messages.append(message)

    def wait_for(self, count: int) -> list[ToPeer]:
        wait_until(lambda: len(self.messages) >= count)
        return self.messages


@pytest.fixture
def received() -> Received:
    return Received()


@pytest.fixture
def link(socket: str, engine: SocketEngine, received: Received) -> Iterator[EngineLink]:
    link = EngineLink(socket, "stub", received, metrics=True)
    yield link
    link.close()


def test_it_says_hello_until_it_is_welcome(link: EngineLink, engine: SocketEngine, received: Received) -> None:
    for _ in range(2):
        assert engine.receive() == ("stub", Hello(PROTOCOL, "stub", metrics=True))
        assert not link.wait_ready(0)
    engine.answer("stub", WELCOME)
    assert link.wait_ready(NEVER_S)
    assert link.welcome == WELCOME
    assert received.wait_for(1) == [WELCOME]


def test_messages_are_handed_on_in_order(link: EngineLink, engine: SocketEngine, received: Received) -> None:
    for nonce in range(200):
        engine.answer("stub", Pong(nonce))
    assert received.wait_for(200) == [Pong(nonce) for nonce in range(200)]


def test_threads_do_not_mix_their_frames(link: EngineLink, engine: SocketEngine) -> None:
    def send(start: int) -> None:
        for key in range(start, start + 100):
            link.send(Cancel([key]))

    threads = [threading.Thread(target=send, args=(start,)) for start in (0, 100, 200, 300)]
    for thread in threads:
        thread.start()
    keys: list[int] = []
    while len(keys) < 400:
        _, message = engine.receive()
        if isinstance(message, Cancel):
            keys += message.keys
    for thread in threads:
        thread.join()
    assert sorted(keys) == list(range(400))
    for start in (0, 100, 200, 300):
        mine = [key for key in keys if start <= key < start + 100]
        assert mine == sorted(mine)


def test_an_engine_of_another_protocol_is_not_ready(link: EngineLink, engine: SocketEngine, received: Received) -> None:
    engine.answer("stub", Welcome(99, "test", 1, 10, 2))
    reason = f"the engine speaks protocol 99, this stub {PROTOCOL}"
    assert received.wait_for(1) == [Goodbye(reason)]
    assert link.goodbye == reason
    assert not link.wait_ready(0)


def test_a_message_that_cannot_be_read_is_the_end_of_the_engine(
    link: EngineLink, engine: SocketEngine, received: Received
) -> None:
    engine.answer("stub", b"\xc1")
    (message,) = received.wait_for(1)
    assert isinstance(message, Goodbye)
    assert message.reason.startswith("its message cannot be read (")
    assert message.reason.endswith("): install engine and backend from one release")
    assert link.goodbye == message.reason


def test_a_message_that_cannot_be_handled_does_not_stop_the_next(socket: str, engine: SocketEngine) -> None:
    handled = Received()

    def stumble(message: ToPeer) -> None:
        handled(message)
        if message == Pong(1):
            raise ValueError("no such bucket")

    link = EngineLink(socket, "stub", stumble, metrics=False)
    engine.answer("stub", Pong(1))
    engine.answer("stub", Pong(2))
    assert handled.wait_for(2) == [Pong(1), Pong(2)]
    link.close()


def test_sending_never_waits_for_an_engine_that_is_not_there(sockets: Path, received: Received) -> None:
    link = EngineLink(str(sockets / "nobody"), "stub", received, metrics=False)
    for nonce in range(5000):
        link.send(Ping(nonce))
    link.close()


def test_closing_ends_the_thread_and_makes_sending_a_no_op(link: EngineLink) -> None:
    link.close()
    link.send(Ping(1))
    link.close()
    assert "link-stub" not in [thread.name for thread in threading.enumerate()]
