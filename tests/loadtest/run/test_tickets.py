"""A limited number of requests, shared out."""

from __future__ import annotations

import gevent

from loadtest.run.tickets import RequestLimit, Tickets


def take_all(tickets: Tickets, users: int, taken: list[int], user: int) -> None:
    while tickets.take(users):
        taken.append(user)
        gevent.sleep(0)


def test_exactly_so_many_are_taken_however_many_workers_and_users_take_them() -> None:
    limit = RequestLimit(100)
    workers: list[Tickets] = []

    def connect() -> None:
        def want(requests: int) -> None:
            # The network takes a moment.
            granted = limit.take(requests)
            gevent.spawn_later(0.001, tickets.grant, granted, last=limit.exhausted)

        tickets = Tickets(want)
        workers.append(tickets)

    for _ in range(3):
        connect()
    taken: list[int] = []
    users = [gevent.spawn(take_all, workers[user % 3], 3, taken, user) for user in range(9)]
    gevent.joinall(users, raise_error=True, timeout=10)

    assert len(taken) == 100
    assert all(user.ready() for user in users)
    assert sum(worker.received for worker in workers) == 100
    assert [worker.stock for worker in workers] == [0, 0, 0]


def test_a_ticket_is_asked_for_before_the_stock_is_empty() -> None:
    wanted: list[int] = []
    tickets = Tickets(wanted.append)
    tickets.grant(2, last=False)

    assert tickets.take(users=2)
    assert wanted == [2]


def test_after_the_last_one_nothing_is_asked_for() -> None:
    wanted: list[int] = []
    tickets = Tickets(wanted.append)
    tickets.grant(1, last=True)

    assert tickets.take(users=4)
    assert not tickets.take(users=4)
    assert wanted == []
