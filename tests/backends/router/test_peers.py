"""Finding engines and losing them, with real engine processes."""

from __future__ import annotations

import errno
import os
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from tests.backends.engines import HASTY
from tests.backends.models import arguments
from tests.waiting import wait_until
from tools.backends.engine_handle import EngineHandle
from tools.backends.model_config import ModelConfig
from tools.backends.router import peers as peers_module
from tools.backends.router.peers import Endpoint, EnginePeer, EnginePeers, endpoints
from tools.wire.launch import endpoint_file
from tools.wire.messages import Delta, Request, Submit

pytestmark = pytest.mark.slow

StartEngine = Callable[..., EngineHandle]


class Owner:
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.deltas: list[Delta] = []
        self.lost: list[EnginePeer] = []

    def on_step(self, peer: EnginePeer, deltas: list[Delta]) -> None:
        self.deltas += deltas

    def on_lost(self, peer: EnginePeer) -> None:
        self.lost.append(peer)

    def text(self, key: int) -> str:
        return "".join(delta.texts[0] for delta in self.deltas if delta.key == key and delta.texts)

    def has_ended(self, key: int) -> bool:
        return any(delta.final for delta in self.deltas if delta.key == key)


@pytest.fixture
def owner() -> Owner:
    return Owner()


@pytest.fixture
def peers(places: Path, owner: Owner, monkeypatch: pytest.MonkeyPatch) -> Iterator[EnginePeers]:
    monkeypatch.setattr(peers_module, "_LOOK_S", 0.01)
    peers = EnginePeers(places, owner)
    peers.start()
    yield peers
    peers.stop()


@pytest.fixture
def start_engine(places: Path, tmp_path: Path) -> Iterator[StartEngine]:
    handles: list[EngineHandle] = []

    def start(name: str, version: str = "1", **model_json: object) -> EngineHandle:
        config = ModelConfig.from_arguments(
            arguments(tmp_path / name, name=name, version=version, model_json=model_json)
        )
        handle = EngineHandle(config, "mock", patience=HASTY)
        handle.start()
        handles.append(handle)
        return handle

    yield start
    for handle in handles:
        handle.stop()


def only(peers: EnginePeers, model: str, version: int = 1) -> EnginePeer:
    """The engine of a target, as soon as it is the only one and ready."""
    wait_until(lambda: [peer.ready for peer in peers.of((model, version))] == [True])
    return peers.of((model, version))[0]


def pid(handle: EngineHandle) -> int:
    welcome = handle._supervisor.welcome
    assert welcome is not None
    return welcome.pid


def test_engines_are_found_whenever_they_come_and_answer(
    places: Path, owner: Owner, peers: EnginePeers, start_engine: StartEngine
) -> None:
    assert peers.ready_targets() == []
    start_engine("llm_one")
    start_engine("llm-two", "12")
    one, two = only(peers, "llm_one"), only(peers, "llm-two", 12)
    assert peers.ready_targets() == [("llm-two", 12), ("llm_one", 1)]
    one.send(Submit([Request(1, "", "a b", parameters='{"max_tokens": 3}', stream=True)]))
    two.send(Submit([Request(2, "", "x", parameters='{"max_tokens": 2}', stream=True)]))
    wait_until(lambda: owner.has_ended(1) and owner.has_ended(2))
    assert (owner.text(1), owner.text(2)) == ("a b a ", "x x ")
    assert owner.lost == []


def test_a_killed_engine_is_missed_once_and_its_successor_found(
    owner: Owner, peers: EnginePeers, start_engine: StartEngine
) -> None:
    handle = start_engine("llm_one")
    first = only(peers, "llm_one")
    os.kill(pid(handle), signal.SIGKILL)
    wait_until(lambda: owner.lost == [first])
    assert not first.ready
    second = only(peers, "llm_one")
    assert second is not first
    second.send(Submit([Request(1, "", "a", parameters='{"max_tokens": 1}')]))
    wait_until(lambda: owner.has_ended(1))
    assert owner.lost == [first]


