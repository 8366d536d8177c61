"""A limited number of requests, shared out among workers as they need them."""

from __future__ import annotations

from collections.abc import Callable

from gevent.event import Event


class RequestLimit:
    """The conductor's side: hands out requests until all are given."""

    def __init__(self, requests: int) -> None:
        self._left = requests

    def take(self, wanted: int) -> int:
        """How many of the wanted ones there are."""
        granted = min(wanted, self._left)
        self._left -= granted
        return granted

    @property
    def exhausted(self) -> bool:
        return self._left == 0


class Tickets:
    """A worker's side: a small stock, filled up before it runs dry, so that no user waits for the network.

    Attributes:
        received: how many it was granted in all; stock: how many of them are not taken yet.
    """

    def __init__(self, want: Callable[[int], None]) -> None:
        self.received = 0
        self.stock = 0
        self._want = want
        self._asked = 0
        self._last = False
        self._changed = Event()

    def take(self, users: int) -> bool:
        """Take one; blocks while it is not known whether there is one. False when all have been given.

        `users` is how many may come for one at about the same time.
        """
        self._fill(users)
        while not self.stock:
            if self._last:
                return False
            self._changed.clear()
            self._changed.wait()
        self.stock -= 1
        self._fill(users)
        return True

    def grant(self, requests: int, *, last: bool) -> None:
        """An answer to what was wanted."""
        self._asked = 0
        self.received += requests
        self.stock += requests
        self._last = last
        self._changed.set()

    def _fill(self, users: int) -> None:
        if not self._last and self.stock + self._asked < users:
            self._asked += users
            self._want(users)
