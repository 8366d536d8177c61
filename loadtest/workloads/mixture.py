"""Sessions of several workloads, by their shares."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random

from .planned import Session, Workload


@dataclass(frozen=True)
class MixedWorkload:
    """`shares` are those of `workloads`, in the same order, in any unit."""

    name: str
    description: str
    workloads: Sequence[Workload]
    shares: Sequence[float]

    @property
    def notes(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(note for workload in self.workloads for note in workload.notes))

    def sessions(self, random: Random) -> Iterator[Session]:
        supplies = [
            workload.sessions(Random(random.getrandbits(64)))  # noqa: S311  # prompts, not secrets
            for workload in self.workloads
        ]
        while True:
            yield next(random.choices(supplies, weights=self.shares)[0])

    def check_context(self, context: int) -> None:
        for workload in self.workloads:
            workload.check_context(context)
