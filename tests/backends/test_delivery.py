"""Delivery under many threads and slow or broken outlets: order, one ending, nobody forgotten."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator

import pytest

from tests.waiting import NEVER_S, wait_until
from tools.backends.delivery import Delivery
from tools.wire.messages import Delta, Failure

FAILURE = Failure("UNAVAILABLE", "the engine died")


class Outlet:
    """Keeps what is sent. `gate`, once cleared, holds the sender thread back; `on_send` may raise."""

    def __init__(self, on_send: Callable[[Delta], None] | None = None) -> None:
        self.sent: list[Delta] = []
        self.ended = threading.Event()
        self.cancelled = False
        self.asked = 0
        self.gate = threading.Event()
        self.gate.set()
        self.entered = threading.Event()
        self._on_send = on_send

    def send(self, delta: Delta) -> None:
        self.entered.set()
        assert self.gate.wait(NEVER_S)
        if self._on_send:
            self._on_send(delta)
        self.sent.append(delta)
        if delta.final:
            self.ended.set()

    def is_cancelled(self) -> bool:
        self.asked += 1
        return self.cancelled

    @property
    def text(self) -> str:
        return "".join(delta.texts[0] for delta in self.sent if delta.texts)

    def wait_ended(self) -> None:
        assert self.ended.wait(NEVER_S)


class Cancelled:
    """What the delivery reported as cancelled."""

    def __init__(self) -> None:
        self.keys: Counter[int] = Counter()

    def __call__(self, key: int) -> None:
        self.keys[key] += 1


@pytest.fixture
def cancelled() -> Cancelled:
    return Cancelled()


@pytest.fixture
def delivery(cancelled: Cancelled) -> Iterator[Delivery]:
    delivery = Delivery(4, cancelled)
    yield delivery
    delivery.close()


def piece(key: int, text: str, *, final: bool = False) -> Delta:
    return Delta(key, [text], [1], ["stop" if final else None], 3, final=final)


def opened(delivery: Delivery, count: int, **arguments: object) -> dict[int, Outlet]:
    outlets = {key: Outlet(**arguments) for key in range(count)}  # type: ignore[arg-type]
    for key, outlet in outlets.items():
        delivery.open(key, outlet)
    return outlets


def test_every_stream_gets_its_own_text_in_order(delivery: Delivery) -> None:
    streams, pieces = 64, 100
    outlets = opened(delivery, streams)
    for number in range(pieces):
        delivery.push([piece(key, f"{key}:{number} ", final=number == pieces - 1) for key in range(streams)])
    for key, outlet in outlets.items():
        outlet.wait_ended()
        assert outlet.text == "".join(f"{key}:{number} " for number in range(pieces))
        assert sum(delta.token_counts[0] for delta in outlet.sent) == pieces
        assert [delta.final for delta in outlet.sent] == [False] * (len(outlet.sent) - 1) + [True]
    assert delivery.wait_empty(NEVER_S)


def test_what_is_pending_for_a_slow_client_is_merged(delivery: Delivery) -> None:
    outlet = Outlet()
    outlet.gate.clear()
    delivery.open(1, outlet)
    delivery.push([piece(1, "a")])
    assert outlet.entered.wait(NEVER_S)
    for text in "bcd":
        delivery.push([piece(1, text)])
    delivery.push([piece(1, "e", final=True)])
    outlet.gate.set()
    outlet.wait_ended()
    assert [delta.texts for delta in outlet.sent] == [["a"], ["bcde"]]
    assert outlet.sent[-1].token_counts == [4]


def test_a_slow_client_does_not_hold_back_those_of_other_threads(delivery: Delivery) -> None:
    outlets = opened(delivery, 4)
    outlets[0].gate.clear()
    delivery.push([piece(key, "x", final=True) for key in range(4)])
    for key in (1, 2, 3):
        outlets[key].wait_ended()
    assert not outlets[0].ended.is_set()
    outlets[0].gate.set()
    outlets[0].wait_ended()


def test_after_its_end_a_stream_gets_nothing(delivery: Delivery) -> None:
    outlet = Outlet()
    delivery.open(1, outlet)
    delivery.push([piece(1, "a", final=True), piece(1, "late"), piece(1, "later", final=True)])
    outlet.wait_ended()
    delivery.push([piece(1, "late")])
    delivery.fail_all(FAILURE)
    assert delivery.wait_empty(NEVER_S)
    assert outlet.text == "a"
    assert len(outlet.sent) == 1


def test_deltas_of_unknown_streams_are_dropped(delivery: Delivery) -> None:
    delivery.push([piece(99, "a"), piece(98, "b", final=True)])
    delivery.push([piece(97, "a")])
    assert delivery.open_streams == 0


def test_failing_all_ends_each_stream_once_after_its_pending_text(delivery: Delivery) -> None:
    outlets = opened(delivery, 32)
    for outlet in outlets.values():
        outlet.gate.clear()
    delivery.push([piece(key, "got ") for key in range(32)])
    delivery.push([piece(key, "this") for key in range(0, 32, 2)])
    delivery.push([piece(key, "done", final=True) for key in range(0, 32, 4)])
    delivery.fail_all(FAILURE)
    delivery.fail_all(FAILURE)
    for outlet in outlets.values():
        outlet.gate.set()
    assert delivery.wait_empty(NEVER_S)
    for key, outlet in outlets.items():
        assert outlet.text == "got " + ("this" if key % 2 == 0 else "") + ("done" if key % 4 == 0 else "")
        assert [delta.final for delta in outlet.sent].count(True) == 1
        assert outlet.sent[-1].failure == (None if key % 4 == 0 else FAILURE)


def test_pushing_and_failing_from_many_threads_ends_every_stream_once(delivery: Delivery) -> None:
    outlets = opened(delivery, 200)

    def generate(start: int) -> None:
        for number in range(30):
            delivery.push([piece(key, f"{number} ", final=number == 29) for key in range(start, 200, 4)])

    threads = [threading.Thread(target=generate, args=(start,)) for start in range(4)]
    for thread in threads:
        thread.start()
    wait_until(lambda: sum(outlet.ended.is_set() for outlet in outlets.values()) > 20)
    delivery.fail_all(FAILURE)
    for thread in threads:
        thread.join()
    assert delivery.wait_empty(NEVER_S)
    whole = "".join(f"{number} " for number in range(30))
    for outlet in outlets.values():
        assert [delta.final for delta in outlet.sent].count(True) == 1
        assert outlet.sent[-1].final
        assert whole.startswith(outlet.text)
        assert (outlet.text == whole) == (outlet.sent[-1].failure is None)


@pytest.mark.slow
def test_a_client_that_has_gone_is_reported_once(delivery: Delivery, cancelled: Cancelled) -> None:
    outlets = opened(delivery, 8)
    outlets[3].cancelled = True
    wait_until(lambda: cancelled.keys[3])
    outlets[5].cancelled = True
    wait_until(lambda: cancelled.keys[5])
    asked = outlets[0].asked
    wait_until(lambda: outlets[0].asked > asked + 2)
    assert cancelled.keys == {3: 1, 5: 1}
    # The engine still says how it ended.
    delivery.push([Delta(3, [], [], [], final=True, failure=Failure("CANCELLED", "by the client"))])
    outlets[3].wait_ended()


@pytest.mark.slow
def test_nobody_asks_about_a_stream_that_has_ended(delivery: Delivery, cancelled: Cancelled) -> None:
    ended, open_ = Outlet(), Outlet()
    delivery.open(4, ended)
    delivery.open(8, open_)
    delivery.push([piece(4, "x", final=True)])
    ended.wait_ended()
    assert delivery.open_streams <= 2
    ended.cancelled = True
    asked = ended.asked
    before = open_.asked
    wait_until(lambda: open_.asked > before + 2)
    assert ended.asked == asked
    assert not cancelled.keys


def test_nobody_asks_about_a_stream_whose_end_is_on_its_way(delivery: Delivery, cancelled: Cancelled) -> None:
    """Asking after the final response is an error in Triton, and the answer could only be too late."""

    class Slow(Outlet):
        def is_cancelled(self) -> bool:
            self.entered.set()
            assert self.gate.wait(NEVER_S)
            return False

    slow, ending = Slow(), Outlet()
    slow.gate.clear()
    delivery.open(0, slow)
    delivery.open(4, ending)
    assert slow.entered.wait(NEVER_S)
    ending.cancelled = True
    delivery.push([piece(4, "x", final=True)])
    slow.gate.set()
    ending.wait_ended()
    assert not cancelled.keys


def test_a_lost_response_ends_its_stream_and_no_other(delivery: Delivery, cancelled: Cancelled) -> None:
    def break_once(delta: Delta) -> None:
        if delta.texts == ["bad"]:
            raise RuntimeError("no shared memory")

    outlets = {key: Outlet(break_once) for key in (0, 4, 8)}
    for key, outlet in outlets.items():
        delivery.open(key, outlet)
    for key in outlets:
        delivery.push([piece(key, "good ")])
    wait_until(lambda: all(outlet.sent for outlet in outlets.values()))
    delivery.push([piece(4, "bad")])
    outlets[4].wait_ended()
    delivery.push([piece(key, "end", final=True) for key in outlets])
    for key in (0, 8):
        outlets[key].wait_ended()
        assert outlets[key].text == "good end"
    assert outlets[4].text == "good "
    assert outlets[4].sent[-1].failure == Failure(
        "INTERNAL", "a response could not be sent: RuntimeError: no shared memory"
    )
    assert cancelled.keys == {4: 1}
    assert delivery.wait_empty(NEVER_S)


def test_a_last_response_that_is_lost_ends_the_stream_too(delivery: Delivery) -> None:
    def refuse(delta: Delta) -> None:
        raise RuntimeError("closed")

    broken, sound = Outlet(refuse), Outlet()
    delivery.open(0, broken)
    delivery.open(4, sound)
    delivery.push([piece(0, "x", final=True), piece(4, "x", final=True)])
    sound.wait_ended()
    assert delivery.wait_empty(NEVER_S)


@pytest.mark.slow
def test_a_client_that_cannot_be_asked_about_does_not_stop_the_others(delivery: Delivery, cancelled: Cancelled) -> None:
    class Unaskable(Outlet):
        def is_cancelled(self) -> bool:
            raise RuntimeError("gone")

    unaskable, sound = Unaskable(), Outlet()
    delivery.open(0, unaskable)
    delivery.open(4, sound)
    wait_until(lambda: cancelled.keys[0])
    sound.cancelled = True
    wait_until(lambda: cancelled.keys[4])
    delivery.push([piece(0, "x", final=True), piece(4, "x", final=True)])
    unaskable.wait_ended()
    sound.wait_ended()
    assert cancelled.keys == {0: 1, 4: 1}


def test_waiting_for_the_last_stream(delivery: Delivery) -> None:
    assert delivery.wait_empty(0)
    delivery.open(1, Outlet())
    assert delivery.open_streams == 1
    assert not delivery.wait_empty(0.01)
    delivery.push([piece(1, "x", final=True)])
    assert delivery.wait_empty(NEVER_S)
    assert delivery.open_streams == 0


def test_closing_sends_what_is_pending_and_ends_the_threads(cancelled: Cancelled) -> None:
    before = set(threading.enumerate())
    delivery = Delivery(3, cancelled)
    outlets = opened(delivery, 30)
    delivery.push([piece(key, "x", final=True) for key in outlets])
    delivery.close()
    assert all(outlet.ended.is_set() for outlet in outlets.values())
    assert set(threading.enumerate()) <= before
