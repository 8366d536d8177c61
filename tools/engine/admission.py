"""Who may run, who waits, who is turned away: pure bookkeeping, no clocks and no sockets.

Triton's own queue is blind for a backend that takes requests at once, so limits, priorities and deadlines are kept
here. The engine is given a few more requests than it can run, so that a place that becomes free is filled in the very
next step; the rest wait here, highest priority first, oldest first within a priority.
"""

from __future__ import annotations

import heapq
import itertools
from dataclasses import dataclass, field
from typing import Generic, TypeVar

T = TypeVar("T")

# Triton's priority 1 is the highest and 0 means "not set", which ranks in the middle of what people use.
DEFAULT_PRIORITY = 100


@dataclass(order=True)
class _Waiting(Generic[T]):
    rank: int
    number: int
    item: T = field(compare=False)
    cost: int = field(compare=False)
    requests: int = field(compare=False)
    gone: bool = field(default=False, compare=False)


class Admission(Generic[T]):
    """Places in the engine and the queue before it. Costs are sequences: a request with n=4 takes four places."""

    def __init__(self, max_num_seqs: int, max_waiting: int) -> None:
        self._places = max_num_seqs + max(1, max_num_seqs // 8)
        self._max_waiting = max_waiting
        self._taken = 0
        self._heap: list[_Waiting[T]] = []
        self._waiting: dict[int, _Waiting[T]] = {}
        self._waiting_requests = 0
        self._numbers = itertools.count()

    @property
    def waiting(self) -> int:
        """Requests in the queue."""
        return self._waiting_requests

    @property
    def is_full(self) -> bool:
        """Whether a new request would have to wait and the queue has no room for it."""
        return (self._taken >= self._places or bool(self._waiting)) and self.waiting >= self._max_waiting

    def enqueue(self, item: T, cost: int, priority: int, requests: int = 1) -> int:
        """Queue `item`, which stands for `requests` requests, and return its ticket.

        The caller asks `is_full` first and calls `admit` afterwards.
        """
        entry = _Waiting(priority, next(self._numbers), item, cost, requests)
        heapq.heappush(self._heap, entry)
        self._waiting[entry.number] = entry
        self._waiting_requests += requests
        return entry.number

    def admit(self) -> list[T]:
        """Items whose turn it is now; each holds its places until `release`."""
        admitted = []
        while self._heap:
            entry = self._heap[0]
            if not entry.gone:
                # An item larger than all places still runs, alone: it would otherwise block the queue for ever.
                if self._taken and self._taken + entry.cost > self._places:
                    break
                self._taken += entry.cost
                del self._waiting[entry.number]
                self._waiting_requests -= entry.requests
                admitted.append(entry.item)
            heapq.heappop(self._heap)
        return admitted

    def withdraw(self, ticket: int) -> bool:
        """Take a waiting item out of the queue; False when it is not (or no longer) waiting."""
        entry = self._waiting.pop(ticket, None)
        if entry is None:
            return False
        entry.gone = True
        self._waiting_requests -= entry.requests
        # Clients that give up while the engine is busy must not make the heap grow without bound.
        if len(self._heap) > 2 * len(self._waiting) + 64:
            self._heap = list(self._waiting.values())
            heapq.heapify(self._heap)
        return True

    def release(self, cost: int) -> None:
        """Give back the places of an admitted item."""
        self._taken -= cost
