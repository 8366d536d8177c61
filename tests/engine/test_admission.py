"""Places and queue: examples, and a machine that tries every order of events against a plain model of it."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from tools.engine.admission import DEFAULT_PRIORITY, Admission


def test_an_eighth_more_than_runs_is_handed_over() -> None:
    admission: Admission[int] = Admission(max_num_seqs=16, max_waiting=100)
    for item in range(30):
        admission.enqueue(item, 1, DEFAULT_PRIORITY)
    assert admission.admit() == list(range(18))
    assert admission.waiting == 12


def test_even_an_engine_of_one_has_one_in_reserve() -> None:
    admission: Admission[str] = Admission(1, 10)
    for item in "abc":
        admission.enqueue(item, 1, DEFAULT_PRIORITY)
    assert admission.admit() == ["a", "b"]


def test_priority_first_then_age() -> None:
    admission: Admission[str] = Admission(1, 10)
    for item, priority in [("x", 1), ("y", 1), ("d1", 100), ("low", 200), ("high", 1), ("d2", 100)]:
        admission.enqueue(item, 1, priority)
    assert admission.admit() == ["x", "y"]
    order = []
    for _ in range(4):
        admission.release(1)
        order += admission.admit()
    assert order == ["high", "d1", "d2", "low"]


def test_a_large_item_is_not_overtaken_for_ever() -> None:
    admission: Admission[str] = Admission(4, 10)
    admission.enqueue("small", 1, 1)
    admission.admit()
    admission.enqueue("large", 5, 1)
    admission.enqueue("next", 1, 1)
    assert admission.admit() == []
    admission.release(1)
    assert admission.admit() == ["large"]


def test_an_item_larger_than_everything_runs_alone() -> None:
    admission: Admission[str] = Admission(2, 10)
    admission.enqueue("giant", 50, 1)
    admission.enqueue("small", 1, 1)
    assert admission.admit() == ["giant"]
    admission.release(50)
    assert admission.admit() == ["small"]


def test_withdrawing_is_for_what_waits() -> None:
    admission: Admission[str] = Admission(1, 10)
    tickets = {item: admission.enqueue(item, 1, 1) for item in "abc"}
    admission.admit()
    assert admission.withdraw(tickets["c"])
    assert not admission.withdraw(tickets["c"])
    assert not admission.withdraw(tickets["a"])
    admission.release(1)
    assert admission.admit() == []


def test_it_is_full_when_places_and_queue_are() -> None:
    admission: Admission[str] = Admission(1, 1)
    for item in "ab":
        assert not admission.is_full
        admission.enqueue(item, 1, 1)
        admission.admit()
    assert not admission.is_full
    ticket = admission.enqueue("c", 1, 1)
    assert admission.is_full
    admission.withdraw(ticket)
    assert not admission.is_full


def test_without_a_queue_it_is_full_when_the_places_are_taken() -> None:
    admission: Admission[str] = Admission(1, 0)
    admission.enqueue("a", 1, 1)
    admission.admit()
    assert not admission.is_full
    admission.enqueue("b", 1, 1)
    admission.admit()
    assert admission.is_full
    admission.release(1)
    assert not admission.is_full


def test_those_who_give_up_leave_nothing_behind() -> None:
    admission: Admission[int] = Admission(1, 10**9)
    admission.enqueue(-1, 2, 1)
    admission.admit()
    stays = admission.enqueue(-2, 1, 1)
    for item in range(10_000):
        admission.withdraw(admission.enqueue(item, 1, 1))
    assert len(admission._heap) < 100
    assert admission.waiting == 1
    admission.release(2)
    assert admission.admit() == [-2]
    assert not admission.withdraw(stays)


class AdmissionMachine(RuleBasedStateMachine):
    """Every order of events; the model is a sorted list and a dictionary."""

    waiting_tickets = Bundle("waiting_tickets")

    PLACES = 4 + 1
    MAX_WAITING = 6

    def __init__(self) -> None:
        super().__init__()
        self.admission: Admission[int] = Admission(4, self.MAX_WAITING)
        self.count = 0
        # item -> (priority, number, cost, requests)
        self.queue: dict[int, tuple[int, int, int, int]] = {}
        self.running: dict[int, int] = {}

    @rule(
        target=waiting_tickets,
        cost=st.integers(1, 8),
        priority=st.sampled_from([1, 2, DEFAULT_PRIORITY]),
        requests=st.integers(1, 3),
    )
    def enqueue(self, cost: int, priority: int, requests: int) -> tuple[int, int]:
        item = self.count
        self.count += 1
        ticket = self.admission.enqueue(item, cost, priority, requests)
        self.queue[item] = (priority, item, cost, requests)
        return item, ticket

    @rule()
    def admit(self) -> None:
        expected = []
        for item in sorted(self.queue, key=lambda item: self.queue[item][:2]):
            cost = self.queue[item][2]
            if self.running and sum(self.running.values()) + cost > self.PLACES:
                break
            self.running[item] = cost
            expected.append(item)
        for item in expected:
            del self.queue[item]
        assert self.admission.admit() == expected

    @rule(which=consumes(waiting_tickets))
    def withdraw(self, which: tuple[int, int]) -> None:
        item, ticket = which
        assert self.admission.withdraw(ticket) == (item in self.queue)
        self.queue.pop(item, None)

    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        if self.running:
            item = data.draw(st.sampled_from(sorted(self.running)))
            self.admission.release(self.running.pop(item))

    @invariant()
    def no_more_places_than_there_are_except_for_one_large_item(self) -> None:
        assert sum(self.running.values()) <= self.PLACES or len(self.running) == 1

    @invariant()
    def the_queue_is_as_long_as_it_says(self) -> None:
        waiting = sum(requests for _, _, _, requests in self.queue.values())
        assert self.admission.waiting == waiting
        crowded = sum(self.running.values()) >= self.PLACES or bool(self.queue)
        assert self.admission.is_full == (crowded and waiting >= self.MAX_WAITING)

    def teardown(self) -> None:
        """Whatever happened, everything drains: nothing is lost and no place stays taken."""
        self.admit()
        while self.running:
            for item in list(self.running):
                self.admission.release(self.running.pop(item))
            self.admit()
        assert not self.queue
        assert self.admission._taken == 0
        assert self.admission._heap == []


TestAdmissionMachine = AdmissionMachine.TestCase
TestAdmissionMachine.settings = settings(stateful_step_count=30)
