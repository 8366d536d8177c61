"""What the router counts, per route and target. Kept in plain numbers and written to Triton a few times a second.

One call into Triton costs about 12 us and there is a step for every token, so nothing here calls it but `write`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable

from tools.wire import release_metrics as names
from tools.wire.messages import FailureReason, Sample
from tools.wire.release import WHOLE, Release

from ..metrics import MetricFamilies
from .peers import Identity

_FAILURE_CODES = {"INVALID_ARG": "invalid", "UNSUPPORTED": "invalid", "NOT_FOUND": "invalid", "CANCELLED": "cancelled"}


# How long a user counts, and how many are counted at most, to bound what is kept of them.
_USER_S = 300.0
_MOST_USERS = 100_000


class Users:
    """Different keys of the last minutes, the longest unseen first."""

    def __init__(self) -> None:
        self._seen: dict[int, float] = {}

    def saw(self, key: str, now: float) -> None:
        """A request with this key, at `now` seconds of a steady clock."""
        # The hash of it takes less room than a long key, and may now and then make two users one.
        number = hash(key)
        self._seen.pop(number, None)
        self._seen[number] = now
        if len(self._seen) > _MOST_USERS:
            del self._seen[next(iter(self._seen))]

    def count(self, now: float) -> int:
        """Those that count at `now`; the others are forgotten."""
        while self._seen and now - (oldest := next(iter(self._seen.items())))[1] > _USER_S:
            del self._seen[oldest[0]]
        return len(self._seen)


class Series:
    """What has happened since the last `take` at one target, by requests of one route."""

    def __init__(self, route: str, identity: Identity) -> None:
        model, version = identity
        self.labels = {"model": model, "version": str(version), "route": route}
        self.weight = 0.0
        self.in_flight = 0
        self.users = Users()
        self.ttft: list[float] = []
        self._counts: Counter[tuple[str, str]] = Counter()
        self._e2e: list[float] = []
        self._tokens: list[float] = []
        self._itl_counts = [0] * (len(names.LATENCY) + 1)
        self._itl_sum = 0.0

    def count(self, name: str, label: str = "") -> None:
        """One more of a counter."""
        self._counts[name, label] += 1

    def inter_token_latency(self, seconds: float) -> None:
        """Time between two output steps of one stream."""
        self._itl_counts[bisect_left(names.LATENCY, seconds)] += 1
        self._itl_sum += seconds

    def finished(self, seconds: float, tokens: int, reasons: Iterable[str]) -> None:
        """A request was answered to the end; `reasons` has the finish reason of each sequence."""
        self._e2e.append(seconds)
        self._tokens.append(tokens)
        for reason in reasons:
            self._counts[names.FINISHED, reason] += 1

    def take(self, now: float) -> list[Sample]:
        """What is new; the gauges are always."""
        samples = [Sample(name, count, label) for (name, label), count in self._counts.items()]
        samples += [Sample(names.IN_FLIGHT, self.in_flight), Sample(names.WEIGHT, self.weight)]
        samples.append(Sample(names.USERS, self.users.count(now)))
        for name, values in ((names.TTFT, self.ttft), (names.E2E, self._e2e), (names.OUTPUT_TOKENS, self._tokens)):
            if values:
                samples.append(Sample(name, observations=values))
        if any(self._itl_counts):
            samples.append(Sample(names.ITL, self._itl_sum, bucket_counts=self._itl_counts))
        self._counts = Counter()
        self.ttft, self._e2e, self._tokens = [], [], []
        self._itl_counts, self._itl_sum = [0] * (len(names.LATENCY) + 1), 0.0
        return samples


class ReleaseMetrics:
    """All series of one router. `series` and `take` are called under the router's lock, `write` from one thread."""

    def __init__(self, model: str, version: str) -> None:
        self._own_labels = {"model": model, "version": version}
        self._targets = MetricFamilies(names.TARGET_METRICS)
        self._router = MetricFamilies(names.ROUTER_METRICS)
        self._router.begin(self._own_labels)
        self._series: dict[tuple[str, Identity], Series] = {}
        self._begun: set[tuple[str, Identity]] = set()
        self.file_broken = False

    def series(self, route: str, identity: Identity) -> Series:
        """The one of a route and a target, from its first use on."""
        found = self._series.get((route, identity))
        if found is None:
            found = self._series[route, identity] = Series(route, identity)
        return found

    def weigh(self, release: Release) -> None:
        """Set all weights to those of `release`; targets that it does not name any more have none."""
        for series in self._series.values():
            series.weight = 0.0
        for route in release.routes:
            for target in (*route.fallback, *route.targets):
                self.series(route.name, target.identity).weight = target.weight / WHOLE
            if route.shadow is not None:
                self.series(route.name, route.shadow.identity)

    def take(self, now: float) -> list[tuple[tuple[str, Identity], Series, list[Sample]]]:
        """What is new at `now` seconds of a steady clock, for `write`."""
        return [(key, series, series.take(now)) for key, series in self._series.items()]

    def write(self, taken: list[tuple[tuple[str, Identity], Series, list[Sample]]]) -> None:
        """Tell Triton what was taken."""
        for key, series, samples in taken:
            if key not in self._begun:
                self._begun.add(key)
                self._targets.begin(series.labels)
            for sample in samples:
                self._targets.add(sample, series.labels)
        self._router.add(Sample(names.FILE_BROKEN, float(self.file_broken)), self._own_labels)


def error_reason(code: str, reason: FailureReason) -> str:
    """The label `reason` of a failure."""
    return reason or _FAILURE_CODES.get(code, "internal")
