"""A server that is none: targets that answer requests at a made-up pace, and a clock that moves when it is slept."""

from __future__ import annotations

import random
import secrets
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tools.release.controller import Controller, Standing
from tools.release.errors import ReleaseError
from tools.release.file import FILE_NAME, write_release
from tools.release.folder import ReleaseFolder
from tools.release.golden import Comparison
from tools.release.history import Event
from tools.release.moves import begun
from tools.release.observation import Counts, Histogram, Observation
from tools.release.plan import Golden, Plan
from tools.release.progress import Progress
from tools.release.site import FileWeights, Site
from tools.serving.instance import Instance
from tools.spec.release import Release, Route, WeightedTarget
from tools.wire.metric_names import TOKENS
from tools.wire.release_metrics import LATENCY

STABLE, CANARY = "llm_bf16:1", "llm_awq:1"
ROUTE = "default"
START = 1_000_000.0
# The router has not seen the file before that.
_TAKES_OVER_AFTER = 0.5


@dataclass
class Behaviour:
    """How a target answers. At `dies_at` its engine ends for good, at `restarted_at` it is started again at once."""

    slower: float = 1.0
    failing: float = 0.0
    tokens: int = 16
    dies_at: float = float("inf")
    restarted_at: float = float("inf")


@dataclass
class _Total:
    ttft: list[int] = field(default_factory=lambda: [0] * (len(LATENCY) + 1))
    itl: list[int] = field(default_factory=lambda: [0] * (len(LATENCY) + 1))
    tokens: list[int] = field(default_factory=lambda: [0] * (len(TOKENS) + 1))
    all_tokens: int = 0
    answered: int = 0
    failed: int = 0
    died: int = 0
    owed: float = 0.0

    def counts(self) -> Counts:
        errors = {"internal": self.failed, "engine_died": self.died}
        return Counts(
            requests=self.answered + self.failed + self.died,
            answered=self.answered,
            errors={reason: count for reason, count in errors.items() if count},
            finished={"length": self.answered},
            ttft=Histogram(bounds=LATENCY, counts=tuple(self.ttft), sum=0.05 * self.answered),
            itl=Histogram(bounds=LATENCY, counts=tuple(self.itl), sum=0.02 * self.answered),
            output_tokens=Histogram(bounds=TOKENS, counts=tuple(self.tokens), sum=self.all_tokens),
        )


class World:
    """The folder of a release under `root`, a router that reads its file, and what its targets count."""

    def __init__(self, root: Path, rate: float = 40.0, **behaviours: Behaviour) -> None:
        """`rate` in requests a second; behaviours are `canary` and `stable`."""
        self.now = START
        self.rate = rate
        self.behaviours = {
            STABLE: behaviours.get("stable", Behaviour()),
            CANARY: behaviours.get("canary", Behaviour()),
        }
        self.answers = True
        self.comparison = Comparison(prompts=2, equal_percent=50.0, score=100.0, stable_score=100.0)
        self.load_error = ""
        self.loaded: list[str] = []
        self.shown: list[Standing] = []
        self.on_sleep: Callable[[World], None] = lambda world: None
        self._random = random.Random(3)
        self._totals = {STABLE: _Total(), CANARY: _Total()}
        self._in_force: dict[str, float] = {}
        self._seen: tuple[dict[str, float], float] = ({}, START)
        instance = Instance("fake", 9200, "fake", (str(root),), ("chat",), str(root / "sockets"))
        self.site = Site(instance, root / "running" / FILE_NAME, root / "chat" / FILE_NAME)
        self._file = FileWeights(self.site, ROUTE)
        if not self.site.start.exists():
            targets = (WeightedTarget(model="llm_bf16", version=1, weight=100.0),)
            write_release(self.site.start, Release(routes=(Route(name=ROUTE, targets=targets),)))

    @property
    def folder(self) -> ReleaseFolder:
        return self.site.folder

    @property
    def weights(self) -> dict[str, float]:
        """Those in the file, without zeros."""
        return {name: weight for name, weight in self._file.read().items() if weight}

    def events(self) -> list[Event]:
        return list(self.folder.history.events())

    def add(self, target: str) -> None:
        """One more target that answers."""
        self.behaviours[target] = Behaviour()
        self._totals[target] = _Total()

    def begin(self, plan: Plan, target: str = CANARY) -> Progress:
        mark = secrets.token_hex(4)
        return begun(ROUTE, target, plan, self._file.read(), at=self.now, who="ann@here", mark=mark)

    def controller(self, progress: Progress) -> Controller:
        return Controller(
            progress,
            self.folder,
            weights=self._file,
            traffic=self,
            candidate=self,
            show=self.shown.append,
            now=lambda: self.now,
            sleep=self.sleep,
            background=Done,
        )

    # The router and its targets

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self._take_over()
        for name, weight in self._in_force.items():
            total, behaviour = self._totals[name], self.behaviours[name]
            total.owed += self.rate * seconds * weight / 100
            while total.owed >= 1:
                total.owed -= 1
                self._answer(total, behaviour)
        self.on_sleep(self)

    def observe(self) -> Observation | None:
        if not self.answers:
            return None
        self._take_over()
        return Observation(
            at=self.now,
            counts={name: total.counts() for name, total in self._totals.items()},
            weights=self._in_force,
            engines_up={name: self.now < behaviour.dies_at for name, behaviour in self.behaviours.items()},
            restarts={
                name: int(self.now >= min(behaviour.dies_at, behaviour.restarted_at))
                for name, behaviour in self.behaviours.items()
            },
        )

    def restart_server(self) -> None:
        """Counters begin again."""
        self._totals = {STABLE: _Total(), CANARY: _Total()}

    def _take_over(self) -> None:
        found = self._file.read()
        if found != self._seen[0]:
            self._seen = found, self.now
        if not self._in_force or self.now - self._seen[1] >= _TAKES_OVER_AFTER:
            self._in_force = found

    def _answer(self, total: _Total, behaviour: Behaviour) -> None:
        if self.now >= behaviour.dies_at:
            total.died += 1
        elif self._random.random() < behaviour.failing:
            total.failed += 1
        else:
            total.answered += 1
            total.ttft[bisect_left(LATENCY, behaviour.slower * self._random.lognormvariate(-3, 0.2))] += 1
            for _ in range(4):
                total.itl[bisect_left(LATENCY, behaviour.slower * self._random.lognormvariate(-4, 0.2))] += 1
            total.all_tokens += behaviour.tokens
            total.tokens[bisect_left(TOKENS, behaviour.tokens)] += 1

    # The candidate

    def prepare(self, target: str, tell: Callable[[str], None]) -> None:
        tell(f"loading {target}")
        if self.load_error:
            raise ReleaseError(self.load_error)
        self.loaded.append(target)

    def compare(self, target: str, stable: str, golden: Golden) -> Comparison:
        return self.comparison


class Done:
    """Work that is done as soon as it is begun."""

    done = True

    def __init__(self, work: Callable[[], Any]) -> None:
        self._error: Exception | None = None
        try:
            self._result = work()
        except ReleaseError as error:
            self._error = error

    def result(self) -> Any:
        if self._error is not None:
            raise self._error
        return self._result
