"""Who says what next: sessions of a workload, turn by turn."""

from __future__ import annotations

from collections import deque
from random import Random

from loadtest.workloads.planned import PlannedRequest, Session, Workload

Turn = tuple[Session, PlannedRequest]


class Conversation:
    """An endless stream of sessions of one seed, of which one at a time goes on."""

    def __init__(self, workload: Workload, seed: str) -> None:
        self._sessions = workload.sessions(Random(seed))  # noqa: S311  # prompts, not secrets
        self._session: Session | None = None
        self._prepared: deque[Turn] = deque()

    def prepare(self, sessions: int) -> None:
        """Make up the first turns of so many sessions: with a tokenizer to count them that takes a moment, which
        nobody has once answers come in.
        """
        while len(self._prepared) < sessions:
            self._prepared.append(self._begin())

    def next(self, answer: str | None) -> PlannedRequest:
        """The next turn; `answer` is the one to the last, None when it failed, which ends the session."""
        if self._session is not None and answer is not None:
            request = self._session.next(answer)
            if request is not None:
                return request
        self._session, request = self._prepared.popleft() if self._prepared else self._begin()
        return request

    def _begin(self) -> Turn:
        while True:
            session = next(self._sessions)
            request = session.next(None)
            if request is not None:
                return session, request


class Turns:
    """An open loop's sessions of one target: each request that is due goes on with the session that waited longest,
    or begins one when all are in the middle of a turn.
    """

    def __init__(self, workload: Workload, seed: str) -> None:
        self._sessions = workload.sessions(Random(seed))  # noqa: S311  # prompts, not secrets
        self._answered: deque[tuple[Session, str]] = deque()
        self._given_back: list[Turn] = []

    def next(self) -> Turn:
        """A session and its next turn; hand the answer to `answered`."""
        if self._given_back:
            return self._given_back.pop()
        while self._answered:
            session, answer = self._answered.popleft()
            request = session.next(answer)
            if request is not None:
                return session, request
        while True:
            session = next(self._sessions)
            request = session.next(None)
            if request is not None:
                return session, request

    def answered(self, session: Session, answer: str) -> None:
        """The session can go on. Sessions whose turn failed are not handed back."""
        self._answered.append((session, answer))

    def give_back(self, turn: Turn) -> None:
        """The turn was not taken; it is the next one."""
        self._given_back.append(turn)
