"""Shares are dealt out in Locust's own order, so that users and shares agree."""

from __future__ import annotations

from locust.dispatch import UsersDispatcher
from locust.runners import WorkerNode
from locust.user import User

from loadtest.run.crew import dealing_order


def test_the_order_is_the_one_in_which_locust_deals_out_users() -> None:
    ids = ["b_3", "a_9", "a_1", "c_2", "a_5", "b_1"]
    dispatcher = UsersDispatcher([WorkerNode(worker) for worker in ids], [User])

    assert dealing_order(ids) == [node.id for node in dispatcher._worker_nodes]
