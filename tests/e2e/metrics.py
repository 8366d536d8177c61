"""What the metrics endpoint says, at one moment or as the difference between two."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Self

import httpx
from prometheus_client.parser import text_string_to_metric_families

from tools.client.address import ServerAddress

# The engine pushes a few times a second; only what never comes is an error.
_SETTLE_S = 180.0
_POLL_S = 0.1
# Several pushes: right after an answer the metrics may not have heard of the request at all, and look idle.
_REST_S = 1.0

Series = tuple[str, frozenset[tuple[str, str]]]


@dataclass(frozen=True)
class Scrape:
    """Every series of one model version, without the labels that name it."""

    values: Mapping[Series, float]

    @classmethod
    def of(cls, address: ServerAddress, model: str, version: int = 1) -> Self:
        text = httpx.get(f"http://{address.host}:{address.metrics_port}/metrics", trust_env=False, timeout=30).text
        # Without their types the parser leaves names as they are, also those of counters that do not end in _total.
        text = "".join(line for line in text.splitlines(keepends=True) if not line.startswith("#"))
        own = {("model", model), ("version", str(version))}
        return cls(
            {
                (sample.name, frozenset(labels - own)): sample.value
                for family in text_string_to_metric_families(text)
                for sample in family.samples
                if own <= (labels := set(sample.labels.items()))
            }
        )

    def __getitem__(self, name: str) -> float:
        """The series of that name without further labels."""
        return self.values[name, frozenset()]

    def at(self, name: str, **labels: str) -> float:
        """The series of that name with exactly these further labels."""
        return self.values[name, frozenset(labels.items())]

    def label_values(self, name: str, label: str) -> list[str]:
        """Values of a label in all series of that name."""
        return [dict(labels)[label] for found, labels in self.values if found == name]

    def since(self, before: Scrape) -> Scrape:
        """What has been added since."""
        return Scrape({series: value - before.values.get(series, 0) for series, value in self.values.items()})


class Watch:
    """Scrapes one model while a `with` block runs, to see the most that gauges showed."""

    def __init__(self, address: ServerAddress, model: str) -> None:
        self._address = address
        self._model = model
        self._ended = threading.Event()
        self._scrapes: list[Scrape] = []
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def most(self, name: str) -> float:
        return max(scrape[name] for scrape in self._scrapes)

    def _run(self) -> None:
        while not self._ended.wait(_POLL_S):
            self._scrapes.append(Scrape.of(self._address, self._model))


def settled(
    address: ServerAddress, model: str, holds: Callable[[Scrape], bool], version: int = 1, seconds: float = _SETTLE_S
) -> Scrape:
    """The first scrape for which `holds`. Fails with the last one when none comes."""
    until = time.monotonic() + seconds
    while not holds(scrape := Scrape.of(address, model, version)):
        shown = {name: value for (name, labels), value in scrape.values.items() if not labels}
        assert time.monotonic() < until, f'"{model}" has not settled after {seconds:g} s: {shown}'
        time.sleep(_POLL_S)
    return scrape


def at_rest(address: ServerAddress, model: str, version: int = 1) -> Scrape:
    """A scrape that counts all that was asked before: nothing runs, and for a while nothing has changed."""
    seen: Scrape | None = None
    since = 0.0

    def rests(now: Scrape) -> bool:
        nonlocal seen, since
        if not is_idle(now) or now != seen:
            seen, since = now, time.monotonic()
        return is_idle(now) and time.monotonic() - since >= _REST_S

    return settled(address, model, rests, version)


def is_idle(scrape: Scrape) -> bool:
    """Whether nothing runs, nothing waits and no KV block is held."""
    return (
        scrape["vllm:num_requests_running"] == 0
        and scrape["vllm:num_requests_waiting"] == 0
        and scrape["vllm:kv_cache_usage_perc"] == 0
    )
