"""Metrics are counted here, in the engine process, and pushed to the stub a few times a second.

The stub shares one interpreter lock with every response it sends, so it must not see a metric per token.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict

from tools.wire.messages import Sample
from tools.wire.metric_names import METRICS, SECONDS, Kind

_ITL_NAMES = ("vllm:inter_token_latency_seconds", "vllm:time_per_output_token_seconds")


class Accounting:
    """Increases since the last `take`; used from the engine's event loop only."""

    def __init__(self) -> None:
        self._counters: defaultdict[tuple[str, str], float] = defaultdict(float)
        self._gauges: dict[str, float] = {}
        self._sent_gauges: dict[str, float] = {}
        self._observations: defaultdict[str, list[float]] = defaultdict(list)
        self._itl_counts = [0] * (len(SECONDS) + 1)
        self._itl_sum = 0.0

    def count(self, name: str, amount: float = 1, label: str = "") -> None:
        """Add `amount` to a counter. Raises KeyError for a name that metric_names does not list as one."""
        key = (name, label)
        # Looked up once for each push: this is called for every token.
        if key not in self._counters and METRICS[name].kind is not Kind.COUNTER:
            raise KeyError(f'metric "{name}" is no counter')
        if amount:
            self._counters[key] += amount

    def gauge(self, name: str, value: float) -> None:
        """Set a gauge."""
        self._gauges[name] = value

    def observe(self, name: str, value: float) -> None:
        """One observation of a per-request histogram (seconds, tokens or sequences, as its name says)."""
        self._observations[name].append(value)

    def inter_token_latency(self, seconds: float) -> None:
        """Time between two output steps of one stream."""
        self._itl_counts[bisect_left(SECONDS, seconds)] += 1
        self._itl_sum += seconds

    def take(self) -> list[Sample]:
        """What changed since the last call, and forget it."""
        samples = [Sample(name, value, label) for (name, label), value in self._counters.items()]
        samples += [Sample(name, value) for name, value in self._gauges.items() if self._sent_gauges.get(name) != value]
        samples += [Sample(name, observations=values) for name, values in self._observations.items()]
        if any(self._itl_counts):
            samples += [Sample(name, self._itl_sum, bucket_counts=self._itl_counts) for name in _ITL_NAMES]
        self._counters.clear()
        self._sent_gauges.update(self._gauges)
        self._observations.clear()
        self._itl_counts = [0] * (len(SECONDS) + 1)
        self._itl_sum = 0.0
        return samples

    def resend_gauges(self) -> None:
        """Let the next `take` hold every gauge: a stub that has just connected knows none."""
        self._sent_gauges.clear()