def test_an_engine_that_retires_gets_nothing_new_and_finishes_what_it_has(
    owner: Owner, peers: EnginePeers, start_engine: StartEngine
) -> None:
    handle = start_engine("llm_one", step_s=0.05)
    peer = only(peers, "llm_one")
    peer.send(Submit([Request(1, "", "a", parameters='{"max_tokens": 12}', stream=True)]))
    wait_until(lambda: owner.text(1))
    stopping = threading.Thread(target=handle.stop)
    stopping.start()
    wait_until(lambda: not peer.ready)
    assert not owner.has_ended(1)
    stopping.join()
    wait_until(lambda: owner.has_ended(1) and peers.of(("llm_one", 1)) == ())
    assert owner.text(1) == "a " * 12, "a stream was cut when its engine was taken out of service"


def test_an_engine_that_ends_while_it_is_looked_at_is_missed_too(
    places: Path, owner: Owner, peers: EnginePeers, start_engine: StartEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    handle = start_engine("llm_one")
    peer = only(peers, "llm_one")
    # It retires and ends right after it was asked whether it has.
    asked = 0

    def ended_at_the_second_question(peer: EnginePeer) -> bool:
        nonlocal asked
        asked += peer.retiring
        return asked > 1

    monkeypatch.setattr(EnginePeer, "ended", property(ended_at_the_second_question))
    endpoint_file(places, "llm_one", "1", os.getpid()).unlink()
    wait_until(lambda: peers.of(("llm_one", 1)) == ())
    assert owner.lost == [peer]
    handle.stop()


def test_an_error_does_not_end_the_watch(
    owner: Owner, peers: EnginePeers, start_engine: StartEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries = 0

    def no_descriptor(pid: int) -> int:
        nonlocal tries
        tries += 1
        raise OSError(errno.EMFILE, "Too many open files")

    with monkeypatch.context() as full:
        full.setattr(os, "pidfd_open", no_descriptor)
        handle = start_engine("llm_one")
        # In both places of the watch that ask for one.
        wait_until(lambda: tries > 5)
    peer = only(peers, "llm_one")
    os.kill(pid(handle), signal.SIGKILL)
    wait_until(lambda: owner.lost == [peer])


def test_a_stopped_process_is_no_dead_one(owner: Owner, peers: EnginePeers, start_engine: StartEngine) -> None:
    handle = start_engine("llm_one")
    peer = only(peers, "llm_one")
    os.kill(pid(handle), signal.SIGSTOP)
    peer.send(Submit([Request(1, "", "a", parameters='{"max_tokens": 1}')]))
    os.kill(pid(handle), signal.SIGCONT)
    wait_until(lambda: owner.has_ended(1))
    assert owner.lost == []


def test_what_dead_stubs_left_behind_is_passed_over(tmp_path: Path) -> None:
    def publish(model: str, version: str, stub_pid: int, socket: str) -> None:
        endpoint_file(tmp_path, model, version, stub_pid).write_text(socket, encoding="utf-8")

    publish("llm-a-b", "3", os.getpid(), "/sockets/a")
    # Beyond the largest process id that Linux gives.
    publish("llm_dead", "1", 2**22 + 1, "/sockets/b")
    for other in ("llm_half-1-1.partial", "llm.endpoint", "llm-one-1.endpoint"):
        (tmp_path / other).write_text("", encoding="utf-8")
    assert list(endpoints(tmp_path)) == [Endpoint(("llm-a-b", 3), os.getpid(), "/sockets/a")]


def test_letting_go_leaves_no_thread_and_no_file_descriptor(
    places: Path, owner: Owner, start_engine: StartEngine
) -> None:
    start_engine("llm_one")
    me = psutil.Process()

    def open_and_close() -> None:
        peers = EnginePeers(places, owner)
        peers.start()
        only(peers, "llm_one")
        peers.stop()

    open_and_close()
    before = me.num_fds(), me.num_threads()
    for _ in range(5):
        open_and_close()
    wait_until(lambda: (me.num_fds(), me.num_threads()) <= before)
