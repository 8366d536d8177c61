"""What all user classes have in common: a user of a closed loop, who asks again when it has its answer."""

from __future__ import annotations

from typing import ClassVar

from locust import User, constant, task
from locust.exception import StopUser

from loadtest.options import Protocol

from .installed import worker_of


class LadderUser(User):
    """One user of a closed loop; it ends when the run takes no more requests.

    In an open loop nobody waits for answers, so there are no users: requests are sent when they are due.
    """

    abstract = True
    wait_time = constant(0)
    protocol: ClassVar[Protocol]

    def on_start(self) -> None:
        """Take a place, once the run has begun on this worker."""
        self._generator = worker_of(self.environment).generator()
        self._seat = self._generator.take_seat()

    def on_stop(self) -> None:
        """Give the place back."""
        self._generator.leave_seat(self._seat)

    @task
    def take_turn(self) -> None:
        """One request and its answer."""
        if not self._generator.take_turn(self._seat):
            raise StopUser
